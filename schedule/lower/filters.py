"""Filters: the elements for which a predicate holds, stored consecutively at the front of the results.

    serial              one position advances through the results
    count_write, chain  blocks (`block_scans`) begin where the kept elements of the blocks before them end

A partition stores the rejected elements behind the kept ones, so it needs the whole count first: it runs in
phases even where it is chained.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from raido.algo.graph import index as ix
from raido.algo.graph.dtypes import bool_, i64
from raido.algo.graph.expr import Op, Result
from raido.schedule.lower.block_scans import BlockScans
from raido.schedule.lower.blocks import LastPass, is_chain, loops_along, vector_loop
from raido.schedule.lower.builder import Builder
from raido.schedule.lower.jobs import Job
from raido.schedule.lower.work import Accumulators, Phase, Work
from raido.schedule.nest.nodes import Append, Store
from raido.schedule.nest.values import Buffer, NestExpr, Read

if TYPE_CHECKING:
    from raido.schedule.lower.loops import Loops
    from raido.schedule.lower.reductions import Reductions


class Filters:
    """Emits filters with the loops of `Loops`."""

    def __init__(self, loops: Loops, reductions: Reductions, in_blocks: BlockScans) -> None:
        self.loops, self.reductions = loops, reductions
        self.in_blocks, self.blocks = in_blocks, in_blocks.blocks
        self.builder: Builder = loops.builder

    def filter(self, work: Work, position: int) -> None:
        """Emits the filter whose outermost loop stands at `position`."""
        job = work.job
        strategy = job.plan.strategy
        count = self.blocks.initial(work, position, "count")

        def follow(inner: Work, at: int, kept: Accumulators) -> None:
            self._write(inner, at, kept, count)

        if strategy is None or strategy[0] == "serial":
            kept = count
            if _is_partition(job):
                self.blocks.total_of(work, position, count)
                kept = self.blocks.initial(work, position, "kept")
            follow(work, position, kept)
        else:
            by = "chain" if is_chain(job) else "count_write"
            self.in_blocks.emit(work, position, LastPass(follow, count, self.loops.certificates(by, job)))
        result = self.loops.converter.storages[Result(job.form, len(job.bodies) - 1)]
        self.builder.add(Store(result.buffer, (), Read(count.buffers[0], (), None)))

    def _write(self, work: Work, position: int, kept: Accumulators, count: Accumulators) -> None:
        """Appends the kept elements from the position in `kept` on; of a partition, the rejected ones behind all `count` kept ones."""
        job, positions = work.job, kept.buffers
        rows = len(job.stage.axes) > 1
        if _is_partition(job):
            before = self.builder.name("before", Read(kept.buffers[0], (), None))
            everything = self.builder.name("all", Read(count.buffers[0], (), None))
            begin, _ = work.copies[0].box(job.stage.reduction_axes[0].name)
            rest = self.builder.alloc("rest", i64, (), "register")
            self.builder.add(Store(rest, (), ix.add(everything, ix.sub(begin, before))))
            positions = (*positions, rest)

        def along(inner: Work, at: int) -> bool:
            lanes = None if rows else vector_loop(job, at)
            return self.blocks.along(inner, at, lanes, partial(self._rows, positions) if rows else self.loops.inside)

        phase = Phase(lambda inner: self._append(inner, positions), takes_over=along)
        self.reductions.part(work, position, phase, kept)

    def _rows(self, positions: Sequence[Buffer], work: Work, position: int) -> None:
        """Copies a row to the next position as a whole if it is kept; of a partition, each row to the position of one of the two sides."""
        builder, inside = self.builder, position + len(loops_along(work.job, position))
        for p in range(position, inside):
            self.loops.placer.inside(work, p)
        (holds,) = self._values(work, (0,))
        holds = builder.name("holds", holds)
        for k, register in enumerate(positions):
            test = holds if k == 0 else Op("logical_not", bool_, (holds,))
            phase = Phase(partial(self._store_row, register))
            with builder.when(test):
                self.loops.level(replace(work, copies=[c.copy() for c in work.copies], phase=phase), inside)
                builder.add(Store(register, (), ix.add(Read(register, (), None), 1)))

    def _values(self, work: Work, which: Sequence[int], copy: int = 0) -> list[NestExpr]:
        """Emits only the values number `which` of the fold, because producers of the others may be computed in loops further in."""
        values = self.loops.environment(work, copy)
        fold = work.job.reduction
        assert fold is not None
        chosen = tuple(fold.values[k] for k in which)
        found = self.loops.converter.convert(chosen, values, self.builder.facts, work.identity)
        return self.loops.emitter.values(list(found))

    # One element

    def _append(self, work: Work, positions: Sequence[Buffer]) -> None:
        builder, buffers = self.builder, self._results(work.job)
        holds, *values = self._values(work, range(len(buffers) + 1))
        if len(positions) > 1:
            holds = builder.name("holds", holds)
        for k, register in enumerate(positions):
            test = holds if k == 0 else Op("logical_not", bool_, (holds,))
            builder.add(Append(buffers, register, tuple(values), test))

    def _store_row(self, register: Buffer, work: Work) -> None:
        """Stores the elements of a row at the position in `register`."""
        buffers = self._results(work.job)
        place = self.builder.name("place", Read(register, (), None))
        for k in range(len(work.copies)):
            where = self.loops.environment(work, k)
            rows = tuple(where[axis.var] for axis in work.job.stage.axes[1:])
            for buffer, value in zip(buffers, self._values(work, range(1, len(buffers) + 1), k), strict=True):
                self.builder.add(Store(buffer, (place, *rows), value))  # type: ignore[arg-type]

    def _results(self, job: Job) -> tuple[Buffer, ...]:
        """The buffers of the kept elements; the last result of the form, their number, is not among them."""
        storages = self.loops.converter.storages
        return tuple(storages[Result(job.form, k)].buffer for k in range(len(job.bodies) - 1))


def _is_partition(job: Job) -> bool:
    """Whether rejected elements are stored behind the kept ones."""
    return job.stage.filter is not None and job.stage.filter.partition
