"""sinh, cosh, tanh and their inverses.

sinh and cosh: x = n log 2 + r as for exp; with s = sinh r, c = cosh r and A, B = 2**(n-1) ∓ 2**(-n-1),
sinh x = A c + B s and cosh x = B c + A s: no division, and no cancellation that a wider sum does not hold.
tanh x = p / (p + 2) with p = e**2x - 1, written (p - p² / (p + 2)) / 2 for small x and 1 - 2 / (p + 2) for larger, so that
the rounding of the quotient hardly counts.
The inverses are logarithms of arguments carried as unevaluated pairs, see logarithm.py.
"""

from __future__ import annotations

from collections.abc import Callable

from raido.algo.graph.dtypes import f32, f64
from raido.algo.recipes.builder import (
    Value,
    bits_of,
    fma,
    format_of,
    polynomial,
    rare,
    sqrt,
    two_sum,
    where,
    with_sign_of,
)
from raido.algo.recipes.coefficients import COEFFICIENTS
from raido.algo.recipes.exponential import expm1_reduced, float_bits, power_of_two, reduce_by_log2
from raido.algo.recipes.logarithm import HUGE, log_of_huge, log_of_pair

_OVERFLOW = {f32: 89.6, f64: 710.6}
_ONE_SIDED = {f32: 20.0, f64: 40.0}  # e**-x has no effect on the result
_TINY = {f32: 2.0**-13, f64: 2.0**-27}


def _halves(x: Value) -> tuple[Value, Value, Value, Value]:
    """The tuple `(A / 2, B / 2, s, c - 1)` for x ≥ 0, in the names of the module's docstring."""
    clamped = where(x > _OVERFLOW[x.dtype], _OVERFLOW[x.dtype], x)
    shifted, r, low = reduce_by_log2(clamped)
    up = power_of_two(shifted, 0.25)
    layout = format_of(x)
    down = ((-(bits_of(shifted) << layout.mantissa)) + float_bits(0.25, layout)).bitcast(x.dtype)
    down = where(x > _ONE_SIDED[x.dtype], 0.0, down)
    total = r + low
    square = total * total
    s = r + fma(total * square, polynomial(square, COEFFICIENTS["sinh", x.dtype.name]), low)
    c = square * fma(square, polynomial(square, COEFFICIENTS["cosh", x.dtype.name]), 0.5)
    return up - down, up + down, s, c


def sinh(x: Value) -> Value:
    """The hyperbolic sine: odd polynomial of degree 5 (f32), 11 (f64), even one of degree 6 (f32), 10 (f64)."""
    size = abs(x)
    a, b, s, c = _halves(size)
    result = (a + fma(a, c, b * s)) * 2.0
    return where(size < _TINY[x.dtype], x, with_sign_of(result, x))


def cosh(x: Value) -> Value:
    """The hyperbolic cosine, by the same polynomials as sinh."""
    a, b, s, c = _halves(abs(x))
    return (b + fma(b, c, a * s)) * 2.0


_SATURATED = {f32: 10.0, f64: 20.0}


def tanh(x: Value) -> Value:
    """The hyperbolic tangent: one polynomial (that of expm1) and one division."""
    size = abs(x)
    size = where(size > _SATURATED[x.dtype], _SATURATED[x.dtype], size)
    shifted, r, low = reduce_by_log2(size + size)
    power = power_of_two(shifted)
    p = fma(expm1_reduced(r, low), power, power - 1.0)  # e**2x - 1
    half = p * 0.5
    far = size > 0.55
    fraction = where(far, 2.0, half * p) / (p + 2.0)
    return with_sign_of(where(far, 1.0, half) - fraction, x)


_LARGE = {f32: 2.0**14, f64: 2.0**30}


def asinh(x: Value) -> Value:
    """The inverse hyperbolic sine log(|x| + sqrt(x² + 1)), with root and sum as pairs; log|x| + log 2 where adding 1 has no effect."""
    size = abs(x)
    large = size > _LARGE[x.dtype]
    square = size * size
    square_low = fma(size, size, -square)
    total = square + 1.0
    total_low = where(size > 1.0, 1.0 - (total - square), square - (total - 1.0)) + square_low
    root = sqrt(total)
    root_low = (fma(-root, root, total) + total_low) / (root + root)
    high, low = two_sum(root, size)
    return _log_or_large(large, size, high, low + root_low, lambda value: with_sign_of(value, x))


def acosh(x: Value) -> Value:
    """The inverse hyperbolic cosine log(x + sqrt(x² - 1)), computed as asinh; NaN below 1."""
    large = x > _LARGE[x.dtype]
    square = x * x
    square_low = fma(x, x, -square)
    total = square - 1.0
    total_low = (square - (total + 1.0)) + square_low
    total, total_low = two_sum(total, total_low)
    root = sqrt(total)
    root_low = where(root > 0.0, (fma(-root, root, total) + total_low) / (root + root), 0.0)
    high, low = two_sum(x, root)
    return _log_or_large(large, x, high, low + root_low, lambda value: where(x < 1.0, float("nan"), value))


def _log_or_large(large: Value, size: Value, high: Value, low: Value, finish: Callable[[Value], Value]) -> Value:
    """`finish` applied to log(high + low), or to log(2 size) where `large`."""
    extra = where(large, high.lift(1.0), 0.0)
    result = log_of_pair(where(large, size, high), where(large, 0.0, low), extra)

    def huge() -> Value:
        return finish(where(size < float("inf"), log_of_huge(size, 1.0), size))

    return rare(~(size < HUGE[size.dtype]), finish(result), huge)


def atanh(x: Value) -> Value:
    """The inverse hyperbolic tangent log((1 + |x|) / (1 - |x|)) / 2, with the quotient as a pair."""
    size = abs(x)
    upper = 1.0 + size
    upper_low = size - (upper - 1.0)
    lower = 1.0 - size
    lower_low = (1.0 - lower) - size
    quotient = upper / lower
    rest = fma(-quotient, lower, upper)
    quotient_low = (rest + fma(-quotient, lower_low, upper_low)) / lower
    result = with_sign_of(log_of_pair(quotient, quotient_low, x.lift(0.0)) * 0.5, x)

    def edge() -> Value:
        return where(size.equals(1.0), with_sign_of(x.lift(float("inf")), x), float("nan"))

    return rare(~(size < 1.0), result, edge)
