"""NumPy's diagonals and triangles of matrices, `diag diagonal tri tril triu`, as index moves and selections."""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, Any

from raido.algo.errors import ShapeError
from raido.algo.language.combinators import tabulate
from raido.algo.language.indexing import gather
from raido.algo.language.moves import array_of, leaf_by_leaf, normal_axis
from raido.algo.language.stencil import constant
from raido.algo.language.ufuncs import minimum, where
from raido.algo.library.making import typed, zeros_like
from raido.algo.trace.building import structure
from raido.algo.trace.locations import complaint, plain_int
from raido.algo.trace.promotion import lift
from raido.algo.trace.value import Array
from raido.algo.trace.weak import as_weak

if TYPE_CHECKING:
    from raido.algo.language.parameters import DTypeLike


def tri(N: Any, M: Any = None, k: Any = 0, dtype: DTypeLike | None = None, *, name: str | None = None) -> Array:
    """The matrix [N, M] with ones on its k-th diagonal and below, and zeros above; M is N where it is None, and dtypes are those of
    `rd.eye`.

    Example:
        >>> rd.algorithm(lambda: rd.tri(2, 3, dtype=rd.i32)).interpret()
        array([[1, 0, 0],
               [1, 1, 0]], dtype=int32)
    """
    one, zero = (1.0, 0.0) if dtype is None else (typed(lift(value), dtype) for value in (1, 0))
    return tabulate((N, N if M is None else M), lambda y, x: where(x - y <= k, one, zero), name=name)


def tril(m: Any, k: Any = 0, *, name: str | None = None) -> Array:
    """The array with zeros above the k-th diagonal of its last two dimensions; of rank 1, [n], the lower triangle of n such rows.

    Example:
        >>> rd.algorithm(lambda a: rd.tril(a)).interpret(np.array([[1, 2], [3, 4]]))
        array([[1, 0],
               [3, 4]])
    """
    return _triangle(m, lambda y, x: x - y <= k, "rd.tril", name)


def triu(m: Any, k: Any = 0, *, name: str | None = None) -> Array:
    """The array with zeros below the k-th diagonal of its last two dimensions; of rank 1, [n], the upper triangle of n such rows.

    Example:
        >>> rd.algorithm(lambda a: rd.triu(a)).interpret(np.array([[1, 2], [3, 4]]))
        array([[1, 2],
               [0, 4]])
    """
    return _triangle(m, lambda y, x: x - y >= k, "rd.triu", name)


def _triangle(m: Any, inside: Any, what: str, name: str | None) -> Any:
    given = structure(m)
    if given.ndim == 0:
        raise ShapeError(complaint(f"{what} of a scalar"))
    rows, columns = (given.shape * 2)[-2:]
    return where(tabulate((rows, columns), inside), given, zeros_like(given), name=name)


@leaf_by_leaf
def diag(v: Any, k: int = 0, *, name: str | None = None) -> Array:
    """The square matrix with an array [n] on its k-th diagonal and zeros elsewhere; of a matrix, its k-th diagonal.

    ShapeError for another rank.

    Example:
        >>> rd.algorithm(lambda a: rd.diag(a, 1)).interpret(np.array([3, 1]))
        array([[0, 3, 0],
               [0, 0, 1],
               [0, 0, 0]])
    """
    given, offset = array_of(v, "rd.diag"), plain_int(k, "the number of a diagonal")
    if given.ndim == 2:
        return diagonal(given, offset, name=name)
    if given.ndim != 1:
        raise ShapeError(complaint(f"rd.diag of an array of rank {given.ndim}"))
    size = given.shape[0] + builtins.abs(offset)
    zero = as_weak(typed(lift(0), given.dtype), given)
    along = lambda y, x: gather(given, y if offset >= 0 else x, mode=constant(zero))
    return tabulate((size, size), lambda y, x: where(x - y == offset, along(y, x), zero), name=name)


@leaf_by_leaf
def diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, *, name: str | None = None) -> Array:
    """The diagonals `offset` of the matrices along two axes, which a last axis replaces: a[..., i, i + offset].

    Its size is the length of the diagonal within the matrix, 0 where there is none. ShapeError for equal axes, or a rank below 2.

    Example:
        >>> rd.algorithm(lambda a: rd.diagonal(a, 1)).interpret(np.array([[1, 2, 3], [4, 5, 6]]))
        array([2, 6])
    """
    given, shifted = array_of(a, "rd.diagonal"), plain_int(offset, "the number of a diagonal")
    first, second = (normal_axis(axis, given.ndim) for axis in (axis1, axis2))
    if first == second:
        raise ShapeError(complaint(f"rd.diagonal along one axis, {first}, instead of two"))
    others = [axis for axis in range(given.ndim) if axis not in (first, second)]
    starts = {first: slice(max(-shifted, 0), None), second: slice(max(shifted, 0), None)}
    inner = given[tuple(starts.get(axis, slice(None)) for axis in range(given.ndim))]
    rows, columns = inner.shape[first], inner.shape[second]
    both = isinstance(rows, int) and isinstance(columns, int)
    size = min(rows, columns) if both else minimum(rows, columns)

    def element(*indices: Any) -> Array:
        position = dict(zip((*others, first), indices, strict=True)) | {second: indices[-1]}
        return inner[tuple(position[axis] for axis in range(given.ndim))]

    return tabulate((*(given.shape[axis] for axis in others), size), element, name=name)
