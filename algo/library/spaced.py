"""NumPy's arrays made by a rule, `logspace geomspace fromfunction`, and `empty empty_like copy`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from raido.algo.errors import DTypeError
from raido.algo.language import ufuncs
from raido.algo.language.making import iota
from raido.algo.language.moves import astype, named
from raido.algo.library.grids import indices
from raido.algo.library.making import linspace, zeros, zeros_like
from raido.algo.library.moving import moveaxis
from raido.algo.trace.building import structure
from raido.algo.trace.dtype_reading import read_dtype
from raido.algo.trace.locations import complaint
from raido.algo.trace.trees import is_sequence
from raido.algo.trace.value import Array

if TYPE_CHECKING:
    from raido.algo.language.parameters import DTypeLike, Shape


def logspace(
    start: Any,
    stop: Any,
    num: Any = 50,
    endpoint: bool = True,
    base: Any = 10.0,
    dtype: DTypeLike | None = None,
    axis: int = 0,
    *,
    name: str | None = None,
) -> Array:
    """The powers of `base` with the exponents `rd.linspace(start, stop, num)`.

    Example:
        >>> rd.algorithm(lambda: rd.logspace(0, 2, 3)).interpret()
        array([  1.,  10., 100.])
    """
    result = ufuncs.power(base, linspace(start, stop, num, endpoint, axis=axis))
    if dtype is not None:
        result = astype(result, dtype)
    return result if name is None else named(result, name)


def geomspace(
    start: Any,
    stop: Any,
    num: Any = 50,
    endpoint: bool = True,
    dtype: DTypeLike | None = None,
    axis: int = 0,
    *,
    name: str | None = None,
) -> Array:
    """A geometric sequence of `num` real numbers from `start` to `stop`; both of one sign, neither 0.

    DTypeError for complex ends.

    Example:
        >>> rd.algorithm(lambda: rd.geomspace(1, 1000, 4)).interpret()
        array([   1.,   10.,  100., 1000.])
    """
    first, last = ufuncs.multiply(start, 1.0), ufuncs.multiply(stop, 1.0)
    if isinstance(first, tuple) or isinstance(last, tuple):
        raise DTypeError(complaint("rd.geomspace between complex numbers", remedy="rd.exp of rd.linspace"))
    side = ufuncs.sign(first)
    powers = linspace(ufuncs.log10(first * side), ufuncs.log10(last * side), num, endpoint)
    result = ufuncs.power(10.0, powers) * side
    along = iota(num)[(slice(None), *[None] * (result.ndim - 1))]
    result = ufuncs.where(along == 0, first, result)
    if endpoint:
        result = ufuncs.where((along == num - 1) & (along > 0), last, result)
    if axis:
        result = moveaxis(result, 0, axis)
    if dtype is not None:
        result = astype(result, dtype)
    return result if name is None else named(result, name)


def fromfunction(function: Callable[..., Any], shape: Shape, *, dtype: DTypeLike = float, **kwargs: Any) -> Array:
    """The result of `function` of the index arrays of the given shape, one for each dimension, in `dtype`; see `rd.tabulate` for single
    indices.

    Example:
        >>> rd.algorithm(lambda: rd.fromfunction(lambda i, j: i + j, (2, 2), dtype=int)).interpret()
        array([[0, 1],
               [1, 2]])
    """
    grid = indices(shape, read_dtype(dtype))
    return function(*(grid[k] for k in range(len(shape) if is_sequence(shape) else 1)), **kwargs)


def empty(shape: Shape, dtype: DTypeLike | None = None, *, name: str | None = None) -> Array:
    """An array of unspecified elements, for programs that overwrite them all: `rd.zeros`, with its dtypes.

    Example:
        >>> rd.algorithm(lambda a: rd.empty(2, rd.f32).at[:].set(a)).interpret(np.float32(3))
        array([3., 3.], dtype=float32)
    """
    return zeros(shape, dtype, name=name)


def empty_like(prototype: Any, dtype: DTypeLike | None = None, *, shape: Any = None, name: str | None = None) -> Array:
    """An array of unspecified elements with the shape and the dtype of another: `rd.zeros_like`.

    Example:
        >>> rd.algorithm(lambda a: rd.empty_like(a).at[:].set(1)).interpret(np.float32([3, 1]))
        array([1., 1.], dtype=float32)
    """
    return zeros_like(prototype, dtype, shape=shape, name=name)


def copy(a: Any, *, name: str | None = None) -> Array:
    """The array itself: arrays are immutable, so no copy is needed.

    Example:
        >>> rd.algorithm(lambda a: rd.copy(a) + a).interpret(np.array([3, 1]))
        array([6, 2])
    """
    value = structure(a)
    return value if name is None else named(value, name)
