"""`rd.linalg`: NumPy's functions of matrices that need no factorisation, beyond those in `linear.py`; others are in `linear_systems.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from raido.algo.errors import ShapeError, TraceError
from raido.algo.language.moves import broadcast_to, named, swapaxes
from raido.algo.language.pure import without_out
from raido.algo.language.reductions import matmul
from raido.algo.library.contraction import einsum
from raido.algo.library.diagonals import diagonal as diagonal_of
from raido.algo.library.linear import LETTERS, norm, shape_of
from raido.algo.library.linear import trace as trace_of
from raido.algo.library.making import eye
from raido.algo.library.operands import numbers_of
from raido.algo.trace.locations import complaint, plain_int
from raido.algo.trace.value import Array

if TYPE_CHECKING:
    from raido.algo.language.parameters import Axes, DTypeLike


def matrix_transpose(x: Any, *, name: str | None = None) -> Array:
    """The array with its last two axes exchanged. ShapeError for an array of rank below 2.

    Example:
        >>> rd.algorithm(lambda a: rd.matrix_transpose(a)).interpret(np.array([[1, 2], [3, 4]]))
        array([[1, 3],
               [2, 4]])
    """
    given = _matrix(x, "rd.matrix_transpose")
    return swapaxes(given, -1, -2, name=name)


def diagonal(x: Any, *, offset: int = 0, name: str | None = None) -> Array:
    """The diagonals, `offset` above the main one, of matrices, which are the last two axes.

    Example:
        >>> rd.algorithm(lambda a: rd.linalg.diagonal(a)).interpret(np.array([[1, 2], [3, 4]]))
        array([1, 4])
    """
    return diagonal_of(_matrix(x, "rd.linalg.diagonal"), offset, -2, -1, name=name)


def trace(x: Any, *, offset: int = 0, dtype: DTypeLike | None = None, name: str | None = None) -> Array:
    """The sums along the diagonals of matrices, which are the last two axes, with the dtypes of `rd.sum`.

    Example:
        >>> rd.algorithm(lambda a: rd.linalg.trace(a)).interpret(np.array([[1, 2], [3, 4]]))
        np.int64(5)
    """
    return trace_of(_matrix(x, "rd.linalg.trace"), offset, -2, -1, dtype, name=name)


def vector_norm(x: Any, *, axis: Axes = None, keepdims: bool = False, ord: Any = 2, name: str | None = None) -> Array:
    """The norm of vectors along `axis`, an int or a tuple (None: of all elements as one vector); `ord` is that of `rd.linalg.norm`.

    Example:
        >>> rd.algorithm(lambda a: rd.linalg.vector_norm(a)).interpret(np.array([[1.0, 1.0], [1.0, 1.0]]))
        np.float64(2.0)
    """
    given = numbers_of(x, "rd.linalg.vector_norm")
    rank = given.ndim
    if axis is not None and not isinstance(axis, (tuple, list)):
        return norm(given, ord, axis, keepdims, name=name)
    chosen = tuple(range(rank)) if axis is None else tuple(plain_int(k, "an axis") % max(rank, 1) for k in axis)
    rest = [k for k in range(rank) if k not in chosen]
    sizes, count = shape_of(given), 1
    for k in chosen:
        count = count * sizes[k]
    line = given.transpose(*rest, *chosen).reshape(*(sizes[k] for k in rest), count) if rank else given[None]
    found = norm(line, ord, -1)
    if keepdims:
        found = found[tuple(None if k in chosen else slice(None) for k in range(rank))]
    return found if name is None else named(found, name)


def matrix_norm(x: Any, *, keepdims: bool = False, ord: Any = "fro", name: str | None = None) -> Array:
    """The norm of matrices, which are the last two axes; `ord` is that of `rd.linalg.norm`.

    Example:
        >>> rd.algorithm(lambda a: rd.linalg.matrix_norm(a, ord=1)).interpret(np.array([[1.0, 2.0], [3.0, 4.0]]))
        np.float64(6.0)
    """
    return norm(_matrix(x, "rd.linalg.matrix_norm"), ord, (-2, -1), keepdims, name=name)


def matrix_power(a: Any, n: int, *, name: str | None = None) -> Array:
    """The product of n factors `a`, a square matrix, by repeated squaring; the identity for 0. TraceError for a negative n.

    Example:
        >>> rd.algorithm(lambda a: rd.linalg.matrix_power(a, 5)).interpret(np.array([[1, 1], [1, 0]]))
        array([[8, 5],
               [5, 3]])
    """
    given = _matrix(a, "rd.linalg.matrix_power")
    exponent = plain_int(n, "the exponent of rd.linalg.matrix_power")
    if exponent < 0:
        raise TraceError(complaint(f"rd.linalg.matrix_power to the power {exponent}", remedy="rd.linalg.inv(a) first"))
    sizes = shape_of(given)
    if isinstance(sizes[-1], int) and isinstance(sizes[-2], int) and sizes[-1] != sizes[-2]:
        raise ShapeError(complaint(f"rd.linalg.matrix_power of a matrix of {sizes[-2]} rows and {sizes[-1]} columns"))
    result: Any = broadcast_to(eye(sizes[-1], dtype=given.dtype), sizes) if exponent == 0 else None
    square = given
    while exponent:
        if exponent % 2:
            result = square if result is None else matmul(result, square)
        exponent //= 2
        square = matmul(square, square) if exponent else square
    return result if name is None else named(result, name)


@without_out
def multi_dot(arrays: Any, *, name: str | None = None) -> Array:
    """The product of matrices, of which the first and the last may be vectors; the cheapest pair is multiplied first where all sizes are
    known.

    Example:
        >>> rd.algorithm(lambda a: rd.linalg.multi_dot([a, a, a])).interpret(np.array([[1, 1], [1, 0]]))
        array([[3, 2],
               [2, 1]])
    """
    factors = [numbers_of(a, "rd.linalg.multi_dot") for a in arrays]
    if len(factors) < 2:
        raise ShapeError(complaint(f"rd.linalg.multi_dot of {len(factors)} arrays: it takes two or more"))
    if any(f.ndim != 2 and not (f.ndim == 1 and k in (0, len(factors) - 1)) for k, f in enumerate(factors)):
        raise ShapeError(complaint("rd.linalg.multi_dot takes matrices; the first and the last may be vectors"))
    labels = [LETTERS[k : k + 2] for k in range(len(factors))]
    labels[0] = labels[0][-factors[0].ndim :]
    labels[-1] = labels[-1][: factors[-1].ndim]
    ends = (labels[0][0] if factors[0].ndim == 2 else "") + (labels[-1][-1] if factors[-1].ndim == 2 else "")
    known = all(isinstance(n, int) for f in factors for n in shape_of(f))
    return einsum(f"{','.join(labels)}->{ends}", *factors, optimize=known, name=name)


def _matrix(value: Any, what: str) -> Any:
    given = numbers_of(value, what)
    if given.ndim < 2:
        raise ShapeError(complaint(f"{what} of an array of rank {given.ndim}, where at least 2 is due"))
    return given
