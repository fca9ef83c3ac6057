"""Blocks of the axis along which a scan or filter runs: the loop over them, and the fold of a block's values, its total.

Blocks of a scan are totalled by its operator, blocks of a filter by the number of elements that they keep (`LoweredStage.carried`). A total has
no initial value: it starts from the block's first value, or from the operator's neutral element if it has a known one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from raido.algo.graph import index as ix
from raido.algo.graph.expr import Expr, fresh
from raido.schedule.lower.builder import Builder, as_planned
from raido.schedule.lower.loop_cursor import Accumulators, LoopCursor, Phase, carried, cloned, over_reduced
from raido.schedule.lower.lowered_stage import LoweredStage
from raido.schedule.lower.regions.regions import spread
from raido.schedule.nest.nodes import Certificate
from raido.schedule.plan import LoopPlan
from raido.schedule.strategies.parts import part_loop, totals_part

if TYPE_CHECKING:
    from raido.schedule.lower.loops.loops import Loops
    from raido.schedule.lower.loops.reductions import Reductions

Follow: TypeAlias = Callable[[LoopCursor, int, Accumulators], None]
"""Emits the last pass over a block, or over a thread's part of it, given the accumulators of the running values."""


@dataclass(frozen=True, slots=True)
class Staging:
    """The results of a block in shared memory. follow: the last pass, which fills it from index 0 on. runs: its contiguous parts, each by
    its first index, its length, and its first index in the results; move: emits the move of the element at the first index to the second
    one of the results. certificates: those of the loop over threads that fills it."""

    follow: Follow
    runs: tuple[tuple[Expr, Expr, Expr], ...]
    move: Callable[[Expr, Expr], None]
    certificates: tuple[Certificate, ...]


@dataclass(frozen=True, slots=True)
class LastPass:
    """The pass that stores results. end: cleared accumulators that receive the fold of all blocks, if needed. certificates:
    those of its loop over blocks. stage: allocates a block's shared memory for results, if they are staged, given the block, the fold of
    the blocks before it, and its own."""

    follow: Follow
    end: Accumulators | None = None
    certificates: tuple[Certificate, ...] = ()
    stage: Callable[[LoopCursor, Expr, Expr], Staging] | None = None


class Blocks:
    """Emits loops over blocks with the loops of `Loops` and the accumulators of `Reductions`."""

    def __init__(self, loops: Loops, reductions: Reductions) -> None:
        self.loops, self.reductions = loops, reductions
        self.builder: Builder = loops.builder
        self.first = Phase(self._first_element, _along_rows, self._at_first)
        self.total = Phase(self._total_element, _along_rows, self._totalled)

    def each(
        self,
        cursor: LoopCursor,
        position: int,
        body: Callable[[LoopCursor, int], None],
        loop: LoopPlan | None = None,
        reads: bool = True,
        **fields: Any,
    ) -> None:
        """Emits the loop over blocks at `position`, with the plan `loop` if given; `body` emits a block from the
        position where its loops begin.

        reads: whether producers placed at the loop are emitted. fields: further fields of the `For`.
        """
        plan = cursor.lowered.plan.loops[position]
        loop = replace(loop or plan, name=plan.name)
        low, high, step = cursor.instances[0].bounds(plan.name)

        def block(inner: LoopCursor, at: int) -> bool:
            body(inner, at)
            return True

        part = cloned(cursor, phase=Phase(takes_over=block, reads=reads), origin_of=[0])
        fields |= as_planned(loop, cursor.lowered.stage.name, "parallel" if loop.kind == "parallel" else "serial")
        with self.builder.loop(var := fresh(plan.name), low, high, step, **fields):
            self.loops.choose(part, position, [[var]])

    def count(self, cursor: LoopCursor, position: int) -> Expr:
        """The number of blocks of the loop at `position`."""
        low, high, step = cursor.instances[0].bounds(cursor.lowered.plan.loops[position].name)
        return ix.ceildiv(ix.sub(high, low), step)

    def number(self, cursor: LoopCursor) -> Expr:
        """The number of the current block; scanned axes start at 0, wherever the stage is computed."""
        start, step = self._start(cursor)
        return ix.floordiv(start, step)

    def left(self, cursor: LoopCursor) -> Expr:
        """The number of elements behind the current block if it is full; negative if it is partial."""
        start, step = self._start(cursor)
        return ix.sub(cursor.instances[0].whole[cursor.lowered.stage.reduction_axes[0].name][1], ix.add(start, step))

    def _start(self, cursor: LoopCursor) -> tuple[Expr, int]:
        """The first index of the current block, and the length of blocks."""
        outer = cursor.instances[0].ranges[cursor.lowered.plan.loops[cursor.lowered.first_reduction].name]
        assert outer.value is not None
        return outer.value, outer.step

    def values(self, cursor: LoopCursor, position: int, label: str) -> Accumulators:
        """Accumulators for a total or for running values, of the loops from `position` on."""
        return self.reductions.allocate(cursor, position, registers=False, label=label)

    def initial(self, cursor: LoopCursor, position: int, label: str) -> Accumulators:
        """Accumulators, as by `values`, set to the stage's initial values."""
        made = self.values(cursor, position, label)
        self.reductions.clear(cursor, made)
        return made

    # Inside a block

    def along(
        self,
        cursor: LoopCursor,
        position: int,
        lanes: LoopPlan | None,
        body: Callable[[LoopCursor, int], None],
        skipped: int = 0,
    ) -> bool:
        """Emits the loops along the axis, from `position` on, as one loop with the lanes of `lanes`, from index `skipped` of the block on;
        returns False where there are none."""
        if not over_reduced(cursor, position):
            return False
        axis = cursor.lowered.stage.reduction_axes[0].name
        if cursor.instances[0].ranges[axis].value is not None:
            self.loops.inside(cursor, position)
            return True
        low, high = cursor.instances[0].box(axis)
        last = loops_along(cursor.lowered, position)[-1].name
        how = as_planned(LoopPlan(last) if lanes is None else replace(lanes, name=last), cursor.lowered.stage.name)
        var = fresh(axis)
        with self.builder.loop(
            var, ix.add(low, skipped), self.builder.assumptions.decided(spread(ix.add(high, 1))), 1, **how
        ):
            body(_fixed(cursor, axis, var), position)
        return True

    def total_of(self, cursor: LoopCursor, position: int, own: Accumulators) -> None:
        """Emits the fold of the block's values."""
        if carried(cursor).neutral:
            self.begin_total(cursor, own)
        else:
            if own.axes:  # the loops may leave elements out that are combined all the same, and never read
                self.reductions.clear(cursor, own)
            self.reductions.part(cursor, position, self.first, own)
        self.add_to_total(cursor, position, own)

    def begin_total(self, cursor: LoopCursor, own: Accumulators) -> None:
        """Sets a total to the neutral element."""
        self.reductions.set_all(own, carried(cursor).neutral)

    def add_to_total(self, cursor: LoopCursor, position: int, own: Accumulators) -> None:
        """Folds the values of a block, or of a part of one, into its total; all but the first where there is no neutral element."""
        self.reductions.part(cursor, position, self.total, own)

    def _at_first(self, cursor: LoopCursor, position: int) -> bool:
        """Emits the loops along the axis at the block's first index alone; False where there are none."""
        axis = cursor.lowered.stage.reduction_axes[0].name
        if over_reduced(cursor, position) and cursor.instances[0].ranges[axis].value is None:
            cursor = _fixed(cursor, axis, cursor.instances[0].box(axis)[0])
        return self.along(cursor, position, None, self.loops.inside)

    def _totalled(self, cursor: LoopCursor, position: int) -> bool:
        """Emits the scanned loops inside a block as one loop over its values, because their order is not observable;
        False where there are none."""
        skipped = 0 if carried(cursor).neutral else 1
        return self.along(cursor, position, lanes_of_total(cursor.lowered, position), self.loops.inside, skipped)

    def _first_element(self, cursor: LoopCursor) -> None:
        """Stores a block's first value, with which its total starts."""
        for form, buffers, indices in self.reductions.fold_targets(cursor):
            self.builder.store(buffers, indices, self.loops.emitter.values(form.values))

    def _total_element(self, cursor: LoopCursor) -> None:
        scan = cursor.lowered.stage.scan
        if not carried(cursor).neutral:
            self.loops.emitter.prefixes(self.reductions.fold_targets(cursor), scan is not None and scan.exclusive)
            return
        self.loops.emitter.folds(self.reductions.fold_targets(cursor), contract=False)


def is_chain(lowered: LoweredStage) -> bool:
    """Whether blocks run in a single pass, chained by their prefixes. Never for a partition, which needs the whole count first."""
    partition = lowered.stage.filter is not None and lowered.stage.filter.partition
    return lowered.plan.strategy is not None and lowered.plan.strategy[0] == "chain" and not partition


def loops_along(lowered: LoweredStage, position: int) -> list[LoopPlan]:
    """The loops along the scanned axis from `position` on."""
    return [loop for loop in lowered.plan.loops[position:] if loop.name in lowered.reduced]


def vector_loop(lowered: LoweredStage, position: int) -> LoopPlan | None:
    """The vectorised loop along the scanned axis from `position` on; None if there is none."""
    return next((loop for loop in loops_along(lowered, position) if loop.kind == "vector"), None)


def lanes_of_total(lowered: LoweredStage, position: int) -> LoopPlan | None:
    """The loop whose lanes total a block: that of the strategy's part, or the stage's own where it has none;
    None if it is not vectorised."""
    blocks = lowered.plan.strategy is not None and lowered.plan.strategy[0] != "serial"
    loop = (
        part_loop(lowered.stage, lowered.plan, totals_part(lowered.stage), -1)
        if blocks
        else vector_loop(lowered, position)
    )
    return loop if loop is not None and loop.kind == "vector" else None


def _along_rows(cursor: LoopCursor, position: int) -> bool:
    """Whether a loop runs inside the rows of a filter, which are kept or left out as a whole."""
    return cursor.lowered.stage.filter is not None and not over_reduced(cursor, position)


def _fixed(cursor: LoopCursor, axis: str, value: Expr) -> LoopCursor:
    """The loop cursor at one index of an axis."""
    made = cloned(cursor)
    for coordinates in made.instances:
        coordinates.fix(axis, value)
    return made
