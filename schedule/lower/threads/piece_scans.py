"""Scans and filters whose blocks are distributed in pieces over the threads of a GPU's block (`thread_scans`),
in the phases of `block_scans`.

    three_phase  the prefix before each piece in its block is kept from the pass that totals blocks
    chain        blocks hand on the prefix before them by a `Carry`
    in_turn      the threads of one block go through blocks one after the other; all of them hold the prefix

In each of them threads total their pieces, scan these totals, and go through their pieces from the prefix before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from raido.algo.graph import index as ix
from raido.algo.graph.dtypes import i64
from raido.algo.graph.expr import Expr, fresh
from raido.schedule.lower.builder import Builder
from raido.schedule.lower.loop_cursor import LoopCursor, carried, cloned
from raido.schedule.lower.loops.versions import as_comparison
from raido.schedule.lower.strategies.blocks import Blocks, Follow, LastPass, vector_loop
from raido.schedule.lower.threads.thread_scans import Combine, Elements, Pieces, Prefixes, ThreadScans
from raido.schedule.nest.carry import in_one_word
from raido.schedule.nest.nodes import Store
from raido.schedule.nest.values import Buffer, NestExpr, Read
from raido.schedule.stages.stage import initial_values

EmitBlock: TypeAlias = Callable[[LoopCursor, int], None]


class PieceScans:
    """Emits scans and filters in pieces."""

    def __init__(self, blocks: Blocks, threads: ThreadScans) -> None:
        self.blocks, self.threads = blocks, threads
        self.loops, self.reductions = blocks.loops, blocks.reductions
        self.builder: Builder = blocks.builder

    def three_phase(self, cursor: LoopCursor, position: int, last: LastPass) -> None:
        """Emits a loop that totals blocks, a scan of the totals by the threads of one block, and a loop that goes through the blocks."""
        blocks, threads = self.blocks, self.threads
        partials = self.reductions.partials(cursor, (), blocks.count(cursor, position))
        before = threads.before_pieces(cursor, position, partials)
        combine = self._combine(cursor)

        def total(inner: LoopCursor, at: int) -> None:
            pieces = threads.pieces(inner, at)
            threads.keep(pieces, self._totals(inner, at, pieces, combine), blocks.number(inner), before, partials)

        def go_through(inner: LoopCursor, at: int) -> None:
            number = blocks.number(inner)
            earlier = [Read(b, (number,), None) for b in partials]
            begins: Elements = lambda t: [Read(b, (number, ix.sub(t, 1)), None) for b in before]
            pieces = threads.pieces(inner, at)
            self._go_through(inner, at, pieces, earlier, begins, begins(pieces.live), combine, last)

        blocks.each(cursor, position, self._whole_apart(total))
        end = last.end.buffers if last.end is not None else ()
        threads.exchange(cursor, position, self._initial(cursor), partials, combine, end)
        blocks.each(cursor, position, self._whole_apart(go_through), certificates=last.certificates)

    def chain(self, cursor: LoopCursor, position: int, last: LastPass) -> None:
        """Emits one loop over blocks, each of which looks back at those before it once it is totalled."""
        builder, blocks = self.builder, self.blocks
        lowered, count = cursor.lowered, blocks.count(cursor, position)
        initial = self._initial(cursor)
        shape = (ix.add(count, 1),)
        dtypes, counts = [v.dtype for v in carried(cursor).left], lowered.stage.filter is not None
        before = tuple(builder.alloc("before", dtype, shape, "heap") for dtype in dtypes)
        alone = in_one_word(dtypes, counts)
        totals = () if alone else tuple(builder.alloc("totals", dtype, shape, "heap") for dtype in dtypes)
        state = builder.alloc("state", i64, shape, "heap")
        names = {"stage": lowered.stage.name, "loop": lowered.plan.loops[position].name}
        with builder.loop(block := fresh("block"), ix.as_index(0), shape[0], 1, kind="parallel", **names):
            builder.store(before, (block,), initial)
            builder.add(Store(state, (block,), ix.as_index(0)))
        combine = self._combine(cursor)

        def scan_block(inner: LoopCursor, at: int) -> None:
            pieces, scanned, begins = self._begun(inner, at, combine)
            operator, number = self.reductions.operator(inner), blocks.number(inner)
            earlier = self.loops.emitter.carry(operator, before, number, scanned.last, totals, state, counts)
            self._go_through(inner, at, pieces, earlier, begins, scanned.last, combine, last)

        blocks.each(cursor, position, self._whole_apart(scan_block), certificates=last.certificates)
        if last.end is not None:
            self.reductions.copy(before, (count,), last.end.buffers, ())

    def _whole_apart(self, emit: EmitBlock) -> EmitBlock:
        """The emitter of a block, with a separate version without tests for full blocks where pieces are vectorised."""
        builder = self.builder

        def block(inner: LoopCursor, at: int) -> None:
            gap = self.blocks.left(inner)
            if vector_loop(inner.lowered, at) is None or builder.assumptions.nonnegative(gap):
                emit(inner, at)
                return
            part = cloned(inner)
            with builder.block(builder.assumptions.with_known(gap), branch=True) as whole:
                emit(inner, at)
            with builder.block(branch=True) as rest:
                emit(part, at)
            builder.branch(as_comparison(gap), whole, rest)

        return block

    def in_turn(self, cursor: LoopCursor, position: int, follow: Follow) -> None:
        """Emits blocks one after the other, each by the threads of one block of a GPU."""
        carry = self.blocks.initial(cursor, position, "before")
        combine = self._combine(cursor)

        def block(inner: LoopCursor, at: int) -> None:
            pieces, scanned, begins = self._begun(inner, at, combine)
            earlier = [Read(b, (), None) for b in carry.buffers]
            self._go_through(inner, at, pieces, earlier, begins, scanned.last, combine, LastPass(follow))
            before = [self.builder.name("before", value) for value in earlier]
            combine(carry.buffers, (), before, [self.builder.name("last", value) for value in scanned.last])

        self.blocks.each(cursor, position, block)

    def _totals(self, cursor: LoopCursor, position: int, pieces: Pieces, combine: Combine) -> Prefixes:
        """Emits the totals of a block's pieces and their inclusive scan."""
        parts = self.threads.parts(pieces, [v.dtype for v in carried(cursor).left])

        def total(piece: LoopCursor, first: int, t: Expr) -> None:
            own = self.blocks.values(piece, first, "total")
            self.blocks.total_of(piece, first, own)
            self.reductions.copy(own.buffers, (), parts, (t,))

        self.threads.each(cursor, position, pieces, total)
        return self.threads.scan(pieces, parts, combine, self.reductions.operator(cursor))

    def _begun(self, cursor: LoopCursor, position: int, combine: Combine) -> tuple[Pieces, Prefixes, Elements]:
        """The pieces of a block, the scan of their totals, and the prefix before each piece in the block."""
        pieces = self.threads.pieces(cursor, position)
        scanned = self._totals(cursor, position, pieces, combine)
        return pieces, scanned, self.threads.begins(pieces, scanned, [v.dtype for v in carried(cursor).left])

    def _go_through(
        self,
        cursor: LoopCursor,
        position: int,
        pieces: Pieces,
        earlier: Sequence[NestExpr],
        begins: Elements,
        total: Sequence[NestExpr],
        combine: Combine,
        last: LastPass,
    ) -> None:
        """Emits the pass of each thread through its piece, from `earlier`, the value before the block, combined with
        the pieces before in `begins`. The block's fold is `total`; threads move staged results after the pass."""
        staging = None
        if last.stage is not None:
            (first,), (count,) = ([self.builder.name("kept", value) for value in each] for each in (earlier, total))
            staging = last.stage(cursor, first, count)
        before = earlier if staging is None else [ix.as_index(0)]

        def one(piece: LoopCursor, first: int, t: Expr) -> None:
            running = self.blocks.values(piece, first, "running")
            self.builder.store(running.buffers, (), before)
            self.threads.follow(running.buffers, t, begins(t), combine)
            (staging or last).follow(piece, first, running)

        filled = () if staging is None else staging.certificates
        self.threads.each(cursor, position, pieces, one, (*last.certificates, *filled))
        if staging is not None:
            for start, length, target in staging.runs:
                with self.threads.in_turn(pieces, length, last.certificates) as k:
                    staging.move(ix.add(start, k), ix.add(target, k))

    def _combine(self, cursor: LoopCursor) -> Combine:
        """The operator of a scan, for values of its blocks and of their pieces."""
        environment = self.loops.environment(cursor, 0)

        def combine(
            buffers: Sequence[Buffer], at: tuple[Expr, ...], left: Sequence[NestExpr], right: Sequence[NestExpr]
        ) -> None:
            self.reductions.combine_where(cursor, environment, buffers, at, left, right)  # type: ignore[arg-type]

        return combine

    def _initial(self, cursor: LoopCursor) -> list[NestExpr]:
        """The values before the first block: the initial ones of the scan."""
        environment, assumptions = self.loops.environment(cursor, 0), self.builder.assumptions
        values = self.loops.converter.convert(
            initial_values(carried(cursor)), environment, assumptions, cursor.identity
        )
        return self.loops.emitter.values(values)
