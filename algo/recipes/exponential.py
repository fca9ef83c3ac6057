"""exp, exp2, expm1: argument reduction by a power of two, then one polynomial.

x = n log 2 + r with n the nearest integer, found by adding `shifter` (its low bits then are n), and |r| ≤ log(2) / 2.
n log 2 is subtracted in two parts with fma; the first subtraction is exact, because n·LN2_HIGH and x agree so far that
their difference fits the type (Sterbenz's argument; Muller et al., *Handbook of Floating-Point Arithmetic*, section 10.2).
2**n is added into the exponent field; where the result is not a normal number the rare path scales in two steps.
"""

from __future__ import annotations

from raido.algo.graph.dtypes import DType, f32, f64
from raido.algo.recipes.builder import Format, Value, bits_of, fma, format_of, polynomial, rare, two_sum, where
from raido.algo.recipes.coefficients import COEFFICIENTS
from raido.algo.recipes.constants import LN2, LOG2E

INFINITY = float("inf")


def reduce_by_log2(x: Value) -> tuple[Value, Value, Value]:
    """The triple `(shifted, r, low)`: x = n log 2 + r + low, with n in the low bits of `shifted`; r is exact, low about ulp(r)."""
    shifter = format_of(x).shifter
    shifted = fma(x, LOG2E[x.dtype], shifter)
    n = shifted - shifter
    high, low = LN2[x.dtype]
    return shifted, fma(n, -high, x), n * -low


def expm1_reduced(r: Value, low: Value) -> Value:
    """The value e**(r + low) - 1 for |r| ≤ log(2) / 2."""
    total = r + low
    return r + fma(total * total, polynomial(total, COEFFICIENTS["expm1", r.dtype.name]), low)


def exp_reduced(r: Value) -> Value:
    """The value e**r for |r| ≤ log(2) / 2."""
    return fma(r * r, polynomial(r, COEFFICIENTS["exp", r.dtype.name]), r) + 1.0


def exp_pair(r: Value) -> tuple[Value, Value]:
    """The value e**r for |r| ≤ log(2) / 2 as a rounded sum and its error."""
    return two_sum(r.lift(1.0), fma(r * r, polynomial(r, COEFFICIENTS["exp", r.dtype.name]), r))


def power_of_two(shifted: Value, factor: float = 1.0) -> Value:
    """The normal number factor · 2**n, for `factor` a power of two and n in the low bits of `shifted`."""
    layout = format_of(shifted)
    return ((bits_of(shifted) << layout.mantissa) + float_bits(factor, layout)).bitcast(shifted.dtype)


def float_bits(power: float, layout: Format) -> int:
    """The bits of a power of two that is a normal number."""
    exponent = int(power).bit_length() - 1 if power >= 1 else 1 - int(1 / power).bit_length()
    return (exponent + layout.bias) << layout.mantissa


def scale_normal(p: Value, shifted: Value) -> Value:
    """The product p · 2**n where it is a normal number, for n in the low bits of `shifted`."""
    return (bits_of(p) + (bits_of(shifted) << format_of(p).mantissa)).bitcast(p.dtype)


def scale_any(p: Value, shifted: Value) -> Value:
    """The product p · 2**n rounded once, also where it overflows or is denormal, for |n| < 2 · bias."""
    layout = format_of(p)
    shifter_bits = ((layout.bias + layout.mantissa) << layout.mantissa) | (1 << (layout.mantissa - 1))
    n = bits_of(shifted) - shifter_bits
    half = n >> 1
    first = ((half + layout.bias) << layout.mantissa).bitcast(p.dtype)
    second = ((n - half + layout.bias) << layout.mantissa).bitcast(p.dtype)
    return p * first * second


# |x| up to which e**x is a normal number; beyond the others it is infinite, or rounds to zero.
_NORMAL = {f32: 87.0, f64: 708.0}
_OVERFLOW = {f32: 89.0, f64: 710.0}
_UNDERFLOW = {f32: -104.0, f64: -746.0}


def exp(x: Value) -> Value:
    """The exponential e**x: polynomial of degree 6 (f32), 11 (f64)."""
    shifter = format_of(x).shifter
    shifted = fma(x, LOG2E[x.dtype], shifter)
    n = shifted - shifter
    high, low = LN2[x.dtype]
    p = exp_reduced(fma(n, -low, fma(n, -high, x)))

    def extreme() -> Value:
        scaled = scale_any(p, shifted)
        scaled = where(x > _OVERFLOW[x.dtype], INFINITY, scaled)
        return where(x < _UNDERFLOW[x.dtype], 0.0, scaled)

    return rare(~(abs(x) <= _NORMAL[x.dtype]), scale_normal(p, shifted), extreme)


def exp2(x: Value) -> Value:
    """The power 2**x: polynomial of degree 6 (f32), 11 (f64); the reduction is exact."""
    layout = format_of(x)
    shifted = x + layout.shifter
    r = x - (shifted - layout.shifter)
    p = fma(r, polynomial(r, COEFFICIENTS["exp2", x.dtype.name]), 1.0)

    def extreme() -> Value:
        scaled = scale_any(p, shifted)
        scaled = where(x >= layout.bias + 1.0, INFINITY, scaled)
        return where(x < -(layout.bias + layout.mantissa + 1.0), 0.0, scaled)

    return rare(~(abs(x) <= layout.bias - 1.0), scale_normal(p, shifted), extreme)


_MINUS_ONE: dict[DType, float] = {f32: -20.0, f64: -40.0}
_TINY: dict[DType, float] = {f32: 2.0**-26, f64: 2.0**-55}


def expm1(x: Value) -> Value:
    """The difference e**x - 1 = 2**n (e**r - 1) + (2**n - 1), with 2**n halved so that it never overflows by itself."""
    clamped = where(x > _OVERFLOW[x.dtype], _OVERFLOW[x.dtype], x)
    clamped = where(clamped < _MINUS_ONE[x.dtype], _MINUS_ONE[x.dtype], clamped)
    shifted, r, low = reduce_by_log2(clamped)
    half = power_of_two(shifted, 0.5)
    result = fma(expm1_reduced(r, low), half, half - 0.5) * 2.0
    return where(abs(x) < _TINY[x.dtype], x, result)
