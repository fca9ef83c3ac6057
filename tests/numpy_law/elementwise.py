"""Elementwise statements: operators and functions on all dtypes, promotion, broadcasting, literals, casts."""

from __future__ import annotations

from typing import Any

import numpy as np

from numpy_law.arguments import COMPLEX, DTYPES, numpy_dtype
from numpy_law.writer import Draft, Value, Writer

ARITHMETIC = {"+": "add", "-": "subtract", "*": "multiply", "/": "divide"}
COMPARISONS = {"<": "less", "<=": "less_equal", ">": "greater", ">=": "greater_equal", "==": "equal", "!=": "not_equal"}
BITS = {"&": "bitwise_and", "|": "bitwise_or", "^": "bitwise_xor"}
DIVISIONS = {"//": "floor_divide", "%": "remainder", "": "fmod"}
EXTREMES = ("minimum", "maximum", "fmin", "fmax")
LOGICAL = ("logical_and", "logical_or", "logical_xor")
OF_NUMBERS = ("negative", "absolute", "sign", "square", "positive")
OF_ALL = (
    "rint",
    "square",
    "isnan",
    "isinf",
    "isfinite",
    "logical_not",
    "floor",
    "ceil",
    "trunc",
    "positive",
    "absolute",
    "sqrt",
    "fabs",
    "signbit",
)
OF_FLOATS = (
    "rint",
    "floor",
    "ceil",
    "trunc",
    "sqrt",
    "radians",
    "degrees",
    "isnan",
    "signbit",
    "sign",
    "negative",
    "fabs",
)
OF_INTEGERS = ("invert", "bitwise_count")
FUNCTIONS = {
    **{
        n: n
        for n in ("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "sinh", "cosh", "tanh")
    },
    **{f"arc{n[1:]}": n for n in ("asin", "acos", "atan", "asinh", "acosh", "atanh")},
    **{n: n for n in ("cbrt", "rsqrt", "erf", "erfc")},
}
FUNCTIONS_OF_TWO = {"arctan2": "atan2", "hypot": "hypot", "power": "pow"}
LITERALS = (
    "0",
    "1",
    "2",
    "-1",
    "3",
    "7",
    "100",
    "255",
    "-128",
    "300",
    "65536",
    "2.5",
    "0.1",
    "-0.0",
    "1e30",
    "float('inf')",
    "True",
)
STRONG = (
    "np.int8(3)",
    "np.uint8(200)",
    "np.float32(0.1)",
    "np.float16(2.5)",
    "np.int64(-7)",
    "np.bool_(True)",
    "np.float64(-0.0)",
)


def broadcasts(x: Value, y: Value) -> bool:
    """Whether NumPy broadcasts the two, and raido: sizes are equal, or one is the literal 1."""
    for k in range(1, min(x.ndim, y.ndim) + 1):
        m, n = x.shape[-k], y.shape[-k]
        one_x, one_y = x.ndim - k in x.ones, y.ndim - k in y.ones
        if m != n and not (m == 1 and one_x) and not (n == 1 and one_y):
            return False
    return True


def ones_of(*values: Value) -> tuple[int, ...]:
    """Dimensions of the literal size 1 in what the values broadcast to."""
    rank = max(v.ndim for v in values)
    known = []
    for k in range(rank):
        places = [(v, k - rank + v.ndim) for v in values if k - rank + v.ndim >= 0]
        if all(place in v.ones for v, place in places):
            known.append(k)
    return tuple(known)


def partner(w: Writer, x: Value, kinds: str = "biuf", literals: bool = True) -> Value | None:
    """Another operand: an array that broadcasts with `x`, a literal, a NumPy scalar, or `x` itself in another shape."""
    roll = w.random.random()
    if literals and roll < 0.2:
        text = w.random.choice(LITERALS if roll < 0.14 else STRONG)
        return literal(text)
    if roll < 0.27 and x.ndim == 1 and x.kind in kinds and x.shape[0] <= 40:
        return Value(
            f"{x.raido}[:, None]", f"{x.numpy}[:, None]", x.array[:, None], frozenset({1}), x.firm, x.by_data, x.uses
        )
    if literals and roll < 0.32 and x.ndim and x.shape[-1] <= 5:
        values = [w.random.choice((0, 1, 2, 3, 100)) for _ in range(x.shape[-1])]
        text = f"np.array({values}, np.{numpy_dtype(w.random.choice(DTYPES)).name})"
        return Value(text, text, np.asarray(eval(text, {"np": np})))
    found = w.pick(kinds, fits=lambda v: broadcasts(x, v))
    if found is None or (roll > 0.85 and x.ndim):
        dtypes = [d for d in (*DTYPES, *COMPLEX) if numpy_dtype(d).kind in kinds]
        shape = tuple(1 if w.random.random() < 0.25 else n for n in x.shape[w.random.randrange(x.ndim + 1) :])
        return w.new(w.random.choice(dtypes), shape)
    return found


def literal(text: str) -> Value:
    """A Python literal or a NumPy scalar as an operand."""
    return Value(text, text, np.asarray(eval(text, {"np": np})))


def same_dtype(w: Writer, x: Value) -> Value:
    """An operand of the dtype and the shape of `x`, or one that broadcasts with it."""
    found = w.pick(x.kind, fits=lambda v: v.dtype == x.dtype and broadcasts(x, v))
    return found or w.new(x.dtype, x.shape)


def with_bits(x: Value, sign: str, bits: int) -> Value:
    """Integers `x & bits` or `x | bits`."""
    both = x.array & x.array.dtype.type(bits) if sign == "&" else x.array | x.array.dtype.type(bits)
    return Value(f"({x.raido} {sign} {bits})", f"({x.numpy} {sign} {bits})", both, x.ones, x.firm, x.by_data, x.uses)


def pair(w: Writer, x: Value, y: Value, raido: str, numpy: str) -> Draft:
    """A function of two operands, in either order."""
    if w.random.random() < 0.5 and not _scalar(y):
        x, y = y, x
    elif _scalar(y) and w.random.random() < 0.3:
        return Draft(raido.format(y.raido, x.raido), numpy.format(y.numpy, x.numpy), (y, x), ones_of(x, y))
    return Draft(raido.format(x.raido, y.raido), numpy.format(x.numpy, y.numpy), (x, y), ones_of(x, y))


def _scalar(v: Value) -> bool:
    return not v.uses


def arithmetic(w: Writer) -> Draft | None:
    x = w.take()
    y = partner(w, x)
    if y is None:
        return None
    sign, name = w.random.choice(list(ARITHMETIC.items()))
    raido = f"{{}} {sign} {{}}" if w.random.random() < 0.6 else f"rd.{name}({{}}, {{}})"
    return pair(w, x, y, raido, f"oracle.ufunc(np.{name}, {{}}, {{}})")


def complex_numbers(w: Writer) -> Draft | None:
    """What is exact on complex numbers: sums, signs, parts, comparisons, choices, and real numbers as complex ones."""
    if w.random.random() < 0.15:
        x, dtype = w.take(), w.random.choice(COMPLEX)
        return Draft(f"{x.raido}.astype(rd.{dtype})", f"{x.numpy}.astype({dtype!r})", (x,), tuple(x.ones))
    x = w.take("c")
    if w.random.random() < 0.4:
        name = w.random.choice(("negative", "positive", "conj", "real", "imag", "isnan", "isinf", "isfinite"))
        return Draft(f"rd.{name}({x.raido})", f"np.{name}({x.numpy})", (x,), tuple(x.ones))
    y = partner(w, x, "iufc", literals=False)
    if y is None:
        return None
    if w.random.random() < 0.3:
        p = w.pick("b", fits=lambda v: broadcasts(x, v) and broadcasts(y, v))
        if p is not None:
            texts = (f"rd.where({p.raido}, {x.raido}, {y.raido})", f"np.where({p.numpy}, {x.numpy}, {y.numpy})")
            return Draft(*texts, (p, x, y), ones_of(p, x, y))
    sign, name = w.random.choice((("+", "add"), ("-", "subtract"), ("==", "equal"), ("!=", "not_equal")))
    return pair(w, x, y, f"{{}} {sign} {{}}", f"oracle.ufunc(np.{name}, {{}}, {{}})")


def divided(w: Writer) -> Draft | None:
    x = w.take(firm=True)
    y = partner(w, x) if w.random.random() < 0.4 else same_dtype(w, x)
    if y is None or not y.firm:
        return None
    sign, name = w.random.choice(list(DIVISIONS.items()))
    if w.random.random() < 0.5 and y.uses and y.kind in "iu":
        y = with_bits(y, "|", 1)
        raido = f"{x.raido} {sign} {y.raido}" if sign else f"rd.{name}({x.raido}, {y.raido})"
        return Draft(raido, f"oracle.division(np.{name}, {x.numpy}, {y.numpy})", (x, y), ones_of(x, y))
    raido = f"{{}} {sign} {{}}" if sign and w.random.random() < 0.7 else f"rd.{name}({{}}, {{}})"
    return pair(w, x, y, raido, f"oracle.division(np.{name}, {{}}, {{}})")


def compared(w: Writer) -> Draft | None:
    x = w.take()
    y = partner(w, x)
    if y is None:
        return None
    sign, name = w.random.choice(list(COMPARISONS.items()))
    raido = f"{{}} {sign} {{}}" if w.random.random() < 0.7 else f"rd.{name}({{}}, {{}})"
    return pair(w, x, y, raido, f"oracle.ufunc(np.{name}, {{}}, {{}})")


def extreme(w: Writer) -> Draft | None:
    x = w.take()
    y = partner(w, x) if w.random.random() < 0.5 else same_dtype(w, x)
    if y is None:
        return None
    name = w.random.choice(EXTREMES)
    return pair(w, x, y, f"rd.{name}({{}}, {{}})", f"oracle.{name}({{}}, {{}})")


def logical(w: Writer) -> Draft | None:
    x = w.take()
    y = partner(w, x)
    if y is None:
        return None
    name = w.random.choice(LOGICAL)
    return pair(w, x, y, f"rd.{name}({{}}, {{}})", f"np.{name}({{}}, {{}})")


def bitwise(w: Writer) -> Draft | None:
    x = w.take("biu")
    y = partner(w, x, "biu", literals=False)
    if y is None:
        return None
    sign, name = w.random.choice(list(BITS.items()))
    return pair(w, x, y, f"{{}} {sign} {{}}", f"oracle.ufunc(np.{name}, {{}}, {{}})")


def shifted(w: Writer) -> Draft | None:
    x = w.take("iu")
    y = partner(w, x, "iu", literals=False)
    if w.random.random() < 0.3:
        y = literal(w.random.choice(("0", "1", "3", "8", "31", "64", "-1")))
    if y is None:
        return None
    sign, name = w.random.choice((("<<", "left_shift"), (">>", "right_shift")))
    return Draft(f"{x.raido} {sign} {y.raido}", f"oracle.shift(np.{name}, {x.numpy}, {y.numpy})", (x, y), ones_of(x, y))


def of_one(w: Writer) -> Draft | None:
    names, kinds = w.random.choice(((OF_NUMBERS, "iuf"), (OF_ALL, "biuf"), (OF_FLOATS, "f"), (OF_INTEGERS, "iu")))
    x, name = w.take(kinds), w.random.choice(names)
    raido = f"rd.{name}({x.raido})"
    if name in ("negative", "invert", "absolute") and w.random.random() < 0.5:
        raido = {"negative": f"-{x.raido}", "invert": f"~{x.raido}", "absolute": f"abs({x.raido})"}[name]
    return Draft(raido, f"np.{name}({x.numpy})", (x,), tuple(x.ones))


def inverted(w: Writer) -> Draft | None:
    x = w.take("biuf", firm=True)
    return Draft(f"rd.reciprocal({x.raido})", f"oracle.reciprocal({x.numpy})", (x,), tuple(x.ones))


def rounded(w: Writer) -> Draft | None:
    x = w.take(w.random.choice(("f", "f", "iu")))
    x = x if x.kind == "f" else with_bits(x, "&", 63)  # beyond the type, NumPy's result is the processor's
    decimals = w.random.choice((0, 1, 2, -1, -2, 3))
    return Draft(f"rd.round({x.raido}, {decimals})", f"np.round({x.numpy}, {decimals})", (x,), tuple(x.ones))


def function(w: Writer) -> Draft | None:
    x = w.take()
    name, row = w.random.choice(list(FUNCTIONS.items()))
    return Draft(f"rd.{name}({x.raido})", f"near.math({row!r}, {x.numpy})", (x,), tuple(x.ones))


def function_of_two(w: Writer) -> Draft | None:
    """Of floats and other numbers; powers of floats, since those of integers are integers."""
    x = w.take("f" if w.random.random() < 0.6 else "biuf")
    y = partner(w, x, "biuf" if x.kind != "f" else "f", literals=False)
    if y is None:
        return None
    name, row = w.random.choice([*FUNCTIONS_OF_TWO.items(), ("logaddexp", "")])
    if name == "power" and "f" not in (x.kind, y.kind):
        return None
    numpy = f"near.math({row!r}, {{}}, {{}})" if row else "near.logaddexp({}, {})"
    return pair(w, x, y, f"rd.{name}({{}}, {{}})", numpy)


def copied_sign(w: Writer) -> Draft | None:
    x = w.take()
    y = partner(w, x)
    return None if y is None else pair(w, x, y, "rd.copysign({}, {})", "oracle.ufunc(np.copysign, {}, {})")


def raised(w: Writer) -> Draft | None:
    """Whole powers of integers, small literal ones of floats."""
    if w.random.random() < 0.4:
        x, power = w.take("f"), w.random.choice(("2", "0.5", "-1", "1"))
        return Draft(f"{x.raido} ** {power}", f"{x.numpy} ** {power}", (x,), tuple(x.ones))
    x = w.take("iu", firm=True)
    y = same_dtype(w, x) if w.random.random() < 0.7 else literal(w.random.choice(("0", "1", "2", "3", "5", "-1")))
    if not y.firm:
        return None
    if y.uses and w.random.random() < 0.6:
        y = with_bits(y, "&", 7)
    return Draft(f"{x.raido} ** {y.raido}", f"oracle.integer_power({x.numpy}, {y.numpy})", (x, y), ones_of(x, y))


def chosen(w: Writer) -> Draft | None:
    p = w.take()
    x = partner(w, p, literals=False)
    if x is None:
        return None
    y = partner(w, x) if w.random.random() < 0.6 else same_dtype(w, x)
    if y is None or not broadcasts(p, y) or not broadcasts(x, y):
        return None
    raido = f"rd.where({p.raido}, {x.raido}, {y.raido})"
    numpy = f"oracle.ufunc(lambda x, y: np.where({p.numpy}, x, y), {x.numpy}, {y.numpy})"
    return Draft(raido, numpy, (p, x, y), ones_of(p, x, y))


def clipped(w: Writer) -> Draft | None:
    x = w.take("iuf")
    bounds: list[Value | None] = []
    for side in range(2):
        roll = w.random.random()
        if roll < 0.2:
            bounds.append(None)
        elif roll < 0.6:
            bounds.append(literal(w.random.choice(("0", "1", "3", "100") if side else ("0", "1", "-2", "-0.0"))))
        else:
            bounds.append(same_dtype(w, x))
    given = [b for b in bounds if b is not None]
    if not given or (len(given) == 2 and not broadcasts(given[0], given[1])):
        return None
    raido = ", ".join("None" if b is None else b.raido for b in bounds)
    numpy = ", ".join("None" if b is None else b.numpy for b in bounds)
    return Draft(f"rd.clip({x.raido}, {raido})", f"oracle.clip({x.numpy}, {numpy})", (x, *given), ones_of(x, *given))


def converted(w: Writer) -> Draft | None:
    x, dtype = w.take(), w.random.choice(DTYPES)
    form = w.random.choice(
        (f"{x.raido}.astype(rd.{dtype})", f"rd.{dtype}({x.raido})", f"rd.astype({x.raido}, rd.{dtype})")
    )
    return Draft(form, f"oracle.astype({x.numpy}, {numpy_dtype(dtype).name!r})", (x,), tuple(x.ones))


def viewed(w: Writer) -> Draft | None:
    x = w.take("iuf", ranks=range(1, 6))
    same = [d for d in DTYPES if d != "bool_" and numpy_dtype(d).itemsize == x.array.dtype.itemsize]
    dtype = w.random.choice(same)
    numpy = f"np.ascontiguousarray({x.numpy}).view({numpy_dtype(dtype).name!r})"
    return Draft(f"{x.raido}.view(rd.{dtype})", numpy, (x,), tuple(x.ones))


def fused(w: Writer) -> Draft | None:
    """A multiply-add, explicit or, where the program contracts, written as a product and a sum."""
    x = w.take("f", nested=False, fits=lambda v: v.array.size <= 200)
    y, z = same_dtype(w, x), same_dtype(w, x)
    if not (broadcasts(y, z) and broadcasts(x, z) and broadcasts(x, y)) or max(y.array.size, z.array.size) > 200:
        return None
    form = w.random.choice(("{0} * {1} + {2}", "{2} + {0} * {1}")) if w.contract else "rd.fma({0}, {1}, {2})"
    names = [v.raido for v in (x, y, z)]
    return Draft(form.format(*names), f"oracle.fused({x.numpy}, {y.numpy}, {z.numpy})", (x, y, z), ones_of(x, y, z))


def counted(w: Writer) -> Draft | None:
    """A size or an index beside an array."""
    if w.random.random() < 0.5:
        sized = [
            (name, k) for name, text, _ in w.parameters for k in range(5) if is_named(text, k) and "complex" not in text
        ]
        if not sized:
            return None
        name, k = w.random.choice(sized)
        x = next(v for v in w.scope if v.raido == name)
        sign, function = w.random.choice((("+", "add"), ("*", "multiply"), ("<", "less")))
        numpy = f"oracle.ufunc(np.{function}, {name}, oracle.counter({name}.shape[{k}], {name}))"
        return Draft(f"{name} {sign} {name}.shape[{k}]", numpy, (x,), tuple(x.ones))
    x = w.take(ranks=range(1, 6))
    raido = f"{x.raido} * rd.iota({x.raido}.shape[-1])"
    numpy = f"oracle.ufunc(np.multiply, {x.numpy}, oracle.counter(np.arange({x.numpy}.shape[-1]), {x.numpy}))"
    return Draft(raido, numpy, (x,), tuple(k for k in x.ones if k != x.ndim - 1))


def is_named(annotation: str, k: int) -> bool:
    """Whether size k of a parameter is a name."""
    sizes = annotation.partition("[")[2].rstrip("]").split(", ")
    return k < len(sizes) and sizes[k].startswith('"')


ELEMENTWISE: list[tuple[Any, float]] = [
    *(
        (complex_numbers, 2),
        (arithmetic, 6),
        (divided, 4),
        (compared, 3),
        (extreme, 3),
        (logical, 1.5),
        (bitwise, 1.5),
        (shifted, 2),
    ),
    *((of_one, 4), (inverted, 0.7), (rounded, 1), (function, 4), (function_of_two, 1.5), (copied_sign, 0.5)),
    *((raised, 1.5), (chosen, 2), (clipped, 1.5), (converted, 3), (viewed, 0.7), (fused, 1.5), (counted, 1)),
]
