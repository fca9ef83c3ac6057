"""Filters: the elements for which something holds, side by side at the front of the results.

    serial       one position moves through the results
    count_write  threads count what each block keeps; the counts are summed; threads write each block's part
    chain        a round of a loop over threads counts its block, waits for the round before to know where its part begins, and writes
                 it while the caches still hold the block: memory is read once

A partition writes the elements that are left out behind all the others, so it needs the whole count first: it runs in two phases
even where it is chained.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from raido.algo.graph import index as ix
from raido.algo.graph.dtypes import bool_, i64
from raido.algo.graph.expr import Expr, Op, Result, fresh
from raido.schedule.lower.builder import Builder, closed
from raido.schedule.lower.jobs import Job
from raido.schedule.lower.regions import spread
from raido.schedule.lower.thread_scans import ThreadScans
from raido.schedule.lower.work import Phase, Work, over_reduced
from raido.schedule.nest.nodes import Append, Fold, Ordered, Store
from raido.schedule.nest.values import Buffer, NestExpr, Read
from raido.schedule.plan import LoopPlan
from raido.schedule.strategy_parts import part_loop

if TYPE_CHECKING:
    from raido.schedule.lower.loops import Loops

ZERO, ONE = ix.as_index(0), ix.as_index(1)
GANGS = 4  # side by side, where elements are only counted


class Filters:
    """Emits filters with the loops of `Loops`."""

    def __init__(self, loops: Loops, threads: ThreadScans) -> None:
        self.loops, self.threads = loops, threads
        self.builder: Builder = loops.builder

    def filter(self, work: Work, position: int) -> None:
        """The filter whose outermost loop stands at `position`."""
        job, builder = work.job, self.builder
        strategy = job.plan.strategy
        name = strategy[0] if strategy else "serial"
        axis = job.stage.reduction_axes[0].name
        low, high = work.copies[0].box(axis)
        total = self._register("count")
        if name == "serial":
            self._serial(work, position, total)
        elif name == "chain" and not _is_partition(job):
            self._chain(work, position, total)
        elif self.threads.applies(work, position):
            self._count_write_on_threads(work, position, total)
        else:
            self._count_write(work, position, total, low, spread(ix.add(high, 1)))
        count = self.loops.converter.storages[Result(job.form, len(job.bodies) - 1)]
        builder.add(Store(count.buffer, (), Read(total, (), None)))

    def _register(self, name: str, value: Expr = ZERO) -> Buffer:
        register = self.builder.alloc(name, i64, (), "register")
        self.builder.add(Store(register, (), value))
        return register

    def _serial(self, work: Work, position: int, total: Buffer) -> None:
        if _is_partition(work.job):
            self._count(work, position, total)
            kept, rest = self._register("kept"), self._register("rest", Read(total, (), None))
            self._write(work, position, (kept, rest))
        else:
            self._write(work, position, (total,))

    def _count(self, work: Work, position: int, counter: Buffer) -> None:
        def along(inner: Work, at: int) -> bool:
            return self._along(inner, at, self._counting_loop(inner.job, at), self.loops.inside)

        def outside(inner: Work, at: int) -> bool:
            return not over_reduced(inner, at)

        self._pass(work, position, Phase(lambda inner: self._count_one(inner, counter), outside, along))

    def _write(self, work: Work, position: int, positions: tuple[Buffer, ...]) -> None:
        rows = len(work.job.stage.axes) > 1

        def along(inner: Work, at: int) -> bool:
            vector = None if rows else _vector_loop(inner.job, at)
            return self._along(inner, at, vector, partial(self._rows, positions) if rows else self.loops.inside)

        self._pass(work, position, Phase(lambda inner: self._append(inner, positions), takes_over=along))

    def _pass(self, work: Work, position: int, phase: Phase) -> None:
        self.loops.placer.begin_pass()
        self.loops.level(replace(work, copies=[c.copy() for c in work.copies], phase=phase), position)

    def _chain(self, work: Work, position: int, total: Buffer) -> None:
        builder = self.builder
        plan = work.job.plan.loops[position]
        low, high, step = work.copies[0].bounds(plan.name)
        how: dict[str, Any] = {"kind": "parallel", "dynamic": True, "stage": work.job.stage.name, "loop": plan.name}
        var = fresh(plan.name)
        with builder.loop(var, low, high, step, **how, certificates=self.loops.certificates("chain", work.job)):
            inner = self._block(work, position, var)
            own, begin = self._register("own"), builder.alloc("begin", i64, (), "register")
            self._count(inner, position + 1, own)
            with builder.block(branch=True) as section:
                before = builder.name("before", Read(total, (), None))
                builder.add(Store(begin, (), before))
                builder.add(Store(total, (), Op("add", i64, (before, Read(own, (), None)))))
            builder.add(Ordered(closed(section)))
            self._write(inner, position + 1, (begin,))

    def _count_write(self, work: Work, position: int, total: Buffer, low: Expr, high: Expr) -> None:
        """Counts of blocks, their sums, and every block's parts."""
        builder, job = self.builder, work.job
        plan = job.plan.loops[position]
        _, _, step = work.copies[0].bounds(plan.name)
        blocks = ix.ceildiv(ix.sub(high, low), step)
        counts = builder.alloc("counts", i64, (blocks,), "heap")
        how: dict[str, Any] = {"kind": "parallel", "stage": job.stage.name, "loop": plan.name}
        how["certificates"] = self.loops.certificates("count_write", job)
        loop = part_loop(job.stage, job.plan, "count", 0)
        counting: dict[str, Any] = {"stage": job.stage.name, "loop": plan.name}
        if loop.kind == "parallel":
            counting |= {"kind": "parallel", "grain": loop.grain, "dynamic": loop.dynamic}
        var = fresh(plan.name)
        with builder.loop(var, low, high, step, **counting):
            own = self._register("own")
            self._count(self._block(work, position, var), position + 1, own)
            builder.add(Store(counts, (ix.floordiv(ix.sub(var, low), step),), Read(own, (), None)))
        block = fresh("block")
        with builder.loop(block, ZERO, blocks, 1):
            own_count = builder.name("own", Read(counts, (block,), None))
            before = builder.name("before", Read(total, (), None))
            builder.add(Store(counts, (block,), before))
            builder.add(Store(total, (), Op("add", i64, (before, own_count))))
        var = fresh(plan.name)
        with builder.loop(var, low, high, step, **how):
            before = builder.name("before", Read(counts, (ix.floordiv(ix.sub(var, low), step),), None))
            positions = [self._register("kept", before)]
            if _is_partition(job):
                everything = builder.name("all", Read(total, (), None))
                positions.append(self._register("rest", ix.add(everything, ix.sub(ix.sub(var, low), before))))
            self._write(self._block(work, position, var), position + 1, tuple(positions))

    def _count_write_on_threads(self, work: Work, position: int, total: Buffer) -> None:
        """The same where the threads of a block have pieces of it."""
        job, builder, threads = work.job, self.builder, self.threads
        plan = job.plan.loops[position]
        low, high, step = work.copies[0].bounds(plan.name)
        counts = builder.alloc("counts", i64, (ix.ceildiv(ix.sub(high, low), step),), "heap")
        how: dict[str, Any] = {"kind": "parallel", "level": plan.level, "stage": job.stage.name, "loop": plan.name}
        certificates = self.loops.certificates("count_write", job)

        pieces_before = threads.before_pieces(work, position, (counts,))
        var = fresh(plan.name)
        with builder.loop(var, low, high, step, **how):
            inner = self._block(work, position, var)
            pieces = threads.pieces(inner, position + 1)
            parts = threads.parts(pieces, [i64])

            def count(piece: Work, first: int, t: Expr) -> None:
                own = self._register("own")
                self._count(piece, first, own)
                builder.add(Store(parts[0], (t,), Read(own, (), None)))

            threads.each(inner, position + 1, pieces, count)
            scanned = threads.scan(pieces, parts, self._add)
            threads.keep(pieces, scanned, ix.floordiv(ix.sub(var, low), step), pieces_before, (counts,))
        threads.exchange(work, position, (ZERO,), (counts,), self._add, (total,))
        start = fresh(plan.name)
        with builder.loop(start, low, high, step, **how, certificates=certificates):
            block = ix.floordiv(ix.sub(start, low), step)

            def write(piece: Work, first: int, t: Expr) -> None:
                kept = self._register("kept", Read(counts, (block,), None))
                threads.follow((kept,), pieces_before, (block,), t, self._add)
                positions = [kept]
                if _is_partition(job):
                    before = builder.name("before", Read(kept, (), None))
                    everything = builder.name("all", Read(total, (), None))
                    begin, _ = piece.copies[0].box(job.stage.reduction_axes[0].name)
                    positions.append(self._register("rest", ix.add(everything, ix.sub(ix.sub(begin, low), before))))
                self._write(piece, first, tuple(positions))

            inner = self._block(work, position, start)
            threads.each(inner, position + 1, threads.pieces(inner, position + 1), write, certificates)

    def _add(
        self, buffers: Sequence[Buffer], at: tuple[Expr, ...], left: Sequence[NestExpr], right: Sequence[NestExpr]
    ) -> None:
        self.builder.add(Store(buffers[0], at, Op("add", i64, (left[0], right[0]))))

    def _block(self, work: Work, position: int, start: Expr) -> Work:
        """The work inside one block, with the producers that are placed at it."""
        copies = [c.copy() for c in work.copies]
        copies[0].choose(work.job.plan.loops[position].name, start, self.loops.bind)
        inner = replace(work, copies=copies)
        self.loops.placer.inside(inner, position)
        return inner

    # Inside a block

    def _counting_loop(self, job: Job, position: int) -> LoopPlan | None:
        """The loop whose lanes count, if any do."""
        if job.plan.strategy is not None and job.plan.strategy[0] != "serial":
            counting = part_loop(job.stage, job.plan, "count", -1)
            return counting if counting.kind == "vector" else None
        vector = _vector_loop(job, position)
        return None if vector is None else replace(vector, interleave=max(vector.interleave, GANGS))

    def _along(self, work: Work, position: int, vector: LoopPlan | None, body: Callable[[Work, int], None]) -> bool:
        """The loops along the axis, from `position` on, as one, in the lanes of `vector`; False where there are none."""
        job, builder = work.job, self.builder
        if not over_reduced(work, position):
            return False
        axis = job.stage.reduction_axes[0].name
        if work.copies[0].ranges[axis].value is not None:
            self.loops.inside(work, position)
            return True
        low, high = work.copies[0].box(axis)
        how: dict[str, object] = {"stage": job.stage.name, "loop": _loops_along(job, position)[-1].name}
        if vector is not None:
            how |= {"kind": "vector", "lanes": vector.lanes, "interleave": vector.interleave, "tail": "mask"}
        var = fresh(axis)
        with builder.loop(var, low, spread(ix.add(high, 1)), 1, **how):
            copies = [c.copy() for c in work.copies]
            copies[0].fix(axis, var)
            body(replace(work, copies=copies), position)
        return True

    def _rows(self, positions: Sequence[Buffer], work: Work, position: int) -> None:
        """A row that is kept goes to the next place as a whole; of a partition, every row goes to one or the other."""
        builder, inside = self.builder, position + len(_loops_along(work.job, position))
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
        """Some values of the fold: what others read may be made in loops further in."""
        values = self.loops.environment(work, copy)
        fold = work.job.reduction
        assert fold is not None
        chosen = tuple(fold.values[k] for k in which)
        found = self.loops.converter.convert(chosen, values, self.builder.facts, work.identity)
        return self.loops.emitter.values(list(found))

    # One element

    def _count_one(self, work: Work, counter: Buffer) -> None:
        (holds,) = self._values(work, (0,))
        left, right = fresh("left", i64), fresh("right", i64)
        one = Op("select", i64, (holds, ONE, ZERO))
        step, both = Op("add", i64, (left, one)), Op("add", i64, (left, right))
        self.builder.add(Fold((counter,), (), (step,), (left,), (right,), (both,), (ZERO,), "add"))

    def _append(self, work: Work, positions: Sequence[Buffer]) -> None:
        builder, buffers = self.builder, self._results(work.job)
        holds, *values = self._values(work, range(len(buffers) + 1))
        if len(positions) > 1:
            holds = builder.name("holds", holds)
        for k, register in enumerate(positions):
            test = holds if k == 0 else Op("logical_not", bool_, (holds,))
            builder.add(Append(buffers, register, tuple(values), test))

    def _store_row(self, register: Buffer, work: Work) -> None:
        """Elements of a row, at the place that `register` holds."""
        buffers = self._results(work.job)
        place = self.builder.name("place", Read(register, (), None))
        for k in range(len(work.copies)):
            where = self.loops.environment(work, k)
            rows = tuple(where[axis.var] for axis in work.job.stage.axes[1:])
            for buffer, value in zip(buffers, self._values(work, range(1, len(buffers) + 1), k), strict=True):
                self.builder.add(Store(buffer, (place, *rows), value))  # type: ignore[arg-type]

    def _results(self, job: Job) -> tuple[Buffer, ...]:
        """The buffers of what is kept; the last result is how much that is."""
        storages = self.loops.converter.storages
        return tuple(storages[Result(job.form, k)].buffer for k in range(len(job.bodies) - 1))


def _loops_along(job: Job, position: int) -> list[LoopPlan]:
    """The loops along the axis from `position` on."""
    return [loop for loop in job.plan.loops[position:] if loop.name in job.reduced]


def _vector_loop(job: Job, position: int) -> LoopPlan | None:
    return next((loop for loop in _loops_along(job, position) if loop.kind == "vector"), None)


def _is_partition(job: Job) -> bool:
    """Whether what is left out follows what is kept."""
    return job.stage.filter is not None and job.stage.filter.partition
