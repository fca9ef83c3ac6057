"""Systems of linear equations, as in `numpy.linalg`: elimination with partial pivoting, and Cholesky's factorisation (Golub & Van Loan,
*Matrix Computations*, sections 3.4 and 4.2).

Matrices are the last two axes; over leading axes the functions are mapped. A singular matrix is no error, because data decides which
matrix is singular; its result has infinities and NaN, as in JAX.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from raido.algo.errors import DTypeError, ShapeError
from raido.algo.graph.dtypes import DType, f32
from raido.algo.graph.expr import Expr
from raido.algo.language import ufuncs
from raido.algo.language.combinators import map as map_over
from raido.algo.language.combinators import reduce
from raido.algo.language.complexes import Complex
from raido.algo.language.control import loop
from raido.algo.language.joining import concat
from raido.algo.language.making import iota
from raido.algo.language.moves import broadcast_to, moved, named
from raido.algo.language.reductions import prod, sum
from raido.algo.library.diagonals import diagonal
from raido.algo.library.making import eye, zeros
from raido.algo.library.operands import numbers_of
from raido.algo.trace.building import Value, broadcast
from raido.algo.trace.context import current, load
from raido.algo.trace.locations import complaint
from raido.algo.trace.promotion import float_type
from raido.algo.trace.value import Array, size_value


def solve(a: Any, b: Any, *, name: str | None = None) -> Array:
    """The solution x of `a @ x = b`: a vector for a `b` of rank 1, else a matrix with a column for each column of `b`.

    Shapes: `[..., n, n]` and `[n]` or `[..., n, k]`; the leading axes broadcast. The dtype is f32 where both are f32 or narrower floats,
    else f64. By elimination with partial pivoting; infinities or NaN for a singular matrix. ShapeError for matrices that are not square.

    Example:
        >>> rd.algorithm(lambda a, b: rd.linalg.solve(a, b)).interpret(np.array([[0.0, 2.0], [1.0, 1.0]]), np.array([4.0, 5.0]))
        array([3., 2.])
    """
    what = "rd.linalg.solve"
    matrix, right = square_matrices(a, what), real_numbers(b, what)
    if right.ndim == 0:
        raise ShapeError(complaint(f"{what} takes a vector or a matrix beside the matrix, not a scalar"))
    right = _with_size(right, -1 if right.ndim == 1 else -2, matrix.extents[-1], what)
    dtype = solving_type(matrix, right)
    if right.ndim == 1:
        found = over_stacks(lambda m: _solved_vector(m, right.astype(dtype)), matrix.astype(dtype))
    else:
        stacks = [zeros(m.shape[:-2]) for m in (matrix, right)]
        leading = [size_value(extent) for extent in broadcast(stacks, what)]
        pair = [broadcast_to(m.astype(dtype), (*leading, *m.shape[-2:])) for m in (matrix, right)]
        found = over_stacks(_solved, *pair)
    return found if name is None else named(found, name)


def inv(a: Any, *, name: str | None = None) -> Array:
    """The inverses of matrices `[..., n, n]`: the solutions of `a @ x = eye(n)`, with the dtypes and errors of `rd.linalg.solve`.

    To solve a system, `rd.linalg.solve` takes a third of the time, and is more accurate.

    Example:
        >>> rd.algorithm(lambda a: rd.linalg.inv(a)).interpret(np.array([[0.0, 2.0], [1.0, 0.0]]))
        array([[0. , 1. ],
               [0.5, 0. ]])
    """
    matrix = square_matrices(a, "rd.linalg.inv")
    dtype = solving_type(matrix)
    found = over_stacks(lambda m: _solved(m, eye(m.shape[0], dtype=dtype)), matrix.astype(dtype))
    return found if name is None else named(found, name)


def det(a: Any, *, name: str | None = None) -> Array:
    """The determinants of matrices `[..., n, n]`, from the pivots of an elimination; 0 or a rounding error of 0 for a singular matrix.

    The dtype is f32 for f32 and narrower floats, else f64; the determinant is 1 for n = 0. ShapeError for matrices that are not square.

    Example:
        >>> rd.algorithm(lambda a: rd.linalg.det(a)).interpret(np.array([[0.0, 2.0], [1.0, 1.0]]))
        np.float64(-2.0)
    """
    matrix = square_matrices(a, "rd.linalg.det")

    def of_one(m: Array) -> Array:
        upper, sign = _eliminated(m)
        return sign * prod(diagonal(upper))

    found = over_stacks(of_one, matrix.astype(solving_type(matrix)))
    return found if name is None else named(found, name)


SHORT = 32  # rows: a column of a known number of them stays in registers, unlike columns of decreasing length


class SlogdetResult(NamedTuple):
    """The signs of determinants, and the logarithms of their absolute values."""

    sign: Array
    logabsdet: Array


def slogdet(a: Any) -> SlogdetResult:
    """The determinants of matrices `[..., n, n]` as `sign * exp(logabsdet)`, a named tuple, which neither overflows nor underflows.

    Dtypes are those of `rd.linalg.det`. The sign is 0 and the logarithm -inf for a singular matrix whose elimination meets a pivot of 0; 1
    and 0 for n = 0. ShapeError for matrices that are not square.

    Example:
        >>> rd.algorithm(lambda a: rd.linalg.slogdet(a).sign).interpret(np.array([[0.0, 2.0], [1.0, 1.0]]))
        np.float64(-1.0)
    """
    matrix = square_matrices(a, "rd.linalg.slogdet")

    def of_one(m: Array) -> tuple[Array, Array]:
        upper, sign = _eliminated(m)
        pivots = diagonal(upper)
        return sign * prod(ufuncs.sign(pivots)), sum(ufuncs.log(ufuncs.abs(pivots)))

    return SlogdetResult(*over_stacks(of_one, matrix.astype(solving_type(matrix))))


def cholesky(a: Any, *, upper: bool = False, name: str | None = None) -> Array:
    """The lower triangular l of symmetric positive definite matrices `[..., n, n]` for which `l @ l.mT` is `a`; zeros above its diagonal.

    With `upper`, the upper triangular u for which `u.mT @ u` is `a`. Only that triangle of `a` is read.
    The dtype is f32 for f32 and narrower floats, else f64. NaN from the first column with a negative pivot on. ShapeError for
    matrices that are not square.

    Example:
        >>> rd.algorithm(lambda a: rd.linalg.cholesky(a)).interpret(np.array([[4.0, 2.0], [2.0, 5.0]]))
        array([[2., 0.],
               [1., 2.]])
    """
    matrix = square_matrices(a, "rd.linalg.cholesky")
    dtype = solving_type(matrix)

    def of_one(m: Array) -> Array:
        n = m.shape[0]

        def with_column(k: Array, lower: Array) -> Array:
            column = m[k:, k] - lower[k:, :k] @ lower[k, :k]
            return lower.at[k:, k].set(column / ufuncs.sqrt(column[0]))

        def with_short_column(k: Array, lower: Array) -> Array:
            column = m[:, k] - lower @ lower[k]
            return lower.at[:, k].set(ufuncs.where(iota(n) >= k, column / ufuncs.sqrt(column[k]), 0.0))

        short = isinstance(n, int) and n <= SHORT
        return loop(n, with_short_column if short else with_column, zeros((n, n), dtype=dtype))

    matrix = matrix.astype(dtype)
    found = over_stacks(of_one, matrix.mT).mT if upper else over_stacks(of_one, matrix)
    return found if name is None else named(found, name)


def _solved(a: Array, b: Array) -> Array:
    """The solutions for one matrix and several right-hand sides, the columns of `b`."""
    n = a.shape[0]
    upper, _ = _eliminated(concat([a, b], axis=1))
    factors, right = upper[:, :n], upper[:, n:]

    def with_row(iteration: Array, found: Array) -> Array:
        k = n - 1 - iteration
        rest = right[k] - sum(factors[k][:, None] * found, axis=0)
        return ufuncs.where(iota(n)[:, None] == k, rest / factors[k, k], found)

    return loop(n, with_row, zeros(b.shape, dtype=b.dtype))


def _solved_vector(a: Array, b: Array) -> Array:
    """The solution for one matrix and one right-hand side, by column-oriented back substitution."""
    n = a.shape[0]
    upper, _ = _eliminated(concat([a, b[:, None]], axis=1))
    columns = upper[:, :n].T.copy()

    def without_element(iteration: Array, now: Array) -> Array:
        k = n - 1 - iteration
        found = now[k] / columns[k, k]
        return ufuncs.where(iota(n) < k, now - columns[k] * found, ufuncs.where(iota(n) == k, found, now))

    return loop(n, without_element, upper[:, n])


def _eliminated(m: Array) -> tuple[Array, Array]:
    """The matrix after Gaussian elimination with partial pivoting, and the sign of the permutation of its rows.

    Elements below the diagonal are 0 or not meant to be read. The column of the next pivot is a loop state of its own, so that the matrix
    is updated in place: an iteration's updates read only the two rows that it exchanges. Only the part below and right of the pivot is
    combined.
    """
    n = m.shape[0]

    def without_column(k: Array, state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        now, column, sign = state
        below = ufuncs.where(iota(n) >= k, ufuncs.abs(column), -1.0)
        chosen = reduce(_larger, (-1.0, 0), below, iota(n))[1]
        pivot, top = now[chosen].named("pivot"), now[k].named("top")
        left = ufuncs.where(iota(n) == chosen, column[k], column)
        factors = ufuncs.where(left == 0, 0.0, left / pivot[k])[k + 1 :, None]
        change = ufuncs.where(factors == 0, 0.0, -factors * pivot[k:])
        cleared = now.at[chosen].set(top).at[k].set(pivot).at[k + 1 :, k:].add(change)
        return cleared, cleared[:, ufuncs.minimum(k + 1, n - 1)], ufuncs.where(chosen == k, sign, -sign)

    upper, _, sign = loop(n, without_column, (m, m[:, 0], m.dtype(1)))
    return upper, sign


def _larger(x: tuple[Array, Array], y: tuple[Array, Array]) -> tuple[Array, Array]:
    """The larger of two (element, index) pairs, the first of equal ones. Unlike `rd.argmax`, it reduces zero elements, too."""
    first = x[0] >= y[0]
    return ufuncs.where(first, x[0], y[0]), ufuncs.where(first, x[1], y[1])


def over_stacks(function: Callable[..., Value], *stacks: Array) -> Value:
    """Maps a function of matrices over the leading axes of stacks of matrices."""
    return function(*stacks) if stacks[0].ndim == 2 else map_over(lambda *inner: over_stacks(function, *inner), *stacks)


def solving_type(*values: Array) -> DType:
    """The dtype in which systems are solved: f32 or f64."""
    dtype, _ = float_type(values)
    return f32 if dtype.bits < 32 else dtype


def real_numbers(value: Any, what: str) -> Array:
    given = numbers_of(value, what)
    if isinstance(given, Complex):
        raise DTypeError(complaint(f"{what} of complex numbers", why="it takes real ones"))
    return given


def square_matrices(value: Any, what: str) -> Array:
    """The operand as square matrices; sizes not known to agree are checked at the call."""
    given = real_numbers(value, what)
    if given.ndim < 2:
        raise ShapeError(complaint(f"{what} takes matrices, not an array of rank {given.ndim}"))
    return _with_size(given, -1, given.extents[-2], what)


def _with_size(array: Array, axis: int, size: Expr, what: str) -> Array:
    """The array with its size along an axis written as `size`: the two are proved equal, or checked at the call."""
    extents = list(array.extents)
    current().equal_sizes(size, extents[axis], f"the number of rows in {what}", "the other dimension")
    extents[axis] = size
    return moved(extents, lambda *p: load(array.node, p), weak=array.weak)
