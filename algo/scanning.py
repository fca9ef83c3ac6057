"""`rd.scan`: prefixes under an associative operator, as one `Scan`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from raido.algo.building import elements, form_results, make_axes, structure
from raido.algo.combining import starting_values, trace_operator
from raido.algo.context import current
from raido.algo.errors import ShapeError, TraceError
from raido.algo.existential import joined_size
from raido.algo.expr import Scan
from raido.algo.locations import complaint
from raido.algo.trees import leaves, unflatten
from raido.algo.value import Array


def scan(
    op: Callable[..., Any],
    neutral: Any,
    *arrays: Any,
    axis: int = 0,
    exclusive: bool = False,
    name: str | None = None,
    axes: Sequence[str] | None = None,
) -> Any:
    """Along `axis`, at i: `neutral` and the elements 0 … i, combined in order by the associative `op(x, y)`.

    The shape and the dtypes are those of the arrays. `exclusive`: the elements 0 … i − 1, so that the first result is `neutral`, which
    takes part whether or not it is neutral. Leading dimensions are mapped over, trailing ones belong to the element; an `op` on rows
    must work on each element of the row by itself. With k arrays, operands, `neutral` and the result are k-tuples:
    `op((a, b), (c, d))`. DTypeError when `op` returns another type than it takes; ShapeError for an axis there is not.

    Example:
        >>> import numpy as np, raido as rd
        >>> @rd.algorithm
        ... def running(a: rd.i64["n"]):
        ...     return rd.scan(rd.add, 0, a), rd.scan(rd.maximum, 2, a, exclusive=True)
        >>> running.interpret(np.array([3, 1, 4]))
        (array([3, 4, 8]), array([2, 3, 3]))
    """
    value, extents = operands(arrays, "rd.scan")
    if not -len(extents) <= axis < len(extents):
        raise ShapeError(complaint(f"axis {axis} of an array of rank {len(extents)}"))
    along = axis % len(extents)
    own = make_axes(extents, axes)
    with current().deeper():
        inner = elements(value, [a.var for a in own])
    rows = own[along + 1 :]
    operator = trace_operator(op, inner, rows, "rd.scan")
    start = starting_values(neutral, inner, rows)
    values = tuple(leaf.node for leaf in leaves(inner))
    form = Scan(own, along, *operator.fields, start, values, bool(exclusive), operator.monoid)
    return unflatten(value, form_results(form, "scan", name))


def operands(arrays: Sequence[Any], what: str) -> tuple[Any, tuple[Any, ...]]:
    """The arrays of a combinator as one structure, and the shape that they all have."""
    given = [structure(a) for a in arrays]
    value = given[0] if len(given) == 1 else tuple(given)
    flat: list[Array] = leaves(value)
    if not flat or flat[0].ndim == 0:
        raise TraceError(complaint(f"{what} needs an array"))
    first = flat[0]
    extents = list(first.extents)
    for leaf in flat[1:]:
        if leaf.ndim != first.ndim:
            raise ShapeError(complaint(f"{what} over arrays of rank {first.ndim} and {leaf.ndim}"))
        for k, (a, b) in enumerate(zip(extents, leaf.extents, strict=True)):
            extents[k] = joined_size(a, b, f"dimension {k} of one array", f"dimension {k} of another")
    return value, tuple(extents)
