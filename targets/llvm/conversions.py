"""Conversions between element types as LLVM instructions."""

from __future__ import annotations

from raido.algo.graph.dtypes import DType, bool_, f16, f32, f64
from raido.targets.llvm.fused import round_to_odd
from raido.targets.llvm.text import TextBuilder, Value, mangled


def write_cast(b: TextBuilder, dtype: DType, x: Value) -> Value:
    """`x` as another type: floats truncated and saturated, NaN as 0; rounded to nearest among floats."""
    if dtype is x.dtype:
        return x
    if dtype is bool_:
        return b.compare("une" if x.dtype.is_float else "ne", x, b.constant(x, 0))
    if dtype.is_float:
        return _to_float(b, dtype, x)
    if not x.dtype.is_float:
        if dtype.bits <= x.dtype.bits:
            return b.convert("trunc", x, dtype)
        return b.convert("sext" if x.dtype.kind == "i" else "zext", x, dtype)
    if x.dtype is f16:
        x = b.convert("fpext", x, f32)
    name = f"llvm.fpto{'s' if dtype.kind == 'i' else 'u'}i.sat.{mangled(dtype, x.lanes)}.{mangled(x.dtype, x.lanes)}"
    return b.call(name, dtype, x.lanes, x)


def _to_float(b: TextBuilder, dtype: DType, x: Value) -> Value:
    if not x.dtype.is_float:
        number = b.convert("sitofp" if x.dtype.kind == "i" else "uitofp", x, f32 if dtype is f16 else dtype)
        return b.convert("fptrunc", number, f16) if dtype is f16 else number
    if dtype.bits > x.dtype.bits:
        return b.convert("fpext", x, dtype)
    if dtype is not f16 or x.dtype is not f64:
        return b.convert("fptrunc", x, dtype)
    nearest = b.convert("fptrunc", x, f32)  # and to odd, so that the second rounding is the only one
    back = b.convert("fpext", nearest, f64)
    outward = b.compare("ogt", b.intrinsic("fabs", x), b.intrinsic("fabs", back))
    return b.convert("fptrunc", round_to_odd(b, nearest, b.compare("one", x, back), outward), f16)
