"""asin, acos, atan, atan2.

asin: an odd polynomial on ±1/2; beyond, asin x = π/2 - 2 asin(sqrt((1 - x) / 2)), where (1 - x) / 2 is exact.
atan: three zones meet at 1/2 and 2; one division (y, y - x or -x by x, y + x or y) brings the argument to ±1/2, one odd
polynomial serves all (after Cody & Waite, *Software Manual for the Elementary Functions*, chapter 11). Between 1/2 and 2
the difference y - x is exact.
π/2, π/4, … are added as pairs.
"""

from __future__ import annotations

from raido.algo.recipes.builder import Value, bits_of, fma, format_of, polynomial, rare, sqrt, where, with_sign_of
from raido.algo.recipes.coefficients import COEFFICIENTS
from raido.algo.recipes.constants import HALF_PI, PI, QUARTER_PI, THREE_QUARTER_PI

INFINITY = float("inf")


def _folded_asin(size: Value) -> tuple[Value, Value, Value]:
    """The triple `(far, s, rest)`: s + rest = asin(s) with s = size, or sqrt((1 - size) / 2) where `far` (size > 1/2)."""
    far = size > 0.5
    square = where(far, fma(size, -0.5, 0.5), size * size)
    s = where(far, sqrt(square), size)
    return far, s, s * square * polynomial(square, COEFFICIENTS["asin", size.dtype.name])


def asin(x: Value) -> Value:
    """The arc sine: polynomial of degree 11 (f32), 25 (f64), one square root; π/4 + (π/4 - 2 s) keeps every partial sum small or exact."""
    high, low = QUARTER_PI[x.dtype]
    far, s, rest = _folded_asin(abs(x))
    inner = fma(s, -2.0, high) + fma(rest, -2.0, 2.0 * low)
    return with_sign_of(where(far, high, s) + where(far, inner, rest), x)


def acos(x: Value) -> Value:
    """The arc cosine: π/2 - asin x near 0, 2 asin(sqrt((1 - |x|) / 2)) or π minus it beyond 1/2."""
    layout = format_of(x)
    far, s, rest = _folded_asin(abs(x))
    v = s + rest
    negative = x < 0.0
    v = where(far, v + v, v)
    # Near 0 the term is subtracted for positive x, beyond 1/2 for negative x.
    minus = where(far, bits_of(x), bits_of(x) ^ layout.sign_bit) & layout.sign_bit
    v = (bits_of(v) ^ minus).bitcast(x.dtype)
    half, whole = HALF_PI[x.dtype], PI[x.dtype]
    base = where(far, where(negative, x.lift(whole[0]), 0.0), half[0])
    base_low = where(far, where(negative, x.lift(whole[1]), 0.0), half[1])
    return base + (v + base_low)


def _small_atan(q: Value) -> Value:
    """The arc tangent of q for |q| ≤ 1/2."""
    square = q * q
    return fma(q * square, polynomial(square, COEFFICIENTS["atan", q.dtype.name]), q)


def atan(x: Value) -> Value:
    """The arc tangent: polynomial of degree 11 (f32), 25 (f64), one division."""
    size = abs(x)
    middle, far = size > 0.5, size > 2.0
    above = where(far, -1.0, where(middle, size - 1.0, size))
    below = where(far, size, where(middle, size + 1.0, 1.0))
    half, quarter = HALF_PI[x.dtype], QUARTER_PI[x.dtype]
    base = where(far, half[0], where(middle, x.lift(quarter[0]), 0.0))
    base_low = where(far, half[1], where(middle, x.lift(quarter[1]), 0.0))
    return with_sign_of(base + (_small_atan(above / below) + base_low), x)


def atan2(y: Value, x: Value) -> Value:
    """The angle of the point (x, y), −π … π, with NumPy's signs at zeros and infinities."""
    layout = format_of(x)
    left = bits_of(x) & layout.sign_bit

    def angle(a: Value, b: Value) -> Value:
        middle, far = a + a > b, a > b + b
        above = where(far, -b, where(middle, a - b, a))
        below = where(far, a, where(middle, a + b, b))
        v = _small_atan(above / below)
        v = (bits_of(v) ^ left).bitcast(x.dtype)  # π - … on the left
        on_left = left.differs(0)

        def pick(part: int) -> Value:
            near = where(on_left, x.lift(PI[x.dtype][part]), 0.0)
            between = where(on_left, x.lift(THREE_QUARTER_PI[x.dtype][part]), QUARTER_PI[x.dtype][part])
            return where(far, HALF_PI[x.dtype][part], where(middle, between, near))

        return with_sign_of(pick(0) + (v + pick(1)), y)

    a, b = abs(y), abs(x)

    def special() -> Value:
        """The angle for zero, huge, infinite and NaN operands, scaled against overflow: an infinity counts as 1 and a finite number beside
        it as 0; (0, 0) counts as (0, 1).
        """
        infinite = a.equals(INFINITY) | b.equals(INFINITY)
        p = where(infinite, where(a.equals(INFINITY), x.lift(1.0), 0.0), a * 0.25)
        q = where(infinite, where(b.equals(INFINITY), x.lift(1.0), 0.0), b * 0.25)
        q = where(a.equals(0.0) & b.equals(0.0), 1.0, q)
        return where(x.differs(x) | y.differs(y), float("nan"), angle(p, q))

    total = a + b
    return rare(~((total > 0.0) & (total < INFINITY)), angle(a, b), special)
