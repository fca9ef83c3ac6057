"""`rd.scan`: prefixes under an associative operator, as one `Scan`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, overload

from raido.algo.errors import ShapeError, TraceError
from raido.algo.graph.expr import Scan
from raido.algo.trace.building import Number, Several, Single, Tuples, elements, form_results, make_axes, structure
from raido.algo.trace.combining import RowsMixed, starting_values, trace_operator
from raido.algo.trace.context import current
from raido.algo.trace.existential import joined_size
from raido.algo.trace.locations import complaint
from raido.algo.trace.trees import leaves, unflatten
from raido.algo.trace.value import Array


@overload
def scan(
    op: Callable[[Several, Several], Several],
    neutral: Any,
    arrays: Tuples,
    /,
    *,
    axis: int = 0,
    exclusive: bool = False,
    name: str | None = None,
    axes: Sequence[str] | None = None,
) -> Several: ...
@overload
def scan(
    op: Callable[[Array, Array], Array | Number],
    neutral: Any,
    array: Single,
    /,
    *,
    axis: int = 0,
    exclusive: bool = False,
    name: str | None = None,
    axes: Sequence[str] | None = None,
) -> Array: ...
@overload
def scan(
    op: Callable[[Several, Several], Several],
    neutral: Any,
    first: Any,
    second: Any,
    /,
    *arrays: Any,
    axis: int = 0,
    exclusive: bool = False,
    name: str | None = None,
    axes: Sequence[str] | None = None,
) -> Several: ...
def scan(
    op: Callable[[Any, Any], Any],
    neutral: Any,
    *arrays: Any,
    axis: int = 0,
    exclusive: bool = False,
    name: str | None = None,
    axes: Sequence[str] | None = None,
) -> Any:
    """The prefixes along `axis`: at i, `neutral` and the elements 0 … i, combined in order by the associative `op(x, y)`.

    The shape and the dtypes are those of the arrays. `exclusive`: the elements 0 … i − 1, so that the first result is `neutral`, which is
    combined whether or not it is neutral. Leading dimensions are mapped over, trailing ones belong to the element. An `op` on rows that
    mixes their elements is combined in registers where rows are small and of constant size (2 × 2 matrices), else one row after the other.
    With k arrays, operands, `neutral` and the result are k-tuples: `op((a, b), (c, d))`. Raises `DTypeError` where `op` returns another
    type than it takes, `ShapeError` for an axis out of range. `axes` names the stage's axes for schedules, outermost first, one for each
    dimension.

    Example:
        >>> import numpy as np, raido as rd
        >>> @rd.algorithm
        ... def running(a: rd.i64["n"]):
        ...     return rd.scan(rd.add, 0, a), rd.scan(rd.maximum, 2, a, exclusive=True)
        >>> running.interpret(np.array([3, 1, 4]))
        (array([3, 4, 8]), array([2, 3, 3]))
    """
    if not arrays:
        raise TraceError(complaint("rd.scan needs an array", remedy="rd.scan(op, neutral, array), or rd.cumsum(array)"))
    value = whole_operand(arrays, "rd.scan")
    rank = min(leaf.ndim for leaf in leaves(value))
    if not -rank <= axis < rank:
        raise ShapeError(complaint(f"axis {axis} of an array of rank {rank}"))
    along, tables = axis % rank, current().snapshot()
    try:
        return _scan(op, neutral, value, along, bool(exclusive), name, axes)
    except RowsMixed:
        from raido.algo.language.row_scans import scan_rows

        current().restore(tables)
        return scan_rows(op, neutral, value, along, exclusive=bool(exclusive), name=name, names=axes)


def _scan(
    op: Callable[..., Any],
    neutral: Any,
    value: Any,
    along: int,
    exclusive: bool,
    name: str | None,
    axes: Sequence[str] | None,
) -> Any:
    """Returns the prefixes with an operator that treats each element of a row independently; raises `RowsMixed` for other operators."""
    shapes = {leaf.extents[along + 1 :] for leaf in leaves(value)}
    if len(shapes) > 1 and len({len(shape) for shape in shapes}) > 1:
        raise RowsMixed(complaint("rd.scan over elements of different shapes"))
    value, extents = operands((value,), "rd.scan")
    own = make_axes(extents, axes)
    with current().deeper():
        inner = elements(value, [a.var for a in own])
    rows = own[along + 1 :]
    operator = trace_operator(op, inner, rows, "rd.scan")
    start = starting_values(neutral, inner, rows)
    values = tuple(leaf.node for leaf in leaves(inner))
    form = Scan(own, along, *operator.fields, start, values, exclusive, operator.monoid)
    return unflatten(value, form_results(form, "scan", name, operator.weak))


def operands(arrays: Sequence[Any], what: str) -> tuple[Any, tuple[Any, ...]]:
    """Returns the arrays of a combinator as one structure, and their common shape."""
    value = whole_operand(arrays, what)
    flat: list[Array] = leaves(value)
    first = flat[0]
    extents = list(first.extents)
    for leaf in flat[1:]:
        if leaf.ndim != first.ndim:
            raise ShapeError(complaint(f"{what} over arrays of rank {first.ndim} and {leaf.ndim}"))
        for k, (a, b) in enumerate(zip(extents, leaf.extents, strict=True)):
            extents[k] = joined_size(a, b, f"dimension {k} of one array", f"dimension {k} of another")
    return value, tuple(extents)


def whole_operand(arrays: Sequence[Any], what: str) -> Any:
    """Returns the arrays of a combinator as one structure."""
    given = [structure(a) for a in arrays]
    value = given[0] if len(given) == 1 else tuple(given)
    if not leaves(value) or any(leaf.ndim == 0 for leaf in leaves(value)):
        raise TraceError(complaint(f"{what} needs an array"))
    return value
