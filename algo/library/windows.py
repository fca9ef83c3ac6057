"""NumPy's window functions `bartlett blackman hamming hanning kaiser`, with the Bessel function `i0` that Kaiser's needs, and `sinc`.

A window depends on its size alone, so it is weak in promotion: beside f32 it is f32, computed in f64 and rounded once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from raido.algo.language import ufuncs
from raido.algo.language.combinators import tabulate
from raido.algo.library.operands import numbers_of
from raido.algo.trace.building import elementwise
from raido.algo.trace.value import Array
from raido.algo.trace.weak import in_floats

# S. L. Moshier, Cephes: Chebyshev coefficients of exp(-x)·I0(x) on [0, 8], and of exp(-x)·sqrt(x)·I0(x) on [8, inf]
_NEAR = (
    -4.41534164647933937950e-18,
    3.33079451882223809783e-17,
    -2.43127984654795469359e-16,
    1.71539128555513303061e-15,
    -1.16853328779934516808e-14,
    7.67618549860493561688e-14,
    -4.85644678311192946090e-13,
    2.95505266312963983461e-12,
    -1.72682629144155570723e-11,
    9.67580903537323691224e-11,
    -5.18979560163526290666e-10,
    2.65982372468238665035e-9,
    -1.30002500998624804212e-8,
    6.04699502254191894932e-8,
    -2.67079385394061173391e-7,
    1.11738753912010371815e-6,
    -4.41673835845875056359e-6,
    1.64484480707288970893e-5,
    -5.75419501008210370398e-5,
    1.88502885095841655729e-4,
    -5.76375574538582365885e-4,
    1.63947561694133579842e-3,
    -4.32430999505057594430e-3,
    1.05464603945949983183e-2,
    -2.37374148058994688156e-2,
    4.93052842396707084878e-2,
    -9.49010970480476444210e-2,
    1.71620901522208775349e-1,
    -3.04682672343198398683e-1,
    6.76795274409476084995e-1,
)
_FAR = (
    -7.23318048787475395456e-18,
    -4.83050448594418207126e-18,
    4.46562142029675999901e-17,
    3.46122286769746109310e-17,
    -2.82762398051658348494e-16,
    -3.42548561967721913462e-16,
    1.77256013305652638360e-15,
    3.81168066935262242075e-15,
    -9.55484669882830764870e-15,
    -4.15056934728722208663e-14,
    1.54008621752140982691e-14,
    3.85277838274214270114e-13,
    7.18012445138366623367e-13,
    -1.79417853150680611778e-12,
    -1.32158118404477131188e-11,
    -3.14991652796324136454e-11,
    1.18891471078464383424e-11,
    4.94060238822496958910e-10,
    3.39623202570838634515e-9,
    2.26666899049817806459e-8,
    2.04891858946906374183e-7,
    2.89137052083475648297e-6,
    6.88975834691682398426e-5,
    3.36911647825569408990e-3,
    8.04490411014108831608e-1,
)


def bartlett(M: Any, *, name: str | None = None) -> Array:
    """The triangular window of `M` elements, an int or a size: 0 at both ends, 1 in the middle.

    Example:
        >>> rd.algorithm(lambda: rd.bartlett(5)).interpret()
        array([0. , 0.5, 1. , 0.5, 0. ])
    """
    return _window(M, lambda x: 1.0 - ufuncs.absolute(x), name)


def blackman(M: Any, *, name: str | None = None) -> Array:
    """The window 0.42 + 0.5·cos(πx) + 0.08·cos(2πx) of `M` elements, x from −1 to 1.

    Example:
        >>> rd.algorithm(lambda: rd.round(rd.blackman(5), 2)).interpret()
        array([-0.  ,  0.34,  1.  ,  0.34, -0.  ])
    """
    return _window(M, lambda x: 0.42 + 0.5 * ufuncs.cos(math.pi * x) + 0.08 * ufuncs.cos(2.0 * math.pi * x), name)


def hamming(M: Any, *, name: str | None = None) -> Array:
    """The window 0.54 + 0.46·cos(πx) of `M` elements, x from −1 to 1.

    Example:
        >>> rd.algorithm(lambda: rd.round(rd.hamming(5), 2)).interpret()
        array([0.08, 0.54, 1.  , 0.54, 0.08])
    """
    return _window(M, lambda x: 0.54 + 0.46 * ufuncs.cos(math.pi * x), name)


def hanning(M: Any, *, name: str | None = None) -> Array:
    """The window 0.5 + 0.5·cos(πx) of `M` elements, x from −1 to 1.

    Example:
        >>> rd.algorithm(lambda: rd.round(rd.hanning(5), 2)).interpret()
        array([0. , 0.5, 1. , 0.5, 0. ])
    """
    return _window(M, lambda x: 0.5 + 0.5 * ufuncs.cos(math.pi * x), name)


def kaiser(M: Any, beta: Any, *, name: str | None = None) -> Array:
    """The window I0(β·√(1 − x²)) / I0(β) of `M` elements, x from −1 to 1, for a scalar `beta`.

    Example:
        >>> rd.algorithm(lambda: rd.round(rd.kaiser(5, 2.0), 2)).interpret()
        array([0.44, 0.83, 1.  , 0.83, 0.44])
    """
    return _window(M, lambda x: _bessel(beta * ufuncs.sqrt(1.0 - x * x)) / _bessel(beta * 1.0), name)


def _window(size: Any, function: Callable[[Any], Any], name: str | None) -> Array:
    """The array of a function of x at `size` points from −1 to 1 in equal steps; for one element, at x = 0."""
    count = max(size, 0) if isinstance(size, int) else size
    intervals = max(count - 1, 1) if isinstance(count, int) else ufuncs.maximum(count - 1, 1)
    return tabulate((count,), lambda i: function((2 * i + 1 - count) / intervals), name=name)


def i0(x: Any, *, name: str | None = None) -> Array:
    """The modified Bessel function of the first kind, order 0, of each element, in the dtype of floats, f64 for integers.

    Example:
        >>> rd.algorithm(lambda a: rd.i0(a)).interpret(np.array([0.0, 1.0]))
        array([1.        , 1.26606588])
    """
    return elementwise(_bessel, [in_floats(numbers_of(x, "rd.i0"))], name=name)


def _bessel(x: Any) -> Any:
    size = ufuncs.absolute(x)
    near = _chebyshev(size / 2.0 - 2.0, _NEAR)
    far = _chebyshev(32.0 / ufuncs.maximum(size, 8.0) - 2.0, _FAR) / ufuncs.sqrt(ufuncs.maximum(size, 8.0))
    return ufuncs.exp(size) * ufuncs.where(size <= 8.0, near, far)


def _chebyshev(x: Any, coefficients: Sequence[float]) -> Any:
    """The value at x of a Chebyshev series, by C. W. Clenshaw's recurrence (A note on the summation of Chebyshev series, 1955)."""
    before: Any = 0.0
    now: Any = coefficients[0]
    last: Any = 0.0
    for value in coefficients[1:]:
        last, before, now = before, now, x * now - before + value
    return 0.5 * (now - last)


def sinc(x: Any, *, name: str | None = None) -> Array:
    """The function sin(πx) / (πx) of each element, 1 at 0: in the dtype of floats and complex numbers, f64 for integers.

    Example:
        >>> rd.algorithm(lambda a: rd.sinc(a)).interpret(np.array([0.0, 0.5]))
        array([1.        , 0.63661977])
    """

    def at(v: Any) -> Any:
        angle = ufuncs.where(v == 0, 1e-20, v) * math.pi
        return ufuncs.sin(angle) / angle

    return elementwise(at, [_floats(numbers_of(x, "rd.sinc"))], name=name)


def _floats(value: Any) -> Any:
    return in_floats(value) if isinstance(value, Array) else value
