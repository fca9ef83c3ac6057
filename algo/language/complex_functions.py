"""Arithmetic and functions of complex numbers, on scalars; `ufuncs` applies them to arrays.

Division is Smith's, as NumPy's: the parts of the larger side are scaled by their ratio, so that squares do not overflow. (Robert L.
Smith, Algorithm 116: Complex division, CACM 5(8), 1962.) There is no ordering.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from raido.algo.errors import DTypeError
from raido.algo.graph.dtypes import f64
from raido.algo.graph.expr import Const
from raido.algo.language import ufuncs
from raido.algo.language.complexes import Complex, as_complex
from raido.algo.trace.building import elementwise
from raido.algo.trace.locations import complaint
from raido.algo.trace.promotion import common_type, lift
from raido.algo.trace.scalars import cast, select
from raido.algo.trace.value import LITERAL, Array


def function_of(name: str) -> Callable[..., Any]:
    """NumPy's function of that name on complex scalars; DTypeError where it has no meaning for them."""
    if name in ("where", "power"):
        return _where if name == "where" else _power
    function = _FUNCTIONS.get(name)
    if function is None:
        why = "complex numbers have no order" if name in _ORDERINGS else None
        raise DTypeError(complaint(f"rd.{name} of complex numbers", why=why, remedy="rd.abs, .real or .imag"))
    return lambda *values: function(*_alike(values))


_ORDERINGS = ("less", "less_equal", "greater", "greater_equal", "minimum", "maximum", "fmin", "fmax", "sign")


def _alike(values: tuple[Any, ...]) -> list[Complex]:
    """The numbers as complex ones whose parts have one float type."""
    numbers = [as_complex(v) for v in values]
    dtype, weak = common_type([part for z in numbers for part in z])
    if not dtype.is_float:
        dtype = f64
    return [Complex._make(Array(cast(part, dtype), weak) for part in z) for z in numbers]


def _pair(re: Any, im: Any) -> Complex:
    return Complex._make((re, im))


def _add(a: Complex, b: Complex) -> Complex:
    return _pair(a.real + b.real, a.imag + b.imag)


def _subtract(a: Complex, b: Complex) -> Complex:
    return _pair(a.real - b.real, a.imag - b.imag)


def _multiply(a: Complex, b: Complex) -> Complex:
    return _pair(a.real * b.real - a.imag * b.imag, a.real * b.imag + a.imag * b.real)


def _divide(a: Complex, b: Complex) -> Complex:
    first = ufuncs.absolute(b.real) >= ufuncs.absolute(b.imag)
    large, small = ufuncs.where(first, b.real, b.imag), ufuncs.where(first, b.imag, b.real)
    ratio = small / large
    scale = large + small * ratio
    x, y = ufuncs.where(first, a.real, a.imag), ufuncs.where(first, a.imag, a.real)
    im = y - x * ratio
    return _pair((x + y * ratio) / scale, ufuncs.where(first, im, -im) / scale)


def _exp(a: Complex) -> Complex:
    size = ufuncs.exp(a.real)
    return _pair(size * ufuncs.cos(a.imag), size * ufuncs.sin(a.imag))


def _power(a: Any, b: Any) -> Complex:
    """Whole literal exponents, by repeated squaring."""
    exponent = b.node if isinstance(b, Array) and b.weak == LITERAL else None
    if not isinstance(exponent, Const) or exponent.value != int(exponent.value):
        raise DTypeError(complaint("a complex power", why="exponents are whole literals", remedy="z * z, or rd.exp"))
    count = int(exponent.value)
    one, base = _alike((lift(1), a))
    result = one
    left = abs(count)
    while left:
        if left & 1:
            result = base if result is one else _multiply(result, base)
        base = _multiply(base, base)
        left >>= 1
    return _divide(one, result) if count < 0 else result


def _where(condition: Any, a: Any, b: Any) -> Complex:
    x, y = _alike((a, b))
    return _pair(*(select(condition, p, q) for p, q in zip(x, y, strict=True)))


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "add": _add,
    "subtract": _subtract,
    "multiply": _multiply,
    "divide": _divide,
    "negative": lambda a: _pair(-a.real, -a.imag),
    "positive": lambda a: a,
    "absolute": lambda a: ufuncs.hypot(a.real, a.imag),
    "exp": _exp,
    "square": lambda a: _multiply(a, a),
    "reciprocal": lambda a: _divide(*_alike((as_complex(lift(1)), a))),
    "equal": lambda a, b: (a.real == b.real) & (a.imag == b.imag),
    "not_equal": lambda a, b: (a.real != b.real) | (a.imag != b.imag),
    "isnan": lambda a: ufuncs.isnan(a.real) | ufuncs.isnan(a.imag),
    "isinf": lambda a: ufuncs.isinf(a.real) | ufuncs.isinf(a.imag),
    "isfinite": lambda a: ufuncs.isfinite(a.real) & ufuncs.isfinite(a.imag),
}


def conj(z: Any, *, name: str | None = None) -> Any:
    """The complex conjugate, element by element; a real number is its own.

    Example:
        >>> import numpy as np, raido as rd
        >>> @rd.algorithm
        ... def power(z: rd.complex64["n"]):
        ...     return (z * rd.conj(z)).real
        >>> power.interpret(np.array([3 + 4j], np.complex64))
        array([25.], dtype=float32)
    """
    change = lambda a: _pair(a.real, -a.imag) if isinstance(a, Complex) else a
    return elementwise(change, [z], name=name)


def real(z: Any, *, name: str | None = None) -> Any:
    """The real part, element by element.

    Example:
        >>> rd.algorithm(lambda z: rd.real(z)).interpret(np.array([1 + 2j]))
        array([1.])
    """
    return elementwise(lambda a: as_complex(a).real, [z], name=name)


def imag(z: Any, *, name: str | None = None) -> Any:
    """The imaginary part, element by element; of a real number 0.

    Example:
        >>> rd.algorithm(lambda z: rd.imag(z)).interpret(np.array([1 + 2j]))
        array([2.])
    """
    zero = lambda a: Array(cast(lift(0), a.dtype))
    return elementwise(lambda a: a.imag if isinstance(a, Complex) else zero(a), [z], name=name)
