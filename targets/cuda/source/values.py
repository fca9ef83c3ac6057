"""Numbers in CUDA C: types, literals, and the memory representation of booleans and f16.

Types have raido's names (`prelude.cuh`), except `bool`. A boolean is a byte in memory. f16 is represented by its bits everywhere, and
converted before any arithmetic.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from raido.algo.graph.dtypes import DType, bool_, f16, f32


def type_text(dtype: DType) -> str:
    """The C type of a value."""
    return "bool" if dtype is bool_ else dtype.name


def memory_type(dtype: DType) -> str:
    """The C type of an element in memory that the host or other threads see."""
    return "u8" if dtype is bool_ else dtype.name


def literal(dtype: DType, value: Any) -> str:
    """A constant of exactly this type and, for floats, these bits, except the payload of a NaN."""
    if dtype is bool_:
        return "true" if value else "false"
    if dtype is f16:
        return f"(f16){int(np.float16(value).view(np.uint16)):#06x}"
    if dtype.is_float:
        return _float_literal(dtype, float(dtype.numpy.type(value)))
    return _integer_literal(dtype, int(value))


def _float_literal(dtype: DType, value: float) -> str:
    single = dtype is f32
    if math.isfinite(value):
        text = f"{value.hex()}{'f' if single else ''}" if value != int(value) or abs(value) >= 1e6 else f"{value!r}"
        text = f"{text}f" if single and not text.endswith("f") else text
        return f"({text})" if text.startswith("-") else text
    bits = {True: "0x7fc00000u", False: "0x7ff8000000000000ull"}[single]
    if math.isinf(value):
        sign = math.copysign(1, value) < 0
        bits = ("0xff800000u" if sign else "0x7f800000u") if single else f"0x{'f' if sign else '7'}ff0000000000000ull"
    return f"raido_bits_{dtype.name}({bits})"


def _integer_literal(dtype: DType, value: int) -> str:
    suffix = {32: "", 64: "ll"}.get(dtype.bits, "")
    if dtype.kind == "u":
        value &= (1 << dtype.bits) - 1
        suffix = {32: "u", 64: "ull"}.get(dtype.bits, "")
    lowest = -(1 << dtype.bits - 1)
    text = f"({value + 1}{suffix} - 1)" if value == lowest and dtype.bits >= 32 else f"{value}{suffix}"
    if dtype.bits < 32:
        return f"({dtype.name}){text}" if value >= 0 else f"({dtype.name})({text})"
    return f"({text})" if text.startswith("-") else text
