"""Floats of 16 bits as LLVM instructions: f16 and bf16, which are computed in f32 and rounded after each operation.

f16 is LLVM's `half`, whose arithmetic means just that on every processor, so that only what LLVM has no instruction for is written in
f32. bf16 is an `i16` everywhere: LLVM's `bfloat` is rounded by VCVTNEPS2BF16 where the processor has it, which takes subnormal numbers
for 0 (Intel SDM, volume 2C), and every processor is to give the same bits.
"""

from __future__ import annotations

from raido.algo.graph.dtypes import NARROW, DType, bf16, f16, f32, u32, unsigned
from raido.algo.graph.primitives import DIVISIONS, RECIPES
from raido.targets.llvm.text import TextBuilder, Value

_BITS = ("select", "bitcast", "cast", "fma")
"""Operations that move a number as it is, or round once by themselves."""
_EXACT = ("neg", "abs", "sign", "copysign", "minimum", "maximum", "floor", "ceil", "trunc", "rint", "fmod", "truncrem")
"""Operations whose result in f32 is a bf16 where the operands are."""


def is_computed_in_f32(name: str, operand: DType) -> bool:
    """Whether a primitive of operands of that type is written in f32."""
    if operand is bf16:
        return name not in _BITS
    return operand is f16 and (name in RECIPES or name in DIVISIONS or name == "fmod")


def widen(b: TextBuilder, x: Value) -> Value:
    """A number of f16 or bf16 in f32, others as they are."""
    if x.dtype not in NARROW:
        return x
    if x.literal is not None:
        return b.constant(x, x.literal, f32)
    if x.dtype is f16:
        return b.convert("fpext", x, f32)
    bits = b.convert("zext", x, u32)
    return b.convert("bitcast", b.binary("shl", bits, b.constant(bits, 16)), f32)


def round_result(b: TextBuilder, name: str, wide: Value, dtype: DType) -> Value:
    """The result of a primitive in f32 in the type of its operands."""
    if dtype is bf16 and name in _EXACT:
        bits = b.convert("bitcast", wide, u32)
        return b.convert("trunc", b.binary("lshr", bits, b.constant(bits, 16)), bf16)
    return narrow(b, wide, dtype)


def narrow(b: TextBuilder, wide: Value, dtype: DType) -> Value:
    """An f32 number rounded to f16 or bf16: to nearest, ties to even. Every NaN of bf16 is the quiet one with that sign."""
    if dtype is f16:
        return b.convert("fptrunc", wide, f16)
    bits = b.convert("bitcast", wide, u32)
    half = b.constant(bits, 16)
    upper = b.binary("lshr", bits, half)
    odd = b.binary("and", upper, b.constant(bits, 1))
    rounded = b.binary("lshr", b.binary("add", bits, b.binary("add", odd, b.constant(bits, 0x7FFF))), half)
    quiet = b.binary("or", b.binary("and", upper, b.constant(bits, 0x8000)), b.constant(bits, 0x7FC0))
    return b.convert("trunc", b.select(b.compare("uno", wide, wide), quiet, rounded), bf16)


def round_to_odd(b: TextBuilder, nearest: Value, inexact: Value, outward: Value) -> Value:
    """The neighbour with an odd last bit of what was rounded to `nearest`; it lies `outward` (away from 0) of it or inward."""
    bits = b.convert("bitcast", nearest, unsigned(nearest.dtype.bits))
    even = b.compare("eq", b.binary("and", bits, b.constant(bits, 1)), b.constant(bits, 0))
    step = b.select(outward, b.constant(bits, 1), b.constant(bits, -1))
    moved = b.select(b.binary("and", inexact, even), b.binary("add", bits, step), bits)
    return b.convert("bitcast", moved, nearest.dtype)
