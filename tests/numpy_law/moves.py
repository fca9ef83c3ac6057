"""Index moves, joins, borders, and orders: sorting and distinct elements."""

from __future__ import annotations

from math import prod
from typing import Any

from numpy_law.elementwise import literal
from numpy_law.writer import Draft, Value, Writer

ALL = "biufc"
PADS = {"edge": ("edge", "clamp"), "reflect": ("reflect", "mirror"), "symmetric": ("symmetric",), "wrap": ("wrap",)}


def transposed(w: Writer) -> Draft | None:
    x = w.take(ALL, ranks=range(1, 6))
    order = w.random.sample(range(x.ndim), x.ndim)
    ones = tuple(k for k, source in enumerate(order) if source in x.ones)
    mixed = tuple(k - x.ndim if w.random.random() < 0.3 else k for k in order)
    form = w.random.randrange(4)
    if form == 0:
        back = tuple(x.ndim - 1 - k for k in x.ones)
        return Draft(f"{x.raido}.T", f"{x.numpy}.T", (x,), back)
    if form == 1:
        i, j = w.random.randrange(-x.ndim, x.ndim), w.random.randrange(x.ndim)
        return Draft(f"rd.swapaxes({x.raido}, {i}, {j})", f"np.swapaxes({x.numpy}, {i}, {j})", (x,))
    raido = f"{x.raido}.transpose{mixed}" if form == 2 and x.ndim > 1 else f"rd.transpose({x.raido}, {mixed})"
    return Draft(raido, f"np.transpose({x.numpy}, {mixed})", (x,), ones)


def reshaped(w: Writer) -> Draft | None:
    """Another shape of as many elements, its factors dealt out anew; one size may be left to be worked out."""
    x = w.take(ALL)
    if w.random.random() < 0.2:
        form = w.random.choice(("{}.flatten()", "{}.reshape(-1)", "{}.ravel()"))
        return Draft(form.format(x.raido), f"{x.numpy}.reshape(-1)", (x,))
    left, sizes = x.array.size, []
    if left == 0:
        sizes = [w.random.choice((0, 1, 2, 3)) for _ in range(w.random.randint(1, 3))]
        sizes[w.random.randrange(len(sizes))] = 0
    while left > 1:
        factor = w.random.choice([d for d in range(2, left + 1) if left % d == 0])
        sizes.append(factor)
        left //= factor
    for _ in range(w.random.choice((0, 0, 1, 2))):
        sizes.insert(w.random.randint(0, len(sizes)), 1)
    w.random.shuffle(sizes)
    ones = tuple(k for k, n in enumerate(sizes) if n == 1)
    if sizes and x.array.size and w.random.random() < 0.4:
        sizes[w.random.randrange(len(sizes))] = -1
        ones = tuple(k for k in ones if sizes[k] == 1)
    form = w.random.choice(("{}.reshape({})", "rd.reshape({}, {})"))
    return Draft(form.format(x.raido, tuple(sizes)), f"{x.numpy}.reshape({tuple(sizes)})", (x,), ones)


def joined(w: Writer) -> Draft | None:
    x = w.take(ALL, ranks=range(1, 5))
    axis = w.random.randrange(-x.ndim, x.ndim)
    place = axis % x.ndim
    parts = [x]
    alike = lambda v: v.shape[:place] == x.shape[:place] and v.shape[place + 1 :] == x.shape[place + 1 :]
    for _ in range(w.random.choice((1, 1, 2))):
        other = w.pick(ALL, ranks=(x.ndim,), fits=alike)
        if other is None or w.random.random() < 0.4:
            n = w.random.choice((0, 1, 2, 5))
            dtype = x.dtype if w.random.random() < 0.5 else None
            other = w.new(dtype, (*x.shape[:place], n, *x.shape[place + 1 :]))
        parts.append(other)
    w.random.shuffle(parts)
    raido, numpy = (", ".join(texts) for texts in ([p.raido for p in parts], [p.numpy for p in parts]))
    want = f"oracle.ufunc(lambda *parts: np.concatenate(parts, axis={axis}), {numpy})"
    return Draft(f"rd.concat([{raido}], axis={axis})", want, tuple(parts))


def stacked(w: Writer) -> Draft | None:
    x = w.take(ALL, ranks=range(4))
    parts = [x]
    for _ in range(w.random.choice((0, 1, 1, 2))):
        found = w.pick(ALL, ranks=(x.ndim,), fits=lambda v: v.shape == x.shape) if w.random.random() < 0.7 else None
        parts.append(found or same_dtype_and_shape(w, x))
    axis = w.random.randrange(-x.ndim - 1, x.ndim + 1)
    raido, numpy = (", ".join(texts) for texts in ([p.raido for p in parts], [p.numpy for p in parts]))
    want = f"oracle.ufunc(lambda *parts: np.stack(parts, axis={axis}), {numpy})"
    return Draft(
        f"rd.stack([{raido}], axis={axis})", want, tuple(parts), (axis % (x.ndim + 1),) if len(parts) == 1 else ()
    )


def same_dtype_and_shape(w: Writer, x: Value) -> Value:
    """A parameter like `x`."""
    return w.new(x.dtype, x.shape)


def rolled(w: Writer) -> Draft | None:
    x = w.take(ALL, ranks=range(1, 5))
    axis = w.random.choice((None, *range(-x.ndim, x.ndim)))
    by: Any = w.random.randint(-9, 9)
    if x.ndim > 1 and w.random.random() < 0.3:
        axis = tuple(w.random.choice(range(x.ndim)) for _ in range(2))
        by = w.random.choice((by, (by, w.random.randint(-3, 3))))
    if axis is not None and not isinstance(axis, tuple) and w.random.random() < 0.3:
        k = w.indices((), -9, 9, "i64")
        return Draft(
            f"rd.roll({x.raido}, {k.raido}, {axis})",
            f"np.roll({x.numpy}, int({k.numpy}), {axis})",
            (x, k),
            tuple(x.ones),
        )
    return Draft(f"rd.roll({x.raido}, {by}, {axis})", f"np.roll({x.numpy}, {by}, {axis})", (x,), tuple(x.ones))


def shifted(w: Writer) -> Draft | None:
    x = w.take(ALL, ranks=range(1, 4))
    axis, by = w.random.randrange(-x.ndim, x.ndim), w.random.randint(-9, 9)
    fill = "True" if x.kind == "b" else w.random.choice(("0", "1", "5"))
    raido = f"rd.shift({x.raido}, {by}, fill={fill}, axis={axis})"
    return Draft(raido, f"oracle.moved({x.numpy}, {by}, {fill}, {axis})", (x,), tuple(x.ones))


def padded(w: Writer) -> Draft | None:
    x = w.take(ALL, ranks=range(1, 5))
    pairs = [(w.random.choice((0, 0, 1, 2, 3, 9)), w.random.choice((0, 0, 1, 2, 5))) for _ in range(x.ndim)]
    width = tuple(pairs) if x.ndim > 1 else (tuple(pairs[0]) if w.random.random() < 0.5 else tuple(pairs))
    if prod(n + a + b for n, (a, b) in zip(x.shape, pairs, strict=True)) > 2500:
        return None
    mode = w.random.choice(("constant", *PADS))
    if mode == "constant":
        fill = literal("True" if x.kind == "b" else w.random.choice(("0", "1", "7")))
        raido = f"rd.pad({x.raido}, {width}, constant_values={fill.raido})"
        return Draft(raido, f"oracle.pad({x.numpy}, {pairs}, 'constant', {fill.numpy})", (x,))
    spelled = w.random.choice(PADS[mode])
    return Draft(f"rd.pad({x.raido}, {width}, mode={spelled!r})", f"oracle.pad({x.numpy}, {pairs}, {mode!r})", (x,))


def repeated(w: Writer) -> Draft | None:
    x = w.take(ALL, ranks=range(1, 4), firm=True)
    axis = w.random.randrange(-x.ndim, x.ndim)
    if w.random.random() < 0.6:
        times = w.random.choice((0, 1, 2, 3))
        return Draft(f"rd.repeat({x.raido}, {times}, axis={axis})", f"np.repeat({x.numpy}, {times}, axis={axis})", (x,))
    counts = w.indices((x.shape[axis],), 0, 4)
    raido = f"rd.repeat({x.raido}, {counts.raido}, axis={axis})"
    return Draft(
        raido, f"np.repeat({x.numpy}, {counts.numpy}.astype(np.int64), axis={axis})", (x, counts), by_data=True
    )


def widened(w: Writer) -> Draft | None:
    x = w.take(ALL, ranks=range(4))
    if w.random.random() < 0.5:
        axis = w.random.randrange(-x.ndim - 1, x.ndim + 1)
        return Draft(
            f"rd.expand_dims({x.raido}, {axis})", f"np.expand_dims({x.numpy}, {axis})", (x,), (axis % (x.ndim + 1),)
        )
    shape = [w.random.choice((0, 1, 2, 3)) for _ in range(w.random.choice((0, 1, 1, 2)))]
    own = [w.random.choice((1, 2, 5)) if k in x.ones else None for k in range(x.ndim)]
    if not w.known or x.by_data:
        raido = [str(n) if n is not None else f"{x.raido}.shape[{k}]" for k, n in enumerate(own)]
    else:
        raido = [str(n if n is not None else x.shape[k]) for k, n in enumerate(own)]
    numpy = [str(n if n is not None else x.shape[k]) for k, n in enumerate(own)]
    texts = ["".join(f"{n}, " for n in [*map(str, shape), *rest]) for rest in (raido, numpy)]
    ones = [k for k, n in enumerate([*shape, *own]) if n == 1]
    return Draft(
        f"rd.broadcast_to({x.raido}, ({texts[0]}))", f"np.broadcast_to({x.numpy}, ({texts[1]}))", (x,), tuple(ones)
    )


def ordered(w: Writer) -> Draft | None:
    x = w.take(ranks=range(1, 5), firm=True)
    axis, name = w.random.choice((None, *range(-x.ndim, x.ndim))), w.random.choice(("sort", "argsort"))
    raido = f"rd.{name}({x.raido}, axis={axis})" if axis != -1 else f"rd.{name}({x.raido})"
    return Draft(
        raido, f"np.{name}({x.numpy}, axis={axis}, kind='stable')", (x,), tuple(x.ones) if axis is not None else ()
    )


def distinct(w: Writer) -> Draft | None:
    x = w.take(ranks=range(1, 4), firm=True)
    flags = tuple(w.random.random() < 0.3 for _ in range(3))
    names = ("return_index", "return_inverse", "return_counts")
    options = "".join(f", {n}=True" for n, flag in zip(names, flags, strict=True) if flag)
    numpy = f"oracle.unique({x.numpy}, {', '.join(map(str, flags))})"
    return Draft(f"rd.unique({x.raido}{options})", numpy, (x,), by_data=True, result=any(flags))


MOVES: list[tuple[Any, float]] = [
    *((transposed, 2), (reshaped, 2.5), (joined, 2), (stacked, 1.5), (rolled, 1.5), (shifted, 0.7), (padded, 3)),
    *((repeated, 1.2), (widened, 1.5), (ordered, 3), (distinct, 1.2)),
]
