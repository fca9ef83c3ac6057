"""NumPy's joins of arrays, `concatenate vstack hstack dstack column_stack`, as index moves over `rd.concat`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from raido.algo.language.joining import concat, sequence
from raido.algo.language.making import array
from raido.algo.language.moves import transpose
from raido.algo.library.moving import atleast_1d, atleast_2d, atleast_3d
from raido.algo.trace.building import structure
from raido.algo.trace.value import Array

if TYPE_CHECKING:
    from raido.algo.language.parameters import DTypeLike

concatenate = concat


def vstack(tup: Any, *, dtype: DTypeLike | None = None, name: str | None = None) -> Array:
    """The arrays joined along axis 0, those of rank 1 as rows.

    Example:
        >>> rd.algorithm(lambda a, b: rd.vstack([a, b])).interpret(np.array([3, 1]), np.array([[5, 6], [7, 8]]))
        array([[3, 1],
               [5, 6],
               [7, 8]])
    """
    return concat([atleast_2d(part) for part in _parts(tup)], 0, dtype=dtype, name=name)


row_stack = vstack


def hstack(tup: Any, *, dtype: DTypeLike | None = None, name: str | None = None) -> Array:
    """The arrays joined along axis 1, those of rank 1 along their only axis.

    Example:
        >>> rd.algorithm(lambda a, b: rd.hstack([a, b])).interpret(np.array([3, 1]), np.array([5, 6]))
        array([3, 1, 5, 6])
    """
    parts = [atleast_1d(part) for part in _parts(tup)]
    return concat(parts, 0 if structure(parts[0]).ndim == 1 else 1, dtype=dtype, name=name)


def dstack(tup: Any, *, name: str | None = None) -> Array:
    """The arrays joined along axis 2, those of rank 1 and 2 with new dimensions of size 1 (`rd.atleast_3d`).

    Example:
        >>> rd.algorithm(lambda a, b: rd.dstack([a, b])).interpret(np.array([3, 1]), np.array([5, 6]))
        array([[[3, 5],
                [1, 6]]])
    """
    return concat([atleast_3d(part) for part in _parts(tup)], 2, name=name)


def column_stack(tup: Any, *, name: str | None = None) -> Array:
    """The matrix whose columns are arrays of rank 1, and those of matrices, side by side.

    Example:
        >>> rd.algorithm(lambda a, b: rd.column_stack([a, b])).interpret(np.array([3, 1]), np.array([5, 6]))
        array([[3, 5],
               [1, 6]])
    """
    parts = [structure(part) for part in _parts(tup)]
    return concat([part if part.ndim > 1 else transpose(atleast_2d(part)) for part in parts], 1, name=name)


def _parts(arrays: Any) -> Any:
    """The arrays to join, with lists among them made arrays; the rows of a single array."""
    return [array(part) if isinstance(part, list) else part for part in sequence(arrays, "a function that joins")]
