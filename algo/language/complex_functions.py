"""Functions of complex scalars, with the special values of C99's Annex G, as in NumPy; `ufuncs` applies them to arrays.

Results are within a few units in the last place of the number's magnitude (docs/math.md), not of each part, as sums in the parts cancel.
Where e^|x| overflows but its product with a sine does not, a constant factor is split off first. There is no ordering.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from raido.algo.errors import DTypeError
from raido.algo.graph.dtypes import f32
from raido.algo.graph.expr import Const, const
from raido.algo.language import complex_arithmetic as arithmetic
from raido.algo.language import ufuncs
from raido.algo.language.complex_arithmetic import multiply, pair, scaled
from raido.algo.language.complexes import NO_ORDER, Complex, as_complex, of_one_type
from raido.algo.language.pure import universal
from raido.algo.trace.building import elementwise
from raido.algo.trace.locations import complaint
from raido.algo.trace.promotion import lift
from raido.algo.trace.scalars import cast, select, without_bools
from raido.algo.trace.value import LITERAL, Array

isnan, isinf, isfinite = ufuncs.isnan, ufuncs.isinf, ufuncs.isfinite
copysign, absolute = ufuncs.copysign, ufuncs.absolute


def function_of(name: str) -> Callable[..., Any]:
    """Returns NumPy's function of that name on complex scalars; raises `DTypeError` where it is not defined for them."""
    if name in ("where", "power"):
        return _where if name == "where" else _power
    from raido.algo.language.complex_inverses import INVERSES

    function = _FUNCTIONS.get(name) or INVERSES.get(name)
    if function is None:
        why = NO_ORDER if name in _ORDERINGS else None
        raise DTypeError(complaint(f"rd.{name} of complex numbers", why=why, remedy="rd.abs, .real or .imag"))
    return lambda *values: function(*of_one_type(values))


_ORDERINGS = ("less", "less_equal", "greater", "greater_equal", "minimum", "maximum", "fmin", "fmax", "clip")


def where(test: Any, a: Array | float, b: Array | float, like: Array | None = None) -> Array:
    """Returns a selection whose literals take the type of the other value, or of `like`: two literals alone would be f64."""
    own = next((v for v in (like, a, b) if isinstance(v, Array)), None)
    assert own is not None
    return ufuncs.where(test, *(v if isinstance(v, Array) else Array(const(own.dtype, v), own.weak) for v in (a, b)))


def _is_f32(a: Complex) -> bool:
    return a.real.dtype is f32


def _without_overflow(x: Array, narrow: bool) -> tuple[Array, Callable[[Array], Array]]:
    """Returns a number whose exponential does not overflow, and a function that multiplies by the factor by which the exponential is too
    small.

    Valid for x up to about 2.4 times the threshold of overflow.
    """
    limit, shift = (80.0, 60.0) if narrow else (700.0, 500.0)  # e**88.7, e**709.8: the largest finite f32, f64
    factor = math.exp(shift)
    once, twice = x > limit, x > limit + shift
    less = where(twice, x - 2 * shift, where(once, x - shift, x))

    def restored(value: Array) -> Array:
        return value * where(once, factor, 1.0, x) * where(twice, factor, 1.0, x)

    return less, restored


def _exp(a: Complex) -> Complex:
    x, y = a.real, a.imag
    less, restored = _without_overflow(x, _is_f32(a))
    size = ufuncs.exp(less)
    re, im = restored(size * ufuncs.cos(y)), restored(size * ufuncs.sin(y))
    strange = isinf(x) & ~isfinite(y)
    re = where(strange, where(x > 0, x, 0.0), re)
    return pair(re, where(y == 0, y, where(strange & (x < 0), copysign(lift(0.0), y), im)))


def logarithm(a: Complex) -> Complex:
    """Returns the logarithm: where the larger part is near 1, from log1p of (large − 1)(large + 1) + small², else from log |a|.

    |a| is scaled by a power of two where it would overflow or become subnormal.
    """
    x, y = absolute(a.real), absolute(a.imag)
    large, small = ufuncs.maximum(x, y), ufuncs.minimum(x, y)
    near = (large > 0.5) & (large < 1.5) & (small < 1.0)
    close = 0.5 * ufuncs.log1p((large - 1.0) * (large + 1.0) + small * small)
    down, up, shift = (2.0**-4, 2.0**64, 64) if _is_f32(a) else (2.0**-4, 2.0**256, 256)
    huge, tiny = large > up, large < 1 / up
    factor = where(tiny, up, where(huge, down, 1.0, x))
    taken = where(tiny, -shift * math.log(2.0), where(huge, 4 * math.log(2.0), 0.0, x))
    far = ufuncs.log(ufuncs.hypot(a.real * factor, a.imag * factor)) + taken
    return pair(where(near, close, far), ufuncs.arctan2(a.imag, a.real))


def _times(function: Callable[[Complex], Complex], factor: float) -> Callable[[Complex], Complex]:
    return lambda a: scaled(function(a), factor)


def square_root(a: Complex) -> Complex:
    """Returns the square root, from √((|x| + |a|) / 2); the parts are scaled by a power of four first where the sum would overflow or lose
    bits."""
    x, y = a.real, a.imag
    large = ufuncs.maximum(absolute(x), absolute(y))
    big, least = (2.0**125, 2.0**-100) if _is_f32(a) else (2.0**1021, 2.0**-900)
    up = 2.0**48 if _is_f32(a) else 2.0**400
    factor = where(large >= big, 2.0**-4, where(large < least, up, 1.0, x))
    back = where(large >= big, 2.0**2, where(large < least, math.sqrt(1 / up), 1.0, x))
    u, v = absolute(x) * factor, y * factor
    size = ufuncs.sqrt(0.5 * u + 0.5 * ufuncs.hypot(u, v))
    other = v / (2.0 * size)
    re, im = where(x >= 0, size, absolute(other)) * back, where(x >= 0, other, copysign(size, y)) * back
    zero = (x == 0) & (y == 0)
    endless = isinf(x)
    re = where(isinf(y), absolute(y), where(endless, where(x > 0, x, where(isnan(y), y, 0.0)), where(zero, 0.0, re)))
    far = where(x > 0, where(isnan(y), y, copysign(lift(0.0), y)), copysign(x, y))
    return pair(re, where(isinf(y), y, where(endless, far, where(zero, y, im))))


def _sinh(a: Complex) -> Complex:
    x, y = a.real, a.imag
    less, restored = _without_overflow(absolute(x), _is_f32(a))
    re = restored(copysign(ufuncs.sinh(less), x) * ufuncs.cos(y))
    im = restored(ufuncs.cosh(less) * ufuncs.sin(y))
    alone = ~isfinite(y) & ((x == 0) | isinf(x))
    return pair(where(alone, where(x == 0, x, absolute(x)), re), where(y == 0, y, im))


def _cosh(a: Complex) -> Complex:
    x, y = a.real, a.imag
    less, restored = _without_overflow(absolute(x), _is_f32(a))
    re = restored(ufuncs.cosh(less) * ufuncs.cos(y))
    im = restored(copysign(ufuncs.sinh(less), x) * ufuncs.sin(y))
    re = where(isinf(x) & ~isfinite(y), absolute(x), re)
    nothing = copysign(lift(0.0), x) * copysign(lift(1.0), y)
    nothing = where(isnan(x), y, where(isfinite(y), nothing, 0.0))
    return pair(re, where((x == 0) | (y == 0), nothing, im))


def _tanh(a: Complex) -> Complex:
    """Returns the hyperbolic tangent by W. Kahan's formula (Branch cuts for complex elementary functions, 1987).

    For large |x|, where the formula overflows, the result is its limit.
    """
    x, y = a.real, a.imag
    limit = 11.0 if _is_f32(a) else 22.0  # e**-2|x| is less than half a unit in the last place of 1
    far = absolute(x) >= limit
    inside = where(far, limit, x)
    tangent, s = ufuncs.tan(y), ufuncs.sinh(inside)
    beta = 1.0 + tangent * tangent
    below = 1.0 + beta * s * s
    re, im = beta * ufuncs.sqrt(1.0 + s * s) * s / below, tangent / below
    small = ufuncs.exp(ufuncs.negative(absolute(x)))
    rest = 4.0 * ufuncs.sin(y) * ufuncs.cos(y) * small * small
    rest = where(isinf(x) & ~isfinite(y), 0.0, rest)
    far = far & (isfinite(y) | isinf(x))
    re = where(far, copysign(lift(1.0), x), where((x == 0) & ~isfinite(y), x, re))
    return pair(re, where(far, rest, where((y == 0) & isnan(x), y, im)))


def _rotated(function: Callable[[Complex], Complex]) -> Callable[[Complex], Complex]:
    """Returns the function −i f(i a), by f(conj(z)) = conj(f(z)): sine and tangent from the hyperbolic ones."""

    def apply(a: Complex) -> Complex:
        z = function(pair(a.imag, a.real))
        return pair(z.imag, z.real)

    return apply


def _expm1(a: Complex) -> Complex:
    half = ufuncs.sin(a.imag * 0.5)
    re = ufuncs.expm1(a.real) * ufuncs.cos(a.imag) - 2.0 * half * half
    return pair(re, ufuncs.exp(a.real) * ufuncs.sin(a.imag))


def _log1p(a: Complex) -> Complex:
    more = a.real + 1.0
    return pair(ufuncs.log(ufuncs.hypot(more, a.imag)), ufuncs.arctan2(a.imag, more))


def _sign(a: Complex) -> Complex:
    """Returns a / |a|; where |a| overflows, as in NumPy, the direction of the infinite part, or else of the imaginary one."""
    x, y = a.real, a.imag
    size = ufuncs.hypot(x, y)
    infinite, both = isinf(x), isinf(x) & isinf(y)
    re = where(both, math.nan, where(infinite, copysign(lift(1.0), x), 0.0, x))
    im = where(both, math.nan, where(infinite, 0.0, copysign(lift(1.0), y), y))
    zero = size == 0
    return pair(where(zero, 0.0, where(isinf(size), re, x / size)), where(zero, 0.0, where(isinf(size), im, y / size)))


def _power(a: Any, b: Any) -> Complex:
    """Returns a to the power b: for integer literals below 100 in magnitude by repeated squaring, as NumPy does; else e^(b log a).

    The literals 0.5 and −1 are the square root and the reciprocal.
    """
    exponent = b.node if isinstance(b, Array) and b.weak == LITERAL else None
    if isinstance(exponent, Const):
        if exponent.value == 0.5:
            return square_root(*of_one_type((a,)))
        if exponent.value == -1:
            return arithmetic.reciprocal(*of_one_type((a,)))
        if exponent.value == int(exponent.value) and abs(exponent.value) < 100:
            return arithmetic.whole_power(of_one_type((a, b))[0], int(exponent.value))
    base, power = of_one_type((a, b))
    result = _exp(multiply(power, logarithm(base)))
    nothing, none = ~arithmetic.truth(base), ~arithmetic.truth(power)
    valid = (power.real > 0) & (power.imag == 0)
    of_zero = where(valid, 0.0, math.nan, base.real)
    re = where(none, 1.0, where(nothing, of_zero, result.real))
    return pair(re, where(none, 0.0, where(nothing, of_zero, result.imag)))


def _where(condition: Any, a: Any, b: Any) -> Any:
    test = arithmetic.truth(condition) if isinstance(condition, Complex) else condition
    if not isinstance(a, Complex) and not isinstance(b, Complex):
        return select(test, a, b)
    x, y = of_one_type((a, b))
    return pair(select(test, x.real, y.real), select(test, x.imag, y.imag))


def _logical(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *values: function(*(arithmetic.truth(v) for v in values))


def _of_parts(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda a: pair(function(a.real), function(a.imag))


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "add": arithmetic.add,
    "subtract": arithmetic.subtract,
    "multiply": multiply,
    "divide": arithmetic.divide,
    "negative": _of_parts(ufuncs.negative),
    "positive": lambda a: a,
    "absolute": lambda a: ufuncs.hypot(a.real, a.imag),
    "square": lambda a: multiply(a, a),
    "reciprocal": arithmetic.reciprocal,
    "sign": _sign,
    "rint": _of_parts(ufuncs.rint),
    "equal": arithmetic.equal,
    "not_equal": arithmetic.not_equal,
    "isnan": lambda a: isnan(a.real) | isnan(a.imag),
    "isinf": lambda a: isinf(a.real) | isinf(a.imag),
    "isfinite": lambda a: isfinite(a.real) & isfinite(a.imag),
    "logical_not": _logical(ufuncs.logical_not),
    "logical_and": _logical(ufuncs.logical_and),
    "logical_or": _logical(ufuncs.logical_or),
    "logical_xor": _logical(ufuncs.logical_xor),
    "exp": _exp,
    "exp2": lambda a: _exp(scaled(a, math.log(2.0))),
    "expm1": _expm1,
    "log": logarithm,
    "log2": _times(logarithm, 1 / math.log(2.0)),
    "log10": _times(logarithm, 1 / math.log(10.0)),
    "log1p": _log1p,
    "sqrt": square_root,
    "sinh": _sinh,
    "cosh": _cosh,
    "tanh": _tanh,
    "sin": _rotated(_sinh),
    "cos": lambda a: _cosh(pair(-a.imag, a.real)),
    "tan": _rotated(_tanh),
}


@universal
def conj(x: Any, *, name: str | None = None) -> Array:
    """The complex conjugate, element by element; real numbers are unchanged.

    Example:
        >>> import numpy as np, raido as rd
        >>> @rd.algorithm
        ... def power(z: rd.complex64["n"]):
        ...     return (z * rd.conj(z)).real
        >>> power.interpret(np.array([3 + 4j], np.complex64))
        array([25.], dtype=float32)
    """
    change = lambda a: pair(a.real, -a.imag) if isinstance(a, Complex) else without_bools((a,))[0]
    return elementwise(change, [x], name=name)


def real(val: Any, *, name: str | None = None) -> Array:
    """The real part, element by element.

    Example:
        >>> rd.algorithm(lambda z: rd.real(z)).interpret(np.array([1 + 2j]))
        array([1.])
    """
    return elementwise(lambda a: as_complex(a).real, [val], name=name)


def imag(val: Any, *, name: str | None = None) -> Array:
    """The imaginary part, element by element; 0 for real numbers.

    Example:
        >>> rd.algorithm(lambda z: rd.imag(z)).interpret(np.array([1 + 2j]))
        array([2.])
    """
    zero = lambda a: Array(cast(lift(0), a.dtype))
    return elementwise(lambda a: a.imag if isinstance(a, Complex) else zero(a), [val], name=name)


def angle(z: Any, deg: bool = False, *, name: str | None = None) -> Array:
    """The angle of each number from the positive real axis, in radians, or in degrees for `deg=True`; 0 or π for real numbers.

    Example:
        >>> rd.algorithm(lambda z: rd.angle(z, deg=True)).interpret(np.array([1j, -1 + 0j]))
        array([ 90., 180.])
    """

    def of(a: Any) -> Array:
        radians = ufuncs.arctan2(a.imag, a.real) if isinstance(a, Complex) else ufuncs.arctan2(0, a)
        return radians * (180 / math.pi) if deg else radians

    return elementwise(of, [z], name=name)
