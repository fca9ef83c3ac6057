"""Sums, products and differences along an axis, by NumPy's names: `cumsum cumprod diff gradient`."""

from __future__ import annotations

from typing import Any

from raido.algo.errors import ShapeError, TraceError
from raido.algo.graph.dtypes import bool_, f64
from raido.algo.language import ufuncs
from raido.algo.language.complexes import Complex
from raido.algo.language.joining import concat, shift
from raido.algo.language.making import iota
from raido.algo.language.moves import astype, broadcast_to, flatten, named, normal_axis, reshape
from raido.algo.language.reductions import normal_axes, widened
from raido.algo.language.scanning import scan
from raido.algo.trace.building import structure
from raido.algo.trace.locations import complaint, plain_int
from raido.algo.trace.trees import is_sequence
from raido.algo.trace.value import Array


def cumsum(a: Any, axis: Any = None, dtype: Any = None, *, name: str | None = None) -> Array:
    """The sums of the elements up to each, along `axis`; of the flattened array for None. Types are those of `rd.sum`.

    The grouping of a sum of floats belongs to the schedule. ShapeError for an axis there is not.

    Example:
        >>> rd.algorithm(lambda a: rd.cumsum(a, axis=1)).interpret(np.array([[1, 2, 3], [4, 5, 6]]))
        array([[ 1,  3,  6],
               [ 4,  9, 15]])
    """
    return _running(ufuncs.add, 0, a, axis, dtype, name)


def cumprod(a: Any, axis: Any = None, dtype: Any = None, *, name: str | None = None) -> Array:
    """The products of the elements up to each, along `axis`; of the flattened array for None. Types are those of `rd.sum`.

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
    """The differences of neighbours along `axis`, `n` times over, each time one fewer; of bool_, whether they differ.

    `prepend` and `append`, scalars or arrays, stand before and behind the elements first. ShapeError for a scalar or a negative `n`.

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
    """What stands before or behind an array: a scalar as one element, or row."""
    if value is None:
        return []
    given = structure(value)
    if given.ndim:
        return [given]
    return [broadcast_to(given, tuple(1 if k == along else n for k, n in enumerate(a.shape)))]


def _between(a: Any, along: int, low: Any, high: Any) -> Any:
    return a[(*[slice(None)] * along, slice(low, high))]


def gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: int = 1, name: str | None = None) -> Any:
    """The derivative along each of `axis` (all axes for None) by central differences, one-sided ones of `edge_order` 1 or 2 at the ends.

    `varargs`: nothing for a distance of 1, one distance for all axes, or for each axis a distance or an array of coordinates. Integers
    count as f64, floats keep their type. One array for one axis, else a tuple. Fewer than `edge_order` + 1 elements along an axis
    are a ShapeError, or an IndexOutOfRange at the call.

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
    results = [_derivative(given, k, step, edge_order) for k, step in zip(axes, spacings, strict=True)]
    if name is not None:
        results = [named(r, name if len(axes) == 1 else f"{name}_{k}") for r, k in zip(results, axes, strict=True)]
    return results[0] if len(results) == 1 else tuple(results)


def _derivative(f: Any, along: int, spacing: Any, edge_order: int) -> Any:
    size = f.shape[along]
    if isinstance(size, int) and size <= edge_order:
        raise ShapeError(complaint(f"rd.gradient along an axis of size {size}: it needs {edge_order + 1}"))
    line = tuple(size if k == along else 1 for k in range(f.ndim))
    place = reshape(iota(size), line)
    before, after = (shift(f, by, axis=along) for by in (1, -1))
    given = structure(spacing)
    if given.ndim:
        x = astype(given, f64) if not given.dtype.is_float else given
        gaps = _Gaps(reshape(x - shift(x, 1), line), reshape(shift(x, -1) - x, line))
        left, right = gaps.before, gaps.after
        weights = -right / (left * (left + right)), (right - left) / (left * right), left / (right * (left + right))
        interior = weights[0] * before + weights[1] * f + weights[2] * after
    else:
        gaps = _Gaps(given, given)
        interior = (after - before) / (given * 2.0)
    ends = _ends(f, along, gaps, edge_order)
    return ufuncs.where(place == 0, ends[0], ufuncs.where(place == size - 1, ends[1], interior))


class _Gaps:
    """The distances to the neighbours before and after each element: scalars, or arrays along the axis."""

    __slots__ = ("after", "before")

    def __init__(self, before: Any, after: Any) -> None:
        self.before, self.after = before, after

    def first(self, k: int, along: int) -> Any:
        """The distance from element k to the next."""
        return _row(self.after, along, k) if self.after.ndim else self.after

    def last(self, k: int, along: int) -> Any:
        """The distance to the k-th element from the end from the one before it."""
        return _row(self.before, along, -k) if self.before.ndim else self.before


def _row(a: Any, along: int, k: int) -> Any:
    """One row along an axis, which stays, of size 1."""
    return a[(*[slice(None)] * along, k, None)]


def _ends(f: Any, along: int, gaps: _Gaps, edge_order: int) -> tuple[Any, Any]:
    """The one-sided differences at the first and the last element."""
    row = lambda k: _row(f, along, k)
    near, far = gaps.first(0, along), gaps.last(1, along)
    if edge_order == 1:
        return (row(1) - row(0)) / near, (row(-1) - row(-2)) / far
    if not near.ndim:
        first = (-1.5 / near) * row(0) + (2.0 / near) * row(1) + (-0.5 / near) * row(2)
        return first, (0.5 / far) * row(-3) + (-2.0 / far) * row(-2) + (1.5 / far) * row(-1)
    a, b = near, gaps.first(1, along)
    first = -(2.0 * a + b) / (a * (a + b)) * row(0) + (a + b) / (a * b) * row(1) + -a / (b * (a + b)) * row(2)
    a, b = gaps.last(2, along), far
    last = b / (a * (a + b)) * row(-3) + -(b + a) / (a * b) * row(-2) + (2.0 * b + a) / (b * (a + b)) * row(-1)
    return first, last
