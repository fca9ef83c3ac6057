"""NumPy's products and sums of vectors and matrices, each a contraction (`rd.einsum`) or a broadcast product."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from raido.algo.errors import ShapeError, TraceError
from raido.algo.graph import index
from raido.algo.language import reductions, ufuncs
from raido.algo.language.combinators import tabulate
from raido.algo.language.complex_functions import conj
from raido.algo.language.complexes import Complex
from raido.algo.language.joining import stack
from raido.algo.language.moves import astype, flatten, named, normal_axis, reshape, transpose
from raido.algo.language.pure import universal, without_out
from raido.algo.library.contraction import Term, contracted, einsum
from raido.algo.library.operands import numbers_of
from raido.algo.trace.existential import joined_size
from raido.algo.trace.locations import complaint, plain_int
from raido.algo.trace.trees import leaves, map_leaves
from raido.algo.trace.value import Array
from raido.algo.trace.weak import in_floats

if TYPE_CHECKING:
    from raido.algo.language.parameters import Axes, DTypeLike

LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


def rank_of(value: Any) -> int:
    """The rank of an operand."""
    return leaves(value)[0].ndim


def shape_of(value: Any) -> tuple[Any, ...]:
    """The shape of an operand."""
    return leaves(value)[0].shape


def _line(value: Any) -> Any:
    return flatten(value) if rank_of(value) else map_leaves(lambda leaf: leaf[None], value)


def _last(value: Any, axis: int) -> Any:
    """The operand with one axis moved to the end."""
    rank = rank_of(value)
    along = normal_axis(axis, rank)
    return value if along == rank - 1 else transpose(value, [*(k for k in range(rank) if k != along), along])


def inner(a: Any, b: Any, *, name: str | None = None) -> Array:
    """The sums of products over the last dimensions of both operands: of vectors, their inner product; with a scalar, the product.

    The shape is that of `a` without its last dimension, then that of `b` without its own. SizeMismatch or ShapeError where these differ.

    Example:
        >>> rd.algorithm(lambda a, b: rd.inner(a, b)).interpret(np.array([[1, 2], [3, 4]]), np.array([10, 1]))
        array([12, 34])
    """
    x, y = numbers_of(a, "rd.inner"), numbers_of(b, "rd.inner")
    if not rank_of(x) or not rank_of(y):
        return ufuncs.multiply(x, y, name=name)
    return tensordot(x, y, (-1, -1), name=name)


@without_out
def outer(a: Any, b: Any, *, name: str | None = None) -> Array:
    """The outer product: all products of an element of `a` and one of `b`, both flattened, as a matrix of the common dtype.

    Example:
        >>> rd.algorithm(lambda a, b: rd.outer(a, b)).interpret(np.array([1, 2]), np.array([3, 4, 5]))
        array([[ 3,  4,  5],
               [ 6,  8, 10]])
    """
    x, y = _line(numbers_of(a, "rd.outer")), _line(numbers_of(b, "rd.outer"))
    return ufuncs.multiply(x[:, None], y[None, :], name=name)


def vdot(a: Any, b: Any, *, name: str | None = None) -> Array:
    """The sum of the products of the conjugated elements of `a` and those of `b`, both flattened: a scalar.

    Example:
        >>> rd.algorithm(lambda a: rd.vdot(a, a)).interpret(np.array([1j, 2.0]))
        np.complex128(5+0j)
    """
    x, y = _line(numbers_of(a, "rd.vdot")), _line(numbers_of(b, "rd.vdot"))
    return einsum("i,i->", _conjugate(x), y, name=name)


def _conjugate(value: Any) -> Any:
    return conj(value) if isinstance(value, Complex) else value


def tensordot(a: Any, b: Any, axes: Any = 2, *, name: str | None = None) -> Array:
    """The sums of products over `axes`: an int n for the last n of `a` and the first n of `b`, or a pair of ints or tuples of axes of each.

    The shape is that of `a` without its axes, then that of `b` without its own; the common dtype is not widened. One reduce stage.
    ShapeError for axes out of range, or different numbers of them.

    Example:
        >>> rd.algorithm(lambda a, b: rd.tensordot(a, b, 1)).interpret(np.array([[1, 2], [3, 4]]), np.array([10, 1]))
        array([12, 34])
    """
    x, y = numbers_of(a, "rd.tensordot"), numbers_of(b, "rd.tensordot")
    ranks = rank_of(x), rank_of(y)
    if isinstance(axes, (tuple, list)):
        first, second = axes
    else:
        count = plain_int(axes, "the number of axes of rd.tensordot")
        if not 0 <= count <= min(ranks):
            raise ShapeError(complaint(f"rd.tensordot over {count} axes of arrays of rank {ranks[0]} and {ranks[1]}"))
        first, second = tuple(range(ranks[0] - count, ranks[0])), tuple(range(count))
    left, right = (_axes(own, rank) for own, rank in zip((first, second), ranks, strict=True))
    if len(left) != len(right):
        raise ShapeError(complaint(f"{len(left)} axes of one operand of rd.tensordot, {len(right)} of the other"))
    joined = {k: LETTERS[n] for n, k in enumerate(left)}
    labels_x = tuple(joined.get(k, f"x{k}") for k in range(ranks[0]))
    paired = {k: LETTERS[n] for n, k in enumerate(right)}
    labels_y = tuple(paired.get(k, f"y{k}") for k in range(ranks[1]))
    output = tuple(label for label in (*labels_x, *labels_y) if len(label) > 1)
    return contracted([Term(x, labels_x), Term(y, labels_y)], output, name)


def _axes(axes: Any, rank: int) -> tuple[int, ...]:
    chosen = tuple(normal_axis(axis, rank) for axis in (axes if isinstance(axes, (tuple, list)) else (axes,)))
    if len(set(chosen)) < len(chosen):
        raise ShapeError(complaint(f"an axis is named twice in {axes}"))
    return chosen


@universal
def vecdot(x1: Any, x2: Any, *, axis: int = -1, name: str | None = None) -> Array:
    """The sums of products along `axis` of both operands, x1 conjugated; the other dimensions broadcast.

    Example:
        >>> rd.algorithm(lambda a: rd.vecdot(a, a)).interpret(np.array([[1, 2], [3, 4]]))
        array([ 5, 25])
    """
    x, y = numbers_of(x1, "rd.vecdot"), numbers_of(x2, "rd.vecdot")
    _at_least(x, 1, "rd.vecdot")
    _at_least(y, 1, "rd.vecdot")
    return einsum("...i,...i->...", _conjugate(_last(x, axis)), _last(y, axis), name=name)


@universal
def matvec(x1: Any, x2: Any, *, name: str | None = None) -> Array:
    """The products of matrices, the last two dimensions of x1, with vectors, the last dimension of x2; the others broadcast.

    Example:
        >>> rd.algorithm(lambda a: rd.matvec(a, a)).interpret(np.array([[1, 2], [3, 4]]))
        array([[ 5, 11],
               [11, 25]])
    """
    x, y = numbers_of(x1, "rd.matvec"), numbers_of(x2, "rd.matvec")
    _at_least(x, 2, "rd.matvec")
    _at_least(y, 1, "rd.matvec")
    return einsum("...ij,...j->...i", x, y, name=name)


@universal
def vecmat(x1: Any, x2: Any, *, name: str | None = None) -> Array:
    """The products of vectors, the last dimension of x1, conjugated, with matrices, the last two of x2; the others broadcast.

    Example:
        >>> rd.algorithm(lambda a: rd.vecmat(a, a)).interpret(np.array([[1, 2], [3, 4]]))
        array([[ 7, 10],
               [15, 22]])
    """
    x, y = numbers_of(x1, "rd.vecmat"), numbers_of(x2, "rd.vecmat")
    _at_least(x, 1, "rd.vecmat")
    _at_least(y, 2, "rd.vecmat")
    return einsum("...i,...ij->...j", _conjugate(x), y, name=name)


def _at_least(value: Any, rank: int, what: str) -> None:
    if rank_of(value) < rank:
        raise ShapeError(complaint(f"{what} of an array of rank {rank_of(value)}, where at least {rank} is due"))


@without_out
def trace(
    a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: DTypeLike | None = None, *, name: str | None = None
) -> Array:
    """The sums along the diagonal `offset` of the axes `axis1` and `axis2`, with the dtypes of `rd.sum`; 0 where the diagonal is empty.

    Example:
        >>> rd.algorithm(lambda a: rd.trace(a, 1)).interpret(np.array([[1, 2, 3], [4, 5, 6]]))
        np.int64(8)
    """
    value = numbers_of(a, "rd.trace")
    _at_least(value, 2, "rd.trace")
    rank = rank_of(value)
    first, second = normal_axis(axis1, rank), normal_axis(axis2, rank)
    if first == second:
        raise ShapeError(complaint("rd.trace takes two different axes"))
    above = plain_int(offset, "the offset of rd.trace")
    moved = transpose(value, [*(k for k in range(rank) if k not in (first, second)), first, second])
    rows, columns = shape_of(moved)[-2:]
    length = ufuncs.minimum(rows + min(above, 0), columns - max(above, 0))
    down, across = max(-above, 0), max(above, 0)

    def walked(leaf: Array) -> Array:
        shape = (*leaf.shape[:-2], length)
        return tabulate(shape, lambda *p: leaf[(*p[:-1], p[-1] + down, p[-1] + across)])

    return reductions.sum(map_leaves(walked, moved), -1, dtype=dtype, name=name)


def cross(
    a: Any,
    b: Any,
    axisa: int = -1,
    axisb: int = -1,
    axisc: int = -1,
    axis: int | None = None,
    *,
    name: str | None = None,
) -> Array:
    """The cross products of the 3-element vectors along `axisa` of `a` and `axisb` of `b`, along `axisc` of the result.

    The other dimensions broadcast; `axis` replaces all three. ShapeError for a size other than the literal 3.

    Example:
        >>> rd.algorithm(lambda a: rd.cross(a, [0, 0, 1])).interpret(np.array([[1, 0, 0], [0, 1, 0]]))
        array([[ 0, -1,  0],
               [ 1,  0,  0]])
    """
    if axis is not None:
        axisa = axisb = axisc = axis
    x, y = numbers_of(a, "rd.cross"), numbers_of(b, "rd.cross")
    _at_least(x, 1, "rd.cross")
    _at_least(y, 1, "rd.cross")
    x, y = _last(x, axisa), _last(y, axisb)
    parts = [_components(v) for v in (x, y)]
    (x0, x1, x2), (y0, y1, y2) = parts
    products = [x1 * y2 - x2 * y1, x2 * y0 - x0 * y2, x0 * y1 - x1 * y0]
    rank = rank_of(products[0]) + 1
    return stack(products, normal_axis(axisc, rank), name=name)


def _components(value: Any) -> list[Any]:
    extent = leaves(value)[0].extents[-1]
    size = index.constant_value(extent)
    if size not in (None, 3):
        raise ShapeError(complaint(f"rd.cross of vectors of {size} elements, not of 3"))
    joined_size(extent, index.as_index(3), "the size of the vectors of rd.cross", "that of vectors in space")
    return [value[..., k] for k in range(3)]


def kron(a: Any, b: Any, *, name: str | None = None) -> Array:
    """The Kronecker product: every element of `a` times the whole of `b`, in blocks; an operand of lower rank gets leading dimensions of
    size 1.

    Example:
        >>> rd.algorithm(lambda a: rd.kron(a, [[1, 1]])).interpret(np.array([[1, 2], [3, 4]]))
        array([[1, 1, 2, 2],
               [3, 3, 4, 4]])
    """
    x, y = numbers_of(a, "rd.kron"), numbers_of(b, "rd.kron")
    rank = max(rank_of(x), rank_of(y))
    if not rank_of(x) or not rank_of(y):
        return ufuncs.multiply(x, y, name=name)
    x, y = (v[(None,) * (rank - rank_of(v)) + (...,)] if rank_of(v) < rank else v for v in (x, y))
    blocks = x[tuple(key for _ in range(rank) for key in (slice(None), None))]
    inside = y[tuple(key for _ in range(rank) for key in (None, slice(None)))]
    shape = tuple(m * n for m, n in zip(shape_of(x), shape_of(y), strict=True))
    return reshape(ufuncs.multiply(blocks, inside), shape, name=name)


def norm(x: Any, ord: Any = None, axis: Axes = None, keepdims: bool = False, *, name: str | None = None) -> Array:
    """The norm of vectors along the axis `axis`, or of matrices in its two axes; without it, of a whole vector or matrix.

    `ord` for vectors: None or 2, the root of the sum of squares; inf and -inf, the largest and smallest magnitude; 0, the number of nonzero
    elements; p, `sum(abs(x)**p)**(1/p)`. For matrices: None or "fro", the root of the sum of squares; 1 and -1, the largest and smallest
    sum of magnitudes of a column; inf and -inf, of a row; 2 and -2, the largest and smallest singular value, and "nuc" the sum of all, with
    the dtypes and errors of `rd.linalg.svdvals`. None without `axis` takes any rank. The dtype is that of floats, the real one of complex
    numbers, f64 for integers.

    Example:
        >>> rd.algorithm(lambda a: rd.linalg.norm(a, axis=1)).interpret(np.array([[3.0, 4.0], [5.0, 12.0]]))
        array([ 5., 13.])
    """
    value = numbers_of(x, "rd.linalg.norm")
    if not leaves(value)[0].dtype.is_float:
        value = map_leaves(in_floats, value)
    rank = rank_of(value)
    if axis is None:
        axes = tuple(range(rank))
        if ord is None or (ord in ("fro", "f") and rank == 2) or (ord == 2 and rank == 1):
            return _root_of_squares(value, axes, keepdims, name)
    else:
        axes = _axes(axis, rank)
    if len(axes) == 1:
        return _vector_norm(value, axes[0], ord, keepdims, name)
    if len(axes) != 2:
        raise ShapeError(
            complaint(f"rd.linalg.norm over {len(axes)} axes", remedy="axis=k for vectors, axis=(j, k) for matrices")
        )
    if ord in (None, "fro", "f"):
        return _root_of_squares(value, axes, keepdims, name)
    if ord in (2, -2, "nuc"):
        return _singular_norm(value, axes, ord, keepdims, name)
    if ord not in (1, -1, math.inf, -math.inf):
        orders = '"fro", "nuc", 1, -1, 2, -2, inf or -inf'
        raise TraceError(complaint(f"no order {ord!r} of norms of matrices", remedy=orders))
    summed, chosen = axes if abs(ord) == 1 else axes[::-1]
    sums = reductions.sum(ufuncs.absolute(value), summed, keepdims=True)
    pick = reductions.max if ord > 0 else reductions.min
    if keepdims:
        return pick(sums, chosen, keepdims=True, name=name)
    flat = sums[tuple(0 if k == summed else slice(None) for k in range(rank))]
    return pick(flat, chosen - (summed < chosen), name=name)


def _singular_norm(value: Any, axes: tuple[int, ...], order: Any, keepdims: bool, name: str | None) -> Any:
    from raido.algo.library.factorizations import svdvals  # made of products, as this module has them

    rank = rank_of(value)
    lengths = svdvals(transpose(value, [*(k for k in range(rank) if k not in axes), *axes]))
    found = reductions.sum(lengths, -1) if order == "nuc" else lengths[..., 0 if order == 2 else -1]
    kept = found[tuple(None if k in axes else slice(None) for k in range(rank))] if keepdims else found
    return kept if name is None else named(kept, name)


def _root_of_squares(value: Any, axes: Any, keepdims: bool, name: str | None) -> Any:
    return ufuncs.sqrt(reductions.sum(_squares(value), axes, keepdims=keepdims), name=name)


def _squares(value: Any) -> Any:
    return value.real * value.real + value.imag * value.imag if isinstance(value, Complex) else value * value


def _vector_norm(value: Any, axis: int, order: Any, keepdims: bool, name: str | None) -> Any:
    if order is None or order == 2:
        return _root_of_squares(value, axis, keepdims, name)
    if isinstance(order, str):
        raise TraceError(complaint(f"no order {order!r} of norms of vectors", remedy="a number, inf or -inf"))
    sizes = ufuncs.absolute(value)
    if order == math.inf:
        return reductions.max(sizes, axis, keepdims=keepdims, name=name)
    if order == -math.inf:
        return reductions.min(sizes, axis, keepdims=keepdims, name=name)
    if order == 0:
        return reductions.sum(astype(sizes != 0, sizes.dtype), axis, keepdims=keepdims, name=name)
    if order == 1:
        return reductions.sum(sizes, axis, keepdims=keepdims, name=name)
    total = reductions.sum(sizes**order, axis, keepdims=keepdims)
    return ufuncs.power(total, 1 / order, name=name)
