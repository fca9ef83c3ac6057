"""Exact fused multiply-add from operations that round separately, for types and machines without one.

f16, bf16 and f32 by a wider type: the product is exact there, the sum is rounded to odd, and the final rounding is then correct. f64 by
error-free transformations (Dekker's product, Knuth's sum) and one addition rounded to odd, with exponents split off where a step could
overflow or underflow; Boldo & Melquiond, "Emulation of FMA and correctly rounded sums", IEEE TC 57(4), 2008. The interpreters'
`raido.algo.graph.fma` does the same on arrays.
"""

from __future__ import annotations

from raido.algo.graph.dtypes import f16, f32, f64, i64
from raido.algo.recipes.builder import Value, bits_of, operate, rare, two_to, where, with_sign_of
from raido.algo.recipes.narrow import round_to_odd

_SPLITTER = 134217729.0  # 2**27 + 1
_LARGE, _SMALL = 2.0**500, 2.0**-900  # operands between them cause no intermediate overflow or underflow


def fma(x: Value, y: Value, z: Value) -> Value:
    """The fused multiply-add x y + z, rounded once."""
    if x.dtype is f64:
        usual, moderate = fma_of_moderate(x, y, z)
        return rare(~moderate, usual, lambda: _fma_of_any(x, y, z))
    wide = f32 if x.dtype is f16 else f64  # holds the product exactly, and more than twice the result's bits and two
    return _add_to_odd(x.cast(wide) * y.cast(wide), z.cast(wide)).cast(x.dtype)


def fma_of_moderate(x: Value, y: Value, z: Value) -> tuple[Value, Value]:
    """The fused multiply-add of f64 without scaling, and whether it is correct: no operand is so large or small that a step could fail."""
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
    """The sum x + y rounded to odd: an inexact sum gets the neighbour whose last bit is 1."""
    total, lost = _sum(x, y)
    inexact = (lost < 0.0) | (lost > 0.0)  # an infinite sum has lost NaN
    return round_to_odd(total, inexact, (lost > 0.0) ^ (total < 0.0))


def _split(x: Value) -> tuple[Value, Value]:
    """The upper and the lower half of the digits of a number (Veltkamp's splitting)."""
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


# --- f64 of large and small magnitudes


def _fma_of_any(x: Value, y: Value, z: Value) -> Value:
    """The fused multiply-add x y + z, rounded once, of any f64 numbers."""
    finite = (abs(x) < float("inf")) & (abs(y) < float("inf"))
    plain = where(finite & abs(z).equals(float("inf")), z, x * y + z)  # z wins, even if x y overflows
    ordinary = finite & (abs(z) < float("inf")) & x.differs(0.0) & y.differs(0.0)
    return where(ordinary, _fma_by_exponents(x, y, z), plain)


def _fma_by_exponents(x: Value, y: Value, z: Value) -> Value:
    """The fused multiply-add of finite numbers with x y ≠ 0, computed on significands in 0.5 … 1 and powers of two."""
    (x, of_x), (y, of_y), (z, of_z) = _take_apart(x), _take_apart(y), _take_apart(z)
    exponent = of_x + of_y
    # An addend this far above or below the product matters only by its sign, or by making the sum inexact.
    gap = where(z.equals(0.0), of_z.constant(i64, 0), _between(-220, of_z - exponent, 120))
    exponent = where(gap.equals(120), of_z - 120, exponent)
    product, product_low = _product(x, y)
    tail, rest = _sum(z * two_to(gap, f64), product_low)
    head, middle = _sum(product, tail)
    rest = _add_to_odd(rest, middle)
    normal = head + rest
    # Below the normal range the last place is 2**-1074: adding this constant rounds there, once.
    scale = _between(-1000, -1022 - exponent, 1000)
    anchor = with_sign_of(two_to(scale, f64), normal)
    rounded, lost = _sum(anchor, head)
    subnormal = (rounded + _add_to_odd(lost, rest)) - anchor
    value = where(_take_apart(normal)[1] + exponent < -1021, subnormal, normal)
    # An exact zero is +0; a result that vanishes by underflow keeps its sign.
    zero = where(normal.equals(0.0), x.lift(0.0), with_sign_of(x.lift(0.0), normal))
    return where(value.equals(0.0), zero, _scale(value, exponent))


def _take_apart(x: Value) -> tuple[Value, Value]:
    """The pair (m, e) with x = m 2**e and 0.5 ≤ |m| < 1; for x = 0, m is x and e is arbitrary."""
    small = abs(x) < 2.0**-1022
    bits = bits_of(where(small, x * 2.0**54, x))
    exponent = (bits.shift_right(52) & 0x7FF) - 1022
    mantissa = ((bits & ~(0x7FF << 52)) | (1022 << 52)).bitcast(f64)
    return where(x.equals(0.0), x, mantissa), where(small, exponent - 54, exponent)


def _between(low: int, x: Value, high: int) -> Value:
    return operate("minimum", i64, operate("maximum", i64, x, x.lift(low)), x.lift(high))


def _scale(x: Value, exponent: Value) -> Value:
    """The product x 2**exponent, which must be exact or overflow, in steps that stay within range."""
    mantissa, own = _take_apart(x)
    total = own + exponent
    first = _between(-1021, total, 1023)
    half = first.shift_right(1)
    within = mantissa * two_to(half, f64) * two_to(first - half, f64)
    return within * two_to(_between(-60, total - first, 2), f64)
