"""`rd.reduce_by_index` with an operator that mixes the elements of its rows: the longest vector of each bin.

Rows of few elements of constant size become as many arrays of bins. Larger ones are combined one after the other, by a loop that updates
one row in each iteration.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from raido.algo.graph import index as ix
from raido.algo.graph.dtypes import i64
from raido.algo.graph.expr import Axis, Expr, Op, Update
from raido.algo.graph.rewrite import substitute
from raido.algo.language.control import loop
from raido.algo.language.moves import expand_dims, moved, regrouped
from raido.algo.language.row_reductions import assembled, checked_operator, scalar_operator, small_shapes
from raido.algo.language.scattering import scatter
from raido.algo.trace.building import element, elements, form_results, make_axes
from raido.algo.trace.small_rows import indices_of
from raido.algo.trace.trees import leaves, map_leaves, unflatten
from raido.algo.trace.value import COUNTER, Array

WHAT = "rd.reduce_by_index"


def update_rows(
    dest: Any,
    op: Callable[..., Any],
    neutral: Any,
    indices: Sequence[Expr],
    own: tuple[Axis, ...],
    values: Sequence[Expr],
    name: str | None,
) -> Any:
    """Returns `dest`, a structure of arrays, with the rows at `indices` combined with `values`, expressions over the variables of `own`.

    `indices` are indices of the leading dimensions of `dest`; the last axes are those of the row.
    """
    flat: list[Array] = leaves(dest)
    bins, update_axes = flat[0].extents[: len(indices)], own[: len(own) - flat[0].ndim + len(indices)]
    extents = [axis.extent for axis in own]
    value = unflatten(dest, [moved(extents, lambda *at, e=e: _at(e, own, at)) for e in values])
    shapes = small_shapes(value, len(update_axes) - 1)
    if shapes is None:
        index = [moved(extents[: len(update_axes)], lambda *at, e=e: _at(e, update_axes, at)) for e in indices]
        return _in_order(dest, op, value, index, extents[: len(update_axes)], name)
    operator = scalar_operator(
        op, neutral, value, len(update_axes) - 1, shapes, [axis.var for axis in update_axes], WHAT
    )
    parts = [
        moved(bins, lambda *at, leaf=leaf, row=row: element(leaf, [*at, *map(ix.as_index, row)]).node).node
        for leaf, shape in zip(flat, shapes, strict=True)
        for row in indices_of(shape)
    ]
    form = Update(tuple(parts), update_axes, tuple(indices), *operator, "combine", False, "")
    results = iter(form_results(form, "reduce_by_index", name))
    axes = make_axes(bins)
    return unflatten(dest, [assembled([next(results) for _ in indices_of(shape)], shape, axes) for shape in shapes])


def _at(e: Expr, axes: Sequence[Axis], indices: Sequence[Expr]) -> Expr:
    """Returns an expression over some axes with these indices substituted."""
    return substitute(e, {axis.var: position for axis, position in zip(axes, indices, strict=True)})


def _in_order(
    dest: Any, op: Callable[..., Any], value: Any, index: Sequence[Array], shape: Sequence[Expr], name: str | None
) -> Any:
    total = ix.as_index(1)
    for extent in shape:
        total = ix.mul(total, extent)
    operator = checked_operator(op, value, len(shape) - 1, WHAT)

    def body(i: Array, state: Any) -> Any:
        at = regrouped([i.node], [total], shape)
        position = tuple(element(e, at) for e in index)
        within = lambda d: [Op("clamp_index", i64, (p.node, n)) for p, n in zip(position, d.extents, strict=False)]
        old = map_leaves(lambda d: element(d, within(d)), state)
        new = operator(old, elements(value, at))
        once = tuple(moved([ix.as_index(1)], lambda _, p=p: p.node) for p in position)
        return map_leaves(lambda d, row: scatter(d, once, expand_dims(row, 0)), state, new)

    return loop(Array(total, COUNTER), body, dest, name=name)
