"""Filters: the elements for which a predicate holds, stored consecutively at the front of the results.

    serial              one position advances through the results
    count_write, chain  blocks (`block_scans`) begin where the kept elements of the blocks before them end

A partition stores the rejected elements behind the kept ones, so it needs the whole count first: it runs in
phases even where it is chained.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from raido.algo.graph import index as ix
from raido.algo.graph.dtypes import bool_, i64
from raido.algo.graph.expr import Expr, Op, Result
from raido.schedule.lower.builder import Builder
from raido.schedule.lower.loop_cursor import Accumulators, LoopCursor, Phase, cloned
from raido.schedule.lower.lowered_stage import LoweredStage
from raido.schedule.lower.strategies.block_scans import BlockScans
from raido.schedule.lower.strategies.blocks import LastPass, Staging, is_chain, loops_along, vector_loop
from raido.schedule.nest.nodes import Append, Certificate, Store
from raido.schedule.nest.values import Buffer, NestExpr, Read

if TYPE_CHECKING:
    from raido.schedule.lower.loops.loops import Loops
    from raido.schedule.lower.loops.reductions import Reductions


class Filters:
    """Emits filters with the loops of `Loops`."""

    def __init__(self, loops: Loops, reductions: Reductions, in_blocks: BlockScans) -> None:
        self.loops, self.reductions = loops, reductions
        self.in_blocks, self.blocks = in_blocks, in_blocks.blocks
        self.builder: Builder = loops.builder

    def filter(self, cursor: LoopCursor, position: int) -> None:
        """Emits the filter whose outermost loop stands at `position`."""
        lowered = cursor.lowered
        strategy = lowered.plan.strategy
        count = self.blocks.initial(cursor, position, "count")

        def follow(inner: LoopCursor, at: int, kept: Accumulators) -> None:
            self._write(inner, at, kept, Read(count.buffers[0], (), None), self._results(lowered))

        if strategy is None or strategy[0] == "serial":
            kept = count
            if _is_partition(lowered):
                self.blocks.total_of(cursor, position, count)
                kept = self.blocks.initial(cursor, position, "kept")
            follow(cursor, position, kept)
        else:
            by = "chain" if is_chain(lowered) else "count_write"
            numbers, certificates = dict(strategy[1]), self.loops.certificates(by, lowered)
            stage = partial(self._staging, lowered, by, int(numbers["block"]), count) if numbers.get("staged") else None  # type: ignore[arg-type]
            self.in_blocks.emit(cursor, position, LastPass(follow, count, certificates, stage))
        result = self.loops.converter.storages[Result(lowered.form, len(lowered.bodies) - 1)]
        self.builder.add(Store(result.buffer, (), Read(count.buffers[0], (), None)))

    def _staging(
        self,
        lowered: LoweredStage,
        by: str,
        block: int,
        count: Accumulators,
        cursor: LoopCursor,
        first: Expr,
        kept: Expr,
    ) -> Staging:
        """Allocates shared memory for the results of a block whose `kept` elements belong at `first`; of a partition, its rejected ones
        are behind them, and belong behind all kept ones and those that the blocks before reject."""
        results, add = self._results(lowered), self.builder.add
        staged = tuple(self.builder.alloc("staged", b.dtype, (ix.as_index(block),), "shared") for b in results)

        def move(element: Expr, position: Expr) -> None:
            for source, target in zip(staged, results, strict=True):
                add(Store(target, (position,), Read(source, (element,), None)))

        begin, last = cursor.instances[0].box(lowered.stage.reduction_axes[0].name)
        runs: tuple[tuple[Expr, Expr, Expr], ...] = ((ix.as_index(0), kept, first),)
        if _is_partition(lowered):
            rejected = ix.add(Read(count.buffers[0], (), None), ix.sub(begin, first))
            runs = (
                *runs,
                (kept, ix.sub(ix.sub(ix.add(last, 1), begin), kept), self.builder.name("rejected", rejected)),
            )
        follow = lambda inner, at, running: self._write(inner, at, running, ix.sub(kept, begin), staged)
        return Staging(follow, runs, move, (Certificate(by, staged),))

    def _write(
        self, cursor: LoopCursor, position: int, kept: Accumulators, rejected: NestExpr, results: tuple[Buffer, ...]
    ) -> None:
        """Appends the kept elements from the position in `kept` on; of a partition, the rejected ones from `rejected` on, which is the
        index of the one that is the first element."""
        lowered, positions = cursor.lowered, kept.buffers
        rows = len(lowered.stage.axes) > 1
        if _is_partition(lowered):
            before = self.builder.name("before", Read(kept.buffers[0], (), None))
            everything = self.builder.name("all", rejected)
            begin, _ = cursor.instances[0].box(lowered.stage.reduction_axes[0].name)
            rest = self.builder.alloc("rest", i64, (), "register")
            self.builder.add(Store(rest, (), ix.add(everything, ix.sub(begin, before))))
            positions = (*positions, rest)

        def along(inner: LoopCursor, at: int) -> bool:
            lanes = None if rows else vector_loop(lowered, at)
            return self.blocks.along(inner, at, lanes, partial(self._rows, positions) if rows else self.loops.inside)

        phase = Phase(lambda inner: self._append(inner, positions, results), takes_over=along)
        self.reductions.part(cursor, position, phase, kept)

    def _rows(self, positions: Sequence[Buffer], cursor: LoopCursor, position: int) -> None:
        """Copies a row to the next position as a whole if it is kept; of a partition, each row to the position of one of the two sides."""
        builder, inside = self.builder, position + len(loops_along(cursor.lowered, position))
        for p in range(position, inside):
            self.loops.placer.inside(cursor, p)
        (holds,) = self._values(cursor, (0,))
        holds = builder.name("holds", holds)
        for k, register in enumerate(positions):
            test = holds if k == 0 else Op("logical_not", bool_, (holds,))
            phase = Phase(partial(self._store_row, register))
            with builder.when(test):
                self.loops.level(cloned(cursor, phase=phase), inside)
                builder.add(Store(register, (), ix.add(Read(register, (), None), 1)))

    def _values(self, cursor: LoopCursor, which: Sequence[int], instance: int = 0) -> list[NestExpr]:
        """Emits only the values number `which` of the fold, because producers of the others may be computed in loops further in."""
        values = self.loops.environment(cursor, instance)
        fold = cursor.lowered.reduction
        assert fold is not None
        chosen = tuple(fold.values[k] for k in which)
        found = self.loops.converter.convert(chosen, values, self.builder.assumptions, cursor.identity)
        return self.loops.emitter.values(list(found))

    # One element

    def _append(self, cursor: LoopCursor, positions: Sequence[Buffer], buffers: tuple[Buffer, ...]) -> None:
        builder = self.builder
        holds, *values = self._values(cursor, range(len(buffers) + 1))
        if len(positions) > 1:
            holds = builder.name("holds", holds)
        for k, register in enumerate(positions):
            test = holds if k == 0 else Op("logical_not", bool_, (holds,))
            builder.add(Append(buffers, register, tuple(values), test))

    def _store_row(self, register: Buffer, cursor: LoopCursor) -> None:
        """Stores the elements of a row at the position in `register`."""
        buffers = self._results(cursor.lowered)
        position = self.builder.name("place", Read(register, (), None))
        for k in range(len(cursor.instances)):
            where = self.loops.environment(cursor, k)
            rows = tuple(where[axis.var] for axis in cursor.lowered.stage.axes[1:])
            self.builder.store(buffers, (position, *rows), self._values(cursor, range(1, len(buffers) + 1), k))

    def _results(self, lowered: LoweredStage) -> tuple[Buffer, ...]:
        """The buffers of the kept elements; the last result of the form, their number, is not among them."""
        storages = self.loops.converter.storages
        return tuple(storages[Result(lowered.form, k)].buffer for k in range(len(lowered.bodies) - 1))


def _is_partition(lowered: LoweredStage) -> bool:
    """Whether rejected elements are stored behind the kept ones."""
    return lowered.stage.filter is not None and lowered.stage.filter.partition
