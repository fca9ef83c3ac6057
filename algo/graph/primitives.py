"""Primitive operations on scalars: one table of names, arities, type rules and meanings.

`evaluate` defines the meaning: vectorised over NumPy arrays, with broadcasting, without warnings or errors. Interpreters compute with it,
and compiled code must agree bit for bit (any NaN equals any NaN). Where NumPy leaves a choice, the rule here decides: integers wrap; the
integer divisions give 0 for divisor 0 and wrap for INT_MIN / -1; `ipow` takes a negative exponent as 0 (callers have checked both);
`minimum` and `maximum` are those of IEEE 754-2019: -0.0 is below 0.0, and NaN wins, so that results are independent of order and grouping;
`sign` of a zero is +0; a shift by a negative count or by the width or more gives 0, or -1 for a negative `shr`; float to integer truncates,
saturates and takes NaN to 0; an operation on f16 or bf16 is that on f32, rounded (but `fma` and casts round once); `floordiv` and
`floormod` of floats are NumPy's (`_float_divmod` spells them out), `truncdiv` of floats is `trunc(a / b)`. `popcount` counts the bits of
the two's complement (NumPy's `bitwise_count` is that of the absolute value). `dot_halves` adds to an integer the products of the halves of
two others, as signed integers; `dot_quarters` those of their quarters, unsigned ones of the first and signed ones of the second;
`byte_differences` is the sum of |a_k - b_k| over the bytes of two integers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Literal, TypeAlias

import numpy as np

from raido.algo.graph.dtypes import NARROW, DType, bf16, bool_, computed_in
from raido.algo.graph.narrow import convert, widen

Array: TypeAlias = Any
Rule = Literal["same", "compare", "predicate", "select", "cast", "shift", "count"]


@dataclass(frozen=True, slots=True)
class Primitive:
    """A row of the table.

    `kinds` are the allowed operand kinds, of "b", "i", "u", "f". `rule` determines the result: "same" (operands and result of one type),
    "compare" (two of one type, bool_), "predicate" (one operand, bool_), "select" (bool_, T, T: T), "cast" (any type, which the caller
    gives), "shift" (the left operand's), "count" (an integer type that the caller gives). `function`: a mathematical function, whose
    meaning is its recipe (`raido.algo.recipes`).
    """

    name: str
    arity: int
    rule: Rule
    kinds: str
    compute: Callable[..., Array] | None
    function: bool = False


def _minimum(a: Array, b: Array) -> Array:
    return np.where((a < b) | (a != a) | ((a == b) & np.signbit(a)), a, b) if a.dtype.kind == "f" else np.minimum(a, b)


def _maximum(a: Array, b: Array) -> Array:
    return np.where((a > b) | (a != a) | ((a == b) & np.signbit(b)), a, b) if a.dtype.kind == "f" else np.maximum(a, b)


def _fma(a: Array, b: Array, c: Array) -> Array:
    from raido.algo.graph.fma import fma

    return fma(a, b, c)


def _float_divmod(a: Array, b: Array) -> tuple[Array, Array]:
    """Floor quotient and remainder as CPython and NumPy define them.

    mod = fmod(a, b); where mod != 0 and its sign is not b's: mod += b and the quotient is one less; an exact zero takes b's sign. quotient
    = (a - fmod) / b, corrected as above, rounded down, plus one when more than half was lost; 0 takes the sign of a / b; where b is 0 it is
    a / b.
    """
    one, zero, half = a.dtype.type(1), a.dtype.type(0), a.dtype.type(0.5)
    rest = np.fmod(a, b)
    quotient = (a - rest) / b
    wrong = (rest != 0) & ((b < 0) != (rest < 0))
    rest = np.where(rest != 0, np.where(wrong, rest + b, rest), np.copysign(zero, b))
    quotient = np.where(wrong, quotient - one, quotient)
    floored = np.floor(quotient)
    floored = np.where(quotient - floored > half, floored + one, floored)
    floored = np.where(quotient != 0, floored, np.copysign(zero, a / b))
    return np.where(b == 0, a / b, floored), np.where(b == 0, np.fmod(a, b), rest)


def _floordiv(a: Array, b: Array) -> Array:
    return _float_divmod(a, b)[0] if a.dtype.kind == "f" else np.floor_divide(a, b)


def _floormod(a: Array, b: Array) -> Array:
    return _float_divmod(a, b)[1] if a.dtype.kind == "f" else np.remainder(a, b)


def _truncdiv(a: Array, b: Array) -> Array:
    if a.dtype.kind == "f":
        return np.trunc(a / b)
    floored = np.floor_divide(a, b)
    rest = a - floored * b
    return np.where((b != 0) & (rest != 0) & ((a < 0) != (b < 0)), floored + a.dtype.type(1), floored)


def _ipow(a: Array, b: Array) -> Array:
    return np.power(a, np.maximum(b, b.dtype.type(0)))


def _cast(a: Array, dtype: DType) -> Array:
    a = widen(a)
    if a.dtype.kind != "f" or dtype.kind not in "iu":
        return convert(a, dtype.numpy)
    info = np.iinfo(dtype.numpy)
    wide = a.astype(np.float64)
    beyond = math.ldexp(1.0, dtype.bits - (dtype.kind == "i"))
    inside = (wide >= float(info.min)) & (wide < beyond)  # what lies between min - 1 and min saturates to the same
    whole = np.where(inside, wide, 0.0).astype(dtype.numpy)
    low, high = dtype.numpy.type(info.min), dtype.numpy.type(info.max)
    return np.where(inside | (wide != wide), whole, np.where(wide > 0, high, low))


def _unsigned(a: Array) -> Array:
    return a.view(f"u{a.dtype.itemsize}")


def _popcount(a: Array) -> Array:
    return np.bitwise_count(_unsigned(a)).astype(np.int64)


def _clz(a: Array) -> Array:
    bits = _unsigned(a).copy()
    for distance in (1, 2, 4, 8, 16, 32):
        if distance < bits.dtype.itemsize * 8:
            bits |= bits >> bits.dtype.type(distance)
    return bits.dtype.itemsize * 8 - _popcount(bits)


def _ctz(a: Array) -> Array:
    bits = _unsigned(a)
    return _popcount(~bits & (bits - bits.dtype.type(1)))


def _clamp_index(e: Array, n: Array) -> Array:
    return np.maximum(np.minimum(e, n - 1), 0)


def _wrap_index(e: Array, n: Array) -> Array:
    return np.remainder(e, n)


def _mirror_index(e: Array, n: Array) -> Array:
    """c b | a b c | b a, with period 2(n - 1); 0 where n is 1."""
    period = np.maximum(2 * (n - 1), 1)
    offset = np.remainder(e, period)
    return np.minimum(offset, period - offset) * (n > 1)


def _symmetric_index(e: Array, n: Array) -> Array:
    """b a | a b c | c b, with period 2n."""
    offset = np.remainder(e, 2 * n)
    return np.minimum(offset, 2 * n - 1 - offset)


def _part(a: Array, k: int, bits: int, signed: bool) -> Array:
    """Bits k * bits … (k + 1) * bits - 1 of an integer."""
    width = 8 * a.dtype.itemsize
    a = a.view(f"{'i' if signed else 'u'}{a.dtype.itemsize}")
    return (a << a.dtype.type(width - (k + 1) * bits)) >> a.dtype.type(width - bits)


def _dot(count: int, signed: bool, total: Array, a: Array, b: Array) -> Array:
    bits = 8 * a.itemsize // count
    for k in range(count):
        total = total + _part(a, k, bits, signed).view(a.dtype) * _part(b, k, bits, True)
    return total


def _byte_differences(a: Array, b: Array) -> Array:
    parts = [[_part(x, k, 8, False) for k in range(a.itemsize)] for x in (a, b)]
    return sum((np.maximum(x, y) - np.minimum(x, y) for x, y in zip(*parts, strict=True)), a.dtype.type(0))


def _rows() -> list[Primitive]:
    rows = [
        Primitive("fma", 3, "same", "f", _fma),
        Primitive("select", 3, "select", "biuf", np.where),
        Primitive("cast", 1, "cast", "biuf", None),
        Primitive("bitcast", 1, "cast", "iuf", None),
        Primitive("ipow", 2, "same", "iu", _ipow),
        Primitive("truncdiv", 2, "same", "iuf", _truncdiv),
        Primitive("truncrem", 2, "same", "iuf", np.fmod),
        Primitive("fmod", 2, "same", "f", np.fmod),
        Primitive("floordiv", 2, "same", "iuf", _floordiv),
        Primitive("floormod", 2, "same", "iuf", _floormod),
        Primitive("mod", 2, "same", "iuf", _floormod),
        Primitive("div", 2, "same", "f", np.divide),
        Primitive("copysign", 2, "same", "f", np.copysign),
        Primitive("shl", 2, "shift", "iu", np.left_shift),
        Primitive("shr", 2, "shift", "iu", np.right_shift),
        Primitive("popcount", 1, "count", "iu", _popcount),
        Primitive("clz", 1, "count", "iu", _clz),
        Primitive("ctz", 1, "count", "iu", _ctz),
        Primitive("dot_halves", 3, "same", "i", partial(_dot, 2, True)),
        Primitive("dot_quarters", 3, "same", "i", partial(_dot, 4, False)),
        Primitive("byte_differences", 2, "same", "u", _byte_differences),
        Primitive("clamp_index", 2, "same", "i", _clamp_index),
        Primitive("wrap_index", 2, "same", "i", _wrap_index),
        Primitive("mirror_index", 2, "same", "i", _mirror_index),
        Primitive("symmetric_index", 2, "same", "i", _symmetric_index),
        Primitive("minimum", 2, "same", "biuf", _minimum),
        Primitive("maximum", 2, "same", "biuf", _maximum),
        Primitive("add", 2, "same", "biuf", np.add),
        Primitive("sub", 2, "same", "iuf", np.subtract),
        Primitive("mul", 2, "same", "biuf", np.multiply),
        Primitive("neg", 1, "same", "iuf", np.negative),
        Primitive("abs", 1, "same", "biuf", np.absolute),
        Primitive("sign", 1, "same", "iuf", np.sign),
        Primitive("sqrt", 1, "same", "f", np.sqrt),
        Primitive("bit_not", 1, "same", "iu", np.invert),
        Primitive("logical_not", 1, "same", "b", np.logical_not),
    ]
    native = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}
    rows += [Primitive(f"bit_{name}", 2, "same", "biu", f) for name, f in native.items()]
    rows += [Primitive(f"logical_{name}", 2, "same", "b", f) for name, f in native.items()]
    comparisons = {"lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal}
    comparisons |= {"eq": np.equal, "ne": np.not_equal}
    rows += [Primitive(name, 2, "compare", "biuf", f) for name, f in comparisons.items()]
    rows += [Primitive(f.__name__, 1, "same", "f", f) for f in (np.floor, np.ceil, np.trunc, np.rint)]
    rows += [Primitive(f.__name__, 1, "predicate", "f", f) for f in (np.isnan, np.isinf, np.isfinite, np.signbit)]
    rows += [Primitive(name, 1, "same", "f", None, function=True) for name in FUNCTIONS if name not in _OF_TWO]
    rows += [Primitive(name, 2, "same", "f", None, function=True) for name in _OF_TWO]
    return rows


_OF_TWO = ("pow", "atan2", "hypot")
FUNCTIONS = (
    *("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos", "atan", "atan2"),
    *("sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfc", "cbrt", "hypot", "rsqrt", "pow"),
)
PRIMITIVES = {row.name: row for row in _rows()}
DIVISIONS = ("floordiv", "floormod", "mod", "truncdiv", "truncrem")
EXTREMES = ("minimum", "maximum")
CAN_FAULT = (*DIVISIONS, "ipow")
"""Integer operations that are undefined for some operands."""
_OF_ANY_WIDTH = ("select", "fma")


def result_dtype(name: str, operands: Sequence[DType], given: DType | None = None) -> DType:
    """The result's type from the operands'; `given` is the caller's choice for "cast" and "count". Raises `TypeError` if they do not fit."""
    row = PRIMITIVES[name]
    if len(operands) != row.arity:
        raise TypeError(f"{name} takes {row.arity} operands, not {len(operands)}")
    values = operands[1:] if row.rule == "select" else operands
    if row.rule == "select" and operands[0] is not bool_:
        raise TypeError(f"{name} takes a bool_ first, not {operands[0]}")
    if any(dtype.kind not in row.kinds for dtype in values) or any(dtype is not values[0] for dtype in values):
        raise TypeError(f"{name} does not take {', '.join(map(str, operands))}")
    if row.rule in ("compare", "predicate"):
        return bool_
    if row.rule not in ("cast", "count"):
        return values[0]
    if given is None or (row.rule == "count" and not given.is_integer):
        raise TypeError(f"{name} must be told the type of its result")
    if name == "bitcast" and given.bits != values[0].bits:
        raise TypeError(f"{name} keeps the width: {values[0]} has {values[0].bits} bits, {given} {given.bits}")
    return given


def evaluate(name: str, dtype: DType, args: Sequence[Any]) -> np.ndarray:
    """Primitive `name` with result type `dtype`, elementwise on the operands (arrays or NumPy scalars, broadcast)."""
    row = PRIMITIVES[name]
    arrays = [np.asarray(a) for a in args]
    with np.errstate(all="ignore"):
        if name == "cast":
            result = _cast(arrays[0], dtype)
        elif name == "bitcast":
            result = np.ascontiguousarray(arrays[0]).reshape(arrays[0].shape).view(dtype.numpy)
        elif row.function:
            result = _evaluate_function(name, computed_in(dtype), [widen(a) for a in arrays])
        elif row.compute is not None:
            result = row.compute(*(arrays if name in _OF_ANY_WIDTH else map(widen, arrays)))
        else:
            raise NotImplementedError(name)
        return np.asarray(result).astype(dtype.numpy, copy=False)


def evaluator(name: str, dtype: DType) -> Callable[..., np.ndarray]:
    """`evaluate` for one primitive, as a function of its operands that leaves NumPy's error handling to the caller.

    Interpreters of nests evaluate element by element: work that does not depend on the operands is done once.
    """
    row = PRIMITIVES[name]
    if name == "cast" and dtype is not bf16:
        return partial(_cast_plainly, dtype)
    if row.compute is None or row.function or name in ("cast", "bitcast"):
        return lambda *args: evaluate(name, dtype, args)
    compute, kind = row.compute, dtype.numpy
    may_be_narrow = name not in _OF_ANY_WIDTH and (dtype in NARROW or row.rule in ("compare", "predicate"))
    take = (lambda a: widen(np.asarray(a))) if may_be_narrow else np.asarray
    return lambda *args: np.asarray(compute(*map(take, args))).astype(kind, copy=False)


def _cast_plainly(dtype: DType, operand: Any) -> np.ndarray:
    """A cast to any type except bf16: NumPy's own, except from floats to integers, and from bf16."""
    array = np.asarray(operand)
    if array.dtype.kind in "iub" or (array.dtype.kind == "f" and dtype.kind not in "iu"):
        return array.astype(dtype.numpy, copy=False)
    return evaluate("cast", dtype, (array,))


def _evaluate_function(name: str, dtype: DType, args: list[np.ndarray]) -> Array:
    """A mathematical function on f32 or f64, by its recipe."""
    from raido.algo.recipes import evaluate_recipe

    if not any(a.ndim for a in args):
        return _function_of_one(name, dtype, *(a.astype(dtype.numpy).tobytes() for a in args))
    return evaluate_recipe(name, dtype, *args)


@lru_cache(maxsize=1 << 14)
def _function_of_one(name: str, dtype: DType, *bits: bytes) -> np.ndarray:
    """A mathematical function of scalars, given by their bits, cached: interpreters of nests evaluate the same scalars many times."""
    from raido.algo.recipes import evaluate_recipe

    result = evaluate_recipe(name, dtype, *(np.frombuffer(b, dtype.numpy)[0] for b in bits))
    result.flags.writeable = False
    return result
