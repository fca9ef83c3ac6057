"""Vectorised reductions with a non-commutative operator: each lane folds a contiguous block, and the blocks are combined in order.

    before   for r in 0..n by vector: acc = op(acc, a[r])

    after    for k in 0..n//8:  for lane in 0..8 by vector: block[lane] = op(block[lane], a[lane*(n//8) + k])
             acc = op(acc, block[0]), op(acc, block[1]), …
             for r in 8*(n//8)..n: acc = op(acc, a[r])

Other loops may stand inside: blocks are then of the outer loop's iterations, and hold a value for every element
that the loops inside run over.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from raido.algo.graph import index as ix
from raido.algo.graph.dtypes import bool_, i64
from raido.algo.graph.expr import Expr, Op, const, fresh
from raido.schedule.checks.lanes_along_folds import is_ordered_fold
from raido.schedule.lower.builder import Builder, as_planned
from raido.schedule.lower.loop_cursor import Accumulators, LoopCursor, accumulators_of
from raido.schedule.lower.loops.folds import folds_at
from raido.schedule.nest.values import Read

if TYPE_CHECKING:
    from raido.schedule.lower.loops.loops import Loops
    from raido.schedule.lower.loops.reductions import Reductions


class LaneBlocks:
    """Emits reductions in one block per lane for `Loops`."""

    def __init__(self, loops: Loops, reductions: Reductions) -> None:
        self.loops, self.reductions = loops, reductions
        self.builder: Builder = loops.builder

    def applies(self, cursor: LoopCursor, position: int) -> bool:
        """Whether the loop at `position` is a vector loop of a fold whose operator is not commutative."""
        lowered, plan = cursor.lowered, cursor.lowered.plan.loops[position]
        return (
            cursor.phase is self.reductions.fold
            and plan.kind == "vector"
            and folds_at(lowered, position)
            and is_ordered_fold(lowered.stage)
        )

    def fold(self, cursor: LoopCursor, position: int) -> None:
        """The vector loop at `position` of a fold in blocks; nothing else happens in it (`checks/lanes_along_folds.py`)."""
        plan, total = cursor.lowered.plan.loops[position], accumulators_of(cursor)
        inside = tuple(axis for axis in total.axes if cursor.instances[0].ranges[axis].value is None)
        low, high, step = cursor.instances[0].bounds(plan.name)
        lanes = plan.lanes * plan.interleave
        if lanes == 1:
            self.loops.loop(cursor, position, "serial")
            return
        length = self.builder.name("block", ix.floordiv(ix.sub(high, low), lanes * step))
        with self.builder.when(Op("gt", bool_, (length, const(i64, 0))), ix.sub(length, 1)):
            self._blocks(cursor, position, total, inside, low, length, lanes, step)
        rest = cursor.instances[0].copy()
        rest.narrow(plan.name, ix.add(low, ix.mul(length, lanes * step)), high)
        self.loops.loop(replace(cursor, instances=[rest]), position, "serial")

    def _blocks(
        self,
        cursor: LoopCursor,
        position: int,
        total: Accumulators,
        inside: tuple[str, ...],
        low: Expr,
        length: Expr,
        lanes: int,
        step: int,
    ) -> None:
        """Emits the blocks of `length` iterations each and their combination; inside: the axes that inner loops run over."""
        lowered, plan, builder = cursor.lowered, cursor.lowered.plan.loops[position], self.builder
        assert lowered.reduction is not None
        origin = total.origins[cursor.origin_of[0]]
        which = [total.axes.index(axis) for axis in inside]
        shape = (*(total.buffers[0].shape[d] for d in which), ix.as_index(lanes))
        buffers = tuple(
            builder.alloc("block", v.dtype, shape, "heap" if which else "register") for v in lowered.reduction.left
        )
        lane, turn = fresh("lane"), fresh(plan.name)
        lengths = tuple(total.lengths[d] for d in which)
        own = Accumulators(buffers, inside, ({a: origin[a] for a in inside},), False, lengths, (), (lane,))

        def index_of(at: tuple[Expr, ...]) -> tuple[Expr, ...]:
            chosen = dict(zip(inside, at, strict=True))
            values = {axis: cursor.instances[0].ranges[axis].value for axis in total.axes if axis not in chosen}
            return tuple(chosen[a] if a in chosen else ix.sub(values[a], origin[a]) for a in total.axes)  # type: ignore[arg-type]

        how = as_planned(plan, lowered.stage.name)

        def start(at: tuple[Expr, ...]) -> None:
            neutral = self.reductions.neutral(cursor, total, index_of(at))
            with builder.loop(first := fresh("lane"), ix.as_index(0), ix.as_index(lanes), 1, **how):
                builder.store(buffers, (*at, first), neutral)

        self.reductions.each(lengths, start)
        with (
            builder.loop(turn, ix.as_index(0), length, 1, **as_planned(plan, lowered.stage.name, "serial")),
            builder.loop(lane, ix.as_index(0), ix.as_index(lanes), 1, **how),
        ):
            at = ix.add(low, ix.mul(ix.add(ix.mul(lane, length), turn), step))
            fold = replace(cursor, instances=[cursor.instances[0].copy()], accumulators=own, origin_of=[0])
            self.loops.choose(fold, position, [[at]])

        def join(at: tuple[Expr, ...]) -> None:
            indices = index_of(at)
            for k in range(lanes):
                left = [builder.name("left", Read(b, indices, None)) for b in total.buffers]
                right = [builder.name("right", Read(b, (*at, ix.as_index(k)), None)) for b in buffers]
                self.reductions.combine(cursor, total, indices, left, right)

        self.reductions.each(lengths, join, unrolled=total.buffers[0].scope == "register")
