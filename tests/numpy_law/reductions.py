"""Reductions, scans and products of matrices."""

from __future__ import annotations

from typing import Any

from numpy_law.arguments import DTYPES, numpy_dtype
from numpy_law.writer import Draft, Value, Writer

EXACT_OPERATORS = {"minimum": "oracle.minimum", "maximum": "oracle.maximum", "bitwise_and": "np.bitwise_and"}
EXACT_OPERATORS |= {"bitwise_or": "np.bitwise_or", "bitwise_xor": "np.bitwise_xor", "logical_and": "np.logical_and"}
EXACT_OPERATORS |= {"logical_or": "np.logical_or", "add": "np.add", "multiply": "np.multiply"}


def _axis(w: Writer, x: Value) -> Any:
    """None, an axis from either end, or several."""
    if not x.ndim or w.random.random() < 0.2:
        return None
    if w.random.random() < 0.6:
        return w.random.randrange(-x.ndim, x.ndim)
    axes = w.random.sample(range(x.ndim), w.random.randint(0 if x.ndim > 1 else 1, x.ndim))
    return tuple(k - x.ndim if w.random.random() < 0.4 else k for k in axes)


def _left(x: Value, axis: Any, keepdims: bool) -> tuple[int, ...]:
    """Dimensions of the literal size 1 in a reduction's result."""
    axes = range(x.ndim) if axis is None else [k % x.ndim for k in (axis if isinstance(axis, tuple) else (axis,))]
    if keepdims:
        return tuple({*axes, *x.ones})
    kept = [k for k in range(x.ndim) if k not in axes]
    return tuple(i for i, k in enumerate(kept) if k in x.ones)


def _call(w: Writer, name: str, x: Value, options: str) -> str:
    method = w.random.random() < 0.4
    return f"{x.raido}.{name}({options})" if method else f"rd.{name}({x.raido}, {options})"


def total(w: Writer) -> Draft | None:
    x, name = w.take(ranks=range(6)), w.random.choice(("sum", "sum", "prod"))
    axis, keep = _axis(w, x), w.random.random() < 0.3
    raido, numpy = f"axis={axis}", f"axis={axis}"
    if w.random.random() < 0.3:
        dtype = w.random.choice([d for d in DTYPES if d != "bool_"])
        raido, numpy = f"{raido}, dtype=rd.{dtype}", f"{numpy}, dtype={numpy_dtype(dtype).name!r}"
    if w.random.random() < 0.2:
        initial = w.random.choice((0, 1, 5))
        raido, numpy = f"{raido}, initial={initial}", f"{numpy}, initial={initial}"
    if keep:
        raido, numpy = f"{raido}, keepdims=True", f"{numpy}, keepdims=True"
    return Draft(_call(w, name, x, raido), f"near.{name}({x.numpy}, {numpy})", (x,), _left(x, axis, keep))


def least(w: Writer) -> Draft | None:
    x, name = w.take(), w.random.choice(("min", "max"))
    axis, keep = _axis(w, x), w.random.random() < 0.3
    choices = {"b": ("True", "False"), "f": ("0", "2.5", "-0.0", "float('nan')", "float('inf')")}.get(
        x.kind, ("0", "1", "5")
    )
    initial = w.random.choice((None, None, None, w.random.choice(choices)))
    raido = (
        f"axis={axis}" + (f", initial={initial}" if initial is not None else "") + (", keepdims=True" if keep else "")
    )
    numpy = f"oracle.extreme({name!r}, {x.numpy}, {axis}, {keep}, {initial})"
    return Draft(_call(w, name, x, raido), numpy, (x,), _left(x, axis, keep))


def position(w: Writer) -> Draft | None:
    x, name = w.take(), w.random.choice(("argmin", "argmax"))
    axis = w.random.choice((None, *range(-x.ndim, x.ndim)))
    keep = w.random.random() < 0.3
    numpy = f"oracle.position({name!r}, {x.numpy}, {axis}, {keep})"
    return Draft(_call(w, name, x, f"axis={axis}, keepdims={keep}"), numpy, (x,), _left(x, axis, keep))


def truth(w: Writer) -> Draft | None:
    x, name = w.take(), w.random.choice(("any", "all"))
    axis, keep = _axis(w, x), w.random.random() < 0.3
    options = f"axis={axis}, keepdims={keep}"
    return Draft(_call(w, name, x, options), f"np.asarray(np.{name}({x.numpy}, {options}))", (x,), _left(x, axis, keep))


def average(w: Writer) -> Draft | None:
    x = w.take()
    axis, keep = _axis(w, x), w.random.random() < 0.3
    raido = numpy = f"axis={axis}, keepdims={keep}"
    if w.random.random() < 0.2:
        dtype = w.random.choice(("f16", "f32", "f64"))
        raido, numpy = f"{raido}, dtype=rd.{dtype}", f"{numpy}, dtype={numpy_dtype(dtype).name!r}"
    return Draft(_call(w, "mean", x, raido), f"near.mean({x.numpy}, {numpy})", (x,), _left(x, axis, keep))


def _operator(w: Writer, x: Value) -> tuple[str, str, str] | None:
    """An operator that is exact on the array's type, in both languages, and its neutral element."""
    if x.kind == "f":
        names = ("minimum", "maximum")
    elif x.kind == "b":
        names = ("logical_and", "logical_or", "bitwise_xor", "minimum", "maximum")
    else:
        names = ("minimum", "maximum", "bitwise_and", "bitwise_or", "bitwise_xor", "add", "multiply")
    name = w.random.choice(names)
    if name in ("minimum", "maximum"):
        up = name == "minimum"
        if x.kind == "f":
            neutral = "np.inf" if up else "-np.inf"
        elif x.kind == "b":
            neutral = str(up)
        else:
            neutral = f"np.iinfo(np.{x.array.dtype.name}).{'max' if up else 'min'}"
        neutral = neutral if w.random.random() < 0.7 or x.kind == "b" else "1"
    else:
        plain = {
            "add": "0",
            "multiply": "1",
            "bitwise_or": "0",
            "bitwise_xor": "0",
            "logical_and": "True",
            "logical_or": "False",
        }
        neutral = plain.get(name, "0" if x.kind == "u" else "-1")
        neutral = "False" if x.kind == "b" and neutral == "0" else neutral
    return f"rd.{name}", EXACT_OPERATORS[name], neutral


def scanned(w: Writer) -> Draft | None:
    x = w.take(ranks=range(1, 6))
    axis, exclusive = w.random.randrange(-x.ndim, x.ndim), w.random.random() < 0.3
    options = f"axis={axis}, exclusive={exclusive}"
    place = axis % x.ndim
    if x.kind == "f" and w.random.random() < 0.6:
        name = w.random.choice(("add", "add", "multiply"))
        neutral = 1 if name == "multiply" else 0
        numpy = f"near.scan({name!r}, {x.numpy}, {place}, {neutral}, {exclusive})"
        return Draft(f"rd.scan(rd.{name}, {neutral}, {x.raido}, {options})", numpy, (x,), tuple(x.ones))
    found = _operator(w, x)
    if found is None:
        return None
    raido, numpy, neutral = found
    numpy = f"oracle.accumulate({numpy}, {x.numpy}, {place}, {neutral}, {exclusive})"
    return Draft(f"rd.scan({raido}, {neutral}, {x.raido}, {options})", numpy, (x,), tuple(x.ones))


def folded(w: Writer) -> Draft | None:
    x = w.take(ranks=range(1, 6))
    axis = w.random.randrange(-x.ndim, x.ndim)
    found = _operator(w, x)
    if found is None:
        return None
    raido, numpy, neutral = found
    numpy = f"oracle.fold({numpy}, {x.numpy}, {axis % x.ndim}, {neutral})"
    return Draft(f"rd.reduce({raido}, {neutral}, {x.raido}, axis={axis})", numpy, (x,), _left(x, axis, False))


def product(w: Writer) -> Draft | None:
    """`@` of matrices, vectors and stacks of them."""
    x = w.take(ranks=range(1, 5))
    inner = x.shape[-1]
    rank = w.random.choice((1, 2, 2, 3))
    fits = lambda v: v.shape[-2 if v.ndim > 1 else 0] == inner and v.ndim < 3 and v.array.size < 300
    y = w.pick(ranks=(1, 2), fits=fits) if w.random.random() < 0.5 else None
    if y is None:
        columns = w.random.choice((0, 1, 2, 3, 5, 8, 17))
        lead = x.shape[:-2] if rank == 3 and x.ndim > 2 else (w.random.choice((1, 2)),) if rank == 3 else ()
        if rank == 3 and x.ndim > 2:
            lead = tuple(1 if w.random.random() < 0.3 else n for n in lead)
        y = w.new(
            x.dtype if w.random.random() < 0.6 else w.random.choice(DTYPES),
            (*lead, inner, columns) if rank > 1 else (inner,),
        )
    form = w.random.choice(("{} @ {}", "rd.matmul({}, {})"))
    if x.ndim < 3 and y.ndim < 3 and w.random.random() < 0.3:
        return Draft(f"rd.dot({x.raido}, {y.raido})", f"near.dot({x.numpy}, {y.numpy})", (x, y))
    return Draft(form.format(x.raido, y.raido), f"near.matmul({x.numpy}, {y.numpy})", (x, y))


REDUCTIONS: list[tuple[Any, float]] = [
    *((total, 4), (least, 3), (position, 3), (truth, 1.5), (average, 1.5), (scanned, 3), (folded, 2), (product, 2.5)),
]
