"""Scans: running values that every step of a fold stores; by strategy one after the other, or in blocks.

    serial       the running values start as the neutral element and go through the scanned axis
    three_phase  threads make each block's total; the totals are scanned; threads scan each block from what came before it
    chain        a round of a loop over threads makes its block's total, waits for the round before to know what came before it, adds
                 its total for the next round, and scans its block, which the caches still hold: memory is read once and written once
                 (Merrill & Garland, Single-pass parallel prefix scan with decoupled look-back, 2016)

On a GPU the threads of a block may have pieces of it (`thread_scans`). Blocks are fixed by schedule and sizes, and what came before a
block is combined block by block in order, so threads change no bit.
The initial value takes part once and need not be neutral: totals start from a block's first value, or from the neutral element that
the operator is known to have.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from raido.algo.graph import index as ix
from raido.algo.graph.expr import Expr, Reduce, Result, fresh
from raido.schedule.lower.builder import Builder, closed
from raido.schedule.lower.folds import folds_in_lanes
from raido.schedule.lower.steps import known_neutral, replace_neutral
from raido.schedule.lower.thread_scans import ThreadScans
from raido.schedule.lower.versions import as_comparison
from raido.schedule.lower.work import Accumulators, Phase, Work, over_reduced
from raido.schedule.nest.nodes import Ordered, Store
from raido.schedule.nest.values import Buffer, Read
from raido.schedule.plan import LoopPlan
from raido.schedule.strategy_parts import part_loop

if TYPE_CHECKING:
    from raido.schedule.lower.loops import Loops
    from raido.schedule.lower.reductions import Reductions


class Scans:
    """Emits scans with the loops of `Loops` and the accumulators of `Reductions`."""

    def __init__(self, loops: Loops, reductions: Reductions, threads: ThreadScans) -> None:
        self.loops, self.reductions = loops, reductions
        self.builder: Builder = loops.builder
        self.threads = threads
        self.running = Phase(self._scan_element, cuts=True)
        self.first = Phase(self._first_element, takes_over=self._along)
        self.total = Phase(self._total_element, takes_over=self._along)

    def scan(self, work: Work, position: int) -> None:
        """The scan whose outermost scanned loop stands at `position`."""
        strategy = work.job.plan.strategy
        name = strategy[0] if strategy else "serial"
        for k in range(len(work.copies) if name != "serial" else 0):
            single = replace(work, copies=[work.copies[k]], origin_of=[0])
            if name == "chain":
                self._chain(single, position)
            elif self.threads.applies(single, position):
                self._three_phase_on_threads(single, position)
            else:
                self._three_phase(single, position)
        if name == "serial":
            running = self.reductions.allocate(work, position, label="running")
            self.reductions.part(work, position, self.reductions.start, running)
            self.reductions.part(work, position, self.running, running)

    # Blocks

    def _blocks(
        self, work: Work, position: int, loop: LoopPlan, body: Callable[[Work, int, Accumulators], None], label: str
    ) -> None:
        """The loop over blocks, as `loop` says; `body` emits a block, with accumulators of its own, called `label`."""

        def block(inner: Work, at: int) -> None:
            body(inner, at, self.reductions.allocate(inner, at, registers=False, label=label))

        self._each_block(work, position, loop, block)

    def _each_block(self, work: Work, position: int, loop: LoopPlan, body: Callable[[Work, int], None]) -> None:
        """The loop over blocks, as `loop` says."""
        plan = work.job.plan.loops[position]
        low, high, step = work.copies[0].bounds(plan.name)
        var = fresh(plan.name)
        how: dict[str, Any] = {"stage": work.job.stage.name, "loop": plan.name}

        def block(inner: Work, at: int) -> bool:
            body(inner, at)
            return True

        copies = [c.copy() for c in work.copies]
        part = replace(work, copies=copies, phase=Phase(takes_over=block), origin_of=[0])
        if loop.kind == "parallel":
            how |= {"kind": "parallel", "level": loop.level, "grain": loop.grain, "dynamic": loop.dynamic}
        with self.builder.loop(var, low, high, step, **how):
            self.loops.choose(part, position, [[var]])

    def _chain(self, work: Work, position: int) -> None:
        carry = self.reductions.allocate(work, position, registers=False, label="before")
        self.reductions.clear(work, carry)

        def block(inner: Work, at: int, own: Accumulators) -> None:
            self._chained_block(inner, at, carry, own)

        self._blocks(work, position, work.job.plan.loops[position], block, "total")

    def _chained_block(self, work: Work, position: int, carry: Accumulators, own: Accumulators) -> None:
        """The total (unless no block follows); in order, what came before and what comes before the next; the prefixes."""
        builder, reductions = self.builder, self.reductions
        running = reductions.allocate(work, position, registers=False, label="running")
        start, step, end = self._block_range(work)
        more = ix.sub(ix.sub(end, ix.add(start, step)), 1)
        with builder.when(as_comparison(more), more):
            self._total(work, position, own)
        with builder.block(branch=True) as section:
            self._load(running, carry.buffers, ())
            with builder.when(as_comparison(more), more):
                reductions.merge(work, carry, own)
        builder.add(Ordered(closed(section)))
        reductions.part(work, position, self.running, running)

    def _three_phase(self, work: Work, position: int) -> None:
        builder, reductions = self.builder, self.reductions
        low, high, step = work.copies[0].bounds(work.job.plan.loops[position].name)
        running = reductions.allocate(work, position, registers=False, label="running")
        count = ix.ceildiv(ix.sub(high, low), step)
        partials = reductions.partials(work, running.buffers[0].shape, count)

        def total(inner: Work, at: int, own: Accumulators) -> None:
            self._total(inner, at, own)
            reductions.keep(inner.job, own, partials, self._number(inner))

        def scan(inner: Work, at: int, own: Accumulators) -> None:
            self._load(own, partials, (self._number(inner),))
            reductions.part(inner, at, self.running, own)

        self._blocks(work, position, part_loop(work.job.stage, work.job.plan, "totals", 0), total, "total")
        reductions.clear(work, running)
        chunk = fresh("chunk")
        with builder.loop(chunk, ix.as_index(0), count, 1):
            reductions.each(running.lengths, lambda at: self._exchange(work, running, partials, at, chunk))
        self._blocks(work, position, work.job.plan.loops[position], scan, "running")

    def _three_phase_on_threads(self, work: Work, position: int) -> None:
        """The same where the threads of a block have pieces of it: what comes before each piece in its block is kept from the first pass."""
        job, builder, reductions, threads = work.job, self.builder, self.reductions, self.threads
        plan, dtypes = job.plan.loops[position], [v.dtype for v in _fold(work).left]
        low, high, step = work.copies[0].bounds(plan.name)
        running = reductions.allocate(work, position, registers=False, label="running")
        partials = reductions.partials(work, running.buffers[0].shape, ix.ceildiv(ix.sub(high, low), step))
        before = threads.before_pieces(work, position, partials)
        environment = self.loops.environment(work, 0)

        def combine(buffers: Sequence[Buffer], at: tuple[Expr, ...], left: Sequence[Any], right: Sequence[Any]) -> None:
            reductions.combine_where(work, environment, buffers, at, left, right)

        def total(inner: Work, at: int) -> None:
            pieces, number = threads.pieces(inner, at), self._number(inner)
            parts = threads.parts(pieces, dtypes)

            def one(piece: Work, first: int, t: Expr) -> None:
                own = reductions.allocate(piece, first, registers=False, label="total")
                self._total(piece, first, own)
                reductions.copy(own.buffers, (), parts, (t,))

            threads.each(inner, at, pieces, one)
            threads.keep(pieces, threads.scan(pieces, parts, combine), number, before, partials)

        def scan(inner: Work, at: int) -> None:
            pieces, number = threads.pieces(inner, at), self._number(inner)

            def one(piece: Work, first: int, t: Expr) -> None:
                own = reductions.allocate(piece, first, registers=False, label="running")
                reductions.copy(partials, (number,), own.buffers, ())
                threads.follow(own.buffers, before, (number,), t, combine)
                reductions.part(piece, first, self.running, own)

            threads.each(inner, at, pieces, one)

        self._each_block(work, position, plan, total)
        reductions.clear(work, running)
        first = [builder.name("first", Read(b, (), None)) for b in running.buffers]
        threads.exchange(work, position, first, partials, combine)
        self._each_block(work, position, plan, scan)

    def _exchange(
        self, work: Work, running: Accumulators, partials: Sequence[Buffer], at: tuple[Expr, ...], chunk: Expr
    ) -> None:
        """A block's total gives way to what came before the block."""
        totals = [self.builder.name("total", Read(b, (chunk, *at), None)) for b in partials]
        before = [self.builder.name("before", Read(b, at, None)) for b in running.buffers]
        for buffer, value in zip(partials, before, strict=True):
            self.builder.add(Store(buffer, (chunk, *at), value))
        self.reductions.combine(work, running, at, before, totals)

    def _block_range(self, work: Work) -> tuple[Expr, int, Expr]:
        """The first index of this block, the length of blocks, and the end of the scanned axis."""
        coordinates = work.copies[0]
        outer = coordinates.ranges[work.job.plan.loops[work.job.first_reduction].name]
        assert outer.value is not None
        return outer.value, outer.step, coordinates.whole[work.job.stage.reduction_axes[0].name][1]

    def _number(self, work: Work) -> Expr:
        """Which block this is: scanned axes start at 0, wherever the stage is computed."""
        start, step, _ = self._block_range(work)
        return ix.floordiv(start, step)

    def _load(self, running: Accumulators, buffers: Sequence[Buffer], place: tuple[Expr, ...]) -> None:
        """Running values start as what `buffers` hold at `place`."""
        reductions = self.reductions
        reductions.each(running.lengths, lambda at: reductions.copy(buffers, (*place, *at), running.buffers, at))

    def _total(self, work: Work, position: int, own: Accumulators) -> None:
        """The block's values, combined."""
        neutral = self._neutral(work)
        if not neutral:
            if own.axes:  # elements between those of this round are combined with the others, and never looked at
                self.reductions.clear(work, own)
            self.reductions.part(work, position, self.first, own)
        else:
            self.reductions.set_all(own, neutral)
        self.reductions.part(work, position, self.total, own)

    def _neutral(self, work: Work) -> tuple[Expr, ...]:
        form = _fold(work)
        return known_neutral(form) if folds_in_lanes(work.job) else ()

    def _along(self, work: Work, position: int) -> bool:
        """The scanned loops inside a block as one over its values: for totals, whose order of loops nobody sees. False where there are none."""
        job = work.job
        if not over_reduced(work, position):
            return False
        axis = job.stage.reduction_axes[0].name
        if work.copies[0].ranges[axis].value is not None:
            self.loops.inside(work, position)
            return True
        low, high = work.copies[0].box(axis)
        if work.phase is self.first:
            self._at(work, position, axis, low)
            return True
        if not self._neutral(work):
            low = ix.add(low, 1)
        inner = [loop for loop in job.plan.loops[position:] if loop.name in job.reduced]
        loop = part_loop(job.stage, job.plan, "totals", -1)
        how: dict[str, object] = {"stage": job.stage.name, "loop": inner[-1].name}
        if loop.kind == "vector" and folds_in_lanes(job):
            how |= {"kind": "vector", "lanes": loop.lanes, "interleave": loop.interleave, "tail": "default"}
        var = fresh(axis)
        with self.builder.loop(var, low, ix.add(high, 1), 1, **how):
            self._at(work, position, axis, var)
        return True

    def _at(self, work: Work, position: int, axis: str, value: Expr) -> None:
        copies = [c.copy() for c in work.copies]
        for coordinates in copies:
            coordinates.fix(axis, value)
        self.loops.inside(replace(work, copies=copies), position)

    # One element

    def _first_element(self, work: Work) -> None:
        """The first value of a block, with which its total begins."""
        for form, buffers, place in self.reductions.steps(work):
            for buffer, value in zip(buffers, self.loops.emitter.values(form.values), strict=True):
                self.builder.add(Store(buffer, place, value))

    def _total_element(self, work: Work) -> None:
        neutral = self._neutral(work)
        if not neutral:
            self._prefixes(work)
            return
        steps = [(replace_neutral(form, neutral), buffers, at) for form, buffers, at in self.reductions.steps(work)]
        self.loops.emitter.folds(steps, contract=False)

    def _scan_element(self, work: Work) -> None:
        self._store(work, self._prefixes(work))

    def _prefixes(self, work: Work) -> Sequence[Sequence[Expr]]:
        assert work.job.stage.scan is not None
        return self.loops.emitter.prefixes(self.reductions.steps(work), work.job.stage.scan.exclusive)

    def _store(self, work: Work, results: Sequence[Sequence[Expr]]) -> None:
        job, converter = work.job, self.loops.converter
        for k, values in enumerate(results):
            where = self.loops.environment(work, k)
            indices = tuple(where[axis.var] for axis in job.stage.axes)
            for j, value in enumerate(values):
                storage = converter.storages.get(Result(job.form, j))
                if storage is not None:
                    place = storage.place(indices, self.builder.facts)  # type: ignore[arg-type]
                    self.builder.add(Store(storage.buffer, place, value, None, job.plan.stream_stores))


def _fold(work: Work) -> Reduce:
    assert work.job.reduction is not None
    return work.job.reduction
