"""NumPy's indexing, gathers with a boundary, and updates of the selected elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from numpy_law.arguments import numpy_dtype
from numpy_law.elementwise import is_named, literal
from numpy_law.moves import ALL
from numpy_law.writer import Draft, Value, Writer

MODES = ("clamp", "wrap", "mirror", "symmetric")


def _bound(w: Writer, n: int) -> str:
    """A bound of a slice: left out, within, or beyond either end."""
    return w.random.choice(("", "", str(w.random.randint(-n - 2, n + 2)), str(w.random.randint(-n, n) if n else 0)))


def _slice(w: Writer, n: int) -> str:
    step = w.random.choice(("", "", "", ":1", ":2", ":-1", ":-1", ":-2", ":3", ":-3", ":7"))
    return f"{_bound(w, n)}:{_bound(w, n)}{step}"


def basic_key(w: Writer, shape: tuple[int, ...]) -> list[str]:
    """Ints, slices, None and `...` for an array of that shape."""
    count = w.random.randint(0, len(shape)) if w.random.random() < 0.5 else len(shape)
    parts = []
    for n in shape[:count]:
        whole = n and w.random.random() < 0.3
        parts.append(str(w.random.randrange(-n, n)) if whole else _slice(w, n))
    if w.random.random() < 0.3:
        at = w.random.randint(0, len(parts))
        tail = len(parts) - at
        if count == len(shape) or tail == 0:
            parts.insert(at, "...")
        else:
            head = parts[:at]  # what stands behind `...` indexes the last dimensions
            parts = [*head, "...", *(_slice(w, n) for n in shape[len(shape) - tail :])]
    for _ in range(w.random.choice((0, 0, 0, 1, 2))):
        parts.insert(w.random.randint(0, len(parts)), "None")
    return parts


def _ones(x: Value, parts: list[str]) -> tuple[int, ...]:
    """New dimensions in the result of a basic key: those of None, as they stand before any dimension that is dropped by data."""
    kinds = list(parts)
    ellipsis = x.ndim - sum(p not in ("None", "...") for p in parts)
    ones, at = [], 0
    if "..." not in kinds:
        kinds.append("...")
    for p in kinds:
        if p == "None":
            ones.append(at)
            at += 1
        elif p == "...":
            at += ellipsis
        elif ":" in p:
            at += 1
    return tuple(ones)


def _key(parts: list[str]) -> str:
    return ", ".join(parts) if parts else "..."


def indexed(w: Writer) -> Draft | None:
    """A basic index."""
    x = w.take(ALL)
    parts = basic_key(w, x.shape)
    key = _key(parts)
    return Draft(f"{x.raido}[{key}]", f"{x.numpy}[{key}]", (x,), _ones(x, parts))


def _index_array(w: Writer, n: int, shape: tuple[int, ...], slack: int = 0) -> Value:
    """Traced indices of a dimension of size n, a few out of range where there is slack."""
    return w.indices(shape, -slack, n + slack, "i64" if slack else None)


def picked(w: Writer) -> Draft | None:
    """An index with integer arrays, traced or constant, traced scalars, slices, None and masks between."""
    x = w.take(ALL, ranks=range(1, 6), nested=False)
    parts_raido: list[str] = []
    parts_numpy: list[str] = []
    operands: list[Value] = [x]
    shared = tuple(w.random.choice((0, 1, 2, 3, 5, 8)) for _ in range(w.random.choice((1, 1, 1, 2))))
    slack = 1 if w.random.random() < 0.06 else 0
    arrays = 0
    used = w.random.randint(1, x.ndim)
    for n in x.shape[:used]:
        roll = w.random.random()
        if roll < 0.45 and n:
            shape = shared[w.random.randrange(len(shared)) :] if w.random.random() < 0.3 else shared
            shape = tuple(1 if w.random.random() < 0.1 else m for m in shape)
            if w.random.random() < 0.25:
                values = np.array(np.random.default_rng(w.random.randrange(10**6)).integers(-n, n, shape)).tolist()
                text = f"np.array({values}, np.int64).reshape({shape})"
                parts_raido.append(text)
                parts_numpy.append(text)
            else:
                i = _index_array(w, n, shape, slack)
                operands.append(i)
                parts_raido.append(i.raido)
                parts_numpy.append(f"oracle.traced({i.numpy}, {n})")
            arrays += 1
        elif roll < 0.6 and n:
            i = _index_array(w, n, (), slack)
            operands.append(i)
            parts_raido.append(i.raido)
            parts_numpy.append(f"oracle.traced({i.numpy}, {n})[()]")
            arrays += 0
        elif roll < 0.7 and n:
            k = str(w.random.randrange(-n, n))
            parts_raido.append(k)
            parts_numpy.append(k)
        else:
            part = w.random.choice((":", _slice(w, n)))
            parts_raido.append(part)
            parts_numpy.append(part)
        if w.random.random() < 0.08:
            parts_raido.append("None")
            parts_numpy.append("None")
    if not arrays and len(operands) == 1:
        return None
    if used < x.ndim and w.random.random() < 0.3:
        parts_raido.append("...")
        parts_numpy.append("...")
    return Draft(f"{x.raido}[{', '.join(parts_raido)}]", f"{x.numpy}[{', '.join(parts_numpy)}]", tuple(operands))


def masked(w: Writer) -> Draft | None:
    """A mask of leading or inner dimensions, alone or in a tuple."""
    x = w.take(ALL, ranks=range(1, 5), firm=True)
    first = w.random.randrange(x.ndim) if w.random.random() < 0.3 else 0
    rank = w.random.randint(1, x.ndim - first)
    shape = x.shape[first : first + rank]
    mask = w.pick("b", ranks=(rank,), fits=lambda v: v.shape == shape, firm=True) or w.new("bool_", shape)
    before = ":, " * first
    after = ""
    if first + rank < x.ndim and w.random.random() < 0.4:
        n = x.shape[first + rank]
        after = f", {_slice(w, n)}" if w.random.random() < 0.6 or not n else f", {w.random.randrange(-n, n)}"
    raido, numpy = (f"{v}[{before}{m}{after}]" for v, m in ((x.raido, mask.raido), (x.numpy, mask.numpy)))
    return Draft(raido, numpy, (x, mask), by_data=True)


def gathered(w: Writer) -> Draft | None:
    """`rd.gather` with a boundary."""
    x = w.take(ALL, ranks=range(1, 4), nested=False)
    mode = w.random.choice((*MODES, "constant"))
    count = w.random.randint(1, x.ndim)
    shape = tuple(w.random.choice((1, 2, 3, 5, 8)) for _ in range(w.random.choice((1, 1, 2))))
    places = [w.indices(shape, -2 * n - 3, 2 * n + 3, "i64") for n in x.shape[:count]]
    operands = (x, *places)
    texts = ", ".join(p.raido for p in places)
    if mode == "constant":
        fill = "True" if x.kind == "b" else w.random.choice(("0", "7"))
        raido = f"rd.gather({x.raido}, ({texts},), mode=rd.constant({fill}))"
        numpy = f"oracle.gathered({x.numpy}, ({', '.join(p.numpy for p in places)},), {fill})"
        return Draft(raido, numpy, operands)
    inside = ", ".join(f"oracle.bounded({p.numpy}, {n}, {mode!r})" for p, n in zip(places, x.shape, strict=False))
    return Draft(f"rd.gather({x.raido}, ({texts},), mode={mode!r})", f"{x.numpy}[{inside}]", operands)


def updated(w: Writer) -> Draft | None:
    """`.at[key]`, with a basic key, arrays of indices, or a mask."""
    x = w.take(ALL, ranks=range(1, 4))
    operands: list[Value] = [x]
    name = w.random.choice(("set", "set", "add", "add", "multiply", "min", "max"))
    roll = w.random.random()
    duplicates = False
    if roll < 0.5:
        key = raido_key = _key([p for p in basic_key(w, x.shape) if p != "None"])
    elif roll < 0.62:
        mask = w.new("bool_", x.shape[: w.random.randint(1, x.ndim)])
        operands.append(mask)
        raido_key, key = mask.raido, mask.numpy
    else:
        count = w.random.randint(1, x.ndim)
        shape = tuple(w.random.choice((0, 1, 2, 3, 8)) for _ in range(w.random.choice((0, 1, 1, 2))))
        slack = 1 if w.random.random() < 0.08 else 0
        if not all(x.shape[:count]):
            return None
        places = [w.indices(shape, -slack, n + slack, "i64") for n in x.shape[:count]]
        operands += places
        raido_key = ", ".join(p.raido for p in places)
        key = ", ".join(f"oracle.traced({p.numpy}, {n})" for p, n in zip(places, x.shape, strict=False))
        duplicates = True
    if duplicates and x.kind == "f" and name == "multiply":
        return None
    if x.kind in "bc" and name != "set":
        return None
    key = f"np.s_[{key}]"
    places_shape = x.array[eval(key, _names(w))].shape
    value = _new_value(w, x, places_shape)
    operands += [value] if value.uses else []
    raido = f"{x.raido}.at[{raido_key}].{name}({value.raido})"
    if name == "add":
        return Draft(raido, f"near.added({x.numpy}, {key}, {value.numpy})", tuple(operands), tuple(x.ones))
    return Draft(raido, f"oracle.updated({name!r}, {x.numpy}, {key}, {value.numpy})", tuple(operands), tuple(x.ones))


def _names(w: Writer) -> dict[str, Any]:
    from numpy_law.writer import NAMES

    return NAMES | {v.raido: v.array for v in w.scope}


def _new_value(w: Writer, x: Value, shape: tuple[int, ...]) -> Value:
    if w.random.random() < 0.3:
        texts = ("True", "False") if x.kind == "b" else ("0", "1", "3", "2.5") if x.kind == "f" else ("0", "1", "3")
        return literal(w.random.choice(texts))
    shape = shape[w.random.randint(0, len(shape)) :] if w.random.random() < 0.3 else shape
    shape = tuple(1 if w.random.random() < 0.1 else n for n in shape)
    if shape and w.random.random() < 0.04:
        shape = (*shape[:-1], shape[-1] + 1)  # which does not fit
    return w.new(x.dtype, shape)


def written(w: Writer) -> Draft | None:
    """`rd.scatter` and `rd.reduce_by_index`, with indices out of range, which are ignored."""
    x = w.take(ALL, ranks=(1, 2, 3))
    count = w.random.randint(1, x.ndim)
    shape = (w.random.choice((0, 1, 3, 8, 33)),)
    places = [w.indices(shape, -1, n + 1, "i64" if w.random.random() < 0.6 else None) for n in x.shape[:count]]
    value = w.new(x.dtype, (*shape, *x.shape[count:]))
    raido, numpy = (f"({', '.join(texts)},)" for texts in ([p.raido for p in places], [p.numpy for p in places]))
    operands = (x, *places, value)
    if w.random.random() < 0.5 or x.kind in "bc":
        return Draft(
            f"rd.scatter({x.raido}, {raido}, {value.raido})",
            f"oracle.scatter({x.numpy}, {numpy}, {value.numpy})",
            operands,
            tuple(x.ones),
        )
    name = w.random.choice(("add", "minimum", "maximum"))
    if name == "add":
        neutral, want = "0", f"near.combined({x.numpy}, {numpy}, {value.numpy})"
    else:
        limits = (
            ("np.inf", "-np.inf")
            if x.kind == "f"
            else (f"np.iinfo(np.{x.array.dtype.name}).{e}" for e in ("max", "min"))
        )
        neutral = dict(zip(("minimum", "maximum"), limits, strict=True))[name]
        want = f"oracle.combine(oracle.{name}, {x.numpy}, {numpy}, {value.numpy})"
    call = f"rd.reduce_by_index({x.raido}, rd.{name}, {neutral}, {raido}, {value.raido})"
    return Draft(call, want, operands, tuple(x.ones))


def counted(w: Writer) -> Draft | None:
    """`rd.bincount`."""
    length, shape = w.random.choice((0, 1, 5, 9)), (w.random.choice((0, 1, 7, 33)),)
    index = w.indices(shape, -1, length + 2)
    if w.random.random() < 0.5:
        numpy = f"oracle.combine(np.add, np.zeros({length}, np.int64), ({index.numpy},), np.int64(1))"
        return Draft(f"rd.bincount({index.raido}, {length})", numpy, (index,))
    weights = w.new(w.random.choice(("i32", "u8", "f32", "f64", "i64")), shape)
    zeros = f"np.zeros({length}, np.{numpy_dtype(weights.dtype).name})"
    numpy = f"near.combined({zeros}, ({index.numpy},), {weights.numpy})"
    return Draft(f"rd.bincount({index.raido}, {length}, {weights.raido})", numpy, (index, weights))


def bounded(w: Writer) -> Draft | None:
    """A slice between sizes, which clamp, or between scalars that data gives, which are checked."""
    x = w.take(ranks=range(1, 4), nested=False, firm=True)
    n = x.shape[0]
    if w.random.random() < 0.5:
        size = f"{{}}.shape[{w.random.randrange(x.ndim)}]"
        form = w.random.choice(("{0} // 2", "{0} - 3", "{0} + 1", "{0} * 2 - 5"))
        side = w.random.choice(("{}:", ":{}", "{}::2", ":{}:3"))
        raido, numpy = form.format(size.format(x.raido)), form.format(size.format(x.numpy))
        named = {name: text for name, text, _ in w.parameters}
        k = int(size.split("[")[1][:-1])
        if not is_named(named.get(x.raido, ""), k):
            return None  # a size that is known is an int, which counts from the end when negative
        return Draft(f"{x.raido}[{side.format(raido)}]", f"{x.numpy}[{side.format(f'max({numpy}, 0)')}]", (x,))
    slack = 1 if w.random.random() < 0.1 else 0
    low, high = w.indices((), -slack, n + 1 + slack, "i64"), w.indices((), -slack, n + 1 + slack, "i32")
    key = w.random.choice(("{0}:{1}", "{0}:", ":{1}", "{0}:{1}:2"))
    used = tuple(v for v, mark in ((low, "{0}"), (high, "{1}")) if mark in key)
    bounds = [f"oracle.bound({v.numpy}, {n})" for v in (low, high)]
    raido = f"{x.raido}[{key.format(low.raido, high.raido)}]"
    return Draft(raido, f"{x.numpy}[{key.format(*bounds)}]", (x, *used), by_data=True)


def filtered(w: Writer) -> Draft | None:
    """`rd.filter` of elements or rows."""
    x = w.take("iuf", ranks=(1, 2), firm=True)
    if x.ndim == 1:
        return Draft(f"rd.filter(lambda v: v > 0, {x.raido})", f"{x.numpy}[{x.numpy} > 0]", (x,), by_data=True)
    raido = f"rd.filter(lambda row: rd.any(row > 0), {x.raido})"
    return Draft(raido, f"{x.numpy}[np.any({x.numpy} > 0, axis=1)]", (x,), by_data=True)


INDEXING: list[tuple[Any, float]] = [
    *((indexed, 6), (picked, 4), (masked, 2), (gathered, 1.5), (updated, 5), (written, 2), (counted, 0.7)),
    *((bounded, 1.5), (filtered, 0.7)),
]
