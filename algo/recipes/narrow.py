"""f16 and bf16: computed in f32, and rounded after each operation.

Numbers are rounded to nearest once. A number that f32 cannot represent is first rounded *to odd*, to the neighbour whose last bit is 1,
which lies on the same side of every tie of the narrow type (Boldo & Melquiond, "Emulation of FMA and correctly rounded sums", IEEE TC
57(4), 2008, section 3). The bits of bf16 are the upper half of those of f32, and are made by integer operations, the same on every
processor.
"""

from __future__ import annotations

from raido.algo.graph.dtypes import NARROW, DType, bf16, f16, f32, u16, u32
from raido.algo.recipes.builder import Value, operate, unsigned_bits_of, where

_EXACT = ("neg", "abs", "sign", "copysign", "floor", "ceil", "trunc", "rint", "fmod", "truncrem", "minimum", "maximum")
"""Operations whose result in f32 is exactly a bf16 if the operands are."""


def in_wide(name: str, dtype: DType, args: tuple[Value, ...]) -> Value:
    """The operation `name` on f16 or bf16 operands, computed in f32."""
    wide = [widen(x) for x in args]
    result = operate(name, f32 if dtype in NARROW else dtype, *wide)
    if dtype not in NARROW:
        return result
    return _upper_half(unsigned_bits_of(result)) if dtype is not f16 and name in _EXACT else narrow(result, dtype)


def widen(x: Value) -> Value:
    """A number of f16 or bf16 converted to f32; any other number unchanged."""
    if x.dtype not in NARROW:
        return x
    if x.dtype is f16:
        return x.convert(f32)
    return x.bitcast(u16).convert(u32).shift_left(16).bitcast(f32)


def narrow(wide: Value, dtype: DType) -> Value:
    """An f32 number rounded to f16 or bf16: to nearest, ties to even. Every NaN of bf16 is the quiet one with that sign."""
    if dtype is f16:
        return wide.convert(f16)
    bits = unsigned_bits_of(wide)
    odd = bits.shift_right(16) & 1
    quiet = (bits & 0x8000_0000) | 0x7FC0_0000
    return _upper_half(where(wide.differs(wide), quiet, bits + (odd + 0x7FFF)))


def _upper_half(bits: Value) -> Value:
    return bits.shift_right(16).convert(u16).bitcast(bf16)


def round_to_odd(nearest: Value, inexact: Value, outward: Value) -> Value:
    """The result rounded to odd, from the one rounded to `nearest`; `outward`: the exact value is farther from 0 than `nearest`."""
    bits = unsigned_bits_of(nearest)
    even = (bits & 1).equals(0)
    moved = where(outward, bits + 1, bits - 1)
    return where(inexact & even, moved, bits).bitcast(nearest.dtype)
