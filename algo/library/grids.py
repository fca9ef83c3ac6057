"""NumPy's indices of grids: `meshgrid indices unravel_index ravel_multi_index`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, overload

from raido.algo.errors import ShapeError, TraceError
from raido.algo.graph.dtypes import i64
from raido.algo.language.indexing import index_inside
from raido.algo.language.joining import stack
from raido.algo.language.making import array, iota
from raido.algo.language.moves import array_of, astype, broadcast_to, column_major, flatten, named, reshape
from raido.algo.language.ufuncs import where
from raido.algo.trace.locations import complaint
from raido.algo.trace.trees import is_sequence
from raido.algo.trace.value import Array

if TYPE_CHECKING:
    from raido.algo.language.parameters import DTypeLike, Shape


def meshgrid(
    *xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy", name: str | None = None
) -> tuple[Array, ...]:
    """The coordinate arrays of a grid: for arrays [n], [m] …, as many arrays of one shape, each constant along the axes of the others.

    For `indexing="xy"` the first array runs along axis 1 and the second along axis 0; for "ij" each along its own. `sparse` keeps the
    other dimensions at size 1; `copy` has no effect. Scalars count as arrays of one element. TraceError for another `indexing`.

    Example:
        >>> rd.algorithm(lambda x, y: rd.meshgrid(x, y)).interpret(np.array([1, 2, 3]), np.array([7, 8]))
        (array([[1, 2, 3],
               [1, 2, 3]]), array([[7, 7, 7],
               [8, 8, 8]]))
    """
    if indexing not in ("xy", "ij"):
        raise TraceError(complaint(f"the indexing of rd.meshgrid is 'xy' or 'ij', not {indexing!r}"))
    lines = [flatten(array_of(x, "rd.meshgrid")) for x in xi]
    rank = len(lines)
    order = [1, 0, *range(2, rank)] if indexing == "xy" and rank > 1 else list(range(rank))
    shape = tuple(lines[order.index(k)].shape[0] for k in range(rank))
    grids = [
        reshape(a, tuple(a.shape[0] if k == axis else 1 for k in range(rank)))
        for a, axis in zip(lines, order, strict=True)
    ]
    whole = grids if sparse else [broadcast_to(a, shape) for a in grids]
    return tuple(whole if name is None else [named(a, f"{name}_{k}") for k, a in enumerate(whole)])


@overload
def indices(
    dimensions: Any, dtype: DTypeLike | None = None, sparse: Literal[False] = False, *, name: str | None = None
) -> Array: ...
@overload
def indices(
    dimensions: Any, dtype: DTypeLike | None = None, *, sparse: Literal[True], name: str | None = None
) -> tuple[Array, ...]: ...
def indices(dimensions: Any, dtype: DTypeLike | None = None, sparse: bool = False, *, name: str | None = None) -> Any:
    """The indices of an array of the given shape: `rd.indices((n, m))[k, i, j]` is the k-th of i, j. The dtype is i64, or `dtype`.

    `sparse`: a tuple of arrays, each with size 1 in all dimensions but its own, which broadcast to the shape.

    Example:
        >>> rd.algorithm(lambda: rd.indices((2, 3))).interpret()
        array([[[0, 0, 0],
                [1, 1, 1]],
        <BLANKLINE>
               [[0, 1, 2],
                [0, 1, 2]]])
    """
    sizes = list(dimensions)
    lines = [astype(iota(n), i64 if dtype is None else dtype) for n in sizes]
    grids = [reshape(a, tuple(n if k == axis else 1 for k, n in enumerate(sizes))) for axis, a in enumerate(lines)]
    if sparse:
        return tuple(grids)
    return stack([broadcast_to(a, tuple(sizes)) for a in grids], 0, name=name)


def unravel_index(indices: Any, shape: Shape, order: str = "C", *, name: str | None = None) -> tuple[Array, ...]:
    """The indices in an array of `shape` of the elements at `indices` in the flattened array: one i64 array for each dimension.

    `order` is that of the flattened elements: "C", row-major, or "F", column-major. IndexOutOfRange for an index out of range.

    Example:
        >>> rd.algorithm(lambda i: rd.unravel_index(i, (2, 3))).interpret(np.array([0, 4, 5]))
        (array([0, 1, 1]), array([0, 1, 2]))
    """
    sizes = list(shape) if is_sequence(shape) else [shape]
    flat = index_inside(_numbers(indices), _product(sizes), 0, "raise")
    fastest_first = sizes if column_major(order) else sizes[::-1]
    coordinates: list[Any] = []
    for n in fastest_first[:-1]:
        divisor = max(n, 1) if isinstance(n, int) else where(n != 0, n, 1)
        coordinates.append(flat % divisor)
        flat = flat // divisor
    coordinates.append(flat)
    coordinates = coordinates if column_major(order) else coordinates[::-1]
    return tuple(coordinates if name is None else [named(p, f"{name}_{k}") for k, p in enumerate(coordinates)])


def ravel_multi_index(
    multi_index: Any, dims: Any, mode: Any = "raise", order: str = "C", *, name: str | None = None
) -> Array:
    """The indices in the flattened array, i64, of the elements at `multi_index`, one integer array for each dimension of `dims`.

    `mode`, one for all or one for each dimension, is the rule for indices out of range: "raise" checks them (IndexOutOfRange),
    "wrap" wraps around, "clip" takes the nearest. `order` is that of the flattened elements. ShapeError where the numbers of dimensions
    differ.

    Example:
        >>> rd.algorithm(lambda i, j: rd.ravel_multi_index((i, j), (2, 3))).interpret(np.array([0, 1]), np.array([2, 1]))
        array([2, 4])
    """
    sizes, parts = list(dims), list(multi_index)
    modes = list(mode) if is_sequence(mode) else [mode] * len(sizes)
    if not len(sizes) == len(parts) == len(modes):
        raise ShapeError(complaint(f"rd.ravel_multi_index of {len(parts)} index arrays for {len(sizes)} dimensions"))
    inside = [index_inside(_numbers(i), n, k, m) for k, (n, i, m) in enumerate(zip(sizes, parts, modes, strict=True))]
    pairs = list(zip(inside, sizes, strict=True))
    flat: Any = 0
    for position, n in reversed(pairs) if column_major(order) else pairs:
        flat = flat * n + position
    return flat if name is None else named(flat, name)


def _numbers(value: Any) -> Any:
    return array(value) if isinstance(value, list) else value


def _product(sizes: list[Any]) -> Any:
    total: Any = 1
    for n in sizes:
        total = total * n
    return total
