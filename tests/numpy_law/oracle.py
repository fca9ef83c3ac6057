"""The differences between the contract and NumPy: one function for each, with the contract's sentence beside it.

All other expected values of a program are NumPy's own. `Raises` stands for the error that a call must end in.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

import raido as rd
from numpy_law.arguments import raido_name

EMPTY = (rd.SizeMismatch, rd.ShapeError, rd.IndexOutOfRange)  # the last where data decides the size


class Raises(Exception):
    """The call must raise one of these errors."""

    def __init__(self, *kinds: type[rd.RaidoError]) -> None:
        super().__init__(", ".join(kind.__name__ for kind in kinds))
        self.kinds = kinds


# "u64 with a signed integer is a `TypeError`" (NumPy: float64)
def promotes(*values: Any) -> None:
    """Refuses operands of which one is u64 and another a signed integer."""
    kinds = {raido_name(np.asarray(v).dtype) for v in values if not isinstance(v, (bool, int, float))}
    unsigned = kinds & {"u8", "u16", "u32", "u64"}
    if "u64" in unsigned and kinds & {"i8", "i16", "i32", "i64"}:
        raise Raises(rd.DTypeError)


# "an integer literal takes an integer operand's dtype and must fit" (NumPy compares with any integer)
def fits(*values: Any) -> None:
    """Refuses an integer literal beyond the range of an integer operand."""
    dtypes = [np.asarray(v).dtype for v in values if not isinstance(v, (bool, int, float))]
    literals = [v for v in values if isinstance(v, int) and not isinstance(v, bool)]
    if len(dtypes) == 1 and dtypes[0].kind in "iu":
        info = np.iinfo(dtypes[0])
        if any(not info.min <= literal <= info.max for literal in literals):
            raise Raises(rd.DTypeError)


def ufunc(function: Callable[..., Any], *values: Any) -> Any:
    """NumPy's function under the contract's rules of promotion."""
    promotes(*values)
    if function is not np.divide:  # which takes integers to f64, any literal too
        fits(*values)
    return function(*values)


# "Integer division by zero and negative integer powers raise `rd.ArithmeticFault`" (NumPy: 0, with a warning)
def division(function: Callable[..., Any], a: Any, b: Any) -> Any:
    """`//`, `%`, `fmod` with a check of the divisors."""
    result = ufunc(function, a, b)
    if result.dtype.kind in "iu" and result.size and (np.asarray(b) == 0).any():
        raise Raises(rd.ArithmeticFault)
    return result


def reciprocal(a: Any) -> Any:
    """`1 / a`, of integers with a check for zero."""
    if a.dtype.kind in "biu" and (a == 0).any():
        raise Raises(rd.ArithmeticFault)
    return np.reciprocal(a)


def integer_power(a: Any, b: Any) -> Any:
    """`a ** b` of integers, with a check of the exponents (a negative literal is refused while tracing)."""
    promotes(a, b)
    fits(a, b)
    if isinstance(b, int):
        if b < 0:
            raise Raises(rd.DTypeError)
    elif b.size and np.broadcast(a, b).size and (b < 0).any():
        raise Raises(rd.ArithmeticFault)
    return np.power(a, b)


# "shifts keep the left operand's dtype; … shifts beyond the width are NumPy's" (NumPy promotes first)
def shift(function: Callable[..., Any], a: Any, b: Any) -> Any:
    """A shift in the type of `a`; whatever is not within 0 … width − 1 shifts everything out."""
    a = np.asarray(a, None if isinstance(a, (np.ndarray, np.generic)) else np.asarray(b).dtype)
    count = np.asarray(b).astype(object)
    beyond = a.dtype.itemsize * 8
    kept = np.asarray(np.where((count >= 0) & (count < beyond), count, beyond), object)
    return function(a, kept.astype(a.dtype))


# "Minimum and maximum are IEEE 754-2019's: -0.0 lies below 0.0, and NaN wins" (NumPy: either zero)
def minimum(a: Any, b: Any) -> Any:
    """The smaller of two, of zeros the negative one."""
    least = ufunc(np.minimum, a, b)
    return _with_zero(least, a, b, np.logical_or)


def maximum(a: Any, b: Any) -> Any:
    """The larger of two, of zeros the positive one."""
    most = ufunc(np.maximum, a, b)
    return _with_zero(most, a, b, np.logical_and)


def fmin(a: Any, b: Any) -> Any:
    """The smaller of two, a NaN giving way, of zeros the negative one."""
    return _with_zero(ufunc(np.fmin, a, b), a, b, np.logical_or)


def fmax(a: Any, b: Any) -> Any:
    """The larger of two, a NaN giving way, of zeros the positive one."""
    return _with_zero(ufunc(np.fmax, a, b), a, b, np.logical_and)


def _with_zero(result: Any, a: Any, b: Any, negative: Callable[..., Any]) -> Any:
    if result.dtype.kind != "f":
        return result
    zeros = (np.asarray(a) == 0) & (np.asarray(b) == 0)
    minus = negative(np.signbit(a), np.signbit(b))
    return np.where(zeros, np.where(minus, result.dtype.type(-0.0), result.dtype.type(0.0)), result).astype(
        result.dtype
    )


def clip(a: Any, low: Any, high: Any) -> Any:
    """`minimum(maximum(a, low), high)`, as NumPy documents it."""
    if low is not None:
        a = maximum(a, low)
    return a if high is None else minimum(a, high)


def extreme(name: str, a: Any, axis: Any, keepdims: bool, initial: Any = None) -> Any:
    """`min` or `max` along axes; nothing to take it of is an error, in raido one of sizes."""
    function = getattr(np, name)
    options = {} if initial is None else {"initial": initial}
    try:
        result = np.asarray(function(a, axis=axis, keepdims=keepdims, **options))
    except ValueError:
        raise Raises(*EMPTY) from None
    if a.dtype.kind != "f":
        return result
    minus, zero = np.signbit(a) & (a == 0), (a == 0) & ~np.signbit(a)
    has_minus, has_zero = (np.any(z, axis=axis, keepdims=keepdims) for z in (minus, zero))
    if initial is not None and initial == 0:
        has_minus, has_zero = has_minus | (math.copysign(1, initial) < 0), has_zero | (math.copysign(1, initial) > 0)
    sign = np.where(has_minus if name == "min" else has_minus & ~has_zero, -0.0, 0.0)
    return np.where(result == 0, sign, result).astype(result.dtype)


# "`min/max/arg*` over an empty axis raise unless `initial=`": as NumPy does, with an error of its own
def position(name: str, a: Any, axis: Any, keepdims: bool) -> Any:
    """`argmin` or `argmax`."""
    try:
        return np.asarray(getattr(np, name)(a, axis=axis, keepdims=keepdims))
    except ValueError:
        raise Raises(*EMPTY) from None


# "Float to integer truncates and saturates, NaN gives 0, on every target" (NumPy: whatever the processor does)
def astype(a: Any, dtype: Any) -> Any:
    """The elements converted."""
    dtype = np.dtype(dtype)
    if a.dtype.kind != "f" or dtype.kind not in "iu":
        with np.errstate(all="ignore"):
            return a.astype(dtype)
    info = np.iinfo(dtype)

    def one(x: float) -> int:
        if math.isnan(x):
            return 0
        if math.isinf(x):
            return info.max if x > 0 else info.min
        return min(max(math.trunc(x), info.min), info.max)

    flat = [one(x) for x in a.astype(np.float64).ravel().tolist()]
    return np.array(flat, dtype).reshape(a.shape)


# "Python literals, sizes, loop counters, `tabulate` indices and `rd.iota(n)` … count as i64 but take a float operand's dtype"
def counter(value: Any, other: Any) -> Any:
    """A size or a counter beside an operand: of its type where that is a float type, else i64."""
    dtype = np.asarray(other).dtype
    return np.asarray(value).astype(dtype if dtype.kind == "f" else np.int64)


# "a * b + c written in one expression is contracted to a fused multiply-add": rounded once
def fused(a: Any, b: Any, c: Any) -> Any:
    """a * b + c, exactly, then rounded once to the operands' type."""
    a, b, c = np.broadcast_arrays(a, b, c)
    dtype = a.dtype
    with np.errstate(all="ignore"):
        plain = a.astype(np.longdouble) * b + c
    rows = zip(a.ravel().tolist(), b.ravel().tolist(), c.ravel().tolist(), plain.ravel().tolist(), strict=True)
    return np.array([_fused(*row[:3], row[3], dtype) for row in rows], dtype).reshape(a.shape)


def _fused(a: float, b: float, c: float, plain: Any, dtype: np.dtype[Any]) -> Any:
    if not all(map(math.isfinite, (a, b, c))):
        return plain
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if not exact:
        product_minus = math.copysign(1, a) * math.copysign(1, b) < 0
        both = a * b == 0 and c == 0 and product_minus and math.copysign(1, c) < 0
        return -0.0 if both else 0.0
    return nearest(exact, dtype)


def nearest(exact: Fraction, dtype: np.dtype[Any]) -> float:
    """The number of that type nearest to an exact one, ties to even; denormals and overflow as IEEE 754 has them."""
    info = np.finfo(dtype)
    exponent = max(_floor_log2(abs(exact)), int(info.minexp))
    unit = Fraction(2) ** (exponent - info.nmant)
    rounded = round(exact / unit) * unit
    if abs(rounded) > Fraction(float(info.max)):
        return math.inf if exact > 0 else -math.inf
    return float(rounded) if rounded else 0.0 if exact > 0 else -0.0


def _floor_log2(x: Fraction) -> int:
    e = x.numerator.bit_length() - x.denominator.bit_length()
    return e if Fraction(2) ** e <= x else e - 1


# "a literal −1 counts from the end, a negative traced index is out of range" (NumPy: from the end)
def traced(index: Any, size: int) -> Any:
    """An index array as it is used: IndexOutOfRange for what does not lie in 0 … size − 1."""
    index = np.asarray(index)
    if index.size and ((index.astype(object) < 0) | (index.astype(object) >= size)).any():
        raise Raises(rd.IndexOutOfRange)
    return index.astype(np.int64)


# "traced bounds are checked" (NumPy clamps)
def bound(value: Any, size: int) -> int:
    """A bound of a slice that data gives: IndexOutOfRange unless it lies in 0 … size."""
    if not 0 <= int(value) <= size:
        raise Raises(rd.IndexOutOfRange)
    return int(value)


# "`index` …; negative or too large: ignored" (NumPy: an error)
def within(places: Sequence[Any], sizes: Sequence[int]) -> tuple[np.ndarray, ...]:
    """For arrays of indices into leading dimensions of these sizes: whether to take part, then the indices, broadcast."""
    arrays = [p.astype(object) for p in np.broadcast_arrays(*places)]
    inside = np.ones(arrays[0].shape, bool)
    for p, n in zip(arrays, sizes, strict=True):
        inside &= (p >= 0).astype(bool) & (p < n).astype(bool)
    return inside, *(np.where(inside, p, 0).astype(np.int64) for p in arrays)


def scatter(dest: Any, places: Sequence[Any], values: Any) -> Any:
    """`dest` with the values at the places, the last of several winning; places outside are ignored."""
    inside, *chosen = within(places, dest.shape[: len(places)])
    result = dest.copy()
    rows = np.broadcast_to(values, (*inside.shape, *dest.shape[len(places) :]))
    for at in np.ndindex(inside.shape):
        if inside[at]:
            result[tuple(p[at] for p in chosen)] = rows[at]
    return result


def combine(function: Callable[..., Any], dest: Any, places: Sequence[Any], values: Any) -> Any:
    """`dest` with the values combined into it at the places by an exact operator; places outside are ignored."""
    inside, *chosen = within(places, dest.shape[: len(places)])
    result = dest.copy()
    rows = np.broadcast_to(values, (*inside.shape, *dest.shape[len(places) :]))
    for at in np.ndindex(inside.shape):
        if inside[at]:
            to = tuple(p[at] for p in chosen)
            result[to] = function(np.asarray(result[to]), np.asarray(rows[at]))
    return result


def updated(name: str, a: Any, key: Any, value: Any) -> Any:
    """`a.at[key].set(value)` and its like, exactly: NumPy's assignment, or `ufunc.at` with the minimum and maximum above."""
    result = a.copy()
    if name == "set":
        result[key] = value
        return result
    if name in ("add", "multiply"):
        getattr(np, name).at(result, key, np.asarray(value, a.dtype))
        return result
    places = np.arange(a.size).reshape(a.shape)[key]
    flat, function = result.reshape(-1), {"min": minimum, "max": maximum}[name]
    for place, v in zip(places.ravel(), np.broadcast_to(np.asarray(value, a.dtype), places.shape).ravel(), strict=True):
        flat[place] = function(np.asarray(flat[place]), np.asarray(v))
    return flat.reshape(a.shape)


# "`mode` may be any stencil boundary": indices outside are brought in as the boundary says
def bounded(index: Any, n: int, mode: str) -> Any:
    """Indices brought into 0 … n − 1, one by one, by walking."""

    def one(e: int) -> int:
        if mode == "clamp":
            return min(max(e, 0), n - 1)
        if mode == "wrap":
            return e % n
        if mode == "symmetric":
            e %= 2 * n
            return e if e < n else 2 * n - 1 - e
        if n == 1:
            return 0
        e %= 2 * (n - 1)
        return e if e < n else 2 * (n - 1) - e

    index = np.asarray(index)
    if not n:
        raise Raises(*EMPTY)
    return np.array([one(int(e)) for e in index.ravel()], np.int64).reshape(index.shape)


# "`rd.sort`, `rd.argsort`, `rd.unique`: stable" (NumPy: of equal elements any)
def unique(a: Any, return_index: bool, return_inverse: bool, return_counts: bool) -> Any:
    """The distinct elements, each as it first occurs, with NaN once."""
    order = np.argsort(a.ravel(), kind="stable")
    ordered = a.ravel()[order]
    same = (ordered[1:] == ordered[:-1]) | ((ordered[1:] != ordered[1:]) & (ordered[:-1] != ordered[:-1]))
    first = np.concatenate([np.ones(min(a.size, 1), bool), ~same])
    number = np.cumsum(first) - 1
    inverse = np.zeros(a.size, np.int64)
    inverse[order] = number
    rest = (order[first], inverse.reshape(a.shape), np.bincount(number, minlength=int(first.sum())).astype(np.int64))
    flags = (return_index, return_inverse, return_counts)
    chosen = [part for part, wanted in zip(rest, flags, strict=True) if wanted]
    return (ordered[first], *chosen) if chosen else ordered[first]


def accumulate(function: Callable[..., Any], a: Any, axis: int, neutral: Any, exclusive: bool) -> Any:
    """`rd.scan` by an exact operator, in the type of the array: one after the other from `neutral`."""
    lines = np.moveaxis(a, axis, 0)
    total = np.full(lines.shape[1:], neutral, a.dtype)
    result = np.empty_like(lines)
    for k, line in enumerate(lines):
        before, total = total, np.asarray(function(total, line)).astype(a.dtype)
        result[k] = before if exclusive else total
    return np.moveaxis(result, 0, axis)


def fold(function: Callable[..., Any], a: Any, axis: int, neutral: Any) -> Any:
    """`rd.reduce` by an exact operator, in the type of the array."""
    total = np.full(a.shape[:axis] + a.shape[axis + 1 :], neutral, a.dtype)
    for line in np.moveaxis(a, axis, 0):
        total = np.asarray(function(total, line)).astype(a.dtype)
    return total


def empty_refused(n: int) -> None:
    """A border of a dimension that has no elements is refused, as in NumPy, with raido's errors."""
    if not n:
        raise Raises(*EMPTY)


def pad(a: Any, widths: Sequence[tuple[int, int]], mode: str, fill: Any = 0) -> Any:
    """NumPy's `pad`, whose ValueError for a border of nothing is raido's error of sizes."""
    if mode == "constant":
        return np.pad(a, widths, mode="constant", constant_values=fill)
    for n, width in zip(a.shape, widths, strict=True):
        if width != (0, 0):
            empty_refused(n)
    return np.pad(a, widths, mode=mode)  # type: ignore[call-overload]


# "`rd.constant(v)`: outside the array, the value is v"
def gathered(a: Any, places: Sequence[Any], fill: Any) -> Any:
    """`a` at the places, `fill` where one of them is outside."""
    inside, *chosen = within(places, a.shape[: len(places)])
    rows = a[tuple(chosen)] if a.size else np.zeros((*inside.shape, *a.shape[len(places) :]), a.dtype)
    there = inside.reshape(inside.shape + (1,) * (rows.ndim - inside.ndim))
    return np.where(there, rows, a.dtype.type(fill))


def moved(a: Any, by: int, fill: Any, axis: int) -> Any:
    """`rd.shift`: elements moved along an axis, `fill` coming in."""
    lines = np.moveaxis(a, axis, 0)
    result = np.full_like(lines, fill)
    for k in range(len(lines)):
        if 0 <= k - by < len(lines):
            result[k] = lines[k - by]
    return np.moveaxis(result, 0, axis)
