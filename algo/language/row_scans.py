"""`rd.scan` with an operator that mixes the elements of its rows: prefix products of matrices.

Rows of few elements of constant size become as many scalars of one `Scan`. Larger ones are combined one after the other, by a loop that
writes each prefix into the result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from raido.algo.graph.expr import Scan
from raido.algo.language.combinators import map as map_outermost
from raido.algo.language.control import loop
from raido.algo.language.making import replicate
from raido.algo.language.row_reductions import assembled, checked_operator, scalar_operator, small_shapes, start_of
from raido.algo.trace.building import elements, form_results, make_axes
from raido.algo.trace.small_rows import indices_of
from raido.algo.trace.trees import leaves, map_leaves, unflatten
from raido.algo.trace.value import COUNTER, Array


def scan_rows(
    op: Callable[..., Any],
    neutral: Any,
    value: Any,
    axis: int,
    *,
    exclusive: bool,
    name: str | None,
    names: Sequence[str] | None,
) -> Any:
    """Returns the prefixes of `value`, a structure of arrays, along `axis`; the dimensions behind the axis belong to the element."""
    shapes = small_shapes(value, axis)
    if shapes is None:
        return _in_order(op, neutral, value, axis, exclusive, name)
    flat: list[Array] = leaves(value)
    own = make_axes(flat[0].extents[: axis + 1], names)
    operator = scalar_operator(op, neutral, value, axis, shapes, [one.var for one in own], "rd.scan")
    form = Scan(own, axis, *operator, exclusive, "")
    parts = iter(form_results(form, "scan", name))
    rows = [assembled([next(parts) for _ in indices_of(shape)], shape, own) for shape in shapes]
    return unflatten(value, rows)


def _in_order(op: Callable[..., Any], neutral: Any, value: Any, axis: int, exclusive: bool, name: str | None) -> Any:
    flat: list[Array] = leaves(value)
    if axis:
        inner = lambda *rows: _in_order(op, neutral, unflatten(value, rows), axis - 1, exclusive, name)
        return map_outermost(inner, *flat)
    operator = checked_operator(op, value, axis, "rd.scan")
    first = start_of(neutral, value, axis)
    count = Array(flat[0].extents[0], COUNTER)

    def body(i: Array, state: Any) -> Any:
        total, prefixes = state
        after = operator(total, elements(value, [i.node]))
        written = total if exclusive else after
        return after, map_leaves(lambda kept, row: kept.at[i].set(row), prefixes, written)

    return loop(count, body, (first, map_leaves(lambda row: replicate(count, row), first)), name=name)[1]
