"""Stages along one axis in blocks, each of which begins with what came before it: the fold of the totals of the blocks before.

    three_phase  threads total each block; the totals are scanned; threads go through each block from what came before it
    chain        an iteration of a loop over threads totals its block, waits for the iteration before to know what came before it,
                 adds its total for the next one, and goes through its block, which the caches still hold: memory is read once
                 (Merrill & Garland, Single-pass parallel prefix scan with decoupled look-back, 2016)

Filters call the first of the two `count_write`. Blocks are fixed by schedule and sizes, and what came before one is combined block by block
in order, so threads change no bit. Where the operator rounds nothing, no grouping does: one thread alone goes through the blocks of a chain
at once, each from where the last one ended. The initial value takes part once and need not be neutral.

On a GPU the threads of a block may have pieces of it (`piece_scans`). Where they have none, nothing waits: a chain goes in three phases.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext

from raido.algo.graph import index as ix
from raido.algo.graph.dtypes import bool_
from raido.algo.graph.expr import Expr, fresh
from raido.algo.graph.reduction import is_arithmetic, is_exact
from raido.schedule.lower.blocks import Blocks, LastPass, carried, is_chain
from raido.schedule.lower.builder import Builder, closed
from raido.schedule.lower.piece_scans import PieceScans
from raido.schedule.lower.thread_folds import is_bound
from raido.schedule.lower.versions import as_comparison
from raido.schedule.lower.work import Accumulators, Work
from raido.schedule.nest.nodes import If, Ordered, Store
from raido.schedule.nest.values import Buffer, Read
from raido.schedule.strategy_parts import part_loop, totals_part


class BlockScans:
    """Emits scans and filters in `Blocks`, and in the pieces that threads have of them."""

    def __init__(self, blocks: Blocks, pieces: PieceScans) -> None:
        self.blocks, self.reductions, self.pieces = blocks, blocks.reductions, pieces
        self.builder: Builder = blocks.builder

    def emit(self, work: Work, position: int, last: LastPass) -> None:
        """The stage as its strategy says, from the loop over blocks at `position` on."""
        chained, in_pieces = is_chain(work.job), self.pieces.threads.applies(work, position)
        by_blocks = is_bound(work.job.plan.loops[position], "block")
        if chained and not by_blocks and not self.blocks.loops.converter.sites.gpu:
            self._chain(work, position, last)
        elif not in_pieces:
            self._three_phase(work, position, last)
        elif chained and by_blocks and not self.builder.threaded and is_arithmetic(*carried(work).combine):
            self.pieces.chain(work, position, last)
        else:
            self.pieces.three_phase(work, position, last)

    def _chain(self, work: Work, position: int, last: LastPass) -> None:
        """One loop over blocks, each of which is totalled, takes its turn to learn what came before it, and is gone through."""
        loop, values = work.job.plan.loops[position], self.blocks.values
        carry = last.end or self.blocks.initial(work, position, "before")
        exact = loop.kind == "parallel" and is_exact(*carried(work).combine)
        alone = fresh("alone", bool_) if exact else None

        def block(inner: Work, at: int) -> None:
            own = values(inner, at, "total")
            if alone is None:
                in_turn(inner, at, own)
                return
            with self.builder.block(branch=True) as one_thread:
                at_once(inner, at)
            with self.builder.block(branch=True) as others:
                in_turn(inner, at, own)
            self.builder.add(If(alone, closed(one_thread), closed(others)))

        def at_once(inner: Work, at: int) -> None:
            with self._in_order():
                running = values(inner, at, "running")
                self._load(running, carry.buffers)
                last.follow(inner, at, running)
                self._load(carry, running.buffers)

        def in_turn(inner: Work, at: int, own: Accumulators) -> None:
            running = values(inner, at, "running")
            with self._if_followed(inner, last):
                self.blocks.total_of(inner, at, own)
            with self._in_order():
                self._load(running, carry.buffers)
                with self._if_followed(inner, last):
                    self.reductions.merge(inner, carry, own)
            last.follow(inner, at, running)

        self.blocks.each(work, position, block, certificates=last.certificates, alone=alone)

    @contextmanager
    def _in_order(self) -> Iterator[None]:
        """The section of a loop over blocks that its iterations go through one after the other."""
        with self.builder.block(branch=True) as section:
            yield
        self.builder.add(Ordered(closed(section)))

    def _if_followed(self, work: Work, last: LastPass) -> AbstractContextManager[object]:
        """A test for a block behind this one, whose total nothing else asks for."""
        if last.end is not None:
            return nullcontext()
        more = ix.sub(self.blocks.left(work), 1)
        return self.builder.when(as_comparison(more), more)

    def _three_phase(self, work: Work, position: int, last: LastPass) -> None:
        """A loop that totals blocks, one over the totals, and one that goes through the blocks."""
        job, blocks, reductions = work.job, self.blocks, self.reductions
        carry = last.end or blocks.initial(work, position, "before")
        partials = reductions.partials(work, carry.buffers[0].shape, blocks.count(work, position))

        def total(inner: Work, at: int) -> None:
            own = blocks.values(inner, at, "total")
            blocks.total_of(inner, at, own)
            reductions.keep(inner.job, own, partials, blocks.number(inner))

        def go_through(inner: Work, at: int) -> None:
            running = blocks.values(inner, at, "running")
            self._load(running, partials, (blocks.number(inner),))
            last.follow(inner, at, running)

        def exchange(at: tuple[Expr, ...]) -> None:
            """A block's total gives way to what came before the block."""
            totals = [self.builder.name("total", Read(b, (block, *at), None)) for b in partials]
            before = [self.builder.name("before", Read(b, at, None)) for b in carry.buffers]
            for buffer, value in zip(partials, before, strict=True):
                self.builder.add(Store(buffer, (block, *at), value))
            reductions.combine(work, carry, at, before, totals)

        stated = None if is_chain(job) else part_loop(job.stage, job.plan, totals_part(job.stage), 0)
        blocks.each(work, position, total, stated)
        with self.builder.loop(block := fresh("block"), ix.as_index(0), partials[0].shape[0], 1):
            reductions.each(carry.lengths, exchange)
        blocks.each(work, position, go_through, certificates=last.certificates)

    def _load(self, running: Accumulators, buffers: Sequence[Buffer], place: tuple[Expr, ...] = ()) -> None:
        """Running values start as what `buffers` hold at `place`."""
        reductions = self.reductions
        reductions.each(running.lengths, lambda at: reductions.copy(buffers, (*place, *at), running.buffers, at))
