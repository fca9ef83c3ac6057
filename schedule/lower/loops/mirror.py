"""Symmetric results by their lower triangle (strategy "triangle"): tiles above the diagonal are not computed, but copied afterwards.

    for yo, xo: if x of some element of the tile <= y of some: tile of sums
    for y: for x > y: out[y, x] = out[x, y]

The copy runs over tiles of some rows, so that a cache line that it reads serves all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from raido.algo.graph import index as ix
from raido.algo.graph.dtypes import bool_
from raido.algo.graph.expr import Op, fresh
from raido.schedule.lower.builder import Builder, as_planned
from raido.schedule.lower.expressions.convert import Storage
from raido.schedule.lower.loop_cursor import LoopCursor
from raido.schedule.lower.loops.versions import as_comparison
from raido.schedule.lower.lowered_stage import LoweredStage
from raido.schedule.nest.nodes import Store
from raido.schedule.nest.values import Read
from raido.schedule.strategies.parts import part_plan, rows_copied_together


def is_triangle(lowered: LoweredStage) -> bool:
    """Whether a stage computes the lower triangle of its result and copies the upper one."""
    return lowered.plan.strategy is not None and lowered.plan.strategy[0] == "triangle"


@contextmanager
def unless_copied(builder: Builder, cursor: LoopCursor) -> Iterator[None]:
    """Puts the statements added meanwhile behind the test that an element of the current tile is on or below the diagonal."""
    lanes = any(loop.kind == "vector" for loop in cursor.lowered.plan.loops[: cursor.lowered.first_reduction])
    if not is_triangle(cursor.lowered) or lanes or len(cursor.instances) > 1:
        yield
        return
    row, column = (axis.name for axis in cursor.lowered.stage.axes[-2:])
    last, first = cursor.instances[0].box(row)[1], cursor.instances[0].box(column)[0]
    with builder.when(Op("le", bool_, (first, last))):
        yield


def copy_triangle(builder: Builder, lowered: LoweredStage, storages: Sequence[Storage]) -> None:
    """Emits the copy of the elements below the diagonal to those above it, some rows at a time."""
    *outer, rows, columns = lowered.stage.axes
    count = rows_copied_together(lowered.plan)
    by_blocks, along = part_plan(lowered.stage, lowered.plan, "copy").loops
    size, name = rows.extent, lowered.stage.name
    around, top, other = [fresh(axis.name) for axis in outer], fresh(rows.name), fresh(columns.name)
    with ExitStack() as loops:
        for var, axis in zip(around, outer, strict=True):
            loops.enter_context(builder.loop(var, ix.as_index(0), axis.extent, stage=name))
        loops.enter_context(builder.loop(top, ix.as_index(0), size, count, **as_planned(by_blocks, name)))
        end = ix.minimum(ix.add(top, count), size)
        row, column = fresh(rows.name), fresh(columns.name)
        with builder.loop(row, top, end, stage=name), builder.loop(column, ix.add(row, 1), end, stage=name):
            _copy(builder, storages, (*around, row, column), (*around, column, row))
        below = ix.sub(size, ix.add(top, count + 1))
        with (
            builder.when(as_comparison(below), below),
            builder.loop(other, ix.add(top, count), size, **as_planned(along, name)),
        ):
            for k in range(count):
                row_k = ix.add(top, k)
                _copy(builder, storages, (*around, row_k, other), (*around, other, row_k))


def _copy(builder: Builder, storages: Sequence[Storage], to: Sequence[object], of: Sequence[object]) -> None:
    for each in storages:
        value = Read(each.buffer, each.indices_of(tuple(of), builder.assumptions), None)  # type: ignore[arg-type]
        builder.add(Store(each.buffer, each.indices_of(tuple(to), builder.assumptions), value))  # type: ignore[arg-type]
