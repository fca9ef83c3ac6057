"""Segments shared by the threads of a GPU's block: `part("fold")` of `strategy("flat")`, bound to blocks and threads.

    block.x block: pieces of segments at its borders, each by all threads;
      thread.x t: short segments inside the block, each by one thread;
      for the long ones: each by all threads

A segment is long if it has more values than a block has threads, so a thread folds at most that many. A long segment is recorded in a slot
of its own: for T threads, that of its first value whose number in the block is a multiple of T. All threads take every T-th value of a
piece where the operator commutes, else neighbouring ones, and combine their parts in a tree. (Short and long rows by different methods:
Greathouse & Daga, Efficient sparse matrix-vector multiplication on GPUs using the CSR storage format, 2014.)
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from raido.algo.graph import index as ix
from raido.algo.graph.dtypes import bool_, i32, i64
from raido.algo.graph.expr import Axis, Expr, Generate, Op, const, fresh
from raido.schedule.checks.levels import threads_of
from raido.schedule.lower.builder import Builder
from raido.schedule.lower.loop_cursor import Accumulators, LoopCursor, carried
from raido.schedule.lower.threads.thread_folds import is_bound
from raido.schedule.nest.nodes import AtomicUpdate, Certificate, Store
from raido.schedule.nest.values import Buffer, Read
from raido.schedule.plan import LoopPlan, StagePlan
from raido.schedule.stages.segments import Segments
from raido.schedule.stages.stage import Stage
from raido.schedule.strategies.parts import part_plan, part_stage

if TYPE_CHECKING:
    from raido.schedule.lower.strategies.flat_segments import FlatSegments

ZERO, ONE = ix.as_index(0), ix.as_index(1)


@dataclass(frozen=True, slots=True)
class Flat:
    """The segments of a stage along `axis`, whose loop is at `position`, numbered from `base` on, and their blocks: `begins`, the number of
    segments that end before each block, and the partial results of its two border pieces, as the results of a form."""

    segments: Segments
    axis: Axis
    position: int
    base: Expr
    count: Expr
    total: Expr
    block: int
    blocks: Expr
    begins: Buffer
    pieces: Generate

    def diagonal(self, number: Expr) -> Expr:
        """The number of segment ends and values before a block, which is its diagonal of the merge path."""
        return ix.minimum(ix.mul(number, self.block), self.total)


@dataclass(frozen=True, slots=True)
class Part:
    """A block's share: segments number `first`, in which it begins, to `last`, in which it ends, and the values low … high − 1."""

    block: Expr
    first: Expr
    last: Expr
    low: Expr
    high: Expr


@dataclass(frozen=True, slots=True)
class Threads:
    """The threads of a block, as the plan of a loop, and the loop over values of a single one."""

    loop: LoopPlan
    count: int
    own: LoopPlan


@dataclass(frozen=True, slots=True)
class Long:
    """The numbers of a block's long segments, −1 in unused slots, and the end of the used slots."""

    numbers: Buffer
    end: Buffer


class BlockSegments:
    """Emits the loops over threads of a block, with the stages of `FlatSegments`."""

    def __init__(self, flat: FlatSegments) -> None:
        self.flat, self.loops = flat, flat.loops
        self.builder: Builder = flat.builder

    def block(self, cursor: LoopCursor, flat: Flat, part: Part, threads: Threads) -> None:
        """Emits one block: the partial results of its border pieces, and the results of the segments inside."""
        builder = self.builder
        with self.flat.border(cursor, flat, part) as (piece, of_piece):
            self._together(self.flat.of_values(piece, flat, of_piece, threads.own), flat, threads)
        slots, k = flat.block // threads.count, fresh("k")
        if slots < 2:
            self._short(cursor, flat, part, None, threads)
            return
        long = Long(
            builder.alloc("long", i64, (ix.as_index(slots),), "shared"), builder.alloc("end", i32, (ONE,), "shared")
        )
        self._forget(cursor, long, slots, threads)
        self._short(cursor, flat, part, long, threads)
        end = builder.name("end", Op("cast", i64, (Read(long.end, (ZERO,), None),)))
        with builder.loop(k, ZERO, end, 1):
            number = builder.name("number", Read(long.numbers, (k,), None))
            with builder.when(Op("le", bool_, (ZERO, number)), number):
                segment = self.flat.at(cursor, flat, number)
                self._together(self.flat.of_values(segment, flat, part, threads.own), flat, threads)

    def _forget(self, cursor: LoopCursor, long: Long, slots: int, threads: Threads) -> None:
        """Clears the slots of long segments."""
        k, last = fresh("k"), ix.as_index(slots)
        self.builder.add(Store(long.end, (ZERO,), const(i32, 0)))
        with (
            self._each(cursor, ix.minimum(last, ix.as_index(threads.count)), threads) as t,
            self.builder.loop(k, t, last, threads.count),
        ):
            self.builder.add(Store(long.numbers, (k,), ix.as_index(-1)))

    def _note(self, long: Long, slot: Expr, number: Expr) -> None:
        """Records a long segment in a slot."""
        old, new = fresh("old", i32), fresh("new", i32)
        end, larger = Op("cast", i32, (ix.add(slot, 1),)), Op("maximum", i32, (old, new))
        self.builder.add(Store(long.numbers, (slot,), number))
        self.builder.add(AtomicUpdate(long.end, (ZERO,), end, old, new, larger, "maximum"))

    def _short(self, cursor: LoopCursor, flat: Flat, part: Part, long: Long | None, threads: Threads) -> None:
        """Emits the fold of the short segments inside a block, a thread each, and records the long ones."""
        builder, count = self.builder, threads.count
        number = fresh(flat.axis.name)
        inside = ix.maximum(ix.sub(ix.sub(part.last, part.first), 1), ZERO)
        certificates = self.loops.certificates("flat", cursor.lowered)
        if long is not None:
            certificates = (*certificates, Certificate("flat", (long.numbers,)))
        begin = ix.add(flat.base, ix.add(part.first, 1))
        with (
            self._each(cursor, ix.minimum(ix.as_index(count), inside), threads, certificates) as t,
            builder.loop(number, ix.add(begin, t), ix.add(flat.base, part.last), count),
        ):
            segment = self.flat.of_values(self.flat.at(cursor, flat, number), flat, part, threads.own)
            if long is None:
                self.flat.fold(segment, flat)
                return
            start, stop = segment.instances[0].bounds(segment.lowered.plan.loops[flat.position + 1].name)[:2]
            length = builder.name("length", ix.sub(stop, start))
            with builder.when(Op("le", bool_, (length, ix.as_index(count)))):
                self.flat.fold(segment, flat)
            with builder.when(Op("lt", bool_, (ix.as_index(count), length))):
                position = ix.floordiv(ix.add(ix.sub(start, part.low), count - 1), count)
                self._note(long, builder.name("slot", position), number)

    def _each(
        self, cursor: LoopCursor, count: Expr, threads: Threads, certificates: tuple[Certificate, ...] = ()
    ) -> AbstractContextManager[Expr]:
        """A loop over `count` threads of a block."""
        over = self.loops.thread_folds.over
        return over(threads.loop, cursor.lowered.stage.name, count, threads.count, certificates)

    def _together(self, cursor: LoopCursor, flat: Flat, threads: Threads) -> None:
        """Emits the stage at a segment, or a piece of one, of which each thread folds a part."""
        self.flat.fold(cursor, flat, lambda folding, position: self._parts(folding, position, threads))

    def _parts(self, cursor: LoopCursor, position: int, threads: Threads) -> None:
        """Emits the fold of a segment by all threads: of every T-th value each where the operator commutes, else of consecutive ones."""
        builder, folds, count, fold = self.builder, self.loops.thread_folds, threads.count, carried(cursor)
        name = cursor.lowered.plan.loops[position].name
        start, stop, _ = cursor.instances[0].bounds(name)
        size = builder.name("size", ix.sub(stop, start))
        span, step, live = ONE, count, ix.minimum(ix.as_index(count), size)
        if not fold.commutative:
            span, step = builder.name("span", ix.ceildiv(size, count)), 1
            live = ix.floordiv(ix.add(size, ix.sub(span, ONE)), span)
        live = self.loops.bind("live", live, ONE, ix.as_index(count))

        def part(t: Expr, parts: Accumulators) -> None:
            first = ix.add(start, ix.mul(t, span))
            coordinates = cursor.instances[0].copy()
            last = stop if fold.commutative else ix.minimum(stop, ix.add(first, span))
            coordinates.narrow(name, first, last, step)
            folds.by_one_thread(replace(cursor, instances=[coordinates]), position, parts)

        folds.together(cursor, position, threads.loop, live, count, part)


def threads_of_block(stage: Stage, plan: StagePlan) -> Threads | None:
    """The threads that share a block's segments; None unless the schedule binds a loop to threads."""
    whole, own = part_stage(stage, plan, "fold"), part_plan(stage, plan, "fold")
    loop = next((loop for loop in own.loops if is_bound(loop, "thread")), None)
    return None if loop is None else Threads(loop, threads_of(whole, own, loop), LoopPlan(whole.axes[-1].name))
