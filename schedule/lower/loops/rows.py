"""Loops along an axis at which flat arrays are read, split into a loop over rows and one inside each, where reads are contiguous."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from raido.algo.graph import index as ix
from raido.algo.graph.assumptions import Assumptions
from raido.algo.graph.expr import Expr, Node, Op, fresh
from raido.schedule.lower.builder import Builder, factors
from raido.schedule.lower.loop_cursor import LoopCursor, Rows, cloned


def rows_through(cursor: LoopCursor, position: int, iterations: Expr, assumptions: Assumptions) -> Rows | None:
    """The rows that the loop runs through, if it is the last loop along an axis at which arrays are read flat, and rows are
    provably not empty; else None."""
    lowered = cursor.lowered
    name = lowered.plan.loops[position].name
    axes = lowered.axis_of[name]
    level = lowered.plan.loops[position].level  # a loop over blocks or threads stays one
    if level or lowered.blocked or name in lowered.fused or len(axes) != 1 or not cursor.phase.reads:
        return None
    (axis,) = axes
    if any(rows.axis == axis for rows in cursor.rows) or any(
        axis in lowered.axis_of[loop.name] for loop in lowered.plan.loops[position + 1 :]
    ):
        return None
    found = lowered.rows_along(lowered.variables[axis], cursor.identity)
    if found is None:
        return None
    inside = [
        node.args[1] for node in cursor.identity if isinstance(node, Op)
    ]  # a boundary operation is the identity only where its extent is not 0
    whole = any(found[0] in factors(count) for count in (iterations, *inside))
    if not whole and not assumptions.nonnegative(ix.sub(found[0], 1)):
        return None
    return Rows(axis, found[2], found[0], found[1], fresh("row"))


@contextmanager
def row_by_row(
    builder: Builder, cursor: LoopCursor, rows: Rows, kind: str, low: Expr, high: Expr
) -> Iterator[tuple[LoopCursor, Expr, Expr]]:
    """A loop over rows, as a context that yields the loop cursor inside and the bounds in a row, so that no index is divided."""
    length = ix.maximum(rows.length, 1)
    begin = ix.add(low, rows.offset)
    first = begin if ix.constant_value(begin) == 0 else ix.floordiv(begin, length)
    last = ix.floordiv(ix.add(ix.sub(high, 1), rows.offset), length)
    how = {"kind": kind} if kind == "parallel" else {}
    with builder.loop(rows.row, first, ix.add(last, 1), 1, stage=cursor.lowered.stage.name, loop="", **how):
        start = _start(rows)
        begin, end = ix.maximum(low, start), ix.minimum(high, ix.add(start, rows.length))
        yield cloned(cursor, rows=(*cursor.rows, rows)), begin, end


def indices_in_row(rows: Rows, position: Expr) -> dict[Node, Node]:
    """The quotients and remainders at an index of the axis, in terms of the current row."""
    rest = ix.sub(position, _start(rows))
    return {n: rows.row if n.name == "floordiv" else rest for n in rows.nodes}


def _start(rows: Rows) -> Expr:
    """The index along the axis at which the row begins."""
    return ix.sub(ix.mul(rows.row, rows.length), rows.offset)
