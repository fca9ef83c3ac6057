"""NumPy's arrays made from sizes and scalars: `zeros ones full`, their `_like`, `arange linspace eye identity`.

None is a stage unless it is named: elements are computed where they are read. Without `dtype`, an array of Python scalars is as weak in
promotion as they are.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal, overload

from raido.algo.errors import DTypeError, ShapeError
from raido.algo.graph.dtypes import DType, computed_in, f64, i64, u64
from raido.algo.graph.size_numbers import is_size
from raido.algo.language import ufuncs
from raido.algo.language.combinators import tabulate
from raido.algo.language.complexes import Complex
from raido.algo.language.making import iota, replicate
from raido.algo.language.moves import astype, broadcast_to, convert, named
from raido.algo.library.moving import moveaxis
from raido.algo.trace.building import structure
from raido.algo.trace.dtype_reading import read_dtype
from raido.algo.trace.locations import complaint
from raido.algo.trace.promotion import common_type, lift
from raido.algo.trace.trees import leaves, map_leaves, rebuild_tuple
from raido.algo.trace.value import LITERAL, STRONG, WEAK, Array

if TYPE_CHECKING:
    from raido.algo.language.parameters import DTypeLike, Shape


def zeros(shape: Shape, dtype: DTypeLike | None = None, *, name: str | None = None) -> Array:
    """An array of zeros in `dtype`; without one, weak zeros, which take the dtype they meet and are f64 as a result.

    `shape` is an int, a size, or a tuple of them. A negative size is a ShapeError where it is an int, 0 where it is computed from sizes,
    and a SizeMismatch of the call where it is a parameter or computed from data.

    Example:
        >>> @rd.algorithm
        ... def f(n: rd.size):
        ...     return rd.zeros((2, n)), rd.zeros(n, rd.i8)
        >>> f.interpret(3)
        (array([[0., 0., 0.],
               [0., 0., 0.]]), array([0, 0, 0], dtype=int8))
    """
    return full(shape, 0.0 if dtype is None else 0, dtype, name=name)


def ones(shape: Shape, dtype: DTypeLike | None = None, *, name: str | None = None) -> Array:
    """An array of ones, with the dtypes and errors of `rd.zeros`.

    Example:
        >>> rd.algorithm(lambda a: rd.ones(a.shape) + a).interpret(np.float32([3, 1]))
        array([4., 2.], dtype=float32)
    """
    return full(shape, 1.0 if dtype is None else 1, dtype, name=name)


def full(shape: Shape, fill_value: Any, dtype: DTypeLike | None = None, *, name: str | None = None) -> Array:
    """An array filled with `fill_value`, in its dtype, or in `dtype`.

    `shape` is an int, a size, or a tuple of them; an array `fill_value` is broadcast to it, a tuple gives a tuple of arrays.
    Negative sizes are as in `rd.zeros`. DTypeError for an integer literal that `dtype` cannot hold.

    Example:
        >>> @rd.algorithm
        ... def f(n: rd.size):
        ...     return rd.full((n, 2), 7), rd.full(n, 0.5, rd.f32)
        >>> f.interpret(2)
        (array([[7, 7],
               [7, 7]]), array([0.5, 0.5], dtype=float32))
    """
    value = structure(fill_value)
    if dtype is not None:
        value = typed(value, dtype)
    if any(leaf.ndim for leaf in leaves(value)):
        return broadcast_to(value, shape, name=name)
    return replicate(tuple(shape) if isinstance(shape, list) else shape, value, name=name)


def zeros_like(a: Any, dtype: DTypeLike | None = None, *, shape: Any = None, name: str | None = None) -> Array:
    """An array of zeros with the shape and the dtype of `a`, unless `dtype` or `shape` is given.

    Example:
        >>> rd.algorithm(lambda a: rd.zeros_like(a)).interpret(np.float32([[3, 1]]))
        array([[0., 0.]], dtype=float32)
    """
    return full_like(a, 0, dtype, shape=shape, name=name)


def ones_like(a: Any, dtype: DTypeLike | None = None, *, shape: Any = None, name: str | None = None) -> Array:
    """An array of ones with the shape and the dtype of `a`, unless `dtype` or `shape` is given.

    Example:
        >>> rd.algorithm(lambda a: rd.ones_like(a, rd.bool_)).interpret(np.array([3, 1]))
        array([ True,  True])
    """
    return full_like(a, 1, dtype, shape=shape, name=name)


def full_like(
    a: Any, fill_value: Any, dtype: DTypeLike | None = None, *, shape: Any = None, name: str | None = None
) -> Array:
    """An array filled with `fill_value`, with the shape and the dtype of `a`, unless `dtype` or `shape` is given.

    The value is converted as by `.astype`, and as weak as `a` is; a tuple or a record of arrays gives the same structure. DTypeError for an
    integer literal that the dtype cannot hold.

    Example:
        >>> rd.algorithm(lambda a: rd.full_like(a, 2.9)).interpret(np.array([3, 1]))
        array([2, 2])
    """
    given = structure(a)
    if isinstance(given, tuple) and not isinstance(given, Complex):
        parts = [full_like(part, fill_value, dtype, shape=shape, name=name) for part in given]
        made: Any = rebuild_tuple(given, parts)
        return made
    wanted = given.real.extents if isinstance(given, Complex) else given.extents
    sizes = tuple(Array(extent) for extent in wanted) if shape is None else shape
    result = full(sizes, fill_value, given.dtype if dtype is None else dtype, name=name)
    if dtype is not None or given.weak == STRONG:
        return result
    return map_leaves(lambda leaf: Array(leaf.node, WEAK), result)


def typed(value: Any, dtype: DTypeLike) -> Any:
    """A scalar or an array converted to `dtype`; a scalar integer literal must fit."""
    dtype = read_dtype(dtype)
    if isinstance(dtype, DType) and isinstance(value, Array) and value.ndim == 0:
        return convert(dtype, value)
    return astype(value, dtype)


def eye(N: Any, M: Any = None, k: Any = 0, dtype: DTypeLike | None = None, *, name: str | None = None) -> Array:
    """The matrix [N, M] with ones on its k-th diagonal and zeros elsewhere; M is N where it is None, and dtypes are those of `rd.zeros`.

    `k` may be traced; it is negative for diagonals below the main one.

    Example:
        >>> rd.algorithm(lambda a: rd.eye(2, 3, k=1) * a).interpret(np.float32(4))
        array([[0., 4., 0.],
               [0., 0., 4.]], dtype=float32)
    """
    one, zero = (1.0, 0.0) if dtype is None else (typed(lift(value), dtype) for value in (1, 0))
    return tabulate((N, N if M is None else M), lambda y, x: ufuncs.where(x - y == k, one, zero), name=name)


def identity(n: Any, dtype: DTypeLike | None = None, *, name: str | None = None) -> Array:
    """The matrix [n, n] with ones on its diagonal: `rd.eye(n)`.

    Example:
        >>> rd.algorithm(lambda: rd.identity(2, rd.i32)).interpret()
        array([[1, 0],
               [0, 1]], dtype=int32)
    """
    return eye(n, dtype=dtype, name=name)


def arange(
    start: Any = None, stop: Any = None, step: Any = 1, dtype: DTypeLike | None = None, *, name: str | None = None
) -> Array:
    """The numbers start, start + step, … below `stop` (above it for a negative step); `rd.arange(n)` counts from 0.

    Bounds are ints, floats, sizes or traced scalars; for traced scalars that are not sizes, data decides the number of elements. Without
    `dtype`, Python numbers and sizes give weak i64 or f64, traced scalars i64 or f64. As in NumPy, the step is the difference of the first
    two elements in the dtype of the result. ShapeError for a step of 0, DTypeError for bounds that are not real numbers.

    Example:
        >>> @rd.algorithm
        ... def f(n: rd.size):
        ...     return rd.arange(n), rd.arange(n, -1, -2), rd.arange(0.5, 2, 0.5, dtype=rd.f32)
        >>> f.interpret(4)
        (array([0, 1, 2, 3]), array([4, 2, 0]), array([0.5, 1. , 1.5], dtype=float32))
    """
    bounds = (0, start, step) if stop is None else (start, stop, step)
    first, end, by = (_number(v, default) for v, default in zip(bounds, (0, None, 1), strict=True))
    along = iota(_steps(first, end, by))
    own, weak = common_type((first, end, by))
    if dtype is None and weak == STRONG:
        dtype = own
    if dtype is None and not own.is_float:
        counts = (_literal(first), _literal(by)) == (0, 1)
        result = along if counts else along * by + first
    else:
        first = first * 1.0 if own.is_float else first
        result = _spaced(along, first, first + by, dtype)
    return result if name is None else named(result, name)


def _number(value: Any, default: int | None) -> Array:
    """A bound of rd.arange; traced scalars as f64, i64 or u64, as NumPy counts in no narrower dtype."""
    number = structure(default if value is None and default is not None else value)
    if isinstance(number, tuple) or number.ndim:
        raise DTypeError(complaint("rd.arange takes real numbers as its bounds"))
    if number.weak != STRONG:
        return number
    return astype(number, f64 if number.dtype.is_float else u64 if number.dtype is u64 else i64)


def _literal(value: Any) -> Any:
    """The Python number of a literal; None for any other value."""
    return getattr(value.node, "value", None) if isinstance(value, Array) and value.weak == LITERAL else None


def _spaced(along: Array, first: Array, second: Array, dtype: Any) -> Array:
    """The elements at the indices `along` of the arithmetic sequence that starts with `first` and `second`; f16 (as in NumPy) and bf16 are
    computed in f32.
    """
    if dtype is None:
        return _multiples(along, second - first) + first
    first, second = typed(first, dtype), typed(second, dtype)
    kind, inside = first.dtype, computed_in(first.dtype)
    first, second = astype(first, inside), astype(second, inside)
    return astype(_multiples(astype(along, inside), second - first) + first, kind)


def _multiples(along: Array, step: Any) -> Any:
    """The products of `step`, a number or an array, and each of the numbers `along`; an array of its own, so that a sum with them is not
    fused."""
    return tabulate((*along.shape, *step.shape), lambda *p: along[p[0]] * step[p[1:]])


def _steps(start: Array, stop: Array, step: Array) -> Any:
    """The number of steps from `start` to `stop`, which is excluded."""
    values = [_literal(v) for v in (start, stop, step)]
    if values[2] == 0:
        raise ShapeError(complaint("the step of rd.arange is 0"))
    if all(isinstance(v, int) for v in values):
        return len(range(*values))
    if None not in values:
        return max(math.ceil((values[1] - values[0]) / values[2]), 0)
    if any(v.dtype.is_float for v in (start, stop, step)):
        return ufuncs.maximum(astype(ufuncs.ceil((stop - start) / step), i64), 0)
    low, high, by = (astype(v, i64) if v.weak == STRONG else v for v in (start, stop, step))
    if values[2] is None:
        count = -((low - high) // by)
    elif values[2] > 0:
        count = (high - low + (values[2] - 1)) // values[2]
    else:
        count = (low - high - (values[2] + 1)) // -values[2]
    return count if is_size(count.node) else ufuncs.maximum(count, 0)


@overload
def linspace(
    start: Any,
    stop: Any,
    num: Any = 50,
    endpoint: bool = True,
    retstep: Literal[False] = False,
    dtype: DTypeLike | None = None,
    axis: int = 0,
    *,
    name: str | None = None,
) -> Array: ...
@overload
def linspace(
    start: Any,
    stop: Any,
    num: Any = 50,
    endpoint: bool = True,
    *,
    retstep: Literal[True],
    dtype: DTypeLike | None = None,
    axis: int = 0,
    name: str | None = None,
) -> tuple[Array, Array]: ...
def linspace(
    start: Any,
    stop: Any,
    num: Any = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: DTypeLike | None = None,
    axis: int = 0,
    *,
    name: str | None = None,
) -> Any:
    """An array of `num` evenly spaced numbers from `start` to `stop`, which is included with `endpoint`; with `retstep`, the step as well.

    `num` is an int or a size; bounds are scalars or arrays that broadcast, and `axis` is the position of the new dimension. For Python
    numbers the dtype is weak f64, for f32 f32, for integers f64; an integer `dtype` rounds down. A
    negative `num` is treated as a size in `rd.zeros`.

    Example:
        >>> rd.algorithm(lambda: rd.linspace(0, 1, 5)).interpret()
        array([0.  , 0.25, 0.5 , 0.75, 1.  ])
    """
    low, high = ufuncs.multiply(start, 1.0), ufuncs.multiply(stop, 1.0)
    along = iota(num)
    parts = num - 1 if endpoint else num
    delta = high - low
    step = delta / (max(parts, 1) if isinstance(parts, int) else ufuncs.maximum(parts, 1))
    if isinstance(parts, int) and _literal(step) == 0:
        result = _multiples(along / max(parts, 1), delta) + low
    else:
        result = _multiples(along, step) + low
    if endpoint and not (isinstance(num, int) and num < 2):
        last = (along == parts) & (along > 0)
        result = ufuncs.where(last[(slice(None), *[None] * delta.ndim)], high, result)
    if axis:
        result = moveaxis(result, 0, axis)
    if dtype is not None:
        kind = read_dtype(dtype)
        result = astype(ufuncs.floor(result) if kind.is_integer else result, kind)
    result = result if name is None else named(result, name)
    if not retstep:
        return result
    if isinstance(parts, int):
        return result, step if parts > 0 else step * math.nan
    return result, ufuncs.where(ufuncs.greater(parts, 0), step, math.nan)
