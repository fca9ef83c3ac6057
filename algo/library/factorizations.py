"""Factorisations of real matrices, as in `numpy.linalg`: `qr`, `eigh`, `svd`, and functions that follow from them.

`qr` is by Householder reflections (Golub & Van Loan, *Matrix Computations*, section 5.2). `svd` is by one-sided Jacobi rotations (Hestenes
1958; section 8.6.3 there), in tournament order (Brent & Luk 1985): in a round each column is paired with one other, and all pairs are
rotated at once. `eigh` applies the same rotations to the matrix shifted until no eigenvalue is negative. Matrices are the last two axes.
The matrices of a stack are rotated together until the last has converged: data decides the number of sweeps, at most `_SWEEPS`.
"""

from __future__ import annotations

import builtins
from typing import Any, Literal, NamedTuple, overload

import numpy as np

from raido.algo.errors import ShapeError, TraceError
from raido.algo.graph.dtypes import bool_, i64
from raido.algo.language import ufuncs
from raido.algo.language.control import loop, while_loop
from raido.algo.language.joining import concat, stack
from raido.algo.language.making import iota
from raido.algo.language.moves import astype, broadcast_to, named, reshape
from raido.algo.language.reductions import any, matmul, max, sum
from raido.algo.language.sorting import argsort, sort
from raido.algo.language.ufuncs import where
from raido.algo.library.diagonals import diagonal, triu
from raido.algo.library.linear_systems import over_stacks, real_numbers, solving_type, square_matrices
from raido.algo.library.making import eye, full, zeros
from raido.algo.library.taking import take_along_axis
from raido.algo.trace.locations import complaint
from raido.algo.trace.value import Array

_SWEEPS = 40  # 6 to 10 are usual; the limit ends matrices that do not converge, such as those with NaN
_TRIANGLES = ("L", "U")


class QRResult(NamedTuple):
    """An orthogonal matrix and an upper triangular one, whose product is the matrix."""

    Q: Array
    R: Array


class EighResult(NamedTuple):
    """The eigenvalues of a symmetric matrix in increasing order, and its eigenvectors as the columns of a matrix."""

    eigenvalues: Array
    eigenvectors: Array


class SVDResult(NamedTuple):
    """The left singular vectors as columns, the singular values in decreasing order, and the right singular vectors as rows."""

    U: Array
    S: Array
    Vh: Array


@overload
def qr(a: Any, mode: Literal["reduced", "complete"] = "reduced") -> QRResult: ...
@overload
def qr(a: Any, mode: Literal["r"]) -> Array: ...
def qr(a: Any, mode: str = "reduced") -> Any:
    """The matrices q, with orthonormal columns, and r, upper triangular, whose product is `a`, for matrices `[..., m, n]`.

    "reduced": q `[..., m, k]` and r `[..., k, n]` for k = min(m, n); "complete": `[..., m, m]` and `[..., m, n]`; "r": r alone, reduced. By
    Householder reflections, with LAPACK's signs. The dtype is f32 for f32 and narrower floats, else f64. TraceError for another mode, such
    as "raw".

    Example:
        >>> rd.algorithm(lambda a: rd.linalg.qr(a).R).interpret(np.array([[3.0, 1.0], [4.0, 2.0]]))
        array([[-5. , -2.2],
               [ 0. ,  0.4]])
    """
    if mode not in ("reduced", "complete", "r"):
        raise TraceError(complaint(f"`mode` of rd.linalg.qr is 'reduced', 'complete' or 'r', not {mode!r}"))
    matrix = _matrices(a, "rd.linalg.qr")

    def of_one(m: Array) -> Any:
        q, r = _reflected(m)
        k = _fewer(*m.shape)
        if mode == "complete":
            return q, r
        return r[:k] if mode == "r" else (q[:, :k], r[:k])

    found = over_stacks(of_one, matrix)
    return found if mode == "r" else QRResult(*found)


def eigh(a: Any, UPLO: str = "L") -> EighResult:
    """The eigenvalues `[..., n]`, increasing, and eigenvectors, the columns of `[..., n, n]`, of symmetric matrices `[..., n, n]`.

    Only the triangle `UPLO` is read, the lower one for "L". The dtype is f32 for f32 and narrower floats, else f64; errors are some units
    in the last place of the largest eigenvalue. The sign of an eigenvector is arbitrary. ShapeError for matrices that are not square,
    DTypeError for complex ones.

    Example:
        >>> rd.algorithm(lambda a: rd.linalg.eigh(a).eigenvalues).interpret(np.array([[3.0, 0.0], [0.0, -1.0]]))
        array([-1.,  3.])
    """
    return EighResult(*_eigen(_symmetric(a, UPLO, "rd.linalg.eigh")))


def eigvalsh(a: Any, UPLO: str = "L", *, name: str | None = None) -> Array:
    """The eigenvalues `[..., n]`, increasing, of symmetric matrices `[..., n, n]`, with the dtypes and errors of `rd.linalg.eigh`.

    Example:
        >>> rd.algorithm(lambda a: rd.linalg.eigvalsh(a)).interpret(np.array([[3.0, 0.0], [0.0, -1.0]]))
        array([-1.,  3.])
    """
    found, _ = _eigen(_symmetric(a, UPLO, "rd.linalg.eigvalsh"))
    return found if name is None else named(found, name)


@overload
def svd(a: Any, full_matrices: bool = True, compute_uv: Literal[True] = True, hermitian: bool = False) -> SVDResult: ...
@overload
def svd(a: Any, full_matrices: bool = True, *, compute_uv: Literal[False], hermitian: bool = False) -> Array: ...
def svd(a: Any, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False) -> Any:
    """The singular values `[..., k]`, decreasing, of matrices `[..., m, n]`, k = min(m, n), between the matrices U and Vh of singular
    vectors.

    U is `[..., m, m]` and Vh `[..., n, n]`, or `[..., m, k]` and `[..., k, n]` without `full_matrices`; `compute_uv=False` returns the
    values alone. `hermitian` has no effect. The dtype is f32 for f32 and narrower floats, else f64. The common sign of a pair of vectors is
    arbitrary; vectors of the singular value 0 are some orthonormal completion. DTypeError for complex matrices.

    Example:
        >>> rd.algorithm(lambda a: rd.linalg.svd(a).S).interpret(np.array([[0.0, 2.0], [1.0, 0.0], [0.0, 0.0]]))
        array([2., 1.])
    """
    matrix = _matrices(a, "rd.linalg.svd")
    if not compute_uv:
        return svdvals(matrix)
    return SVDResult(*_decomposed(matrix, full_matrices))


def svdvals(x: Any, *, name: str | None = None) -> Array:
    """The singular values `[..., min(m, n)]`, decreasing, of matrices `[..., m, n]`, with the dtypes and errors of `rd.linalg.svd`.

    Example:
        >>> rd.algorithm(lambda a: rd.linalg.svdvals(a)).interpret(np.array([[0.0, 2.0], [1.0, 0.0]]))
        array([2., 1.])
    """
    matrix = _matrices(x, "rd.linalg.svdvals")
    scaled, scale = _scaled(matrix)
    turned, _ = _orthogonal(scaled if _is_wide(scaled) else scaled.mT)
    lengths = sort(ufuncs.sqrt(sum(turned * turned, axis=-1)), descending=True)
    found = lengths[..., : _fewer(*matrix.shape[-2:])] * scale[..., 0]
    return found if name is None else named(found, name)


def pinv(a: Any, rcond: Any = None, hermitian: bool = False, *, rtol: Any = None, name: str | None = None) -> Array:
    """The Moore–Penrose inverses `[..., n, m]` of matrices `[..., m, n]`: singular values up to `rcond` times the largest count as 0.

    `rcond` and `rtol` are two names of one number, 1e-15 by default. `hermitian` has no effect. Dtypes and errors are those of
    `rd.linalg.svd`.

    Example:
        >>> rd.algorithm(lambda a: rd.linalg.pinv(a)).interpret(np.array([[0.0, 2.0], [0.0, 0.0]]))
        array([[0. , 0. ],
               [0.5, 0. ]])
    """
    part = rcond if rcond is not None else 1e-15 if rtol is None else rtol
    u, s, vh = _decomposed(_matrices(a, "rd.linalg.pinv"), False)
    held = s > part * max(s, axis=-1, keepdims=True, initial=0.0)
    found = matmul(vh.mT, where(held, 1 / where(held, s, 1.0), 0.0)[..., None] * u.mT)
    return found if name is None else named(found, name)


def matrix_rank(
    A: Any, tol: Any = None, hermitian: bool = False, *, rtol: Any = None, name: str | None = None
) -> Array:
    """The number (i64) of singular values above `tol`, or above `rtol` times the largest, of matrices `[..., m, n]`.

    Without both, above max(m, n) units in the last place of the largest. `hermitian` has no effect. Errors are those of `rd.linalg.svd`.

    Example:
        >>> rd.algorithm(lambda a: rd.linalg.matrix_rank(a)).interpret(np.array([[1.0, 2.0], [2.0, 4.0]]))
        np.int64(1)
    """
    matrix = _matrices(A, "rd.linalg.matrix_rank")
    values = svdvals(matrix)
    if tol is None:
        part = rtol if rtol is not None else ufuncs.maximum(*matrix.shape[-2:]) * _unit(matrix)
        tol = max(values, axis=-1, keepdims=True, initial=0.0) * part
    return sum(values > tol, axis=-1, name=name)


def lstsq(a: Any, b: Any, rcond: Any = None) -> tuple[Array, Array, Array, Array]:
    """The x of least norm that minimises the norm of `a @ x - b`, for a matrix `[m, n]` and `b` `[m]` or `[m, k]`, in NumPy's tuple.

    The tuple is x `[n]` or `[n, k]`; the sums of squared residuals, `[1]` or `[k]`, empty where the rank is below n or m is at most n; the
    rank; the singular values. Singular values up to `rcond` times the largest count as 0, by default max(m, n) units in the last place.
    Dtypes are those of `rd.linalg.svd`. ShapeError for other ranks.

    Example:
        >>> rd.algorithm(lambda a, b: rd.linalg.lstsq(a, b)[0]).interpret(np.array([[1.0], [1.0]]), np.array([1.0, 3.0]))
        array([2.])
    """
    what = "rd.linalg.lstsq"
    matrix, right = _matrices(a, what), real_numbers(b, what)
    if matrix.ndim != 2 or right.ndim not in (1, 2):
        raise ShapeError(complaint(f"{what} takes one matrix, and a vector or a matrix beside it"))
    dtype = solving_type(matrix, right)
    matrix, right = astype(matrix, dtype), astype(right, dtype)
    columns = right[:, None] if right.ndim == 1 else right
    (m, n), part = matrix.shape, rcond
    if part is None:
        part = ufuncs.maximum(m, n) * _unit(matrix)
    u, s, vh = _decomposed(matrix, False)
    held = s > part * max(s, initial=0.0)
    rank = sum(held)
    found = matmul(vh.T, where(held, 1 / where(held, s, 1.0), 0.0)[:, None] * matmul(u.T, columns))
    left = matmul(matrix, found) - columns
    rest = sum(left * left, axis=0)
    rest = rest[ufuncs.logical_and(full(rest.shape[0], True), (rank == n) & ufuncs.greater(m, n))]
    return (found[:, 0] if right.ndim == 1 else found), rest, rank, s


def _matrices(value: Any, what: str) -> Array:
    given = real_numbers(value, what)
    if given.ndim < 2:
        raise ShapeError(complaint(f"{what} takes matrices, not an array of rank {given.ndim}"))
    return astype(given, solving_type(given))


def _symmetric(value: Any, triangle: str, what: str) -> Array:
    if str(triangle).upper() not in _TRIANGLES:
        raise TraceError(complaint(f"`UPLO` of {what} is 'L' or 'U', not {triangle!r}"))
    given = square_matrices(value, what)
    given = astype(given, solving_type(given))
    n = given.shape[-1]
    lower = iota(n)[:, None] >= iota(n)[None, :]
    held = lower if triangle.upper() == "L" else lower.T
    return where(held, given, given.mT)


def _fewer(m: Any, n: Any) -> Any:
    """The smaller of two sizes."""
    return builtins.min(m, n) if isinstance(m, int) and isinstance(n, int) else ufuncs.minimum(m, n)


def _is_wide(m: Array) -> bool:
    """Whether a matrix is known to have more columns than rows; rotations act on columns, of which there should be few."""
    rows, columns = m.shape[-2:]
    return isinstance(rows, int) and isinstance(columns, int) and rows < columns


def _unit(m: Array) -> float:
    """The unit in the last place of 1 in the matrix's dtype."""
    return float(np.finfo(m.dtype.numpy).eps)


def _scaled(m: Array) -> tuple[Array, Array]:
    """The matrices divided by their largest element, so that no square overflows, and these divisors, `[..., 1, 1]`."""
    largest = max(ufuncs.abs(m), axis=(-2, -1), keepdims=True, initial=0.0)
    scale = where(largest > 0, largest, 1.0)
    return m / scale, scale


def _reflected(m: Array) -> tuple[Array, Array]:
    """The complete q and r of a matrix: one Householder reflection per column clears the elements below the diagonal."""
    rows, _ = m.shape
    position = iota(rows)

    def without_column(k: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
        q, r = state
        column = r[:, k]
        below = max(where(position > k, ufuncs.abs(column), 0.0), initial=0.0)
        reflects, largest = below > 0, ufuncs.maximum(below, ufuncs.abs(column[k]))
        v = where(position >= k, column, 0.0) / where(largest > 0, largest, 1.0)
        v = v + where(position == k, ufuncs.copysign(ufuncs.sqrt(sum(v * v)), v[k]), 0.0)
        square = sum(v * v)
        factor = where(reflects, 2 / where(reflects, square, 1.0), 0.0)
        r = r - factor * v[:, None] * sum(v[:, None] * r, axis=0)[None, :]
        return q - factor * sum(q * v[None, :], axis=1)[:, None] * v[None, :], r

    q, r = loop(_fewer(*m.shape), without_column, (eye(rows, dtype=m.dtype), m))
    return q, triu(r)


def _orthogonal(vectors: Array) -> tuple[Array, Array]:
    """The rows of `[..., n, m]` rotated until they are orthogonal to each other, and the orthogonal matrix `[..., n, n]` of all
    rotations."""
    *stack_of, n, m = vectors.shape
    half = (n + 1) // 2
    unit = _unit(vectors)
    filling = zeros((*stack_of, 2 * half - n, m), dtype=vectors.dtype)  # one vector of zeros for an odd number
    turned = reshape(concat([vectors, filling], axis=-2), (*stack_of, 2, half, m))
    turning = reshape(eye(2 * half, dtype=vectors.dtype)[:, :n], (2, half, n))
    turning = broadcast_to(turning, (*stack_of, 2, half, n))
    nothing = (
        sum(vectors * vectors, axis=(-2, -1))[..., None] * unit * unit
    )  # squared lengths up to this are rounding errors
    before, after = ufuncs.maximum(iota(half) - 1, 0), ufuncs.minimum(iota(half) + 1, half - 1)

    def paired_anew(first: Array, second: Array) -> Array:
        """The pairs of the next round: all vectors but the first move on by one place, around both rows."""
        k = iota(half)[:, None]
        moved_on = where(k == 1, second[..., 0, None, :], first[..., before, :])
        last = where((k == half - 1) & (k > 0), first, second[..., after, :])
        return stack([where(k == 0, first, moved_on), last], axis=-3)

    def meet(_: Array, state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        now, product, met = state
        x, y = now[..., 0, :, :], now[..., 1, :, :]
        p, q, both = sum(x * x, axis=-1), sum(y * y, axis=-1), sum(x * y, axis=-1)
        oblique = ufuncs.abs(both) > 4 * unit * ufuncs.sqrt(p) * ufuncs.sqrt(q)
        oblique = oblique & (ufuncs.minimum(p, q) > nothing)
        cotangent = (q - p) / where(oblique, 2 * both, 1.0)  # of twice the angle
        t = ufuncs.copysign(1.0, cotangent) / (ufuncs.abs(cotangent) + ufuncs.hypot(1.0, cotangent))
        t = where(oblique, t, 0.0)
        c = (1 / ufuncs.sqrt(1 + t * t))[..., None]
        s = c * t[..., None]

        def rotated(pairs: Array) -> Array:
            x, y = pairs[..., 0, :, :], pairs[..., 1, :, :]
            return paired_anew(c * x - s * y, s * x + c * y)

        return rotated(now), rotated(product), met | any(oblique)

    def sweep(state: tuple[Array, Array, Array, Array]) -> tuple[Array, Array, Array, Array]:
        now, product, _, count = state
        now, product, met = loop(2 * half - 1, meet, (now, product, bool_(False)))
        return now, product, met, count + 1

    start = (turned, turning, bool_(True), i64(0))
    turned, turning, _, _ = while_loop(lambda state: state[2] & (state[3] < _SWEEPS), sweep, start)
    parts = ((turned, m), (turning, n))
    found = [reshape(part, (*stack_of, 2 * half, width))[..., :n, :] for part, width in parts]
    return found[0], found[1]


def _decomposed(a: Array, complete: bool) -> tuple[Array, Array, Array]:
    """The singular vectors and values of matrices. The left vectors are those of a QR factorisation, which completes them to a basis."""
    if _is_wide(a):
        u, s, vh = _decomposed(a.mT, complete)
        return vh.mT, s, u.mT
    m, scale = _scaled(a)
    k = _fewer(*a.shape[-2:])

    def of_one(turned: Array, turning: Array) -> tuple[Array, Array, Array]:
        lengths = ufuncs.sqrt(sum(turned * turned, axis=1))
        order = argsort(lengths, descending=True)
        first = order[:k]
        q, r = _reflected(turned[first].T)
        left = q[:, :k] * where(diagonal(r) < 0, -1.0, 1.0)[None, :]
        if complete:
            left = concat([left, q[:, k:]], axis=1)
        return left, lengths[first], turning[order if complete else first]

    u, s, vh = over_stacks(of_one, *_orthogonal(m.mT))
    return u, s * scale[..., 0], vh


def _eigen(a: Array) -> tuple[Array, Array]:
    """The eigenvalues and eigenvectors of symmetric matrices: the singular vectors once no eigenvalue is negative."""
    m, scale = _scaled(a)
    bound = max(sum(ufuncs.abs(m), axis=-1), axis=-1, initial=0.0)  # no eigenvalue is larger (Gershgorin)
    _, vectors = _orthogonal(m + bound[..., None, None] * eye(m.shape[-1], dtype=m.dtype))
    values = sum(matmul(vectors, m) * vectors, axis=-1)
    order = argsort(values)
    return take_along_axis(values, order, -1) * scale[..., 0], take_along_axis(vectors, order[..., None], -2).mT
