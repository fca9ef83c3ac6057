"""NumPy's index moves: `moveaxis squeeze ravel flip fliplr flipud rot90 tile`, and `atleast_1d` and the others.

None copies an element unless it is named. `rd.swapaxes`, `rd.expand_dims` and similar moves are in the language.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, overload

from raido.algo.errors import ShapeError
from raido.algo.language.combinators import extent_of
from raido.algo.language.moves import (
    array_of,
    broadcast_to,
    column_major,
    expand_dims,
    flatten,
    leaf_by_leaf,
    named,
    normal_axis,
    reshape,
    transpose,
)
from raido.algo.language.reductions import normal_axes
from raido.algo.trace.building import owner, structure
from raido.algo.trace.existential import joined_size
from raido.algo.trace.locations import complaint, plain_int
from raido.algo.trace.trees import is_sequence
from raido.algo.trace.value import Array

if TYPE_CHECKING:
    from raido.algo.language.parameters import Axes


@leaf_by_leaf
def moveaxis(a: Any, source: Any, destination: Any, *, name: str | None = None) -> Array:
    """The array with the axes `source` (an int or a tuple) moved to the positions `destination`; the others keep their order.

    ShapeError for axes out of range or repeated, or different numbers of axes and positions.

    Example:
        >>> rd.algorithm(lambda a: rd.moveaxis(a, 0, -1)).interpret(np.array([[1, 2, 3], [4, 5, 6]]))
        array([[1, 4],
               [2, 5],
               [3, 6]])
    """
    array = array_of(a, "rd.moveaxis")
    sources, targets = (_positions(axes, array.ndim) for axes in (source, destination))
    if len(sources) != len(targets):
        raise ShapeError(complaint(f"rd.moveaxis of {len(sources)} axes to {len(targets)} places"))
    order = [k for k in range(array.ndim) if k not in sources]
    for target, axis in sorted(zip(targets, sources, strict=True)):
        order.insert(target, axis)
    return transpose(array, order, name=name)


def _positions(axes: Any, rank: int) -> list[int]:
    chosen = [normal_axis(k, rank) for k in (axes if is_sequence(axes) else (axes,))]
    if len(set(chosen)) != len(chosen):
        raise ShapeError(complaint(f"an axis is named twice in {axes}"))
    return chosen


@leaf_by_leaf
def squeeze(a: Any, axis: Axes = None, *, name: str | None = None) -> Array:
    """The array without the dimensions of size 1: those in `axis` (an int or a tuple), or all whose size is the literal 1.

    ShapeError for a dimension of another literal size; a symbolic size is checked to be 1 at the call.

    Example:
        >>> rd.algorithm(lambda a: rd.squeeze(a[None, :, None], axis=2)).interpret(np.array([3, 1]))
        array([[3, 1]])
    """
    array = array_of(a, "rd.squeeze")
    sizes = array.shape
    if axis is None:
        chosen = [k for k, n in enumerate(sizes) if isinstance(n, int) and n == 1]
    else:
        chosen = list(normal_axes(tuple(axis) if is_sequence(axis) else axis, array.ndim))
    for k in chosen:
        joined_size(array.extents[k], extent_of(1), owner(array, k, "the array"), "the 1 of rd.squeeze")
    if not chosen:
        return array if name is None else named(array, name)
    return reshape(array, tuple(n for k, n in enumerate(sizes) if k not in chosen), name=name)


def ravel(a: Any, order: str = "C", *, name: str | None = None) -> Array:
    """The elements in one dimension: row-major, or, for `order="F"`, column-major. TraceError for another order.

    Example:
        >>> rd.algorithm(lambda a: rd.ravel(a, order="F")).interpret(np.array([[1, 2, 3], [4, 5, 6]]))
        array([1, 4, 2, 5, 3, 6])
    """
    return flatten(transpose(a) if column_major(order) else a, name=name)


permute_dims = transpose


@leaf_by_leaf
def flip(m: Any, axis: Axes = None, *, name: str | None = None) -> Array:
    """The elements in reverse order along `axis`: an int, a tuple, or None for all axes.

    Example:
        >>> rd.algorithm(lambda a: rd.flip(a, 1)).interpret(np.array([[1, 2, 3], [4, 5, 6]]))
        array([[3, 2, 1],
               [6, 5, 4]])
    """
    array = array_of(m, "rd.flip")
    chosen = normal_axes(tuple(axis) if is_sequence(axis) else axis, array.ndim)
    result = array[tuple(slice(None, None, -1 if k in chosen else 1) for k in range(array.ndim))]
    return result if name is None else named(result, name)


def fliplr(m: Any, *, name: str | None = None) -> Array:
    """The array with its columns, axis 1 of an array of rank 2 or more, in reverse order.

    Example:
        >>> rd.algorithm(lambda a: rd.fliplr(a)).interpret(np.array([[1, 2, 3], [4, 5, 6]]))
        array([[3, 2, 1],
               [6, 5, 4]])
    """
    return flip(m, 1, name=name)


def flipud(m: Any, *, name: str | None = None) -> Array:
    """The array with its rows, axis 0 of an array of rank 1 or more, in reverse order.

    Example:
        >>> rd.algorithm(lambda a: rd.flipud(a)).interpret(np.array([[1, 2, 3], [4, 5, 6]]))
        array([[4, 5, 6],
               [1, 2, 3]])
    """
    return flip(m, 0, name=name)


@leaf_by_leaf
def rot90(m: Any, k: int = 1, axes: Any = (0, 1), *, name: str | None = None) -> Array:
    """The array rotated k times by 90°, from the first of two `axes` towards the second. ShapeError unless there are two different axes.

    Example:
        >>> rd.algorithm(lambda a: rd.rot90(a)).interpret(np.array([[1, 2, 3], [4, 5, 6]]))
        array([[3, 6],
               [2, 5],
               [1, 4]])
    """
    array = array_of(m, "rd.rot90")
    turned = _positions(tuple(axes), array.ndim)
    if len(turned) != 2:
        raise ShapeError(complaint(f"rd.rot90 turns in a plane of two axes, not {len(turned)}"))
    first, second = turned
    quarters = plain_int(k, "the number of turns") % 4
    order = list(range(array.ndim))
    order[first], order[second] = second, first
    if quarters == 2:
        array = flip(array, (first, second))
    elif quarters == 1:
        array = transpose(flip(array, second), order)
    elif quarters == 3:
        array = flip(transpose(array, order), second)
    return array if name is None else named(array, name)


@leaf_by_leaf
def tile(A: Any, reps: Any, *, name: str | None = None) -> Array:
    """The array repeated `reps` times: an int or a size, or one for each axis, aligned at the last axis.

    Example:
        >>> rd.algorithm(lambda a: rd.tile(a, (2, 2))).interpret(np.array([3, 1, 2]))
        array([[3, 1, 2, 3, 1, 2],
               [3, 1, 2, 3, 1, 2]])
    """
    array = array_of(A, "rd.tile")
    times = list(reps) if is_sequence(reps) else [reps]
    array = expand_dims(array, tuple(range(max(len(times) - array.ndim, 0))))
    times = [1] * (array.ndim - len(times)) + times
    for axis, number in enumerate(times):
        if isinstance(number, int) and number == 1:
            continue
        sizes = array.shape
        repeated = expand_dims(array, axis)
        array = broadcast_to(repeated, (*sizes[:axis], number, *sizes[axis:]))
        array = reshape(array, (*sizes[:axis], sizes[axis] * number, *sizes[axis + 1 :]))
    return array if name is None else named(array, name)


@overload
def atleast_1d(ary: Any, /) -> Array: ...
@overload
def atleast_1d(ary: Any, other: Any, /, *arys: Any) -> tuple[Array, ...]: ...
def atleast_1d(*arys: Any) -> Any:
    """The array with rank 1 at least: a scalar becomes an array of one element. For several arrays, a tuple.

    Example:
        >>> rd.algorithm(lambda a: rd.atleast_1d(a)).interpret(np.array(3))
        array([3])
    """
    return _each(arys, lambda a: a if a.ndim else expand_dims(a, 0))


@overload
def atleast_2d(ary: Any, /) -> Array: ...
@overload
def atleast_2d(ary: Any, other: Any, /, *arys: Any) -> tuple[Array, ...]: ...
def atleast_2d(*arys: Any) -> Any:
    """The array with rank 2 at least, by new dimensions of size 1 in front. For several arrays, a tuple.

    Example:
        >>> rd.algorithm(lambda a: rd.atleast_2d(a)).interpret(np.array([3, 1]))
        array([[3, 1]])
    """
    return _each(arys, lambda a: expand_dims(a, tuple(range(max(2 - a.ndim, 0)))))


@overload
def atleast_3d(ary: Any, /) -> Array: ...
@overload
def atleast_3d(ary: Any, other: Any, /, *arys: Any) -> tuple[Array, ...]: ...
def atleast_3d(*arys: Any) -> Any:
    """The array with rank 3 at least: [n] becomes [1, n, 1], [n, m] becomes [n, m, 1]. For several arrays, a tuple.

    Example:
        >>> rd.algorithm(lambda a: rd.atleast_3d(a).shape).interpret(np.array([3, 1]))
        (np.int64(1), np.int64(2), np.int64(1))
    """
    new: dict[int, tuple[int, ...]] = {0: (0, 1, 2), 1: (0, 2), 2: (2,)}
    return _each(arys, lambda a: expand_dims(a, new.get(a.ndim, ())))


def _each(values: tuple[Any, ...], change: Any) -> Any:
    changed = tuple(leaf_by_leaf(change)(structure(value)) for value in values)
    return changed[0] if len(changed) == 1 else changed


def rollaxis(a: Any, axis: int, start: int = 0, *, name: str | None = None) -> Array:
    """The array with `axis` moved before the axis at `start`. ShapeError for an axis out of range.

    Example:
        >>> rd.algorithm(lambda a: rd.rollaxis(a, 1)).interpret(np.array([[1, 2, 3], [4, 5, 6]]))
        array([[1, 4],
               [2, 5],
               [3, 6]])
    """
    rank = structure(a).ndim
    source, position = normal_axis(axis, rank), plain_int(start, "the place of an axis")
    position += rank if position < 0 else 0
    if not 0 <= position <= rank:
        raise ShapeError(complaint(f"rd.rollaxis to place {start} of {rank} axes"))
    return moveaxis(a, source, position - (source < position), name=name)
