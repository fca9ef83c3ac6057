"""NumPy's functions of polynomials, given as arrays of coefficients, the highest power first."""

from __future__ import annotations

from typing import Any

from raido.algo.errors import ShapeError
from raido.algo.graph.dtypes import f64, i64, u64
from raido.algo.language import ufuncs
from raido.algo.language.combinators import tabulate
from raido.algo.language.complexes import ComplexType, complex128
from raido.algo.language.control import loop
from raido.algo.language.joining import concat, stack
from raido.algo.language.moves import astype, broadcast_to, named
from raido.algo.library.making import ones_like, zeros
from raido.algo.library.operands import numbers_of
from raido.algo.library.running import cumprod
from raido.algo.library.signals import convolve
from raido.algo.trace.building import elementwise
from raido.algo.trace.locations import complaint, plain_int
from raido.algo.trace.value import Array


def polyval(p: Any, x: Any, *, name: str | None = None) -> Array:
    """The values of a polynomial at the elements of `x`, in the common dtype; `p` are the coefficients, the highest power first.

    By W. G. Horner's rule. ShapeError for coefficients of rank above 1.

    Example:
        >>> rd.algorithm(lambda x: rd.polyval([3, 0, 1], x)).interpret(np.array([0, 5]))
        array([ 1, 76])
    """
    line, points = _line(p, "rd.polyval"), numbers_of(x, "rd.polyval")
    count = line.shape[0]

    def at(v: Any) -> Any:
        if isinstance(count, int):
            value = v * 0
            for k in range(count):
                value = value * v + line[k]
            return value
        start = v * 0 + 0 * line.dtype(0)
        return loop(count, lambda k, value: value * v + line[k], start)

    return elementwise(at, [points], name=name)


def polyadd(a1: Any, a2: Any, *, name: str | None = None) -> Array:
    """The coefficients of the sum of two polynomials: as many as the longer one has.

    Example:
        >>> rd.algorithm(lambda a: rd.polyadd(a, [1, 1])).interpret(np.array([3, 0, 1]))
        array([3, 1, 2])
    """
    x, y = _of_one_length(a1, a2, "rd.polyadd")
    return ufuncs.add(x, y, name=name)


def polysub(a1: Any, a2: Any, *, name: str | None = None) -> Array:
    """The coefficients of the difference of two polynomials: as many as the longer one has.

    Example:
        >>> rd.algorithm(lambda a: rd.polysub(a, [1, 1])).interpret(np.array([3, 0, 1]))
        array([ 3, -1,  0])
    """
    x, y = _of_one_length(a1, a2, "rd.polysub")
    return ufuncs.subtract(x, y, name=name)


def polymul(a1: Any, a2: Any, *, name: str | None = None) -> Array:
    """The coefficients of the product of two polynomials: n + m − 1, in their common dtype.

    ShapeError for coefficients of rank above 1, or none.

    Example:
        >>> rd.algorithm(lambda a: rd.polymul(a, [1, 1])).interpret(np.array([3, 0, 1]))
        array([3, 3, 1, 1])
    """
    return convolve(_line(a1, "rd.polymul"), _line(a2, "rd.polymul"), name=name)


def polyder(p: Any, m: int = 1, *, name: str | None = None) -> Array:
    """The coefficients of the m-th derivative of a polynomial: m fewer.

    Example:
        >>> rd.algorithm(lambda p: rd.polyder(p)).interpret(np.array([3, 0, 1]))
        array([6, 0])
    """
    line = _line(p, "rd.polyder")
    for _ in range(_order(m, "rd.polyder")):
        count = line.shape[0]
        if isinstance(count, int) and count == 0:
            break
        line = tabulate((count - 1,), lambda i, c=line, n=count: c[i] * i64(n - 1 - i))
    return line if name is None else named(line, name)


def polyint(p: Any, m: int = 1, k: Any = None, *, name: str | None = None) -> Array:
    """The coefficients of the m-th integral of a polynomial; the integration constants `k` are one for all, one for each integration, or 0.

    Example:
        >>> rd.algorithm(lambda p: rd.polyint(p)).interpret(np.array([6.0, 2.0]))
        array([3., 2., 0.])
    """
    times = _order(m, "rd.polyint")
    line = _line(p, "rd.polyint")
    constants = [0] * times if k is None else list(k) if isinstance(k, (list, tuple)) else [k] * times
    if len(constants) == 1:
        constants = constants * times
    if len(constants) < times:
        raise ShapeError(complaint(f"{len(constants)} constants for {times} integrations of rd.polyint"))
    for constant in constants[:times]:
        count = line.shape[0]
        inside = tabulate((count,), lambda i, c=line, n=count: c[i] / i64(n - i))
        line = concat([inside, stack([constant])])
    return line if name is None else named(line, name)


def vander(x: Any, N: Any = None, increasing: bool = False, *, name: str | None = None) -> Array:
    """The matrix whose columns are powers of the elements of a line, N of them (by default as many as elements): decreasing, or
    `increasing`.

    The dtype is i64, f64 or complex128.

    Example:
        >>> rd.algorithm(lambda x: rd.vander(x, 3)).interpret(np.array([2, 3]))
        array([[4, 2, 1],
               [9, 3, 1]])
    """
    line = astype(_line(x, "rd.vander"), _wide(numbers_of(x, "rd.vander").dtype))
    count = line.shape[0] if N is None else N
    first = ones_like(line)[:, None]
    if isinstance(count, int) and count < 2:
        powers = first[:, :count]
    else:
        powers = concat([first, cumprod(broadcast_to(line[:, None], (line.shape[0], count - 1)), 1)], 1)
    result = powers if increasing else powers[:, ::-1]
    return result if name is None else named(result, name)


def _wide(dtype: Any) -> Any:
    """The dtype of powers in NumPy: i64, f64 or complex128."""
    if isinstance(dtype, ComplexType):
        return complex128
    return f64 if dtype.is_float or dtype is u64 else i64


def _line(value: Any, what: str) -> Any:
    """The coefficients as an array of one dimension; a scalar gives one element."""
    given = numbers_of(value, what)
    if given.ndim > 1:
        raise ShapeError(complaint(f"{what} of an array of rank {given.ndim}, where one dimension is due"))
    return given if given.ndim else stack([given])


def _order(m: Any, what: str) -> int:
    times = plain_int(m, f"the order of {what}")
    if times < 0:
        raise ShapeError(complaint(f"{what} of order {times}"))
    return times


def _of_one_length(a1: Any, a2: Any, what: str) -> tuple[Any, Any]:
    """Both lines at the length of the longer one, with zeros before the shorter one."""
    lines = [_line(a, what) for a in (a1, a2)]
    longest = ufuncs.maximum(*(line.shape[0] for line in lines))
    sizes = [line.shape[0] for line in lines]
    if all(isinstance(n, int) for n in sizes):
        longest = max(sizes)

    def filled(line: Any) -> Any:
        missing = longest - line.shape[0]
        if isinstance(missing, int) and missing == 0:
            return line
        return concat([astype(zeros(missing), line.dtype), line])

    x, y = map(filled, lines)
    return x, y
