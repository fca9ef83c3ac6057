"""sin, cos, tan for every finite argument.

The nearest multiple of π/2 is subtracted, and the quadrant selects the sine's or the cosine's polynomial on ±π/4.
Cody & Waite's reduction with fma: π/2 in three parts, the first subtraction exact, the remainder kept as a pair (Muller et
al., *Handbook of Floating-Point Arithmetic*, section 11.2).
Above `_DIRECT` the rare path is Payne & Hanek's reduction (SIGNUM Newsletter 18(1), 1983) in integer arithmetic: three
words of 2/π, chosen by the exponent through selects, times the mantissa, modulo 4, as a fixed-point number of quarter turns.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from raido.algo.graph.dtypes import f32, f64, i64, u64
from raido.algo.recipes.builder import (
    Value,
    bits_of,
    fma,
    format_of,
    polynomial,
    rare,
    two_sum,
    where,
)
from raido.algo.recipes.coefficients import COEFFICIENTS
from raido.algo.recipes.constants import HALF_PI, HALF_PI_REDUCTION, TWO_OVER_PI, TWO_OVER_PI_WORDS

_DIRECT = {f32: 2.0**13, f64: 2.0**19}
_QUARTER = 1 << 62  # a quarter turn in 64-bit fixed point


def _reduce(size: Value) -> tuple[Value, Value, Value]:
    """The triple `(quadrant, r, low)`: size = quadrant · π/2 + r + low for 0 ≤ size ≤ _DIRECT, the quadrant in an integer's low bits.

    The first subtraction is exact. The second part of π/2 is so short that n times it, and its difference with the remainder
    of the first, have few bits: `left - r` and the error of r are exact even where r cancels.
    """
    shifter = format_of(size).shifter
    shifted = fma(size, TWO_OVER_PI[size.dtype], shifter)
    n = shifted - shifter
    first, second, third = HALF_PI_REDUCTION[size.dtype]
    left = fma(n, -first, size)
    r = fma(n, -second, left)
    return bits_of(shifted), r, fma(n, -third, fma(n, -second, left - r))


def _reduce_large(size: Value) -> tuple[Value, Value, Value]:
    """The triple `(quadrant, r, low)` of `_reduce` for every finite size ≥ 1, by Payne & Hanek's reduction."""
    high, low = _quarter_turns(size)
    quadrant = (high + (_QUARTER >> 1)) >> 62
    r, rest = _to_radians(size, high - (quadrant << 62), low)
    layout = format_of(size)
    quadrant = quadrant if size.dtype is f64 else quadrant.cast(layout.unsigned)
    return quadrant.bitcast(layout.signed), r, rest


def _sine(r: Value, low: Value) -> Value:
    """The sine of r + low for |r| ≤ π/4."""
    square = r * r
    return r + fma(r * square, polynomial(square, COEFFICIENTS["sin", r.dtype.name]), low)


def _cosine(r: Value) -> Value:
    """The cosine of r for |r| ≤ π/4."""
    square = r * r
    return fma(square, fma(square, polynomial(square, COEFFICIENTS["cos", r.dtype.name]), -0.5), 1.0)


def _sine_of_quadrant(quadrant: Value, r: Value, low: Value, turn: int, sign: Value | None) -> Value:
    """The sine of r + low + (quadrant + turn) · π/2, `turn` 0 or 1, with its sign flipped where the sign bit of `sign` is set."""
    layout = format_of(r)
    odd = (quadrant & 1).differs(turn)
    value = where(odd, _cosine(r), _sine(r, low))
    # The second bit of quadrant + turn is the sign.
    flip = (quadrant + turn if turn else quadrant) << (layout.dtype.bits - 2)
    flip = (flip if sign is None else flip ^ sign) & layout.sign_bit
    return (bits_of(value) ^ flip).bitcast(r.dtype)


def _reduce_and(x: Value, evaluate: Callable[[Value, Value, Value], Value]) -> Value:
    """`evaluate(quadrant, r, low)` for the reduced |x|, with the reduction of large arguments behind a rare branch; NaN for infinities."""
    size = abs(x)

    def large() -> Value:
        return where(size < float("inf"), evaluate(*_reduce_large(size)), float("nan"))

    return rare(~(size <= _DIRECT[x.dtype]), evaluate(*_reduce(size)), large)


def sin(x: Value) -> Value:
    """The sine: degree 7 (f32), 13 (f64), or cosine of degree 8, 12; sin x and cos x share all but their last steps."""
    return _reduce_and(x, lambda quadrant, r, low: _sine_of_quadrant(quadrant, r, low, 0, bits_of(x)))


def cos(x: Value) -> Value:
    """The cosine, computed as the sine one quadrant on."""
    return _reduce_and(x, lambda quadrant, r, low: _sine_of_quadrant(quadrant, r, low, 1, None))


def tan(x: Value) -> Value:
    """The tangent as a quotient, inverted in odd quadrants."""

    def evaluate(quadrant: Value, r: Value, low: Value) -> Value:
        layout = format_of(x)
        flip = ((quadrant << (layout.dtype.bits - 1)) ^ bits_of(x)) & layout.sign_bit
        return (bits_of(_tangent(quadrant, r, low)) ^ flip).bitcast(x.dtype)

    return _reduce_and(x, evaluate)


def _tangent(quadrant: Value, r: Value, low: Value) -> Value:
    """The tangent of r + low + quadrant · π/2 for |r| ≤ π/4, with its sign flipped in odd quadrants.

    For f64 by the tangent u of half the angle, 2 u / (1 - u²), whose polynomial is much shorter.
    """
    square = r * r
    p = polynomial(square, COEFFICIENTS["tan", r.dtype.name])
    odd = (quadrant & 1).differs(0)
    if r.dtype is f32:
        above, below = r + fma(r * square, p, fma(square, low, low)), r.lift(1.0)
    else:
        above = r + fma(r * square, p, low)
        half = above * 0.5
        below = fma(-half, half, 1.0)
    return where(odd, below, above) / where(odd, above, below)


def _to_radians(x: Value, high: Value, low: Value) -> tuple[Value, Value]:
    """The signed fixed-point number of quarter turns high.low in radians, as a pair of x's dtype."""
    signed = high.bitcast(i64)
    if x.dtype is f64:
        pieces = ((signed >> 32, 32), (signed & 0xFFFFFFFF, 0), ((low >> 32).bitcast(i64), -32))
    else:
        pieces = ((signed >> 40, 40), ((signed >> 16) & 0xFFFFFF, 16), (signed & 0xFFFF, 0))
    a, b, c = (piece.cast(x.dtype) * 2.0**scale for piece, scale in pieces)
    total, error = two_sum(a, b)
    total, error = two_sum(total, error + c)
    unit = 2.0**-62
    high_part, low_part = HALF_PI[x.dtype][0] * unit, HALF_PI[x.dtype][1] * unit
    r = total * high_part
    return two_sum(r, fma(error, high_part, fma(total, low_part, fma(total, high_part, -r))))


def _quarter_turns(x: Value) -> tuple[Value, Value]:
    """The number x · 2/π modulo 4, for x ≥ 1, as two u64 words of fixed point: bits 63, 62 of the first are the quadrant."""
    layout = format_of(x)
    size = bits_of(x).bitcast(layout.unsigned)
    field = 1 << layout.mantissa
    mantissa = (size & (field - 1)) | field
    exponent = size >> layout.mantissa
    if x.dtype is f32:
        mantissa, exponent = mantissa.cast(u64), exponent.cast(u64)
    # x = mantissa · 2**e; the window starts at the bit of 2/π (after one word of zeros) that e moves to weight 2.
    start = exponent - (layout.bias + layout.mantissa - 62)
    words = _window(start, 4 if x.dtype is f64 else 3, 20 if x.dtype is f64 else 5)
    shift = start & 63
    # `>> 1 >> (63 - shift)` is a shift by 64 - shift that stays within the width.
    joined = [(a << shift) | ((b >> 1) >> (63 - shift)) for a, b in pairwise(words)]
    if x.dtype is f64:
        low = mantissa * joined[1]
        carry = _high_product(mantissa, joined[2])
        total = low + carry
        high = mantissa * joined[0] + _high_product(mantissa, joined[1]) + (total < low).cast(u64)
    else:
        high = mantissa * joined[0] + _high_product(mantissa, joined[1])
        total = high.lift(0)
    return high, total


def _window(start: Value, count: int, table: int) -> list[Value]:
    """`count` consecutive words of the digits 0·2/π from word start // 64 on, by a tree of selects."""
    words: list[Value] = [start.lift(w) for w in (0, *TWO_OVER_PI_WORDS)[:table]]
    index = start >> 6
    shift = 1 << (table - count).bit_length()
    while shift > 1:
        shift >>= 1
        take = (index & shift).differs(0)
        keep = min(len(words), count + shift - 1)
        words = [where(take, words[min(j + shift, len(words) - 1)], words[j]) for j in range(keep)]
    return words


def _high_product(a: Value, b: Value) -> Value:
    """The upper 64 bits of the product a · b, for a < 2**53."""
    mask = 0xFFFFFFFF
    a_high, a_low, b_high, b_low = a >> 32, a & mask, b >> 32, b & mask
    middle = a_high * b_low + ((a_low * b_low) >> 32)
    other = a_low * b_high + (middle & mask)
    return a_high * b_high + (middle >> 32) + (other >> 32)
