"""pow, cbrt, hypot, rsqrt, and powers of integers.

pow: log|x| as an unevaluated pair with a relative error near 2**-66 (f64), 2**-36 (f32), times y as a pair, then exp.
log: s = f / (2 + f) as a pair, then 2 s + 2/3 s³ + s⁵ P(s²) with the first two terms in pairs (the scheme of fdlibm's
e_pow.c, with fma in place of its truncated factors).  The rare path takes x ≤ 0, denormals, inf, NaN and every result that
is not a normal number.
cbrt: a starting value y for x**(-1/3) from a third of x's bits, corrected by a polynomial of x y³ to 19 bits (f64: 34), then one
Newton step for the root with an exact residual.  hypot: the sum of squares with one fma, scaled when it could overflow or lose digits.
"""

from __future__ import annotations

from raido.algo.graph.dtypes import f32, f64
from raido.algo.recipes.builder import (
    Value,
    bits_of,
    floor,
    fma,
    format_of,
    is_positive_normal,
    polynomial,
    rare,
    sqrt,
    two_product,
    two_sum,
    where,
    with_sign_of,
)
from raido.algo.recipes.coefficients import COEFFICIENTS
from raido.algo.recipes.constants import LN2, LN2_SHORT, LOG2E, TWO_THIRDS
from raido.algo.recipes.exponential import exp_reduced, scale_any, scale_normal
from raido.algo.recipes.logarithm import split_exponent

INFINITY, NAN = float("inf"), float("nan")


def log_pair(x: Value, offset: float | Value = 0.0) -> tuple[Value, Value]:
    """The difference log(x) - offset · log 2 as a pair, for a normal x > 0."""
    k, m, _ = split_exponent(x)
    if offset:
        k = k - offset
    f = m - 1.0
    divisor, divisor_low = two_sum(x.lift(2.0), f)
    inverse = 1.0 / divisor
    s = f * inverse
    s_low = fma(-s, divisor_low, fma(-s, divisor, f)) * inverse
    z, z_low = two_product(s, s)
    z_low = fma(s + s, s_low, z_low)
    # w = s² (2/3 + s² P), the cube's and the further terms relative to s
    third, third_low = TWO_THIRDS[x.dtype]
    tail = z * polynomial(z, COEFFICIENTS["atanh_tail", x.dtype.name])
    c, c_low = two_sum(x.lift(third), tail)
    w, w_low = two_product(z, c)
    w_low = w_low + fma(z, c_low + third_low, z_low * c)
    v, v_low = two_product(s, w)
    v_low = v_low + fma(s, w_low, s_low * w)
    high, low = two_sum(s + s, v)
    low = low + fma(s_low, 2.0, v_low)
    step, step_low = LN2_SHORT[x.dtype]
    total, error = two_sum(k * step, high)
    return total, error + fma(k, step_low, low)


_NORMAL = {f32: 87.0, f64: 708.0}
_LIMIT = {f32: 120.0, f64: 800.0}  # e**this is infinite, e**-this rounds to zero


def _exp_of_pair(high: Value, low: Value) -> tuple[Value, Value]:
    """The pair `(p, shifted)`: e**(high + low) = p 2**n with n in the low bits of `shifted`."""
    shifter = format_of(high).shifter
    shifted = fma(high, LOG2E[high.dtype], shifter)
    n = shifted - shifter
    ln2, ln2_low = LN2[high.dtype]
    return exp_reduced(fma(n, -ln2, high) + fma(n, -ln2_low, low)), shifted


def _times(y: Value, high: Value, low: Value) -> tuple[Value, Value]:
    product = y * high
    return product, fma(y, low, fma(y, high, -product))


def power(x: Value, y: Value) -> Value:
    """The power x**y, with C's and NumPy's `pow` in all special cases."""
    layout = format_of(x)
    high, low = _times(y, *log_pair(x))
    p, shifted = _exp_of_pair(high, low)
    usual = is_positive_normal(x) & (abs(high) <= _NORMAL[x.dtype])

    def special() -> Value:
        size = abs(x)
        digits = layout.mantissa + 1.0
        denormal = size < layout.smallest_normal
        log_high, log_low = log_pair(where(denormal, size * 2.0**digits, size), where(denormal, x.lift(digits), 0.0))
        log_high = where(size.equals(0.0), -INFINITY, where(size.equals(INFINITY), INFINITY, log_high))
        high, low = _times(y, log_high, log_low)
        limit = _LIMIT[x.dtype]
        low = where(abs(high) <= limit, low, 0.0)
        high = where(high > limit, limit, where(high < -limit, -limit, high))
        p, shifted = _exp_of_pair(high, low)
        result = scale_any(p, shifted)
        whole = floor(y).equals(y)
        half = y * 0.5
        odd = whole & floor(half).differs(half)
        result = where((bits_of(x) < 0) & odd, -result, result)
        result = where((x < 0.0) & (x > -INFINITY) & ~whole, NAN, result)
        result = where(size.equals(1.0) & abs(y).equals(INFINITY), 1.0, result)
        result = where(x.differs(x) | y.differs(y), NAN, result)
        return where(x.equals(1.0) | y.equals(0.0), 1.0, result)

    return rare(~usual, scale_normal(p, shifted), special)


# A third of a float's bits, taken from these, are those of about the reciprocal cube root: x y³ lies on a short interval, and a
# polynomial of it corrects y. The product's factors are short: f32 multiplies 16 bits, f64 32.
_THIRD = {f32: (16, 21846, 0x54B90000), f64: (33, 2863311531, 0x5541C80000000000)}


def cbrt(x: Value) -> Value:
    """The cube root."""
    layout = format_of(x)

    def normal(size: Value, scale: float) -> Value:
        """The cube root of a normal size > 0, times `scale`, a power of two."""
        shift, third, start = _THIRD[x.dtype]
        y = (start - (bits_of(size) >> shift) * third).bitcast(x.dtype)
        y = y * polynomial((size * y) * (y * y), COEFFICIENTS["reciprocal_cbrt", x.dtype.name])
        inverse_square = y * y
        root = size * inverse_square
        square = root * root
        residual = fma(-square, root, size)
        if x.dtype is f64:
            residual = fma(-fma(root, root, -square), root, residual)
        root = fma(residual, inverse_square * (1 / 3), root)
        return root if scale == 1.0 else root * scale

    size = abs(x)

    def special() -> Value:
        tiny = normal(size * 2.0 ** (3 * layout.mantissa), 2.0**-layout.mantissa)
        return where(size.equals(0.0) | ~(size < INFINITY), x, with_sign_of(tiny, x))

    return rare(~is_positive_normal(size), with_sign_of(normal(size, 1.0), x), special)


def hypot(x: Value, y: Value) -> Value:
    """The length sqrt(x² + y²) without intermediate overflow or underflow; infinite where either is, even beside NaN."""
    layout = format_of(x)
    a, b = abs(x), abs(y)
    large = where(a < b, b, a)  # infinite or NaN where one of them is infinite
    small = where(a < b, a, b)
    square = large * large
    usual = (large > 2.0 ** (-layout.bias // 2 + layout.mantissa)) & (large < 2.0 ** (layout.bias // 2 - 1))

    def scaled() -> Value:
        factor = where(large > 1.0, x.lift(2.0 ** (-layout.bias // 2 - 2)), 2.0 ** (layout.bias // 2 + layout.mantissa))
        inverse = where(
            large > 1.0, x.lift(2.0 ** (layout.bias // 2 + 3)), 2.0 ** -(layout.bias // 2 + layout.mantissa)
        )
        p, q = large * factor, small * factor
        result = sqrt(fma(q, q, p * p)) * inverse
        return where(a.equals(INFINITY) | b.equals(INFINITY), INFINITY, result)

    return rare(~usual, sqrt(fma(small, small, square)), scaled)


def rsqrt(x: Value) -> Value:
    """The reciprocal square root 1 / sqrt(x), both operations correctly rounded."""
    return 1.0 / sqrt(x)


def ipow(x: Value, y: Value) -> Value:
    """The power x**y of integers, wrapping; a negative exponent counts as 0. One squaring for each bit of the exponent."""
    exponent = where(y < 0, 0, y) if y.dtype.kind == "i" else y
    total, square = x.lift(1), x
    for bit in range(x.dtype.bits - (x.dtype.kind == "i")):
        total = where((exponent & (1 << bit)).equals(0), total, total * square)
        square = square * square
    return total
