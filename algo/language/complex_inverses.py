"""Inverse functions of complex scalars: W. Kahan's formulas (Branch cuts for complex elementary functions, 1987), with NumPy's branch cuts.

Where |a| is so large that adding 1 has no effect, a logarithm replaces the formulas, which would overflow. Special values are those of
C99's Annex G.
"""

from __future__ import annotations

import math

from raido.algo.graph.dtypes import f32
from raido.algo.language import ufuncs
from raido.algo.language.complex_arithmetic import pair
from raido.algo.language.complex_functions import logarithm, square_root
from raido.algo.language.complex_functions import where as choose
from raido.algo.language.complexes import Complex
from raido.algo.trace.promotion import lift
from raido.algo.trace.value import Array

isnan, isinf, isfinite, copysign, absolute = (
    ufuncs.isnan,
    ufuncs.isinf,
    ufuncs.isfinite,
    ufuncs.copysign,
    ufuncs.absolute,
)


def _is_far(a: Complex) -> Array:
    """Whether 1 is less than half a unit in the last place of |a|; true for infinite parts, false for a NaN beside a finite part."""
    limit = 2.0**30 if a.real.dtype is f32 else 2.0**60
    return (absolute(a.real) > limit) | (absolute(a.imag) > limit)


def _near(a: Complex, far: Array) -> Complex:
    """Returns the number, or 1 + i where it is far, so that the formulas do not overflow."""
    return pair(choose(far, 1.0, a.real), choose(far, 1.0, a.imag))


def _log_twice(a: Complex) -> Array:
    """Returns log(2 |a|)."""
    return logarithm(a).real + math.log(2.0)


def arcsin(a: Complex) -> Complex:
    """The inverse sine."""
    far = _is_far(a)
    near = _near(a, far)
    x, y = near.real, near.imag
    minus, plus = square_root(pair(1.0 - x, -y)), square_root(pair(1.0 + x, y))
    product = minus.real * plus.real - minus.imag * plus.imag
    re = ufuncs.arctan2(x, product)
    im = ufuncs.arcsinh(minus.real * plus.imag - minus.imag * plus.real)
    re = choose(far, ufuncs.arctan2(a.real, absolute(a.imag)), re)
    im = choose(far, copysign(_log_twice(a), a.imag), im)
    nan_re, nan_im = isnan(a.real), isnan(a.imag)
    re = choose(nan_im & (a.real == 0), a.real, choose(nan_re | nan_im, math.nan, re))
    im = choose(isinf(a.imag), a.imag, _strange(a, im))
    limit = 1e-15 if a.real.dtype is f32 else 1e-30  # sin(x) = x below this
    tiny = ufuncs.maximum(absolute(a.real), absolute(a.imag)) < limit
    return pair(choose(tiny, a.real, re), choose(tiny, a.imag, im))


def _strange(a: Complex, im: Array) -> Array:
    """Returns the imaginary part corrected for operands with a NaN: infinite where the other part is infinite, else NaN."""
    other = choose(isinf(a.real), copysign(lift(math.inf), a.imag), math.nan, im)
    return choose(isnan(a.real) | isnan(a.imag), other, im)


def arccos(a: Complex) -> Complex:
    """The inverse cosine."""
    far = _is_far(a)
    near = _near(a, far)
    x, y = near.real, near.imag
    minus, plus = square_root(pair(1.0 - x, -y)), square_root(pair(1.0 + x, y))
    re = 2.0 * ufuncs.arctan2(minus.real, plus.real)
    im = ufuncs.arcsinh(plus.real * minus.imag - plus.imag * minus.real)
    re = choose(far, ufuncs.arctan2(absolute(a.imag), a.real), re)
    im = choose(far, -copysign(_log_twice(a), a.imag), im)
    nan = isnan(a.real) | isnan(a.imag)
    re = choose(isnan(a.imag) & (a.real == 0), math.pi / 2, choose(nan, math.nan, re))
    im = choose(
        nan, choose(isinf(a.imag), -a.imag, choose(isinf(a.real), -copysign(lift(math.inf), a.imag), math.nan, im)), im
    )
    return pair(re, im)


def arctanh(a: Complex) -> Complex:
    """The inverse hyperbolic tangent."""
    far = _is_far(a)
    near = _near(a, far)
    x, y = absolute(near.real), near.imag
    down = 1.0 - x
    square = y * y
    tiny = 1e-18 if a.real.dtype is f32 else 1e-150
    square = choose((down == 0) & (absolute(y) < tiny), 0.0, square)
    re = 0.25 * ufuncs.log1p(4.0 * x / (down * down + square))
    pole = (down == 0) & (absolute(y) < tiny)
    re = choose(pole, math.log(2.0) / 2 - 0.5 * ufuncs.log(absolute(y)), re)
    im = 0.5 * ufuncs.arctan2(2.0 * y, down * (1.0 + x) - y * y)
    large = ufuncs.maximum(absolute(a.real), absolute(a.imag))
    p, q = a.real / large, a.imag / large
    away = choose(isinf(a.real) | isinf(a.imag), 0.0, absolute(p) / (p * p + q * q) / large)
    re = copysign(choose(far, away, re), a.real)
    im = choose(far, copysign(lift(math.pi / 2), a.imag), im)
    nan_re, nan_im = isnan(a.real), isnan(a.imag)
    re = choose(nan_im & (a.real == 0), a.real, re)
    nothing = copysign(lift(0.0), a.real)
    re = choose(nan_re | (nan_im & (a.real != 0)), choose(isinf(a.imag) | isinf(a.real), nothing, math.nan), re)
    im = choose(nan_im | (nan_re & ~isinf(a.imag)), math.nan, im)
    return pair(re, im)


def arccosh(a: Complex) -> Complex:
    """The inverse hyperbolic cosine: ±i arccos(a), the one whose real part is not negative."""
    z = arccos(a)
    return pair(absolute(z.imag), copysign(z.real, a.imag))


def arcsinh(a: Complex) -> Complex:
    """The inverse hyperbolic sine: −i arcsin(i a)."""
    z = arcsin(pair(a.imag, a.real))
    return pair(z.imag, z.real)


def arctan(a: Complex) -> Complex:
    """The inverse tangent: −i arctanh(i a)."""
    z = arctanh(pair(a.imag, a.real))
    return pair(z.imag, z.real)


INVERSES = {
    "arcsin": arcsin,
    "arccos": arccos,
    "arctan": arctan,
    "arcsinh": arcsinh,
    "arccosh": arccosh,
    "arctanh": arctanh,
}
