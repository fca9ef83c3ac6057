"""Fused multiply-add from operations that round twice, exactly, for types and machines without one.

f16, bf16 and f32 by a wider type: the product is exact there, the sum is rounded to odd, and rounding once more is then right. f64 by
error-free transformations (Dekker's product, Knuth's sum) and one addition to odd; Boldo & Melquiond, "Emulation of FMA and correctly
rounded sums", IEEE TC 57(4), 2008. The interpreters' `raido.algo.graph.fma` does the same on arrays.
"""

from __future__ import annotations

from raido.algo.graph.dtypes import f16, f32, f64
from raido.algo.recipes.builder import Value, where
from raido.algo.recipes.narrow import round_to_odd

_SPLITTER = 134217729.0  # 2**27 + 1
_LARGE, _SMALL = 2.0**500, 2.0**-900  # between them nothing overflows or underflows on the way


def fma(x: Value, y: Value, z: Value) -> Value:
    """x y + z, rounded once, of f16, bf16 or f32."""
    wide = f32 if x.dtype is f16 else f64  # holds the product exactly, and more than twice the result's bits and two
    return _add_to_odd(x.cast(wide) * y.cast(wide), z.cast(wide)).cast(x.dtype)


def fma_of_moderate(x: Value, y: Value, z: Value) -> tuple[Value, Value]:
    """(x y + z, rounded once, of f64; whether no operand is so large or small that a step of it could go wrong)."""
    product, product_low = _product(x, y)
    tail, rest = _sum(z, product_low)
    head, middle = _sum(product, tail)
    fused = head + _add_to_odd(rest, middle)
    fused = where(fused.equals(0.0), product + z, fused)  # an exact zero has the sign that the plain sum gives it
    moderate = (abs(product) >= _SMALL) | x.equals(0.0) | y.equals(0.0)
    for operand in (x, y, z):
        moderate = moderate & (abs(operand) < _LARGE)
    return fused, moderate


def _sum(x: Value, y: Value) -> tuple[Value, Value]:
    """The rounded sum and its exact error (Knuth)."""
    total = x + y
    part = total - x
    return total, (x - (total - part)) + (y - part)


def _add_to_odd(x: Value, y: Value) -> Value:
    """x + y; an inexact sum gets the neighbour whose last bit is 1."""
    total, lost = _sum(x, y)
    inexact = (lost < 0.0) | (lost > 0.0)  # an infinite sum has lost NaN
    return round_to_odd(total, inexact, (lost > 0.0) ^ (total < 0.0))


def _split(x: Value) -> tuple[Value, Value]:
    """The upper and the lower half of the digits (Veltkamp)."""
    scaled = x * _SPLITTER
    high = scaled - (scaled - x)
    return high, x - high


def _product(x: Value, y: Value) -> tuple[Value, Value]:
    """The rounded product and its exact error (Dekker)."""
    product = x * y
    (x_high, x_low), (y_high, y_low) = _split(x), _split(y)
    rest = x_high * y_high - product
    for left, right in ((x_high, y_low), (x_low, y_high), (x_low, y_low)):
        rest = rest + left * right
    return product, rest
