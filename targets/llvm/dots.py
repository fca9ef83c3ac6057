"""Sums of products of adjacent narrow integers, and of absolute differences of bytes: PMADDWD, VPDPWSSD, VPDPBUSD, PSADBW of x86.

Each wraps as the primitive does: PMADDWD only where all four factors are -2^15; VPDPWSSD and VPDPBUSD add without saturation. (PMADDUBSW
saturates.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from raido.algo.graph.dtypes import DType, i8, i16, i32, u8, u64
from raido.targets.llvm.text import TextBuilder, Value

_PAIRS = {128: "sse2.pmadd.wd", 256: "avx2.pmadd.wd", 512: "avx512.pmaddw.d.512"}
_DIFFERENCES = {128: "sse2.psad.bw", 256: "avx2.psad.bw", 512: "avx512.psad.bw.512"}


def write_dot_halves(b: TextBuilder, *operands: Value) -> Value | None:
    """Returns the sums of products of 16-bit integers; None for others, or vectors that fill no register."""
    return _in_registers(b, i32, _halves, operands)


def write_dot_quarters(b: TextBuilder, *operands: Value) -> Value | None:
    """Returns the sums of products of 8-bit integers; None for others, or vectors that fill no register."""
    return _in_registers(b, i32, _quarters, operands)


def write_byte_differences(b: TextBuilder, *operands: Value) -> Value | None:
    """Returns the sums of absolute differences of eight bytes; None for others, or vectors that fill no register."""
    return _in_registers(b, u64, _differences, operands)


def _in_registers(b: TextBuilder, dtype: DType, write: Callable[..., Value], operands: Sequence[Value]) -> Value | None:
    lanes, bits = operands[0].lanes, operands[0].lanes * dtype.bits
    if operands[0].dtype is not dtype or lanes == 1 or bits < 128 or bits & (bits - 1):
        return None
    if bits <= b.can.vector_bits:
        return write(b, bits, *operands)
    lower, upper = list(range(lanes // 2)), list(range(lanes // 2, lanes))
    low, high = (_in_registers(b, dtype, write, [b.shuffle(x, x, half) for x in operands]) for half in (lower, upper))
    assert low is not None and high is not None
    return b.shuffle(low, high, lower + upper)


def _halves(b: TextBuilder, bits: int, total: Value, x: Value, y: Value) -> Value:
    if b.can.dots:  # LLVM makes two instructions of its intrinsic, for the shorter latency of the sum
        asm = 'asm "vpdpwssd $3, $2, $0", "=v,0,v,v"'
        return b.result(i32, x.lanes, f"call {x.type} {asm}({total.typed}, {x.typed}, {y.typed})")
    return _with_pairs(b, bits, total, _as(b, x, i16), _as(b, y, i16))


def _quarters(b: TextBuilder, bits: int, total: Value, x: Value, y: Value) -> Value:
    if b.can.dots:
        return b.call(f"llvm.x86.avx512.vpdpbusd.{bits}", i32, x.lanes, total, _as(b, x, u8), _as(b, y, i8))
    x, y = _as(b, x, i16), _as(b, y, i16)
    eight = b.constant(x, 8)
    low = b.binary("and", x, b.constant(x, 255)), b.binary("ashr", b.binary("shl", y, eight), eight)
    high = b.binary("lshr", x, eight), b.binary("ashr", y, eight)
    return _with_pairs(b, bits, _with_pairs(b, bits, total, *low), *high)


def _differences(b: TextBuilder, bits: int, x: Value, y: Value) -> Value:
    return b.call(f"llvm.x86.{_DIFFERENCES[bits]}", u64, x.lanes, _as(b, x, u8), _as(b, y, u8))


def _with_pairs(b: TextBuilder, bits: int, total: Value, x: Value, y: Value) -> Value:
    return b.binary("add", total, b.call(f"llvm.x86.{_PAIRS[bits]}", i32, x.lanes // 2, x, y))


def _as(b: TextBuilder, x: Value, dtype: DType) -> Value:
    lanes = x.lanes * x.dtype.bits // dtype.bits
    return b.result(dtype, lanes, f"bitcast {x.typed} to <{lanes} x i{dtype.bits}>")
