"""`rd.segmented_reduce` and `rd.segmented_scan` with an operator that mixes the elements of its rows: products of matrices.

Rows of few elements of constant size become as many scalars. Larger ones are combined one after the other: for a reduction, by a loop for
each segment; for a scan, by one loop over all elements that restarts at the beginning of each segment.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from raido.algo.graph import index as ix
from raido.algo.graph.dtypes import i64
from raido.algo.graph.expr import Segmented, const
from raido.algo.graph.offsets import in_order, offset_of_zero_segments
from raido.algo.language.combinators import elementwise
from raido.algo.language.combinators import map as map_outermost
from raido.algo.language.control import loop
from raido.algo.language.indexing import get_item
from raido.algo.language.making import iota, replicate
from raido.algo.language.row_reductions import (
    assembled,
    checked_operator,
    reduce_rows,
    scalar_operator,
    small_shapes,
    start_of,
)
from raido.algo.language.ufuncs import add, where
from raido.algo.trace.building import element, elements, form_results, make_axes
from raido.algo.trace.context import current
from raido.algo.trace.existential import checked
from raido.algo.trace.small_rows import indices_of
from raido.algo.trace.trees import leaves, map_leaves, unflatten
from raido.algo.trace.value import COUNTER, Array


def segment_rows(
    op: Callable[..., Any],
    neutral: Any,
    value: Any,
    offsets: Array,
    *,
    prefixes: bool,
    kind: str,
    name: str | None,
    names: Sequence[str] | None,
) -> Any:
    """Returns the reduction, or the prefixes, of every segment of `value`, a structure of arrays of rows."""
    shapes = small_shapes(value, 0)
    if shapes is None:
        in_order = _prefixes_in_order if prefixes else _folds_in_order
        return in_order(op, neutral, value, offsets, name)
    flat: list[Array] = leaves(value)
    own = make_axes(flat[0].extents[:1], None if names is None else names[:1])
    operator = scalar_operator(op, neutral, value, 0, shapes, [own[0].var], f"rd.{kind}")
    results = form_results(Segmented(own, offsets.node, *operator, prefixes, ""), kind, name)
    axes, parts = make_axes(results[0].extents), iter(results)
    return unflatten(value, [assembled([next(parts) for _ in indices_of(shape)], shape, axes) for shape in shapes])


def _folds_in_order(op: Callable[..., Any], neutral: Any, value: Any, offsets: Array, name: str | None) -> Any:
    count, segments = leaves(value)[0].extents[0], ix.sub(offsets.extents[0], 1)
    lone = offset_of_zero_segments(element(offsets, [const(i64, 0)]).node, count)
    current().site(lone)

    def fold(segment: Array) -> Any:
        begin, end = (element(offsets, [e]).node for e in (segment.node, ix.add(segment.node, 1)))
        holds, details = in_order(begin, end, count), (begin, end, count, segments, lone)
        begin = checked(begin, holds, "offsets", details)
        part = map_leaves(lambda leaf: get_item(leaf, slice(Array(begin), Array(end))), value)
        rows = reduce_rows(op, neutral, part, 0, commutative=False, name=name, names=None)
        # The result checks the offsets itself, so that they are checked for zero segments, too.
        look = lambda e: Array(checked(e.node, holds, "offsets", details))
        return map_leaves(lambda leaf: elementwise(look, leaf), rows)

    return map_outermost(fold, iota(Array(segments, COUNTER)))


def _prefixes_in_order(op: Callable[..., Any], neutral: Any, value: Any, offsets: Array, name: str | None) -> Any:
    from raido.algo.language.segments import segmented_scan

    flat: list[Array] = leaves(value)
    count = Array(flat[0].extents[0], COUNTER)
    operator = checked_operator(op, value, 0, "rd.segmented_scan")
    first = start_of(neutral, value, 0)
    number = segmented_scan(add, 0, replicate(count, 1), offsets)  # position in its segment, from 1; 0 outside of all

    def body(i: Array, state: Any) -> Any:
        before, prefixes = state
        here = element(number, [i.node])
        start = map_leaves(lambda neutral, row: where(here == 1, neutral, row), first, before)
        after = operator(start, elements(value, [i.node]))
        written = map_leaves(lambda neutral, row: where(here == 0, neutral, row), first, after)
        return after, map_leaves(lambda kept, row: kept.at[i].set(row), prefixes, written)

    return loop(count, body, (first, map_leaves(lambda row: replicate(count, row), first)), name=name)[1]
