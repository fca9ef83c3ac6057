"""log, log2, log10, log1p.

x = 2**k m with sqrt(1/2) ≤ m < sqrt(2), f = m - 1 (exact). For f64, with s = f / (2 + f), log(1 + f) = 2 atanh(s) is
written f - f²/2 + s (f²/2 + s² P(s²)), so that the rounding of s hardly counts (fdlibm's e_log.c explains the form; the
coefficients are our own). For f32 a polynomial in f (of degree 10; 9 for the other bases) is as short and needs no division.
The result k log 2 + log(1 + f) is summed with log 2 in two parts, the first short enough for k times it to be exact.
log2 and log10 multiply by 1/log 2, 1/log 10 in two parts (f64), or have polynomials of their own (f32). Denormals, zero,
negative numbers, inf and NaN take the rare path.
"""

from __future__ import annotations

from collections.abc import Callable

from raido.algo.graph.dtypes import f32, f64
from raido.algo.recipes.builder import Value, bits_of, fma, format_of, is_positive_normal, polynomial, rare, where
from raido.algo.recipes.coefficients import COEFFICIENTS
from raido.algo.recipes.constants import INVERSE_LN2, INVERSE_LN10, LN2_SHORT, LOG10_2, LOG10_2_SHORT, SQRT_HALF_BITS

INFINITY, NAN = float("inf"), float("nan")


def split_exponent(x: Value) -> tuple[Value, Value, Value]:
    """The triple `(k, m, bits)` for a normal x = 2**k m > 0, sqrt(1/2) ≤ m < sqrt(2); `bits` are those of 2**-k where that is normal."""
    layout = format_of(x)
    root = SQRT_HALF_BITS[x.dtype]
    field = 1 << layout.mantissa
    if x.dtype is f32:
        moved, one = bits_of(x) - root, layout.bias << layout.mantissa
        k = (moved >> layout.mantissa).cast(f32)
    else:
        # Few processors convert 64-bit integers or shift them arithmetically: the exponent stays biased, so not negative,
        # and becomes a float by way of the low bits of 2**52.
        moved, one = bits_of(x) + ((layout.bias << layout.mantissa) - root), (2 * layout.bias) << layout.mantissa
        exponent = moved.bitcast(layout.unsigned) >> layout.mantissa
        big = exponent.lift((layout.bias + layout.mantissa) << layout.mantissa)
        k = (exponent | big).bitcast(x.dtype) - (2.0**layout.mantissa + layout.bias)
    m = ((moved & (field - 1)) + root).bitcast(x.dtype)
    return k, m, -(moved & ~(field - 1)) + one


def log_tail(f: Value) -> Value:
    """The difference log(1 + f) - f for sqrt(1/2) ≤ 1 + f < sqrt(2)."""
    if f.dtype is f32:
        return f * f * fma(f, polynomial(f, COEFFICIENTS["log", "f32"]), -0.5)
    s = f / (f + 2.0)
    z = s * s
    half_square = f * 0.5 * f
    inner = fma(z, polynomial(z, COEFFICIENTS["atanh", f.dtype.name]), half_square)
    return fma(s, inner, -half_square)


def natural(k: Value, f: Value) -> Value:
    """The natural logarithm k log 2 + log(1 + f)."""
    high, low = LN2_SHORT[f.dtype]
    return fma(k, high, f + fma(k, low, log_tail(f)))


def _scaled(k: Value, f: Value, inverse: tuple[float, float], step: tuple[float, float]) -> Value:
    """The sum k · step + log(1 + f) · inverse, both constants given in two parts, k · step[0] exact; rounding errors are added at the
    end."""
    whole = k if step[0] == 1.0 else k * step[0]
    total = fma(f, inverse[0], whole)
    rest = fma(f, inverse[0], whole - total)
    rest = fma(log_tail(f), inverse[0], fma(f, inverse[1], rest))
    return total + (rest if step[1] == 0.0 else fma(k, step[1], rest))


def binary(k: Value, f: Value) -> Value:
    """The binary logarithm k + log2(1 + f)."""
    if f.dtype is f32:
        return fma(f, polynomial(f, COEFFICIENTS["log2", "f32"]), k)
    return _scaled(k, f, INVERSE_LN2[f.dtype], (1.0, 0.0))


def decimal(k: Value, f: Value) -> Value:
    """The decimal logarithm k log10(2) + log10(1 + f)."""
    if f.dtype is f32:
        return fma(k, LOG10_2[f32], f * polynomial(f, COEFFICIENTS["log10", "f32"]))
    return _scaled(k, f, INVERSE_LN10[f.dtype], LOG10_2_SHORT[f.dtype])


def with_special_cases(x: Value, combine: Callable[[Value, Value], Value]) -> Value:
    """The logarithm `combine(k, f)` for normal x > 0; by scaling for denormals, and the special values otherwise."""
    layout = format_of(x)

    def evaluate(y: Value, offset: float) -> Value:
        k, m, _ = split_exponent(y)
        return combine(k - offset if offset else k, m - 1.0)

    def special() -> Value:
        digits = layout.mantissa + 1.0
        denormal = evaluate(x * 2.0**digits, digits)
        result = where(x.equals(0.0), -INFINITY, denormal)
        result = where(x.equals(INFINITY), INFINITY, result)
        return where(x >= 0.0, result, NAN)

    return rare(~is_positive_normal(x), evaluate(x, 0.0), special)


def log(x: Value) -> Value:
    """The natural logarithm."""
    return with_special_cases(x, natural)


def log2(x: Value) -> Value:
    """The logarithm to base 2; exact for powers of two."""
    return with_special_cases(x, binary)


def log10(x: Value) -> Value:
    """The logarithm to base 10."""
    return with_special_cases(x, decimal)


HUGE = {f32: 2.0**126, f64: 2.0**1022}


def log_of_pair(high: Value, low: Value, extra: Value) -> Value:
    """The sum log(high + low) + extra · log 2 for a normal high, 0 < high < HUGE, and |low| ≤ ulp(high)."""
    k, m, inverse = split_exponent(high)
    return natural(k + extra, fma(low, inverse.bitcast(high.dtype), m - 1.0))


def log_of_huge(x: Value, extra: float) -> Value:
    """The sum log(x) + extra · log 2 for a normal x > 0."""
    k, m, _ = split_exponent(x)
    return natural(k + extra, m - 1.0)


def log1p(x: Value) -> Value:
    """The logarithm log(1 + x), with the rounding error of 1 + x carried along (Kahan's correction, without a division)."""
    total = x + 1.0
    low = where(x >= 1.0, 1.0 - (total - x), x - (total - 1.0))
    result = where(x.equals(0.0), x, log_of_pair(total, low, x.lift(0.0)))

    def special() -> Value:
        edge = where(x.equals(-1.0), x.lift(-INFINITY), NAN)
        edge = where(x.equals(INFINITY), INFINITY, edge)
        return where((x > 1.0) & (x < INFINITY), log_of_huge(x, 0.0), edge)

    return rare(~((x > -1.0) & (x < HUGE[x.dtype])), result, special)
