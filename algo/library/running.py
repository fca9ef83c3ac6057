"""NumPy's running sums and products, and differences along an axis: `cumsum cumprod diff gradient`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, SupportsIndex, overload

from raido.algo.errors import ShapeError, TraceError
from raido.algo.graph import index
from raido.algo.graph.dtypes import bool_, f64, i64
from raido.algo.graph.expr import Expr, Op, const
from raido.algo.language import ufuncs
from raido.algo.language.combinators import tabulate
from raido.algo.language.complexes import Complex
from raido.algo.language.indexing import gather
from raido.algo.language.joining import concat
from raido.algo.language.moves import astype, broadcast_to, flatten, named, normal_axis
from raido.algo.language.pure import without_out
from raido.algo.language.reductions import normal_axes, widened
from raido.algo.language.scanning import scan
from raido.algo.trace.building import check_result, collect, elementwise, make_axes, structure
from raido.algo.trace.context import current
from raido.algo.trace.existential import checked, decided_by_data
from raido.algo.trace.locations import complaint, plain_int
from raido.algo.trace.trees import is_sequence, leaves, map_leaves
from raido.algo.trace.value import COUNTER, Array

if TYPE_CHECKING:
    from raido.algo.language.parameters import Axes, Axis, DTypeLike


@without_out
def cumsum(a: Any, axis: Axis = None, dtype: DTypeLike | None = None, *, name: str | None = None) -> Array:
    """The running sums along `axis`, each including its own element; of the flattened array for None. Dtypes are those of `rd.sum`.

    The grouping of a sum of floats belongs to the schedule. ShapeError for an axis out of range.

    Example:
        >>> rd.algorithm(lambda a: rd.cumsum(a, axis=1)).interpret(np.array([[1, 2, 3], [4, 5, 6]]))
        array([[ 1,  3,  6],
               [ 4,  9, 15]])
    """
    return _running(ufuncs.add, 0, a, axis, dtype, name)


@without_out
def cumprod(a: Any, axis: Axis = None, dtype: DTypeLike | None = None, *, name: str | None = None) -> Array:
    """The running products along `axis`, each including its own element; of the flattened array for None. Dtypes are those of `rd.sum`.

    Example:
        >>> rd.algorithm(lambda a: rd.cumprod(a)).interpret(np.array([[1, 2, 3], [4, 5, 6]]))
        array([  1,   2,   6,  24, 120, 720])
    """
    return _running(ufuncs.multiply, 1, a, axis, dtype, name)


def _running(op: Any, neutral: Any, a: Any, axis: Any, dtype: Any, name: str | None) -> Any:
    given = structure(a)
    if isinstance(given, tuple) and not isinstance(given, Complex):
        raise TraceError(complaint("sums or products of a tuple of arrays", remedy="one array, or rd.scan"))
    if axis is None or given.ndim == 0:
        given, axis = flatten(given), 0 if axis is None else axis
    if dtype is not None or (isinstance(given, Array) and widened(given.dtype) is not given.dtype):
        given = astype(given, widened(given.dtype) if dtype is None else dtype)
    return scan(op, neutral, given, axis=normal_axis(axis, given.ndim), name=name)


def diff(
    a: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None, *, name: str | None = None
) -> Array:
    """The differences of neighbours along `axis`, taken `n` times, each time one fewer; for bool_, whether neighbours differ.

    `prepend` and `append`, scalars or arrays, are joined before and behind the elements first. ShapeError for a scalar or a negative `n`.

    Example:
        >>> rd.algorithm(lambda a: rd.diff(a, prepend=0)).interpret(np.array([1, 4, 9]))
        array([1, 3, 5])
    """
    given = structure(a)
    times = plain_int(n, "the order of rd.diff")
    if times < 0 or given.ndim == 0:
        what = "a scalar" if given.ndim == 0 else f"order {times}"
        raise ShapeError(complaint(f"rd.diff of {what}"))
    along = normal_axis(axis, given.ndim)
    parts = [*_beside(prepend, given, along), given, *_beside(append, given, along)]
    value = concat(parts, along) if len(parts) > 1 else given
    differ = ufuncs.not_equal if isinstance(value, Array) and value.dtype is bool_ else ufuncs.subtract
    for _ in range(times):
        value = differ(_between(value, along, 1, None), _between(value, along, None, -1))
    return value if name is None else named(value, name)


def _beside(value: Any, a: Any, along: int) -> list[Any]:
    """The list of arrays to join before or behind another: none for None; a scalar becomes one element, or row."""
    if value is None:
        return []
    given = structure(value)
    if given.ndim:
        return [given]
    return [broadcast_to(given, tuple(1 if k == along else n for k, n in enumerate(a.shape)))]


def _between(a: Any, along: int, low: Any, high: Any) -> Any:
    return a[(*[slice(None)] * along, slice(low, high))]


@overload
def gradient(
    f: Any, *varargs: Any, axis: SupportsIndex | None = None, edge_order: int = 1, name: str | None = None
) -> Array: ...  # a tuple for several axes: type checkers let an array be unpacked, too
@overload
def gradient(
    f: Any, *varargs: Any, axis: tuple[SupportsIndex, ...], edge_order: int = 1, name: str | None = None
) -> tuple[Array, ...]: ...
def gradient(f: Any, *varargs: Any, axis: Axes = None, edge_order: int = 1, name: str | None = None) -> Any:
    """The derivative along each of `axis` (all axes for None) by central differences, one-sided ones of `edge_order` 1 or 2 at the ends.

    `varargs`: nothing for a distance of 1, one distance for all axes, or for each axis a distance or an array of coordinates. Integers
    count as f64, floats keep their dtype. One array for one axis, else a tuple. Fewer than `edge_order` + 1 elements along an axis
    are a ShapeError, or a SizeMismatch at the call.

    Example:
        >>> rd.algorithm(lambda a: rd.gradient(a)).interpret(np.array([1.0, 2, 4, 7, 11]))
        array([1. , 1.5, 2.5, 3.5, 4. ])
    """
    given = structure(f)
    if isinstance(given, Array) and not given.dtype.is_float:
        given = astype(given, f64)
    axes = normal_axes(tuple(axis) if is_sequence(axis) else axis, given.ndim)
    spacings = list(varargs) or [1.0]
    if len(spacings) == 1:
        spacings = spacings * len(axes)
    if len(spacings) != len(axes):
        raise TraceError(complaint(f"rd.gradient takes a distance for each axis: {len(spacings)} for {len(axes)}"))
    if edge_order not in (1, 2):
        raise TraceError(complaint(f"the edge order of rd.gradient is 1 or 2, not {edge_order!r}"))
    results = [_derivative(given, k, spacing, edge_order) for k, spacing in zip(axes, spacings, strict=True)]
    if name is not None:
        results = [named(r, name if len(axes) == 1 else f"{name}_{k}") for r, k in zip(results, axes, strict=True)]
    return results[0] if len(results) == 1 else tuple(results)


def _derivative(f: Any, along: int, spacing: Any, edge_order: int) -> Any:
    """The derivative as one expression of each element's neighbours; the clamped loads beyond an end are never used."""
    size = f.shape[along]
    if isinstance(size, int) and size <= edge_order:
        raise ShapeError(complaint(f"rd.gradient along an axis of size {size}: it needs {edge_order + 1}"))
    given = _long_enough(leaves(f)[0].extents[along], along, edge_order, structure(spacing))
    weights = _weights(astype(given, f64) if given.ndim and not given.dtype.is_float else given, edge_order)
    own = make_axes(leaves(f)[0].extents)
    indices = [Array(axis.var, COUNTER) for axis in own]
    i = indices[along]

    def at(k: Any) -> Any:
        return gather(f, (*indices[:along], k, *indices[along + 1 :]), mode="clamp")

    with current().deeper():
        first, edge = i == 0, (i == 0) | (i == size - 1)
        before, here, after = at(i - 1), at(i), at(i + 1)
        near, far = ufuncs.where(first, after, before), at(i + ufuncs.where(first, 2, -2))
        if given.ndim:
            inner, ends = weights(i)
            interior = inner[0] * before + inner[1] * here + inner[2] * after
        else:
            interior = (after - before) / (given * 2.0)
            side = ufuncs.where(first, -1.0, 1.0)
            ends = [side * factor / given for factor in (1.5, -2.0, 0.5)]
        if edge_order == 1:
            ended = (after - before) / (ends[0] if given.ndim else given)
        else:
            ended = ends[0] * here + ends[1] * near + ends[2] * far
        value = check_result(ufuncs.where(edge, ended, interior))
    return collect(own, value, "elementwise", None)


def _long_enough(extent: Expr, along: int, edge_order: int, spacing: Any) -> Any:
    """The spacing, behind a check that the axis has more than `edge_order` elements: at the call, or at run time where data decides its
    size."""
    least = index.as_index(edge_order + 1)
    if not decided_by_data(extent):
        owners = f"axis {along} of the array of rd.gradient", f"at least {edge_order + 1} elements"
        current().equal_sizes(extent, index.maximum(extent, least), *owners)
        return spacing
    holds = Op("ge", bool_, (extent, least))
    details = (const(i64, along), const(i64, edge_order), extent)
    checks = lambda v: Array(checked(v.node, holds, "index", details), v.weak)
    return elementwise(checks, [spacing])


def _weights(x: Any, edge_order: int) -> Any:
    """The weights, for coordinates `x`, of the elements i − 1, i, i + 1 in the interior, and of the three elements nearest to an end.

    For `edge_order` 1 the distance to the neighbour replaces the weights at an end. None for a scalar distance.
    """
    if not x.ndim:
        return None
    size = x.shape[0]
    coordinate = lambda k: gather(x, (k,), mode="clamp")

    def at(i: Any) -> Any:
        here, first = coordinate(i), i == 0
        left, right = here - coordinate(i - 1), coordinate(i + 1) - here
        inner = -right / (left * (left + right)), (right - left) / (left * right), left / (right * (left + right))
        if edge_order == 1:
            return inner, (left + right,)
        a = ufuncs.where(first, right, left)
        b = ufuncs.where(first, coordinate(i + 2) - coordinate(i + 1), coordinate(i - 1) - coordinate(i - 2))
        ends = -(2.0 * a + b) / (a * (a + b)), (a + b) / (a * b), -a / (b * (a + b))
        return inner, tuple(ufuncs.where(first, end, -end) for end in ends)

    found = tabulate((size,), at)
    return lambda i: map_leaves(lambda leaf: leaf[i], found)
