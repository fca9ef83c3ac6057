"""Casts between element types: to integers, integers wrap, floats truncate and saturate, NaN gives 0; to floats, rounded once to
nearest."""

from __future__ import annotations

from raido.algo.graph.dtypes import MANTISSA, NARROW, DType, bool_, f16, f32, f64
from raido.algo.recipes.builder import Value, where
from raido.algo.recipes.narrow import narrow, round_to_odd, widen


def cast(x: Value, dtype: DType) -> Value:
    """The number `x` converted to another dtype."""
    if dtype is x.dtype:
        return x
    if x.dtype in NARROW:
        return widen(x).cast(dtype)
    if x.dtype is bool_:
        return where(x, x.constant(dtype, 1), x.constant(dtype, 0))
    if dtype is bool_:
        return x.differs(0)
    if dtype in NARROW:
        return narrow(_for_rounding(x, dtype), dtype)
    return _saturated(x, dtype) if x.dtype.is_float and dtype.is_integer else x.convert(dtype)


def _saturated(x: Value, dtype: DType) -> Value:
    """A float truncated to an integer; beyond the range of the integer dtype, its nearest number; 0 for NaN."""
    is_signed = dtype.kind == "i"
    low, highest = (-(1 << (dtype.bits - 1)) if is_signed else 0), (1 << (dtype.bits - is_signed)) - 1
    above = where(x > float(low), x, float(low))  # NaN becomes the lowest number
    if dtype.bits - is_signed <= MANTISSA[x.dtype] + 1:  # the float type holds the highest
        inside = where(above < float(highest), above, float(highest)).convert(dtype)
        return where(x.differs(x), inside.lift(0), inside) if is_signed else inside
    beyond = float(highest + 1)
    inside = where(x < beyond, above, 0.0).convert(dtype)
    return where(x >= beyond, inside.lift(highest), inside)


def _for_rounding(x: Value, dtype: DType) -> Value:
    """The number `x` in f32, rounded to odd where f32 cannot represent it, so that only the rounding to `dtype` rounds to nearest."""
    if not x.dtype.is_float:
        if x.dtype.bits <= 16 or dtype is f16:  # integers beyond the precision of f32 are infinite in f16
            return x.convert(f32)
        x = (_integer_to_odd(x) if x.dtype.bits == 64 else x).convert(f64)
    nearest = x.convert(f32)
    if x.dtype is f32:
        return nearest
    back = nearest.convert(f64)
    return round_to_odd(nearest, (x < back) | (x > back), abs(x) > abs(back))


def _integer_to_odd(x: Value) -> Value:
    """A 64-bit integer that f64 can represent: unchanged, or rounded to an odd multiple of 2**11 beyond ±2**53."""
    unit, exact = 1 << 11, 1 << 53
    rest = x & (unit - 1)
    multiple = x - rest
    rounded = where(rest.differs(0), multiple | unit, multiple)
    beyond = x > exact
    return where(beyond | (x < -exact) if x.dtype.kind == "i" else beyond, rounded, x)
