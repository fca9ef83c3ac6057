"""Casts between element types: integers wrap, floats truncate and saturate, NaN is 0; rounded to nearest, once, where the type is a float."""

from __future__ import annotations

from raido.algo.graph.dtypes import MANTISSA, NARROW, DType, bool_, f16, f32, f64
from raido.algo.recipes.builder import Value, where
from raido.algo.recipes.narrow import narrow, round_to_odd, widen


def cast(x: Value, dtype: DType) -> Value:
    """`x` as a number of another type."""
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
    """A float truncated to an integer, the nearest of the type beyond its range."""
    is_signed = dtype.kind == "i"
    low, highest = (-(1 << (dtype.bits - 1)) if is_signed else 0), (1 << (dtype.bits - is_signed)) - 1
    above = where(x > float(low), x, float(low))  # NaN is the lowest
    if dtype.bits - is_signed <= MANTISSA[x.dtype] + 1:  # the float type holds the highest
        inside = where(above < float(highest), above, float(highest)).convert(dtype)
        return where(x.differs(x), inside.lift(0), inside) if is_signed else inside
    beyond = float(highest + 1)
    inside = where(x < beyond, above, 0.0).convert(dtype)
    return where(x >= beyond, inside.lift(highest), inside)


def _for_rounding(x: Value, dtype: DType) -> Value:
    """`x` in f32, to odd where f32 does not hold it, so that rounding it to `dtype` is the only rounding."""
    if not x.dtype.is_float:
        if x.dtype.bits <= 16 or dtype is f16:  # integers that f32 does not hold are infinite in f16
            return x.convert(f32)
        x = (_integer_to_odd(x) if x.dtype.bits == 64 else x).convert(f64)
    nearest = x.convert(f32)
    if x.dtype is f32:
        return nearest
    back = nearest.convert(f64)
    return round_to_odd(nearest, (x < back) | (x > back), abs(x) > abs(back))


def _integer_to_odd(x: Value) -> Value:
    """An integer of 64 bits; one that is no f64 number rounded to an odd multiple of a power of two, which is."""
    unit, exact = 1 << 11, 1 << 53
    rest = x & (unit - 1)
    multiple = x - rest
    rounded = where(rest.differs(0), multiple | unit, multiple)
    beyond = x > exact
    return where(beyond | (x < -exact) if x.dtype.kind == "i" else beyond, rounded, x)
