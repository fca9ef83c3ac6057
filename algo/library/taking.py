"""NumPy's choices of elements by indices and conditions: `take take_along_axis select`.

Indices are checked as in `a[i]`: constants count from the end when negative, traced indices below 0 are out of range.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from raido.algo.errors import ShapeError, TraceError
from raido.algo.language.indexing import index_with
from raido.algo.language.making import array, iota
from raido.algo.language.moves import array_of, flatten, leaf_by_leaf, named, normal_axis, reshape
from raido.algo.language.pure import without_out
from raido.algo.language.ufuncs import where
from raido.algo.trace.building import structure
from raido.algo.trace.locations import complaint
from raido.algo.trace.value import Array

if TYPE_CHECKING:
    from raido.algo.language.parameters import Axis

_MODES = {"raise": None, "wrap": "wrap", "clip": "clamp"}


@without_out
@leaf_by_leaf
def take(a: Any, indices: Any, axis: Axis = None, *, mode: str = "raise", name: str | None = None) -> Array:
    """The elements (rows) at `indices` along `axis`, of the flattened array for None; the shape of `indices` replaces the axis.

    `indices` is an integer, an integer array, or a list. `mode` is the rule for indices out of range: "raise" checks them
    (IndexOutOfRange), "wrap" wraps around, "clip" takes the nearest, negative ones as 0.

    Example:
        >>> rd.algorithm(lambda a: rd.take(a, [2, 0, -1], axis=1)).interpret(np.array([[1, 2, 3], [4, 5, 6]]))
        array([[3, 1, 3],
               [6, 4, 6]])
    """
    given = array_of(a, "rd.take")
    if mode not in _MODES:
        raise TraceError(complaint(f"the mode of rd.take is 'raise', 'wrap' or 'clip', not {mode!r}"))
    if axis is None:
        given, axis = flatten(given), 0
    along = normal_axis(axis, given.ndim)
    positions = _indices(indices)
    return index_with(given, (*[slice(None)] * along, positions), _MODES[mode], name)


def _indices(value: Any) -> Any:
    """The indices with a list or tuple made an array."""
    if not isinstance(value, (list, tuple)):
        return value
    if not value:
        return np.zeros(0, np.int64)
    return array(list(value))


@leaf_by_leaf
def take_along_axis(arr: Any, indices: Any, axis: Axis = -1, *, name: str | None = None) -> Array:
    """The elements at `indices` along `axis`: `arr[i, indices[i, j]]` for matrices and the last axis.

    `indices`, as from `rd.argsort` and `rd.argmin(…, keepdims=True)`, has the rank of `arr`; the other dimensions broadcast. `axis=None`:
    both flattened. ShapeError for another rank, IndexOutOfRange for an index out of range.

    Example:
        >>> rd.algorithm(lambda a: rd.take_along_axis(a, rd.argsort(a), 1)).interpret(np.array([[3, 1, 2], [4, 6, 5]]))
        array([[1, 2, 3],
               [4, 5, 6]])
    """
    given, positions = array_of(arr, "rd.take_along_axis"), array_of(indices, "the indices of rd.take_along_axis")
    if axis is None:
        given, axis = flatten(given), 0
        positions = flatten(positions)
    if positions.ndim != given.ndim:
        raise ShapeError(complaint(f"indices of rank {positions.ndim} for rd.take_along_axis of rank {given.ndim}"))
    along = normal_axis(axis, given.ndim)
    key: list[Any] = [reshape(iota(n), _along(k, n, given.ndim)) for k, n in enumerate(given.shape)]
    key[along] = positions
    return index_with(given, tuple(key), None, name)


def _along(axis: int, size: Any, rank: int) -> tuple[Any, ...]:
    return tuple(size if k == axis else 1 for k in range(rank))


def select(condlist: Any, choicelist: Any, default: Any = 0, *, name: str | None = None) -> Array:
    """At every index, the element of the first choice whose condition holds there, or `default`.

    There are as many conditions (bool_) as choices, each an array or a scalar; shapes broadcast, and the dtype is the common one of choices
    and `default`. All choices are evaluated. ShapeError where the numbers differ.

    Example:
        >>> rd.algorithm(lambda a: rd.select([a < 2, a > 2], [-a, a * 10], 0)).interpret(np.array([3, 1, 2]))
        array([30, -1,  0])
    """
    if len(condlist) != len(choicelist) or not len(condlist):
        raise ShapeError(complaint(f"rd.select of {len(condlist)} conditions for {len(choicelist)} choices"))
    result = structure(default)
    for condition, choice in zip(reversed(condlist), reversed(choicelist), strict=True):
        result = where(condition, choice, result)
    return result if name is None else named(result, name)
