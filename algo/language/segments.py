"""`rd.segmented_reduce` and `rd.segmented_scan`: reductions and prefixes of consecutive segments of an array, as one `Segmented`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from raido.algo.errors import DTypeError, ShapeError, TraceError
from raido.algo.graph.dtypes import i64, u64
from raido.algo.graph.expr import Segmented
from raido.algo.language.complexes import kind_of
from raido.algo.language.moves import astype
from raido.algo.language.scanning import operands
from raido.algo.trace.building import Value, elements, elementwise, form_results, make_axes, structure
from raido.algo.trace.combining import RowsMixed, starting_values, trace_operator
from raido.algo.trace.context import current
from raido.algo.trace.locations import complaint
from raido.algo.trace.trees import leaves, unflatten
from raido.algo.trace.types import describe
from raido.algo.trace.value import Array
from raido.algo.trace.whole_numbers import checked_count


def segmented_reduce(
    op: Callable[[Any, Any], Value],
    neutral: Any,
    values: Any,
    offsets: Any,
    *,
    name: str | None = None,
    axes: Sequence[str] | None = None,
) -> Value:
    """The reduction of every segment s: `neutral` and the values offsets[s] … offsets[s + 1] − 1, combined in order by the associative
    `op(x, y)`.

    `offsets` is an integer array with one element more than there are segments; it may not decrease and lies in 0 … n, which is checked,
    also for a single offset without segments: a violation raises `IndexOutOfRange`. `values` is an array or a tuple of arrays of one shape;
    trailing dimensions belong to the element. An empty segment gives `neutral`, which is combined. `axes` names the axes of `values` for
    schedules, outermost first; the axis of the segments is `s` instead of the first.

    Example:
        >>> import numpy as np, raido as rd
        >>> @rd.algorithm
        ... def row_sums(values: rd.f64["k"], offsets: rd.i64["rows"]):
        ...     return rd.segmented_reduce(rd.add, 0, values, offsets)
        >>> row_sums.interpret(np.array([1.0, 2.0, 3.0]), np.array([0, 2, 2, 3]))
        array([3., 0., 3.])
    """
    return _segmented(op, neutral, values, offsets, False, "segmented_reduce", name, axes)


def segmented_scan(
    op: Callable[[Any, Any], Value],
    neutral: Any,
    values: Any,
    offsets: Any,
    *,
    name: str | None = None,
    axes: Sequence[str] | None = None,
) -> Value:
    """The inclusive prefixes of every segment, from `neutral`; arguments as for `rd.segmented_reduce`.

    The result has the shape of `values`; elements in no segment become `neutral`. `axes` names the axes of the result.

    Example:
        >>> import numpy as np, raido as rd
        >>> @rd.algorithm
        ... def running(values: rd.i64["k"], offsets: rd.i64["rows"]):
        ...     return rd.segmented_scan(rd.add, 0, values, offsets)
        >>> running.interpret(np.array([1, 2, 3, 4]), np.array([0, 2, 4]))
        array([1, 3, 3, 7])
    """
    return _segmented(op, neutral, values, offsets, True, "segmented_scan", name, axes)


def _segmented(
    op: Callable[..., Any],
    neutral: Any,
    values: Any,
    offsets: Any,
    prefixes: bool,
    kind: str,
    name: str | None,
    axes: Sequence[str] | None,
) -> Any:
    what = f"rd.{kind}"
    value, extents = operands((values,), what)
    bounds = _offsets(offsets, what)
    own = make_axes(extents, axes)
    with current().deeper():
        inner = elements(value, [axis.var for axis in own])
    tables = current().snapshot()
    try:
        operator = trace_operator(op, inner, own[1:], what)
    except RowsMixed:
        from raido.algo.language.row_segments import segment_rows

        current().restore(tables)
        return segment_rows(op, neutral, value, bounds, prefixes=prefixes, kind=kind, name=name, names=axes)
    start = starting_values(neutral, inner, own[1:])
    nodes = tuple(leaf.node for leaf in leaves(inner))
    form = Segmented(own, bounds.node, *operator.fields, start, nodes, prefixes, operator.monoid)
    return unflatten(value, form_results(form, kind, name, operator.weak))


def _offsets(offsets: Any, what: str) -> Array:
    array = structure(offsets)
    if isinstance(array, tuple) or array.ndim != 1:
        got = kind_of(array) if isinstance(array, tuple) else describe(array.dtype, array.extents)
        raise TraceError(complaint(f"the offsets of {what} are an integer array of rank 1, not {got}"))
    if not array.dtype.is_integer:
        raise DTypeError(complaint(f"the offsets of {what} are integers, not {array.dtype}"))
    if current().assumptions.less(array.extents[0], 1):
        raise ShapeError(
            complaint(f"the offsets of {what} have one element more than there are segments, so at least one")
        )
    current().at_least_one(array.extents[0], f"dimension 0 of the offsets of {what}")
    if array.dtype is u64:
        return elementwise(lambda offset: Array(checked_count(offset, "unsigned_offset")), [array])
    return astype(array, i64)
