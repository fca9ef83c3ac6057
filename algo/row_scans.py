"""`rd.scan` with an operator that mixes the elements of its rows: prefix products of matrices.

Rows of few elements of constant size become as many scalars of one `Scan`. Larger ones are combined one after the other, by a loop that
writes each prefix into its place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from raido.algo import index
from raido.algo.building import broadcast_element, element, elements, form_results, make_axes
from raido.algo.combinators import map as map_outermost
from raido.algo.combining import refuse_open_loops
from raido.algo.context import current
from raido.algo.control import loop
from raido.algo.expr import Expr, Scan, fresh
from raido.algo.making import replicate
from raido.algo.row_reductions import assembled, checked_operator, small_shapes, start_of
from raido.algo.small_rows import places_of, row_of, scalars_of
from raido.algo.trees import leaves, map_leaves, unflatten
from raido.algo.value import COUNTER, Array


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
    """The prefixes of `value`, a structure of arrays, along `axis`; what follows the axis belongs to the element."""
    shapes = small_shapes(value, axis)
    if shapes is None:
        return _in_order(op, neutral, value, axis, exclusive, name)
    flat: list[Array] = leaves(value)
    own = make_axes(flat[0].extents[: axis + 1], names)
    front = [one.var for one in own]
    values: list[Expr] = []
    sides: list[list[Any]] = [[], []]
    for leaf, shape in zip(flat, shapes, strict=True):
        with current().deeper():
            values += [element(leaf, [*front, *map(index.as_index, place)]).node for place in places_of(shape)]
        for side, letter in zip(sides, "ab", strict=True):
            side.append([fresh(letter, leaf.dtype) for _ in places_of(shape)])
    operands = [
        unflatten(value, [row_of(scalars, shape) for scalars, shape in zip(side, shapes, strict=True)])
        for side in sides
    ]
    combined = leaves(checked_operator(op, value, axis, "rd.scan")(*operands))
    bodies = tuple(e for leaf, shape in zip(combined, shapes, strict=True) for e in scalars_of(leaf, shape))
    start = tuple(
        broadcast_element(leaf, [index.as_index(k) for k in place]).node
        for leaf, shape in zip(leaves(start_of(neutral, value, axis)), shapes, strict=True)
        for place in places_of(shape)
    )
    left, right = (tuple(var for group in side for var in group) for side in sides)
    refuse_open_loops(bodies, (*left, *right), "rd.scan")
    form = Scan(own, axis, left, right, bodies, start, tuple(values), exclusive, "")
    parts = iter(form_results(form, "scan", name))
    rows = [assembled([next(parts) for _ in places_of(shape)], shape, own) for shape in shapes]
    return unflatten(value, rows)


def _in_order(op: Callable[..., Any], neutral: Any, value: Any, axis: int, exclusive: bool, name: str | None) -> Any:
    flat: list[Array] = leaves(value)
    if axis:
        inner = lambda *rows: _in_order(op, neutral, unflatten(value, rows), axis - 1, exclusive, name)
        return map_outermost(inner, *flat)
    operator = checked_operator(op, value, axis, "rd.scan")
    first = start_of(neutral, value, axis)
    count = Array(flat[0].extents[0], COUNTER)

    def step(i: Array, state: Any) -> Any:
        total, prefixes = state
        after = operator(total, elements(value, [i.node]))
        written = total if exclusive else after
        return after, map_leaves(lambda kept, row: kept.at[i].set(row), prefixes, written)

    return loop(count, step, (first, map_leaves(lambda row: replicate(count, row), first)), name=name)[1]
