"""Stages along one axis in blocks, each of which begins with what came before it: the fold of the totals of the blocks before.

    three_phase  threads total each block; the totals are scanned; threads go through each block from what came before it
    chain        an iteration of a loop over threads totals its block, waits for the iteration before to know what came before it,
                 adds its total for the next one, and goes through its block, which the caches still hold: memory is read once
                 (Merrill & Garland, Single-pass parallel prefix scan with decoupled look-back, 2016)

Blocks of a scan hand on running values, blocks of a filter the number of elements that are kept (`Job.carried`): filters call the first
of the two `count_write`. On a GPU the threads of a block may have pieces of it (`thread_scans`); there a chain hands on what comes
before a block by a `Carry`, and where threads have no pieces of its blocks, nothing waits: it goes in three phases. Blocks are fixed by
schedule and sizes, and what came before a block of a chain is combined block by block in order, so threads change no bit. Where the
operator rounds nothing, no grouping does: one thread alone goes through the blocks of a chain at once, each from where the last one ended.
The initial value takes part once and need not be neutral: totals start from a block's first value, or from the neutral element that
the operator is known to have.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from raido.algo.graph import index as ix
from raido.algo.graph.dtypes import bool_, i64
from raido.algo.graph.expr import Expr, Reduce, Var, fresh
from raido.algo.graph.reduction import is_arithmetic, is_exact
from raido.schedule.lower.builder import Builder, as_planned, closed
from raido.schedule.lower.jobs import Job
from raido.schedule.lower.regions import spread
from raido.schedule.lower.thread_folds import is_bound
from raido.schedule.lower.thread_scans import Combine, Pieces, Prefixes, ThreadScans
from raido.schedule.lower.versions import as_comparison
from raido.schedule.lower.work import Accumulators, Phase, Work, over_reduced
from raido.schedule.nest.carry import in_one_word
from raido.schedule.nest.nodes import Certificate, If, Ordered, Store
from raido.schedule.nest.values import Buffer, NestExpr, Read
from raido.schedule.plan import LoopPlan
from raido.schedule.stages.stage import initial_values
from raido.schedule.strategy_parts import part_loop, totals_part

if TYPE_CHECKING:
    from raido.schedule.lower.loops import Loops
    from raido.schedule.lower.reductions import Reductions

Follow: TypeAlias = Callable[[Work, int, Accumulators], None]
"""Emits the pass through a block, or a piece of one, whose running values these accumulators hold."""


class BlockScans:
    """Emits such blocks with the loops of `Loops` and the accumulators of `Reductions`.

    `end`: clear accumulators that take the fold of all blocks, where it is wanted. `certificates`: those of the loop that follows.
    """

    def __init__(self, loops: Loops, reductions: Reductions, threads: ThreadScans) -> None:
        self.loops, self.reductions, self.threads = loops, reductions, threads
        self.builder: Builder = loops.builder
        self.first = Phase(self._first_element, _along_rows, self._totalled)
        self.total = Phase(self._total_element, _along_rows, self._totalled)

    def chain(
        self,
        work: Work,
        position: int,
        follow: Follow,
        end: Accumulators | None = None,
        certificates: tuple[Certificate, ...] = (),
    ) -> None:
        """One loop over blocks, each of which is totalled, takes its turn to learn what came before it, and is gone through."""
        loop = work.job.plan.loops[position]
        if is_bound(loop, "block") or self.loops.converter.sites.gpu:
            alone = is_bound(loop, "block") and not self.builder.threaded
            plain = is_arithmetic(*_carried(work).combine)
            in_pieces = alone and plain and self.threads.applies(work, position)
            how = self._chain_on_threads if in_pieces else self.three_phase
            how(work, position, follow, end, certificates)
            return
        carry = end or self._cleared(work, position)
        exact = loop.kind == "parallel" and is_exact(*_carried(work).combine)
        alone = fresh("alone", bool_) if exact else None

        def block(inner: Work, at: int, own: Accumulators) -> None:
            if alone is None:
                in_turn(inner, at, own)
                return
            with self.builder.block(branch=True) as one_thread:
                at_once(inner, at)
            with self.builder.block(branch=True) as others:
                in_turn(inner, at, own)
            self.builder.add(If(alone, closed(one_thread), closed(others)))

        def at_once(inner: Work, at: int) -> None:
            with self.builder.block(branch=True) as section:
                running = self.reductions.allocate(inner, at, registers=False, label="running")
                self._load(running, carry.buffers, ())
                follow(inner, at, running)
                self._load(carry, running.buffers, ())
            self.builder.add(Ordered(closed(section)))

        def in_turn(inner: Work, at: int, own: Accumulators) -> None:
            running = self.reductions.allocate(inner, at, registers=False, label="running")
            with self._if_followed(inner, end):
                self.total_of(inner, at, own)
            with self.builder.block(branch=True) as section:
                self._load(running, carry.buffers, ())
                with self._if_followed(inner, end):
                    self.reductions.merge(inner, carry, own)
            self.builder.add(Ordered(closed(section)))
            follow(inner, at, running)

        self._blocks(work, position, work.job.plan.loops[position], block, "total", certificates, alone)

    def _is_chain(self, work: Work) -> bool:
        """Whether a stage without a part of its own for the loop over blocks goes in phases."""
        strategy, stage = work.job.plan.strategy, work.job.stage
        partition = stage.filter is not None and stage.filter.partition
        return strategy is not None and strategy[0] == "chain" and not partition

    def _if_followed(self, work: Work, end: Accumulators | None) -> AbstractContextManager[object]:
        """A test for a block behind this one, whose total nothing else asks for."""
        if end is not None:
            return nullcontext()
        start, step, stop = self._block_range(work)
        more = ix.sub(ix.sub(stop, ix.add(start, step)), 1)
        return self.builder.when(as_comparison(more), more)

    def three_phase(
        self,
        work: Work,
        position: int,
        follow: Follow,
        end: Accumulators | None = None,
        certificates: tuple[Certificate, ...] = (),
    ) -> None:
        """A loop that totals blocks, one over the totals, and one that goes through the blocks."""
        if self.threads.applies(work, position):
            self._three_phase_on_threads(work, position, follow, end, certificates)
            return
        builder, reductions = self.builder, self.reductions
        carry = end or self._cleared(work, position)
        partials = reductions.partials(work, carry.buffers[0].shape, self._count(work, position))

        def total(inner: Work, at: int, own: Accumulators) -> None:
            self.total_of(inner, at, own)
            reductions.keep(inner.job, own, partials, self._number(inner))

        def go_through(inner: Work, at: int, running: Accumulators) -> None:
            self._load(running, partials, (self._number(inner),))
            follow(inner, at, running)

        loop = work.job.plan.loops[position]
        if not self._is_chain(work):
            loop = part_loop(work.job.stage, work.job.plan, totals_part(work.job.stage), 0)
        self._blocks(work, position, loop, total, "total")
        block = fresh("block")
        with builder.loop(block, ix.as_index(0), partials[0].shape[0], 1):
            reductions.each(carry.lengths, lambda at: self._exchange(work, carry, partials, at, block))
        self._blocks(work, position, work.job.plan.loops[position], go_through, "running", certificates)

    def _three_phase_on_threads(
        self,
        work: Work,
        position: int,
        follow: Follow,
        end: Accumulators | None,
        certificates: tuple[Certificate, ...],
    ) -> None:
        """The same where the threads of a block have pieces of it: what comes before each piece in its block is kept from the first pass."""
        job, reductions, threads = work.job, self.reductions, self.threads
        plan = job.plan.loops[position]
        partials = reductions.partials(work, (), self._count(work, position))
        before = threads.before_pieces(work, position, partials)

        combine = self._combine(work)

        def total(inner: Work, at: int) -> None:
            pieces, number = threads.pieces(inner, at), self._number(inner)
            threads.keep(pieces, self._scanned_totals(inner, at, pieces, combine), number, before, partials)

        def go_through(inner: Work, at: int) -> None:
            number = self._number(inner)

            def one(piece: Work, first: int, t: Expr) -> None:
                running = reductions.allocate(piece, first, registers=False, label="running")
                reductions.copy(partials, (number,), running.buffers, ())
                threads.follow(running.buffers, t, [Read(b, (number, ix.sub(t, 1)), None) for b in before], combine)
                follow(piece, first, running)

            threads.each(inner, at, threads.pieces(inner, at), one, certificates)

        self._each_block(work, position, plan, total)
        threads.exchange(work, position, self._initial(work), partials, combine, end.buffers if end is not None else ())
        self._each_block(work, position, plan, go_through, certificates)

    def _chain_on_threads(
        self,
        work: Work,
        position: int,
        follow: Follow,
        end: Accumulators | None,
        certificates: tuple[Certificate, ...],
    ) -> None:
        """A chain of blocks of a GPU, the threads of each of which have pieces of it."""
        builder, reductions, threads, fold = self.builder, self.reductions, self.threads, _carried(work)
        job, count = work.job, self._count(work, position)
        initial = self._initial(work)
        shape = (ix.add(count, 1),)
        dtypes, counts = [v.dtype for v in fold.left], job.stage.filter is not None
        before = tuple(builder.alloc("before", dtype, shape, "heap") for dtype in dtypes)
        alone = in_one_word(dtypes, counts)
        totals = () if alone else tuple(builder.alloc("totals", dtype, shape, "heap") for dtype in dtypes)
        state = builder.alloc("state", i64, shape, "heap")
        names = {"stage": job.stage.name, "loop": job.plan.loops[position].name}
        with builder.loop(block := fresh("block"), ix.as_index(0), shape[0], 1, kind="parallel", **names):
            for buffer, value in zip(before, initial, strict=True):
                builder.add(Store(buffer, (block,), value))
            builder.add(Store(state, (block,), ix.as_index(0)))

        combine = self._combine(work)

        def one_block(inner: Work, at: int) -> None:
            """A block; where pieces are vectorised, whole blocks have code of their own, without a test."""
            start, step, stop = self._block_range(inner)
            gap = ix.sub(stop, ix.add(start, step))
            if vector_loop(job, at) is None or builder.facts.nonnegative(gap):
                scan_block(inner, at)
                return
            part = replace(inner, copies=[c.copy() for c in inner.copies])
            with builder.block(builder.facts.with_known(gap), branch=True) as whole:
                scan_block(inner, at)
            with builder.block(branch=True) as last:
                scan_block(part, at)
            builder.add(If(as_comparison(gap), closed(whole), closed(last)))

        def scan_block(inner: Work, at: int) -> None:
            pieces = threads.pieces(inner, at)
            scanned = self._scanned_totals(inner, at, pieces, combine)
            begins = threads.begins(pieces, scanned, dtypes)
            operator = reductions.operator(inner)
            earlier = self.loops.emitter.carry(
                operator, before, self._number(inner), scanned.last, totals, state, counts
            )

            def go_through(piece: Work, first: int, t: Expr) -> None:
                running = reductions.allocate(piece, first, registers=False, label="running")
                for buffer, value in zip(running.buffers, earlier, strict=True):
                    builder.add(Store(buffer, (), value))
                threads.follow(running.buffers, t, begins(t), combine)
                follow(piece, first, running)

            threads.each(inner, at, pieces, go_through, certificates)

        self._each_block(work, position, job.plan.loops[position], one_block, certificates)
        if end is not None:
            reductions.copy(before, (count,), end.buffers, ())

    def _combine(self, work: Work) -> Combine:
        """The operator of a scan, for values of its blocks and of their pieces."""
        environment = self.loops.environment(work, 0)

        def combine(
            buffers: Sequence[Buffer], at: tuple[Expr, ...], left: Sequence[NestExpr], right: Sequence[NestExpr]
        ) -> None:
            self.reductions.combine_where(work, environment, buffers, at, left, right)  # type: ignore[arg-type]

        return combine

    def _initial(self, work: Work) -> list[NestExpr]:
        """The values before the first block: the initial ones of the scan."""
        environment = self.loops.environment(work, 0)
        values = initial_values(_carried(work))
        return self.loops.emitter.values(
            self.loops.converter.convert(values, environment, self.builder.facts, work.identity)
        )

    def _scanned_totals(self, work: Work, position: int, pieces: Pieces, combine: Combine) -> Prefixes:
        """The totals of the pieces of a block, each with those of all pieces before it."""
        parts = self.threads.parts(pieces, [v.dtype for v in _carried(work).left])

        def total(piece: Work, first: int, t: Expr) -> None:
            own = self.reductions.allocate(piece, first, registers=False, label="total")
            self.total_of(piece, first, own)
            self.reductions.copy(own.buffers, (), parts, (t,))

        self.threads.each(work, position, pieces, total)
        return self.threads.scan(pieces, parts, combine, self.reductions.operator(work))

    def in_turn(self, work: Work, position: int, follow: Follow) -> None:
        """Blocks one after the other, each by the threads of one block of a GPU: all of them hold what came before it."""
        reductions, threads, builder = self.reductions, self.threads, self.builder
        carry = self._cleared(work, position)

        combine = self._combine(work)

        def block(inner: Work, at: int) -> None:
            pieces = threads.pieces(inner, at)
            scanned = self._scanned_totals(inner, at, pieces, combine)
            begins = threads.begins(pieces, scanned, [b.dtype for b in carry.buffers])

            def go_through(piece: Work, first: int, t: Expr) -> None:
                running = reductions.allocate(piece, first, registers=False, label="running")
                reductions.copy(carry.buffers, (), running.buffers, ())
                threads.follow(running.buffers, t, begins(t), combine)
                follow(piece, first, running)

            threads.each(inner, at, pieces, go_through)
            before = [builder.name("before", Read(b, (), None)) for b in carry.buffers]
            combine(carry.buffers, (), before, [builder.name("last", value) for value in scanned.last])

        self._each_block(work, position, work.job.plan.loops[position], block)

    # Blocks

    def _blocks(
        self,
        work: Work,
        position: int,
        loop: LoopPlan,
        body: Follow,
        label: str,
        certificates: tuple[Certificate, ...] = (),
        alone: Var | None = None,
    ) -> None:
        """The loop over blocks, as `loop` says; `body` emits a block, with accumulators of its own, called `label`."""

        def block(inner: Work, at: int) -> None:
            body(inner, at, self.reductions.allocate(inner, at, registers=False, label=label))

        self._each_block(work, position, loop, block, certificates, alone)

    def _each_block(
        self,
        work: Work,
        position: int,
        loop: LoopPlan,
        body: Callable[[Work, int], None],
        certificates: tuple[Certificate, ...] = (),
        alone: Var | None = None,
    ) -> None:
        """The loop over blocks, as `loop` says."""
        plan = work.job.plan.loops[position]
        low, high, step = work.copies[0].bounds(plan.name)
        var = fresh(plan.name)

        def block(inner: Work, at: int) -> bool:
            body(inner, at)
            return True

        copies = [c.copy() for c in work.copies]
        part = replace(work, copies=copies, phase=Phase(takes_over=block), origin_of=[0])
        threaded = "parallel" if loop.kind == "parallel" else "serial"
        how = as_planned(replace(loop, name=plan.name), work.job.stage.name, threaded)
        how["alone"] = alone
        with self.builder.loop(var, low, high, step, certificates=certificates, **how):
            self.loops.choose(part, position, [[var]])

    def _count(self, work: Work, position: int) -> Expr:
        """How many blocks the loop at `position` makes."""
        low, high, step = work.copies[0].bounds(work.job.plan.loops[position].name)
        return ix.ceildiv(ix.sub(high, low), step)

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

    def _cleared(self, work: Work, position: int) -> Accumulators:
        """New accumulators for what came before a block, with the initial values."""
        carry = self.reductions.allocate(work, position, registers=False, label="before")
        self.reductions.clear(work, carry)
        return carry

    def _load(self, running: Accumulators, buffers: Sequence[Buffer], place: tuple[Expr, ...]) -> None:
        """Running values start as what `buffers` hold at `place`."""
        reductions = self.reductions
        reductions.each(running.lengths, lambda at: reductions.copy(buffers, (*place, *at), running.buffers, at))

    def _exchange(
        self, work: Work, carry: Accumulators, partials: Sequence[Buffer], at: tuple[Expr, ...], block: Expr
    ) -> None:
        """A block's total gives way to what came before the block."""
        totals = [self.builder.name("total", Read(b, (block, *at), None)) for b in partials]
        before = [self.builder.name("before", Read(b, at, None)) for b in carry.buffers]
        for buffer, value in zip(partials, before, strict=True):
            self.builder.add(Store(buffer, (block, *at), value))
        self.reductions.combine(work, carry, at, before, totals)

    # Inside a block

    def along(
        self, work: Work, position: int, lanes: LoopPlan | None, body: Callable[[Work, int], None], skipped: int = 0
    ) -> bool:
        """The loops along the axis, from `position` on, as one in such lanes over all but the first indices; False where there are none."""
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
        """The fold of the block's values."""
        neutral = self._neutral(work)
        if not neutral:
            if own.axes:  # elements between those of this iteration are combined with the others, and never looked at
                self.reductions.clear(work, own)
            self.reductions.part(work, position, self.first, own)
        else:
            self.reductions.set_all(own, neutral)
        self.reductions.part(work, position, self.total, own)

    def _neutral(self, work: Work) -> tuple[Expr, ...]:
        return _carried(work).neutral

    def _totalled(self, work: Work, position: int) -> bool:
        """The scanned loops inside a block as one over its values, whose order of loops nobody sees. False where there are none."""
        job = work.job
        if work.phase is self.first and over_reduced(work, position):
            axis = job.stage.reduction_axes[0].name
            if work.copies[0].ranges[axis].value is None:
                work = _fixed(work, axis, work.copies[0].box(axis)[0])
            self.loops.inside(work, position)
            return True
        skipped = 0 if self._neutral(work) else 1
        return self.along(work, position, self._lanes(job, position), self.loops.inside, skipped)

    def _lanes(self, job: Job, position: int) -> LoopPlan | None:
        """The loop whose lanes total a block, if any do: that of the strategy's part, or the stage's own where it has none."""
        blocks = job.plan.strategy is not None and job.plan.strategy[0] != "serial"
        loop = part_loop(job.stage, job.plan, totals_part(job.stage), -1) if blocks else vector_loop(job, position)
        return loop if loop is not None and loop.kind == "vector" else None

    # One element

    def _first_element(self, work: Work) -> None:
        """The first value of a block, with which its total begins."""
        for form, buffers, place in self.reductions.steps(work):
            for buffer, value in zip(buffers, self.loops.emitter.values(form.values), strict=True):
                self.builder.add(Store(buffer, place, value))

    def _total_element(self, work: Work) -> None:
        neutral, scan = self._neutral(work), work.job.stage.scan
        if not neutral:
            self.loops.emitter.prefixes(self.reductions.steps(work), scan is not None and scan.exclusive)
            return
        self.loops.emitter.folds(self.reductions.steps(work), contract=False)


def loops_along(job: Job, position: int) -> list[LoopPlan]:
    """The loops along the scanned axis from `position` on."""
    return [loop for loop in job.plan.loops[position:] if loop.name in job.reduced]


def vector_loop(job: Job, position: int) -> LoopPlan | None:
    """That of them which runs in lanes."""
    return next((loop for loop in loops_along(job, position) if loop.kind == "vector"), None)


def _along_rows(work: Work, position: int) -> bool:
    """Whether a loop runs along the rows of a filter, which are kept or left out as a whole."""
    return work.job.stage.filter is not None and not over_reduced(work, position)


def _fixed(work: Work, axis: str, value: Expr) -> Work:
    """The work at one index of an axis."""
    copies = [c.copy() for c in work.copies]
    for coordinates in copies:
        coordinates.fix(axis, value)
    return replace(work, copies=copies)


def _carried(work: Work) -> Reduce:
    assert work.job.carried is not None
    return work.job.carried
