"""`rd.unique`: the distinct elements of an array, or its distinct slices along an axis, in order, by one stable sort and a filter."""

from __future__ import annotations

import functools
from typing import Any, Literal, overload

from raido.algo.graph import index
from raido.algo.graph.dtypes import i64
from raido.algo.graph.expr import const
from raido.algo.language.complexes import Complex
from raido.algo.language.control import loop
from raido.algo.language.filtering import compress
from raido.algo.language.joining import concat
from raido.algo.language.making import iota, replicate
from raido.algo.language.moves import array_of, astype, flatten, moved, normal_axis, reshape, transpose
from raido.algo.language.reductions import any as any_of
from raido.algo.language.scanning import scan
from raido.algo.language.scattering import scatter
from raido.algo.language.sorting import argsort, sorted_with
from raido.algo.language.ufuncs import add, isnan, logical_and, logical_not, logical_or, not_equal
from raido.algo.trace.building import structure
from raido.algo.trace.context import load
from raido.algo.trace.trees import leaves, map_leaves, parts_of, unflatten
from raido.algo.trace.value import Array


@overload
def unique(
    ar: Any,
    return_index: Literal[False] = False,
    return_inverse: Literal[False] = False,
    return_counts: Literal[False] = False,
    axis: int | None = None,
    *,
    equal_nan: bool = True,
    sorted: bool = True,
    name: str | None = None,
) -> Array: ...
@overload
def unique(
    ar: Any,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    *,
    equal_nan: bool = True,
    sorted: bool = True,
    name: str | None = None,
) -> Any: ...
def unique(
    ar: Any,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    *,
    equal_nan: bool = True,
    sorted: bool = True,
    name: str | None = None,
) -> Any:
    """The distinct elements in increasing order; with `axis`, the distinct slices along it, in the order of their elements, first to last.

    Their number depends on data. All NaN count as one, unless `equal_nan` is False; in slices they always differ, as in NumPy. With flags,
    the result is a tuple with, in this order, all i64: the index of each first occurrence (in the flattened array, or along the axis), the
    number of the distinct element for each element (in the shape of `ar`) or slice, and the number of occurrences of each. `sorted` is
    NumPy's and has no effect: the order is always this one.

    Example:
        >>> import numpy as np, raido as rd
        >>> @rd.algorithm
        ... def letters(a: rd.u8["n"]):
        ...     return rd.unique(a, return_counts=True)
        >>> letters.interpret(np.array([3, 1, 3], np.uint8))
        (array([1, 3], dtype=uint8), array([1, 2]))
    """
    given = structure(ar)
    array = given if isinstance(given, Complex) else array_of(given, "rd.unique")
    if axis is not None:
        ordered, positions = _ordered_slices(array, normal_axis(axis, array.ndim))
        moved_along, differs = [positions], _slices_differ(ordered)
    else:
        ordered, moved_along = sorted_with(flatten(array), (), return_index or return_inverse, "rd.unique")
        differs = elements_differ(ordered, equal_nan)
    n = leaves(ordered)[0].shape[0]
    first = logical_or(iota(n) == 0, differs)
    positions = moved_along if return_index or return_inverse else []
    *kept, starts = compress(
        first, [*leaves(ordered), *positions, astype(iota(n), i64)], name if axis is None else None
    )
    values = unflatten(ordered, kept[: len(kept) - len(positions)])
    if axis is not None:
        values = _as_slices(values, array, normal_axis(axis, array.ndim), name)
    if not (return_index or return_inverse or return_counts):
        return values
    results = [values]
    if return_index:
        results.append(kept[-1])
    if return_inverse:
        number = scan(add, 0, astype(first, i64)) - 1
        inverse = scatter(replicate(n, Array(const(i64, 0))), positions[0], number, unique_indices=True)
        results.append(inverse if array.ndim == 1 or axis is not None else reshape(inverse, array.shape))
    if return_counts:
        ends = concat([starts, reshape(astype(array_of(n, "rd.unique"), i64), (1,))])
        results.append(ends[1:] - ends[:-1])
    return tuple(results)


def elements_differ(ordered: Any, equal_nan: bool = True) -> Array:
    """Whether each element differs from its predecessor: of tuples, in any part. With `equal_nan`, NaN equals NaN."""
    if isinstance(ordered, tuple) and not isinstance(ordered, Complex):
        first, *others = (elements_differ(part, equal_nan) for part in parts_of(ordered))
        return functools.reduce(logical_or, others, first)
    previous = _previous(ordered)
    differs = not_equal(ordered, previous)
    if equal_nan and leaves(ordered)[0].dtype.is_float:
        differs = logical_and(differs, logical_not(logical_and(isnan(ordered), isnan(previous))))
    return differs


def _ordered_slices(array: Any, axis: int) -> tuple[Any, Array]:
    """Returns the slices along an axis in order, as rows, and their former indices, by stable sorts from the last column to the first."""
    front = transpose(array, [axis, *(k for k in range(array.ndim) if k != axis)])
    count, width = array.shape[axis], 1
    for k, size in enumerate(array.shape):
        width = width if k == axis else width * size
    rows = reshape(front, (count, width))
    by_column = lambda k, order: order[argsort(rows[order, width - 1 - k])]
    positions = loop(width, by_column, astype(iota(count), i64))
    return rows[positions], positions


def _slices_differ(ordered: Any) -> Array:
    return any_of(not_equal(ordered, _previous(ordered)), 1)


def _previous(ordered: Any) -> Any:
    """Returns the array with, at every index, the preceding element, or row; the first is its own predecessor."""
    before = lambda leaf: moved(
        leaf.extents, lambda i, *p: load(leaf.node, (index.maximum(index.sub(i, 1), 0), *p)), weak=leaf.weak
    )
    return map_leaves(before, ordered)


def _as_slices(rows: Any, like: Any, axis: int, name: str | None) -> Any:
    """Returns rows as slices of an array along an axis."""
    rest = [size for k, size in enumerate(like.shape) if k != axis]
    order = list(range(1, like.ndim))
    order.insert(axis, 0)
    return transpose(reshape(rows, (rows.shape[0], *rest)), order, name=name)
