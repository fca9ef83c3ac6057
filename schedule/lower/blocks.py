"""Blocks of the axis along which a scan or filter runs: the loop over them, and the fold of a block's values, its total.

Blocks of a scan are totalled by its operator, blocks of a filter by the number of elements that they keep (`Job.carried`). A total has no
initial value: it starts from the block's first value, or from the operator's neutral element if it has a known one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from raido.algo.graph import index as ix
from raido.algo.graph.expr import Expr, fresh
from raido.schedule.lower.builder import Builder, as_planned
from raido.schedule.lower.jobs import Job
from raido.schedule.lower.regions import spread
from raido.schedule.lower.work import Accumulators, Phase, Work, carried, over_reduced
from raido.schedule.nest.nodes import Certificate, Store
from raido.schedule.plan import LoopPlan
from raido.schedule.strategies.parts import part_loop, totals_part

if TYPE_CHECKING:
    from raido.schedule.lower.loops import Loops
    from raido.schedule.lower.reductions import Reductions

Follow: TypeAlias = Callable[[Work, int, Accumulators], None]
"""Emits the last pass over a block, or over a thread's part of it, given the accumulators of the running values."""


@dataclass(frozen=True, slots=True)
class LastPass:
    """The pass that stores results. end: cleared accumulators that receive the fold of all blocks, if needed. certificates:
    those of its loop over blocks."""

    follow: Follow
    end: Accumulators | None = None
    certificates: tuple[Certificate, ...] = ()


class Blocks:
    """Emits loops over blocks with the loops of `Loops` and the accumulators of `Reductions`."""

    def __init__(self, loops: Loops, reductions: Reductions) -> None:
        self.loops, self.reductions = loops, reductions
        self.builder: Builder = loops.builder
        self.first = Phase(self._first_element, _along_rows, self._at_first)
        self.total = Phase(self._total_element, _along_rows, self._totalled)

    def each(
        self,
        work: Work,
        position: int,
        body: Callable[[Work, int], None],
        loop: LoopPlan | None = None,
        reads: bool = True,
        **fields: Any,
    ) -> None:
        """Emits the loop over blocks at `position`, with the plan `loop` if given; `body` emits a block from the
        position where its loops begin.

        reads: whether producers placed at the loop are emitted. fields: further fields of the `For`.
        """
        plan = work.job.plan.loops[position]
        loop = replace(loop or plan, name=plan.name)
        low, high, step = work.copies[0].bounds(plan.name)

        def block(inner: Work, at: int) -> bool:
            body(inner, at)
            return True

        part = replace(
            work, copies=[c.copy() for c in work.copies], phase=Phase(takes_over=block, reads=reads), origin_of=[0]
        )
        fields |= as_planned(loop, work.job.stage.name, "parallel" if loop.kind == "parallel" else "serial")
        with self.builder.loop(var := fresh(plan.name), low, high, step, **fields):
            self.loops.choose(part, position, [[var]])

    def count(self, work: Work, position: int) -> Expr:
        """The number of blocks of the loop at `position`."""
        low, high, step = work.copies[0].bounds(work.job.plan.loops[position].name)
        return ix.ceildiv(ix.sub(high, low), step)

    def number(self, work: Work) -> Expr:
        """The number of the current block; scanned axes start at 0, wherever the stage is computed."""
        start, step = self._start(work)
        return ix.floordiv(start, step)

    def left(self, work: Work) -> Expr:
        """The number of elements behind the current block if it is full; negative if it is partial."""
        start, step = self._start(work)
        return ix.sub(work.copies[0].whole[work.job.stage.reduction_axes[0].name][1], ix.add(start, step))

    def _start(self, work: Work) -> tuple[Expr, int]:
        """The first index of the current block, and the length of blocks."""
        outer = work.copies[0].ranges[work.job.plan.loops[work.job.first_reduction].name]
        assert outer.value is not None
        return outer.value, outer.step

    def values(self, work: Work, position: int, label: str) -> Accumulators:
        """Accumulators for a total or for running values, of the loops from `position` on."""
        return self.reductions.allocate(work, position, registers=False, label=label)

    def initial(self, work: Work, position: int, label: str) -> Accumulators:
        """Accumulators, as by `values`, set to the stage's initial values."""
        made = self.values(work, position, label)
        self.reductions.clear(work, made)
        return made

    # Inside a block

    def along(
        self, work: Work, position: int, lanes: LoopPlan | None, body: Callable[[Work, int], None], skipped: int = 0
    ) -> bool:
        """Emits the loops along the axis, from `position` on, as one loop with the lanes of `lanes`, from index `skipped` of the block on;
        returns False where there are none."""
        if not over_reduced(work, position):
            return False
        axis = work.job.stage.reduction_axes[0].name
        if work.copies[0].ranges[axis].value is not None:
            self.loops.inside(work, position)
            return True
        low, high = work.copies[0].box(axis)
        last = loops_along(work.job, position)[-1].name
        how = as_planned(LoopPlan(last) if lanes is None else replace(lanes, name=last), work.job.stage.name)
        var = fresh(axis)
        with self.builder.loop(
            var, ix.add(low, skipped), self.builder.facts.decided(spread(ix.add(high, 1))), 1, **how
        ):
            body(_fixed(work, axis, var), position)
        return True

    def total_of(self, work: Work, position: int, own: Accumulators) -> None:
        """Emits the fold of the block's values."""
        if carried(work).neutral:
            self.begin_total(work, own)
        else:
            if own.axes:  # the loops may leave elements out that are combined all the same, and never read
                self.reductions.clear(work, own)
            self.reductions.part(work, position, self.first, own)
        self.add_to_total(work, position, own)

    def begin_total(self, work: Work, own: Accumulators) -> None:
        """Sets a total to the neutral element."""
        self.reductions.set_all(own, carried(work).neutral)

    def add_to_total(self, work: Work, position: int, own: Accumulators) -> None:
        """Folds the values of a block, or of a part of one, into its total; all but the first where there is no neutral element."""
        self.reductions.part(work, position, self.total, own)

    def _at_first(self, work: Work, position: int) -> bool:
        """Emits the loops along the axis at the block's first index alone; False where there are none."""
        axis = work.job.stage.reduction_axes[0].name
        if over_reduced(work, position) and work.copies[0].ranges[axis].value is None:
            work = _fixed(work, axis, work.copies[0].box(axis)[0])
        return self.along(work, position, None, self.loops.inside)

    def _totalled(self, work: Work, position: int) -> bool:
        """Emits the scanned loops inside a block as one loop over its values, because their order is not observable;
        False where there are none."""
        skipped = 0 if carried(work).neutral else 1
        return self.along(work, position, lanes_of_total(work.job, position), self.loops.inside, skipped)

    def _first_element(self, work: Work) -> None:
        """Stores a block's first value, with which its total starts."""
        for form, buffers, place in self.reductions.steps(work):
            for buffer, value in zip(buffers, self.loops.emitter.values(form.values), strict=True):
                self.builder.add(Store(buffer, place, value))

    def _total_element(self, work: Work) -> None:
        scan = work.job.stage.scan
        if not carried(work).neutral:
            self.loops.emitter.prefixes(self.reductions.steps(work), scan is not None and scan.exclusive)
            return
        self.loops.emitter.folds(self.reductions.steps(work), contract=False)


def is_chain(job: Job) -> bool:
    """Whether blocks run in a single pass, chained by their prefixes. Never for a partition, which needs the whole count first."""
    partition = job.stage.filter is not None and job.stage.filter.partition
    return job.plan.strategy is not None and job.plan.strategy[0] == "chain" and not partition


def loops_along(job: Job, position: int) -> list[LoopPlan]:
    """The loops along the scanned axis from `position` on."""
    return [loop for loop in job.plan.loops[position:] if loop.name in job.reduced]


def vector_loop(job: Job, position: int) -> LoopPlan | None:
    """The vectorised loop along the scanned axis from `position` on; None if there is none."""
    return next((loop for loop in loops_along(job, position) if loop.kind == "vector"), None)


def lanes_of_total(job: Job, position: int) -> LoopPlan | None:
    """The loop whose lanes total a block: that of the strategy's part, or the stage's own where it has none;
    None if it is not vectorised."""
    blocks = job.plan.strategy is not None and job.plan.strategy[0] != "serial"
    loop = part_loop(job.stage, job.plan, totals_part(job.stage), -1) if blocks else vector_loop(job, position)
    return loop if loop is not None and loop.kind == "vector" else None


def _along_rows(work: Work, position: int) -> bool:
    """Whether a loop runs inside the rows of a filter, which are kept or left out as a whole."""
    return work.job.stage.filter is not None and not over_reduced(work, position)


def _fixed(work: Work, axis: str, value: Expr) -> Work:
    """The loop cursor at one index of an axis."""
    copies = [c.copy() for c in work.copies]
    for coordinates in copies:
        coordinates.fix(axis, value)
    return replace(work, copies=copies)
