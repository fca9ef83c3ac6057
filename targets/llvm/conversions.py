"""Conversions between element types as LLVM instructions."""

from __future__ import annotations

from raido.algo.graph.dtypes import NARROW, DType, bool_, f16, f32, f64
from raido.targets.llvm.narrow import narrow, round_to_odd, widen
from raido.targets.llvm.text import TextBuilder, Value, mangled


def write_cast(b: TextBuilder, dtype: DType, x: Value) -> Value:
    """`x` as another type: floats truncated and saturated, NaN as 0; rounded to nearest, once, where the type is a float."""
    if dtype is x.dtype:
        return x
    if x.dtype in NARROW:
        return write_cast(b, dtype, widen(b, x))
    if dtype is bool_:
        return b.compare("une" if x.dtype.is_float else "ne", x, b.constant(x, 0))
    if dtype in NARROW:
        return narrow(b, _for_rounding(b, dtype, x), dtype)
    if dtype.is_float:
        return _in_wide_float(b, dtype, x)
    if not x.dtype.is_float:
        if dtype.bits <= x.dtype.bits:
            return b.convert("trunc", x, dtype)
        return b.convert("sext" if x.dtype.kind == "i" else "zext", x, dtype)
    name = f"llvm.fpto{'s' if dtype.kind == 'i' else 'u'}i.sat.{mangled(dtype, x.lanes)}.{mangled(x.dtype, x.lanes)}"
    return b.call(name, dtype, x.lanes, x)


def _in_wide_float(b: TextBuilder, dtype: DType, x: Value) -> Value:
    """`x` in f32 or f64."""
    if not x.dtype.is_float:
        return b.convert("sitofp" if x.dtype.kind == "i" else "uitofp", x, dtype)
    return b.convert("fpext" if dtype.bits > x.dtype.bits else "fptrunc", x, dtype)


def _for_rounding(b: TextBuilder, dtype: DType, x: Value) -> Value:
    """`x` in f32, to odd where f32 does not hold it, so that rounding it to `dtype` is the only rounding."""
    if x.dtype is f32:
        return x
    if not x.dtype.is_float:
        if x.dtype.bits <= 16 or dtype is f16:  # integers that f32 does not hold are infinite in f16
            return _in_wide_float(b, f32, x)
        x = _in_wide_float(b, f64, _integer_to_odd(b, x) if x.dtype.bits == 64 else x)
    nearest = b.convert("fptrunc", x, f32)
    back = b.convert("fpext", nearest, f64)
    outward = b.compare("ogt", b.intrinsic("fabs", x), b.intrinsic("fabs", back))
    return round_to_odd(b, nearest, b.compare("one", x, back), outward)


def _integer_to_odd(b: TextBuilder, x: Value) -> Value:
    """An integer of 64 bits; one that is no f64 number rounded to an odd multiple of a power of two, which is."""
    unit, exact = 1 << 11, 1 << 53
    rest = b.binary("and", x, b.constant(x, unit - 1))
    multiple = b.binary("sub", x, rest)
    odd = b.binary("or", multiple, b.constant(x, unit))
    rounded = b.select(b.compare("ne", rest, b.constant(x, 0)), odd, multiple)
    if x.dtype.kind == "u":
        return b.select(b.compare("ugt", x, b.constant(x, exact)), rounded, x)
    beyond = b.compare("ugt", b.binary("add", x, b.constant(x, exact)), b.constant(x, 2 * exact))
    return b.select(beyond, rounded, x)
