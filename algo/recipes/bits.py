"""Operations on the bits of integers: shifts by any count, and bit counts made from those of 32-bit words."""

from __future__ import annotations

from raido.algo.graph.dtypes import DType, u32, unsigned
from raido.algo.recipes.builder import Value, operate, unsigned_bits_of, where


def bit_not(x: Value) -> Value:
    """The bitwise complement."""
    return x ^ (-1 if x.dtype.kind == "i" else (1 << x.dtype.bits) - 1)


def shl(x: Value, count: Value) -> Value:
    """The left shift x 2**count; 0 where the count is negative or not below the width."""
    inside = _is_inside(count)
    return where(inside, x.shift_left(where(inside, count, 0)), 0)


def shr(x: Value, count: Value) -> Value:
    """The right shift x 2**-count, rounded down; 0 or −1 by the sign of x where the count is negative or not below the width."""
    inside = _is_inside(count)
    shifted = x.shift_right(where(inside, count, x.dtype.bits - 1))
    return shifted if x.dtype.kind == "i" else where(inside, shifted, 0)


def _is_inside(count: Value) -> Value:
    return unsigned_bits_of(count) < count.dtype.bits


def popcount(x: Value, dtype: DType) -> Value:
    """The number of set bits."""
    words = _words(x)
    counts = [operate("popcount", u32, word) for word in words]
    return (counts[0] if len(counts) == 1 else counts[0] + counts[1]).convert(dtype)


def clz(x: Value, dtype: DType) -> Value:
    """The number of zeros above the highest set bit."""
    low, *high = (operate("clz", u32, word) for word in _words(x))
    if high:
        return where(high[0].equals(32), low + 32, high[0]).convert(dtype)
    return (low - (32 - x.dtype.bits)).convert(dtype)


def ctz(x: Value, dtype: DType) -> Value:
    """The number of zeros below the lowest set bit."""
    return operate("popcount", dtype, ~x & (x - 1))


def _words(x: Value) -> list[Value]:
    """The bits as words of 32 bits, the lowest first."""
    bits = x.bitcast(unsigned(x.dtype.bits))
    return [bits.convert(u32), bits.shift_right(32).convert(u32)] if x.dtype.bits == 64 else [bits.convert(u32)]
