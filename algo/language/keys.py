"""`rd.reduce_by_key`: reductions of the values that have equal keys, where keys are numbers of any ordered type, or tuples of these."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, overload

from raido.algo.errors import ShapeError, TraceError
from raido.algo.language.filtering import compress
from raido.algo.language.joining import concat
from raido.algo.language.making import iota
from raido.algo.language.moves import moved, reshape
from raido.algo.language.scanning import whole_operand
from raido.algo.language.segments import segmented_reduce
from raido.algo.language.sorting import sorted_with
from raido.algo.language.ufuncs import logical_or
from raido.algo.language.uniques import elements_differ
from raido.algo.trace.building import Number, Several, Single
from raido.algo.trace.context import load
from raido.algo.trace.existential import joined_size
from raido.algo.trace.locations import complaint
from raido.algo.trace.trees import leaves, map_leaves, unflatten
from raido.algo.trace.value import Array, describe

Keys = TypeVar("Keys")  # an array, or a tuple of arrays
WHAT = "rd.reduce_by_key"


@overload
def reduce_by_key(
    op: Callable[[Array, Array], Array | Number],
    neutral: Any,
    keys: Keys,
    values: Single,
    /,
    *,
    name: str | None = None,
) -> tuple[Keys, Array]: ...
@overload
def reduce_by_key(
    op: Callable[[Several, Several], Several],
    neutral: Any,
    keys: Keys,
    first: Any,
    second: Any,
    /,
    *values: Any,
    name: str | None = None,
) -> tuple[Keys, Several]: ...
def reduce_by_key(
    op: Callable[..., Any], neutral: Any, keys: Any, *values: Any, name: str | None = None
) -> tuple[Any, Any]:
    """Returns the distinct keys in increasing order, and for each `neutral` and its values combined, in order, by the associative `op(x,
    y)`.

    `keys` is an array of one dimension, or a tuple of arrays of one size, whose elements together are a key (compared as tuples are); all
    NaN are one key, the last. `values` are arrays with as many elements as there are keys, scalars or rows; with several, operands are
    tuples, as in `rd.reduce`. The number of distinct keys depends on data. Keys that are small integers need no sorting:
    `rd.reduce_by_index`.

    Raises `TraceError` without values, `ShapeError` for keys of several dimensions, `DTypeError` where `op` returns another type.

    Example:
        >>> import numpy as np, raido as rd
        >>> @rd.algorithm
        ... def spent(customer: rd.i64["n"], amount: rd.f64["n"]):
        ...     return rd.reduce_by_key(rd.add, 0, customer, amount)
        >>> spent.interpret(np.array([70, 7, 70]), np.array([1.0, 2.0, 4.0]))
        (array([ 7, 70]), array([2., 5.]))

        With several values the second result is a tuple of theirs:

        >>> @rd.algorithm
        ... def first_and_last(customer: rd.i64["n"], day: rd.i64["n"]):
        ...     op = lambda a, b: (rd.minimum(a[0], b[0]), rd.maximum(a[1], b[1]))
        ...     return rd.reduce_by_key(op, (9, -9), customer, day, day)
        >>> first_and_last.interpret(np.array([70, 7, 70]), np.array([3, 5, 1]))
        (array([ 7, 70]), (array([5, 1]), array([5, 3])))
    """
    if not values:
        remedy = "rd.unique(keys, return_counts=True) counts them"
        raise TraceError(complaint(f"{WHAT} has keys and no values", remedy=remedy))
    given, *data = whole_operand((keys, *values), WHAT)
    for leaf in leaves(given):
        if leaf.ndim != 1:
            found = describe(leaf.dtype, leaf.extents)
            raise ShapeError(complaint(f"the keys of {WHAT} are arrays of one dimension, not {found}"))
    extent = leaves(given)[0].extents[0]
    for leaf in leaves(tuple(data)):
        joined_size(extent, leaf.extents[0], f"the keys of {WHAT}", "dimension 0 of its values")
    ordered, in_order = _in_order(given, data)
    count = leaves(ordered)[0].shape[0]
    first = logical_or(iota(count) == 0, elements_differ(ordered))
    *kept, starts = compress(first, [*leaves(ordered), iota(count)])
    offsets = concat([starts, reshape(Array(extent), (1,))])
    folds = segmented_reduce(op, neutral, in_order[0] if len(in_order) == 1 else tuple(in_order), offsets, name=name)
    return unflatten(ordered, kept), folds


def _in_order(keys: Any, data: list[Any]) -> tuple[Any, list[Any]]:
    """Returns the keys in order, and the values in the same order.

    A single array of scalars is sorted with the keys; otherwise the indices are, and the values are loaded at these.
    """
    flat: list[Array] = leaves(tuple(data))
    if len(flat) == 1 and flat[0].ndim == 1:
        ordered, (values,) = sorted_with(keys, flat, False, WHAT)
        return ordered, [map_leaves(lambda _: values, data[0])]
    ordered, (order,) = sorted_with(keys, (), True, WHAT)
    return ordered, [map_leaves(lambda leaf: _taken(leaf, order), each) for each in data]


def _taken(leaf: Array, order: Array) -> Array:
    """Returns the elements (or rows) at the indices in `order`, which are in range."""
    here = lambda i, *others: load(leaf.node, (load(order.node, (i,)), *others))
    return moved((*order.extents, *leaf.extents[1:]), here, weak=leaf.weak)
