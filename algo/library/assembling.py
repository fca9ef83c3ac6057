"""NumPy's functions that join, take apart, resize and trim arrays, over `rd.concat` and slices."""

from __future__ import annotations

from typing import Any

import numpy as np

from raido.algo.errors import DTypeError, IndexOutOfRange, ShapeError, TraceError
from raido.algo.graph.dtypes import i64
from raido.algo.language import reductions
from raido.algo.language.combinators import tabulate
from raido.algo.language.joining import concat
from raido.algo.language.making import iota
from raido.algo.language.moves import array_of, astype, broadcast_to, flatten, leaf_by_leaf, named, normal_axis, reshape
from raido.algo.language.ufuncs import minimum, not_equal, where
from raido.algo.library.joining import concatenate
from raido.algo.library.moving import moveaxis
from raido.algo.library.operands import numbers_of
from raido.algo.trace.building import broadcast, structure
from raido.algo.trace.locations import complaint, plain_int
from raido.algo.trace.trees import is_sequence, leaves
from raido.algo.trace.value import Array, size_value


def append(arr: Any, values: Any, axis: int | None = None, *, name: str | None = None) -> Array:
    """The array followed by `values` along `axis`; both are flattened for None. ShapeError for different ranks or other sizes that differ.

    Example:
        >>> rd.algorithm(lambda a: rd.append(a, [7, 8])).interpret(np.array([3, 1]))
        array([3, 1, 7, 8])
    """
    return concatenate([numbers_of(arr, "rd.append"), numbers_of(values, "rd.append")], axis, name=name)


def block(arrays: Any, *, name: str | None = None) -> Array:
    """Blocks joined: the innermost lists along the last axis, the lists around them along the one before, and so on.

    Blocks of lower rank get leading dimensions of size 1. ShapeError for lists of different depths, or an empty one.

    Example:
        >>> rd.algorithm(lambda a: rd.block([[a, a], [a * 10, a]])).interpret(np.array([[1, 2]]))
        array([[ 1,  2,  1,  2],
               [10, 20,  1,  2]])
    """
    depth = _depth(arrays)
    rank = max(depth, *(leaves(structure(one))[0].ndim for one in _flat(arrays)))

    def joined(part: Any, axis: int) -> Any:
        if isinstance(part, list):
            return concat([joined(inner, axis + 1) for inner in part], axis)
        given = structure(part)
        return given[(None,) * (rank - given.ndim) + (...,)] if given.ndim < rank else given

    result = joined(arrays, rank - depth)
    return result if name is None else named(result, name)


def _depth(value: Any) -> int:
    if not isinstance(value, list):
        return 0
    depths = {_depth(part) for part in value}
    if len(depths) != 1:
        raise ShapeError(complaint("rd.block takes lists of one depth, none of them empty"))
    return 1 + depths.pop()


def _flat(value: Any) -> list[Any]:
    return [leaf for part in value for leaf in _flat(part)] if isinstance(value, list) else [value]


def broadcast_shapes(*args: Any) -> tuple[Any, ...]:
    """The shape to which arrays of the given shapes broadcast; a dimension broadcasts where its size is the literal 1.

    Example:
        >>> rd.algorithm(lambda a: a + rd.sum(rd.array(rd.broadcast_shapes((2, 1), 3)))).interpret(np.array([1]))
        array([6])
    """
    shapes = [tuple(shape) if is_sequence(shape) else (shape,) for shape in args]
    marks: list[Any] = [tabulate(shape, lambda *_: 0) for shape in shapes if shape]
    return tuple(map(size_value, broadcast(marks, "rd.broadcast_shapes"))) if marks else ()


def broadcast_arrays(*args: Any) -> tuple[Array, ...]:
    """The arrays broadcast to their common shape; a dimension broadcasts where its size is the literal 1.

    Example:
        >>> f = rd.algorithm(lambda a, b: rd.broadcast_arrays(a, b), a="i64[2]", b="i64[2, 1]")
        >>> f.interpret(np.array([1, 2]), np.array([[3], [4]]))
        (array([[1, 2],
               [1, 2]]), array([[3, 3],
               [4, 4]]))
    """
    given = [numbers_of(a, "rd.broadcast_arrays") for a in args]
    if not given:
        return ()
    shape = tuple(map(size_value, broadcast([leaf for a in given for leaf in leaves(a)], "rd.broadcast_arrays")))
    return tuple(broadcast_to(a, shape) if shape else a for a in given)


@leaf_by_leaf
def resize(a: Any, new_shape: Any, *, name: str | None = None) -> Array:
    """The elements in another shape, in row-major order, repeated as often as needed; zeros where the array is known to be empty.

    Example:
        >>> rd.algorithm(lambda a: rd.resize(a, (2, 3))).interpret(np.array([3, 1]))
        array([[3, 1, 3],
               [1, 3, 1]])
    """
    line = flatten(array_of(a, "rd.resize"))
    count = line.shape[0]
    shape = tuple(new_shape) if is_sequence(new_shape) else (new_shape,)
    if isinstance(count, int) and count == 0:
        return tabulate(shape, lambda *_: line.dtype(0), name=name)
    total: Any = 1
    for n in shape:
        total = total * n
    return reshape(tabulate((total,), lambda i: line[i % count]), shape, name=name)


def trim_zeros(filt: Any, trim: str = "fb", *, name: str | None = None) -> Array:
    """The line without the zeros at its front ("f"), its back ("b"), or both. The size of the result is decided by the data.

    Example:
        >>> rd.algorithm(lambda a: rd.trim_zeros(a)).interpret(np.array([0, 0, 3, 0, 1, 0]))
        array([3, 0, 1])
    """
    line = numbers_of(filt, "rd.trim_zeros")
    if line.ndim != 1:
        raise ShapeError(complaint(f"rd.trim_zeros of an array of rank {line.ndim}, where one dimension is due"))
    if not set(trim.lower()) <= {"f", "b"}:
        raise TraceError(complaint(f"`trim` of rd.trim_zeros is 'f', 'b' or 'fb', not {trim!r}"))
    count, held = line.shape[0], not_equal(line, 0)
    positions = iota(count, i64)
    first = reductions.min(where(held, positions, count), initial=count) if "f" in trim.lower() else 0
    last = reductions.max(where(held, positions, -1), initial=-1) + 1 if "b" in trim.lower() else count
    result = line[minimum(first, last) : last]
    return result if name is None else named(result, name)


def delete(arr: Any, obj: Any, axis: int | None = None, *, name: str | None = None) -> Array:
    """The array without the elements (slices) at `obj` along `axis`, of the flattened array for None: an int, a slice, a list or constants.

    The size of the axis must be known while tracing. TraceError for traced indices, IndexOutOfRange for an index out of range.

    Example:
        >>> rd.algorithm(lambda a: rd.delete(a, [0, -1]), a="i64[4]").interpret(np.array([3, 1, 2, 5]))
        array([1, 2])
    """
    given, along, count = _known_line(arr, axis, "rd.delete")
    gone = np.zeros(count, bool)
    try:
        gone[_plain_indices(obj, "rd.delete")] = True
    except IndexError as error:
        raise IndexOutOfRange(complaint(f"rd.delete: {error}")) from None
    result = given[(*[slice(None)] * along, np.flatnonzero(~gone))]
    return result if name is None else named(result, name)


def insert(arr: Any, obj: Any, values: Any, axis: int | None = None, *, name: str | None = None) -> Array:
    """The array with `values` inserted before the index `obj` along `axis`, an int; into the flattened array for None.

    `values` is a scalar, or broadcasts to slices of the array. The result has the dtype of the array.

    Example:
        >>> rd.algorithm(lambda a: rd.insert(a, 1, [7, 8]), a="i64[2]").interpret(np.array([3, 1]))
        array([3, 7, 8, 1])
    """
    given, along, count = _known_line(arr, axis, "rd.insert")
    position = plain_int(obj, "the index of rd.insert")
    if not -count <= position <= count:
        raise ShapeError(complaint(f"rd.insert before index {position} of {count} elements"))
    new = numbers_of(values, "rd.insert")
    new = astype(new, given.dtype)
    if axis is not None and new.ndim:  # NumPy: one scalar index takes values as slices, the axis first
        new = moveaxis(new[(None,) * (given.ndim - new.ndim) + (...,)], 0, along) if new.ndim <= given.ndim else new
    number = new.shape[along] if new.ndim == given.ndim else 1
    shape = tuple(number if k == along else n for k, n in enumerate(given.shape))
    position = position % count if position < 0 else position
    before, after = (given[(*[slice(None)] * along, part)] for part in (slice(None, position), slice(position, None)))
    return concat([before, broadcast_to(new, shape), after], along, name=name)


def unstack(x: Any, *, axis: int = 0) -> tuple[Array, ...]:
    """The slices along an axis as a tuple; the size of the axis must be known while tracing.

    Example:
        >>> rd.algorithm(lambda a: rd.unstack(a, axis=1), a="i64[2, 2]").interpret(np.array([[1, 2], [3, 4]]))
        (array([1, 3]), array([2, 4]))
    """
    given, along, count = _known_line(x, axis, "rd.unstack")
    return tuple(given[(*[slice(None)] * along, k)] for k in range(count))


def _known_line(value: Any, axis: int | None, what: str) -> tuple[Any, int, int]:
    """The operand (flattened for `axis=None`), its axis, and the size of that axis; ShapeError for a size unknown while tracing."""
    given = numbers_of(value, what)
    if axis is None:
        given, axis = flatten(given), 0
    along = normal_axis(axis, given.ndim)
    count = given.shape[along]
    if not isinstance(count, int):
        remedy = "a number in the type of the parameter, or a slice a[lo:hi]"
        raise ShapeError(complaint(f"{what} along an axis whose size is not known while tracing", remedy=remedy))
    return given, along, count


def _plain_indices(value: Any, what: str) -> Any:
    if isinstance(value, Array):
        raise TraceError(complaint(f"{what} at traced indices", remedy="a mask, a[keep]"))
    if isinstance(value, slice):
        return value
    positions = np.asarray(value)
    if positions.size and positions.dtype.kind not in "iub":
        raise DTypeError(complaint(f"the indices of {what} are integers, not {positions.dtype}"))
    return positions if positions.size else positions.astype(np.int64)
