"""Scans and filters in blocks along one axis, each starting from the fold of the totals of the blocks before it.

    three_phase  threads total each block; the totals are scanned; threads go through each block from the prefix before it
    chain        an iteration of a parallel loop totals its block, waits for the iteration before to publish the prefix before it, adds its
                 total for the next one, and goes through its block, which the caches still hold: memory is read once
                 (Merrill & Garland, Single-pass parallel prefix scan with decoupled look-back, 2016)

Filters call the first of the two `count_write`. Blocks are fixed by schedule and sizes, and prefixes are combined block by block in order,
so results do not depend on the number of threads. The initial value takes part once and need not be neutral.

A single thread need not go over the blocks of a chain twice. Where the operator does not round, no grouping changes bits, and each block
starts from the last one's final value. Else the thread totals blocks as several threads do; but where the schedule splits the loop inside,
it totals and goes through one part after the other, and producers compute what a part reads for that part.

On a GPU the threads of a block may have pieces of it (`piece_scans`). Where they have none, a chain falls back to three phases.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from raido.algo.graph import index as ix
from raido.algo.graph.dtypes import bool_
from raido.algo.graph.expr import Expr, Op, conjunction, fresh
from raido.algo.graph.reduction import is_arithmetic, is_exact
from raido.schedule.lower.builder import Builder, closed
from raido.schedule.lower.loop_cursor import Accumulators, LoopCursor, carried
from raido.schedule.lower.loops.versions import as_comparison
from raido.schedule.lower.strategies.blocks import Blocks, LastPass, is_chain, lanes_of_total, loops_along
from raido.schedule.lower.threads.piece_scans import PieceScans
from raido.schedule.lower.threads.thread_folds import is_bound
from raido.schedule.nest.nodes import Ordered
from raido.schedule.nest.values import Buffer, Read
from raido.schedule.strategies.parts import part_loop, totals_part

MOST_LANES = 64  # lanes of one byte in the widest registers (512 bits); any number of lanes divides it


class BlockScans:
    """Emits scans and filters in `Blocks`, and in the pieces that threads have of them."""

    def __init__(self, blocks: Blocks, pieces: PieceScans) -> None:
        self.blocks, self.reductions, self.pieces = blocks, blocks.reductions, pieces
        self.builder: Builder = blocks.builder

    def emit(self, cursor: LoopCursor, position: int, last: LastPass) -> None:
        """Emits the stage by its strategy, from the loop over blocks at `position` on."""
        chained, in_pieces = is_chain(cursor.lowered), self.pieces.threads.applies(cursor, position)
        by_blocks = is_bound(cursor.lowered.plan.loops[position], "block")
        if chained and not by_blocks and not self.blocks.loops.converter.sites.gpu:
            self._chain(cursor, position, last)
        elif not in_pieces:
            self._three_phase(cursor, position, last)
        elif chained and by_blocks and not self.builder.threaded and is_arithmetic(*carried(cursor).combine):
            self.pieces.chain(cursor, position, last)
        else:
            self.pieces.three_phase(cursor, position, last)

    def _chain(self, cursor: LoopCursor, position: int, last: LastPass) -> None:
        """Emits one loop over blocks, each of which is totalled, gets the prefix before it in the loop's ordered
        section, and is gone through."""
        loop, blocks = cursor.lowered.plan.loops[position], self.blocks
        carry = last.end or blocks.initial(cursor, position, "before")
        exact, made = is_exact(*carried(cursor).combine), blocks.loops.placer.places(cursor.lowered, position)
        in_parts = (made or not exact) and self._in_parts(cursor, position)
        alone = fresh("alone", bool_) if loop.kind == "parallel" and (exact or in_parts) else None
        apart = alone is not None and in_parts and made

        def block(inner: LoopCursor, at: int) -> None:
            own = blocks.values(inner, at, "total")
            if alone is None or not apart:
                go_through(inner, at, own, alone or False)
                return
            with self.builder.block(branch=True) as one_thread:
                go_through(inner, at, own, True)
            with self.builder.block(branch=True) as others:
                blocks.loops.produce(inner, position)
                go_through(inner, at, own, False)
            self.builder.branch(alone, one_thread, others)

        def go_through(inner: LoopCursor, at: int, own: Accumulators, one: Expr | bool) -> None:
            """Emits a block; `one`: whether a single thread runs."""
            running, parts = blocks.values(inner, at, "running"), in_parts and one is not False
            several = not one if isinstance(one, bool) else Op("logical_not", bool_, (one,))
            more = ix.sub(blocks.left(inner), 1) if last.end is None else None  # `end` alone needs the last total
            hand_on = partial(self.reductions.merge, inner, carry, own)
            total_of = blocks.total_of
            if parts and not exact:
                blocks.begin_total(inner, own)
                total_of = blocks.add_to_total
            self._where(several, more, lambda: total_of(inner, at, own))
            with self.builder.block(branch=True) as section:
                self._load(running, carry.buffers)
                self._where(several, more, hand_on)
            self.builder.add(Ordered(closed(section)))

            def part(each: LoopCursor, first: int) -> None:
                if apart:
                    blocks.loops.produce(each, position)
                if not exact:
                    self._where(one, more, lambda: total_of(each, first, own))
                last.follow(each, first, running)

            if parts:
                blocks.each(inner, at, part)
            else:
                last.follow(inner, at, running)
            if exact:
                self._where(one, None, lambda: self._load(carry, running.buffers))
            else:
                self._where(one, more, hand_on)

        blocks.each(cursor, position, block, reads=not apart, certificates=last.certificates, alone=alone)

    def _where(self, who: Expr | bool, more: Expr | None, emit: Callable[[], None]) -> None:
        """Emits statements behind the condition `who`, unless it is a known boolean, and behind the test that
        `more`, if given, is at least 0."""
        tests = [] if isinstance(who, bool) else [who]
        known = [] if more is None else [more]
        tests += map(as_comparison, known)
        if who is not False and tests:
            with self.builder.when(conjunction(tests), *known):
                emit()
        elif who is not False:
            emit()

    def _in_parts(self, cursor: LoopCursor, position: int) -> bool:
        """Whether the loop inside the one over blocks, at `position`, runs over parts that a single thread may total and go through in
        turn: each lane then has the same elements of a block as if the block were totalled as a whole."""
        lowered, inside = cursor.lowered, loops_along(cursor.lowered, position + 1)
        if len(inside) < 2 or inside[0] is not lowered.plan.loops[position + 1] or inside[0].kind != "serial":
            return False
        if self.blocks.loops.placer.keeps(lowered, position):
            return False
        lanes = lanes_of_total(lowered, position)
        together = (lanes.lanes or MOST_LANES) * lanes.interleave if lanes is not None else 1
        length = cursor.instances[0].bounds(inside[0].name)[2]
        return is_exact(*carried(cursor).combine) or (bool(carried(cursor).neutral) and length % together == 0)

    def _three_phase(self, cursor: LoopCursor, position: int, last: LastPass) -> None:
        """Emits a loop that totals blocks, one that scans the totals, and one that goes through the blocks."""
        lowered, blocks, reductions = cursor.lowered, self.blocks, self.reductions
        carry = last.end or blocks.initial(cursor, position, "before")
        partials = reductions.partials(cursor, carry.buffers[0].shape, blocks.count(cursor, position))

        def total(inner: LoopCursor, at: int) -> None:
            own = blocks.values(inner, at, "total")
            blocks.total_of(inner, at, own)
            reductions.keep(inner.lowered, own, partials, blocks.number(inner))

        def go_through(inner: LoopCursor, at: int) -> None:
            running = blocks.values(inner, at, "running")
            self._load(running, partials, (blocks.number(inner),))
            last.follow(inner, at, running)

        def exchange(at: tuple[Expr, ...]) -> None:
            """Replaces a block's total by the prefix before the block."""
            totals = [self.builder.name("total", Read(b, (block, *at), None)) for b in partials]
            before = [self.builder.name("before", Read(b, at, None)) for b in carry.buffers]
            self.builder.store(partials, (block, *at), before)
            reductions.combine(cursor, carry, at, before, totals)

        stated = None if is_chain(lowered) else part_loop(lowered.stage, lowered.plan, totals_part(lowered.stage), 0)
        blocks.each(cursor, position, total, stated)
        with self.builder.loop(block := fresh("block"), ix.as_index(0), partials[0].shape[0], 1):
            reductions.each(carry.lengths, exchange)
        blocks.each(cursor, position, go_through, certificates=last.certificates)

    def _load(self, running: Accumulators, buffers: Sequence[Buffer], indices: tuple[Expr, ...] = ()) -> None:
        """Initialises running values with those of `buffers` at `indices`."""
        reductions = self.reductions
        reductions.each(running.lengths, lambda at: reductions.copy(buffers, (*indices, *at), running.buffers, at))
