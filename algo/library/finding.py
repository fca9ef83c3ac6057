"""NumPy's indices of nonzero elements: `nonzero flatnonzero argwhere count_nonzero`. Sizes are decided by the data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from raido.algo.errors import ShapeError
from raido.algo.graph.dtypes import bool_, i64
from raido.algo.language.filtering import positions_where
from raido.algo.language.joining import stack
from raido.algo.language.moves import astype, flatten, named
from raido.algo.language.reductions import sum
from raido.algo.language.ufuncs import not_equal
from raido.algo.trace.building import structure
from raido.algo.trace.locations import complaint
from raido.algo.trace.value import Array

if TYPE_CHECKING:
    from raido.algo.language.parameters import Axes


def nonzero(a: Any) -> tuple[Array, ...]:
    """The indices of the nonzero elements, in row-major order: one i64 array for each dimension, all of one size.

    The size is decided by the data, as that of `rd.filter`; `a[rd.nonzero(a)]` are the elements. ShapeError for a scalar.

    Example:
        >>> rd.algorithm(lambda a: rd.nonzero(a)).interpret(np.array([[1, 0, 3], [0, 5, 0]]))
        (array([0, 0, 1]), array([0, 2, 1]))
    """
    mask = _mask(a)
    if mask.ndim == 0:
        raise ShapeError(complaint("rd.nonzero of a scalar", remedy="x != 0"))
    return tuple(positions_where(mask))


def flatnonzero(a: Any, *, name: str | None = None) -> Array:
    """The indices, in the flattened array, of the nonzero elements: i64, of a size that is decided by the data.

    Example:
        >>> rd.algorithm(lambda a: rd.flatnonzero(a)).interpret(np.array([[1, 0, 3], [0, 5, 0]]))
        array([0, 2, 4])
    """
    (positions,) = positions_where(flatten(_mask(a)))
    return positions if name is None else named(positions, name)


def argwhere(a: Any, *, name: str | None = None) -> Array:
    """The indices of the nonzero elements, one row each: i64[n, rank], where n is decided by the data. ShapeError for a scalar.

    Example:
        >>> rd.algorithm(lambda a: rd.argwhere(a)).interpret(np.array([[1, 0, 3], [0, 5, 0]]))
        array([[0, 0],
               [0, 2],
               [1, 1]])
    """
    return stack(list(nonzero(a)), 1, name=name)


def count_nonzero(a: Any, axis: Axes = None, *, keepdims: bool = False, name: str | None = None) -> Array:
    """The number of nonzero elements along `axis` (all axes for None): i64. NaN counts as nonzero.

    Example:
        >>> rd.algorithm(lambda a: rd.count_nonzero(a, axis=1)).interpret(np.array([[1, 0, 3], [0, 5, 0]]))
        array([2, 1])
    """
    return sum(astype(_mask(a), i64), axis, keepdims=keepdims, name=name)


def _mask(a: Any) -> Array:
    """The mask of nonzero elements."""
    given = structure(a)
    return given if isinstance(given, Array) and given.dtype is bool_ else not_equal(given, 0)
