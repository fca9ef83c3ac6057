"""erf and erfc.

erf: an odd polynomial on ±1; beyond, 1 - exp(-x²) Q(1 / (x + 3)), where rounding x² does not count.
erfc: exp(-x²) (1 - u) P(u) with u = x / (x + c) for all x ≥ 0: one polynomial for the whole range, by a rational change of
variable (after Shepherd & Laframboise, Math. Comp. 36 (153), 1981, with a factor that needs no second division), x² as an
exact pair; 2 minus it for negative x. For f32 the error of every factor is carried along; for f64 that would cost a fifth of its
speed. Results that are not normal numbers take the rare path.
"""

from __future__ import annotations

from raido.algo.graph.dtypes import f32, f64
from raido.algo.recipes.builder import Value, fma, polynomial, rare, two_sum, where, with_sign_of
from raido.algo.recipes.coefficients import COEFFICIENTS
from raido.algo.recipes.exponential import exp_pair, exp_reduced, reduce_by_log2, scale_any, scale_normal

_ONE = {f32: 4.0, f64: 6.0}  # erf rounds to 1 from here on


def erf(x: Value) -> Value:
    """The error function: polynomials with 7 and 5 (f32), 13 and 11 (f64) coefficients, one exponential, one division."""
    size = abs(x)
    square = size * size
    near = fma(size, polynomial(square, COEFFICIENTS["erf", x.dtype.name]), size)
    clamped = where(size > _ONE[x.dtype], _ONE[x.dtype], size)
    shifted, r, low = reduce_by_log2(-(clamped * clamped))
    exponential = scale_normal(exp_reduced(r + low), shifted)
    tail = polynomial(1.0 / (clamped + 3.0), COEFFICIENTS["erf_tail", x.dtype.name])
    return with_sign_of(where(size < 1.0, near, fma(-exponential, tail, 1.0)), x)


_CENTRE = {f32: 2.0, f64: 3.5}
_ZERO = {f32: 10.2, f64: 27.3}  # erfc rounds to 0 from here on
_NORMAL = {f32: 9.1, f64: 26.5}


def erfc(x: Value) -> Value:
    """The complementary error function: one polynomial of degree 10 (f32), 21 (f64), one exponential, one division."""
    size = abs(x)
    size = where(size > _ZERO[x.dtype], _ZERO[x.dtype], size)
    square = size * size
    square_low = fma(size, size, -square)
    shifted, r, low = reduce_by_log2(-square)
    centre = _CENTRE[x.dtype]
    coefficients = COEFFICIENTS["erfc", x.dtype.name]
    if x.dtype is f32:  # the rounding error of every factor is carried along
        divisor, divisor_low = two_sum(x.lift(centre), size)  # exact for every size: `centre` is a power of two
        factor = centre / divisor
        factor_low = fma(-factor, divisor_low, fma(-factor, divisor, centre)) * (factor * (1.0 / centre))
        v = fma(size, factor, size * factor_low)
        p = fma(v, polynomial(v, coefficients), 1.0)
        product = factor * p
        product_low = fma(factor_low, p, fma(factor, p, -product))
        power, power_low = exp_pair(r + (low - square_low))
        scaled = fma(power, product, fma(power, product_low, power_low * product))
    else:  # powers of v would cancel; v is accurate even where 2 v / c - 1 is not
        factor = centre / (size + centre)
        p = polynomial(fma(size * factor, 2.0 / centre, -1.0), coefficients)
        scaled = exp_reduced(r + (low - square_low)) * factor * p

    def complement(tail: Value) -> Value:
        return where(x < 0.0, 2.0 - tail, tail)

    def tiny() -> Value:
        return complement(scale_any(scaled, shifted))

    return rare(~(size <= _NORMAL[x.dtype]), complement(scale_normal(scaled, shifted)), tiny)
