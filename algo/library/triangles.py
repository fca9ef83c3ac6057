"""NumPy's indices of diagonals and triangles of matrices, and matrices with a given diagonal.

For int sizes the indices are constants; for other sizes, data decides their number.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from raido.algo.errors import ShapeError
from raido.algo.graph.dtypes import bool_, i64
from raido.algo.language.making import array, iota
from raido.algo.language.moves import astype, flatten, named
from raido.algo.language.ufuncs import logical_not
from raido.algo.library.diagonals import diag, tri
from raido.algo.library.finding import nonzero
from raido.algo.library.operands import numbers_of
from raido.algo.trace.locations import complaint
from raido.algo.trace.value import Array


def diagflat(v: Any, k: int = 0, *, name: str | None = None) -> Array:
    """The matrix with the flattened elements on its k-th diagonal, zeros elsewhere.

    Example:
        >>> rd.algorithm(lambda a: rd.diagflat(a)).interpret(np.array([[3, 1]]))
        array([[3, 0],
               [0, 1]])
    """
    result = diag(flatten(numbers_of(v, "rd.diagflat")), k)
    return result if name is None else named(result, name)


def diag_indices(n: Any, ndim: int = 2) -> tuple[Array, ...]:
    """The indices of the main diagonal of an array of `ndim` dimensions of size n: 0 … n − 1 in each, i64.

    Example:
        >>> rd.algorithm(lambda a: a[rd.diag_indices(2)]).interpret(np.array([[3, 1], [2, 5]]))
        array([3, 5])
    """
    return (astype(iota(n), i64),) * ndim


def diag_indices_from(arr: Any) -> tuple[Array, ...]:
    """The indices `rd.diag_indices` for an array of rank 2 or more, whose sizes must all equal that of the first dimension.

    Example:
        >>> rd.algorithm(lambda a: a[rd.diag_indices_from(a)]).interpret(np.array([[3, 1], [2, 5]]))
        array([3, 5])
    """
    given = numbers_of(arr, "rd.diag_indices_from")
    known = {n for n in given.shape if isinstance(n, int)}
    if given.ndim < 2 or len(known) > 1:
        raise ShapeError(complaint("rd.diag_indices_from takes an array of two or more dimensions of one size"))
    return diag_indices(given.shape[0], given.ndim)


def tril_indices(n: Any, k: int = 0, m: Any = None) -> tuple[Array, ...]:
    """The indices of the elements on and below the k-th diagonal of a matrix of n rows and m columns (n by default): two i64 lines.

    Example:
        >>> rd.algorithm(lambda a: a[rd.tril_indices(2)]).interpret(np.array([[3, 1], [2, 5]]))
        array([3, 2, 5])
    """
    return _where(tri(n, m, k, bool_), n, m, lambda: np.tril_indices(n, k, m))


def triu_indices(n: Any, k: int = 0, m: Any = None) -> tuple[Array, ...]:
    """The indices of the elements on and above the k-th diagonal of a matrix of n rows and m columns (n by default): two i64 lines.

    Example:
        >>> rd.algorithm(lambda a: a[rd.triu_indices(2)]).interpret(np.array([[3, 1], [2, 5]]))
        array([3, 1, 5])
    """
    return _where(logical_not(tri(n, m, k - 1, bool_)), n, m, lambda: np.triu_indices(n, k, m))


def tril_indices_from(arr: Any, k: int = 0) -> tuple[Array, ...]:
    """The indices `rd.tril_indices` for the sizes of a matrix.

    Example:
        >>> rd.algorithm(lambda a: a[rd.tril_indices_from(a, -1)]).interpret(np.array([[3, 1], [2, 5]]))
        array([2])
    """
    return tril_indices(_matrix(arr, "rd.tril_indices_from")[0], k, _matrix(arr, "rd.tril_indices_from")[1])


def triu_indices_from(arr: Any, k: int = 0) -> tuple[Array, ...]:
    """The indices `rd.triu_indices` for the sizes of a matrix.

    Example:
        >>> rd.algorithm(lambda a: a[rd.triu_indices_from(a, 1)]).interpret(np.array([[3, 1], [2, 5]]))
        array([1])
    """
    return triu_indices(_matrix(arr, "rd.triu_indices_from")[0], k, _matrix(arr, "rd.triu_indices_from")[1])


def _where(mask: Array, n: Any, m: Any, known: Any) -> tuple[Array, ...]:
    """The indices where a mask holds; constants, from `known()`, where its sizes are ints."""
    if isinstance(n, int) and (m is None or isinstance(m, int)):
        return tuple(array(line.astype(np.int64)) for line in known())
    return nonzero(mask)


def _matrix(value: Any, what: str) -> tuple[Any, ...]:
    given = numbers_of(value, what)
    if given.ndim != 2:
        raise ShapeError(complaint(f"{what} of an array of rank {given.ndim}, where 2 is due"))
    return given.shape
