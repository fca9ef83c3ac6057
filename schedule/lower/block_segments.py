"""Segments that the threads of a GPU's block share: `part("fold")` of `strategy("flat")`, bound to blocks and threads.

    block.x block: pieces at its borders, each by all threads;
      thread.x t: segments that lie inside and are short, each by a thread;
      for the long ones: each by all threads

A segment is long that has more values than a block has threads, so a thread folds at most as many. It is noted in a slot that no other
long segment of the block has: that of the first of every T values, for T threads, which lies in it. All threads take every T-th value of
a piece where the operator commutes, else neighbouring ones, and combine their parts in a tree. (Short and long rows in different ways:
Greathouse & Daga, Efficient sparse matrix-vector multiplication on GPUs using the CSR storage format, 2014.)
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from raido.algo.graph import index as ix
from raido.algo.graph.dtypes import bool_, i32, i64
from raido.algo.graph.expr import Expr, Op, const, fresh
from raido.schedule.levels import threads_of
from raido.schedule.lower.builder import Builder
from raido.schedule.lower.thread_folds import SHARED_BYTES, is_bound, rounds_of_tree
from raido.schedule.lower.work import Work
from raido.schedule.nest.nodes import AtomicUpdate, Certificate, Store
from raido.schedule.nest.values import Buffer, Read
from raido.schedule.plan import LoopPlan, StagePlan
from raido.schedule.stages.segments import Segments
from raido.schedule.stages.stage import Stage
from raido.schedule.strategy_parts import part_plan, part_stage

if TYPE_CHECKING:
    from raido.schedule.lower.flat_segments import FlatSegments

ZERO, ONE = ix.as_index(0), ix.as_index(1)


@dataclass(frozen=True, slots=True)
class Flat:
    """The segments of a stage, from number `base` on, and their blocks: where each begins, what its two border pieces are, and whether
    they have values.
    """

    segments: Segments
    base: Expr
    count: Expr
    total: Expr
    block: int
    blocks: Expr
    begins: Buffer
    pieces: tuple[Buffer, ...]
    filled: Buffer

    def diagonal(self, number: Expr) -> Expr:
        """How many ends and values stand before a block."""
        return ix.minimum(ix.mul(number, self.block), self.total)


@dataclass(frozen=True, slots=True)
class Part:
    """What is a block's: it begins in segment number `first` and ends in `last`, and has the values low … high − 1."""

    block: Expr
    first: Expr
    last: Expr
    low: Expr
    high: Expr


@dataclass(frozen=True, slots=True)
class Threads:
    """The threads of a block, as a loop states them."""

    loop: LoopPlan
    count: int


@dataclass(frozen=True, slots=True)
class Long:
    """The numbers of a block's long segments, −1 in the slots of none, and the end of the slots that have some."""

    numbers: Buffer
    end: Buffer


class BlockSegments:
    """Emits what the threads of a block do, with the pieces of `FlatSegments`."""

    def __init__(self, flat: FlatSegments) -> None:
        self.flat, self.loops = flat, flat.loops
        self.builder: Builder = flat.builder

    def block(self, work: Work, position: int, flat: Flat, part: Part, threads: Threads) -> None:
        """One block's pieces; the segments inside are finished."""
        builder, slot = self.builder, fresh("slot")
        with builder.loop(slot, ZERO, borders_of(part.first, part.last), 1):
            border = builder.name("border", Op("select", i64, (Op("eq", bool_, (slot, ZERO)), part.first, part.last)))
            with builder.when(Op("lt", bool_, (border, flat.count)), ix.sub(ix.sub(flat.count, border), 1)):
                self._border(work, flat, part, slot, ix.add(flat.base, border), threads)
        slots, k = flat.block // threads.count, fresh("k")
        if slots < 2:
            self._short(work, position, flat, part, None, threads)
            return
        long = Long(
            builder.alloc("long", i64, (ix.as_index(slots),), "shared"), builder.alloc("end", i32, (ONE,), "shared")
        )
        self._forget(work, long, slots, threads)
        self._short(work, position, flat, part, long, threads)
        end = builder.name("end", Op("cast", i64, (Read(long.end, (ZERO,), None),)))
        with builder.loop(k, ZERO, end, 1):
            number = builder.name("number", Read(long.numbers, (k,), None))
            with builder.when(Op("le", bool_, (ZERO, number)), number):
                bounds = self.flat.bounds(work, flat.segments, number, part.low, part.high)
                parts = self._together(work, flat.segments, number, bounds, threads)
                piece = [Read(buffer, (ZERO,), None) for buffer in parts]
                self.flat.finish(work, position, flat.segments, number, piece, Op("lt", bool_, bounds[1:]))

    def _border(self, work: Work, flat: Flat, part: Part, slot: Expr, border: Expr, threads: Threads) -> None:
        """The piece of a segment that begins or ends outside the block."""
        builder, segments = self.builder, flat.segments
        bounds = self.flat.bounds(work, segments, border, part.low, part.high)
        some = builder.name("some", Op("lt", bool_, bounds[1:]))
        builder.add(Store(flat.filled, (part.block, slot), some))
        with builder.when(some, ix.sub(ix.sub(bounds[2], bounds[1]), 1)):
            parts = self._together(work, segments, border, bounds, threads)
            for target, source in zip(flat.pieces, parts, strict=True):
                builder.add(Store(target, (part.block, slot), Read(source, (ZERO,), None)))

    def _forget(self, work: Work, long: Long, slots: int, threads: Threads) -> None:
        """No segment is known to be long."""
        k, last = fresh("k"), ix.as_index(slots)
        self.builder.add(Store(long.end, (ZERO,), const(i32, 0)))
        with (
            self._each(work, ix.minimum(last, ix.as_index(threads.count)), threads) as t,
            self.builder.loop(k, t, last, threads.count),
        ):
            self.builder.add(Store(long.numbers, (k,), ix.as_index(-1)))

    def _note(self, long: Long, slot: Expr, number: Expr) -> None:
        """A segment is long."""
        old, new = fresh("old", i32), fresh("new", i32)
        end, larger = Op("cast", i32, (ix.add(slot, 1),)), Op("maximum", i32, (old, new))
        self.builder.add(Store(long.numbers, (slot,), number))
        self.builder.add(AtomicUpdate(long.end, (ZERO,), end, old, new, larger, "maximum"))

    def _short(self, work: Work, position: int, flat: Flat, part: Part, long: Long | None, threads: Threads) -> None:
        """The segments inside a block, a thread each; those that are long are noted."""
        builder, count, segments = self.builder, threads.count, flat.segments
        number = fresh(work.job.stage.axes[segments.axis].var.name)
        inside = ix.maximum(ix.sub(ix.sub(part.last, part.first), 1), ZERO)
        certificates = self.loops.certificates("flat", work.job)
        if long is not None:
            certificates = (*certificates, Certificate("flat", (long.numbers,)))
        begin = ix.add(flat.base, ix.add(part.first, 1))
        with (
            self._each(work, ix.minimum(ix.as_index(count), inside), threads, certificates) as t,
            builder.loop(number, ix.add(begin, t), ix.add(flat.base, part.last), count),
        ):
            bounds = self.flat.bounds(work, segments, number, part.low, part.high)
            if long is None:
                self.flat.segment(work, position, segments, number, bounds)
                return
            length = builder.name("length", ix.sub(bounds[2], bounds[1]))
            with builder.when(Op("le", bool_, (length, ix.as_index(count)))):
                self.flat.segment(work, position, segments, number, bounds)
            with builder.when(Op("lt", bool_, (ix.as_index(count), length))):
                place = ix.floordiv(ix.add(ix.sub(bounds[1], part.low), count - 1), count)
                self._note(long, builder.name("slot", place), number)

    def _each(
        self, work: Work, count: Expr, threads: Threads, certificates: tuple[Certificate, ...] = ()
    ) -> AbstractContextManager[Expr]:
        """A loop over `count` threads of a block."""
        over = self.loops.thread_folds.over
        return over(threads.loop, work.job.stage.name, count, threads.count, certificates)

    def _together(
        self, work: Work, segments: Segments, number: Expr, bounds: tuple[Expr, Expr, Expr], threads: Threads
    ) -> tuple[Buffer, ...]:
        """Memory of which the first elements are a piece of a segment, folded by all threads; anything where it has no values."""
        builder, count, fold = self.builder, threads.count, segments.fold
        begin, start, stop = bounds
        size = builder.name("size", ix.sub(stop, start))
        scope = "shared" if count * sum(v.dtype.itemsize for v in fold.left) <= SHARED_BYTES else "heap"
        parts = tuple(builder.alloc("partial", v.dtype, (ix.as_index(count),), scope) for v in fold.left)
        span = ONE if fold.commutative else builder.name("span", ix.ceildiv(size, count))
        if fold.commutative:
            live = builder.name("live", ix.minimum(ix.as_index(count), size))
        else:
            live = builder.name("live", ix.floordiv(ix.add(size, ix.sub(span, ONE)), ix.maximum(span, ONE)))
        with self._each(work, live, threads) as t:
            first = ix.add(start, ix.mul(t, span))
            end = stop if fold.commutative else ix.minimum(stop, ix.add(first, span))
            step = count if fold.commutative else 1
            piece = self.flat.piece(work, segments, number, begin, first, end, step)
            for target, register in zip(parts, piece, strict=True):
                builder.add(Store(target, (t,), Read(register, (), None)))
        self._tree(work, segments, parts, live, threads)
        return parts

    def _tree(self, work: Work, segments: Segments, parts: Sequence[Buffer], live: Expr, threads: Threads) -> None:
        """The parts of the first `live` threads are combined into the first of them."""
        emitter, halves = self.loops.emitter, segments.fold.commutative
        operator = self.flat.operator(work, segments)
        group = min(threads.loop.subgroup, 1 << (threads.count - 1).bit_length()) or 1
        if not emitter.is_step(operator):
            group = 1

        def collect(count: Expr, width: int) -> None:
            t = fresh("t")
            emitter.collect(operator, parts, (t,), t, count, width, halves, threads.loop.level)

        if group > 1 and not halves:
            collect(live, group)
        left = threads.count
        for each in rounds_of_tree(live, threads.count, halves, group):
            with self._each(work, each.count, threads) as t:
                for one, other in self.loops.thread_folds.pairs(each, t):
                    pair = [
                        [self.builder.name(name, Read(b, (at,), None)) for b in parts]
                        for name, at in (("left", one), ("right", other))
                    ]
                    emitter.combine_into(self.flat.operator(work, segments), parts, (one,), *pair)
            left = each.left
        if group > 1 and halves:
            collect(ix.minimum(ix.as_index(left), live), left)


def borders_of(first: Expr, last: Expr) -> Expr:
    """How many segments a block has a piece of: 1 where it lies inside of one, else 2."""
    return ix.add(ONE, Op("select", i64, (Op("lt", bool_, (first, last)), ONE, ZERO)))


def threads_of_block(stage: Stage, plan: StagePlan) -> Threads | None:
    """The threads that share a block's segments, if the schedule says so."""
    whole, own = part_stage(stage, plan, "fold"), part_plan(stage, plan, "fold")
    loop = next((loop for loop in own.loops if is_bound(loop, "thread")), None)
    return None if loop is None else Threads(loop, threads_of(whole, own, loop))
