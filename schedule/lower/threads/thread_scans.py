"""Scans over the threads of a block: each thread has a contiguous piece of the block's values.

    before   for x in xo..xo + B: out[x] = running = op(running, a[x])

    after    for t in 0..T by threads: part[t] = fold of piece t
             for t in 0..T by threads: part[t] = op(op(part[t - 3], part[t - 2]), op(part[t - 1], part[t])), then 4 apart, 16, …
             for t in 0..T by threads: pieces[block, t] = part[t]
             … once all blocks' totals are scanned, and before[block] is the prefix before a block:
             for t in 0..T by threads: out of piece t, from op(before[block], pieces[block, t - 1]) on

(Hillis & Steele, Data parallel algorithms, 1986, two levels at a time.) Where the schedule names a subgroup size, the threads of a subgroup
scan their parts by register exchanges (`Collect` of prefixes), and a read of a prefix adds the value before the subgroup. The totals of
blocks are scanned likewise, by the threads of one block, each of which has a piece of them, through shared memory. The order is that of the
elements, and grouping follows from the schedule and sizes alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from raido.algo.graph import index as ix
from raido.algo.graph.dtypes import DType, bool_
from raido.algo.graph.expr import Expr, Op, Reduce, Var, fresh
from raido.schedule.checks.levels import FEW_GROUPS
from raido.schedule.lower.builder import Builder, closed
from raido.schedule.lower.loop_cursor import LoopCursor, Phase, cloned
from raido.schedule.lower.threads.thread_folds import ThreadFolds, is_bound, refused
from raido.schedule.nest.nodes import Certificate
from raido.schedule.nest.values import Buffer, NestExpr, Read
from raido.schedule.plan import LoopPlan

if TYPE_CHECKING:
    from raido.schedule.lower.loops.loops import Loops

Combine: TypeAlias = Callable[[Sequence[Buffer], tuple[Expr, ...], Sequence[NestExpr], Sequence[NestExpr]], None]
"""`combine(buffers, at, left, right)` emits buffers[at] = left op right."""
Elements: TypeAlias = Callable[[Expr], list[NestExpr]]
"""Emits the values at an index of a scan."""


@dataclass(frozen=True, slots=True)
class Pieces:
    """The distribution of a block's values: by a loop, to `live` of at most `threads` threads."""

    loop: LoopPlan
    stage: str
    live: Expr
    threads: int


@dataclass(frozen=True, slots=True)
class Prefixes:
    """The scan of a block's threads: `at` emits the inclusive prefix of a thread, `last` is the total."""

    at: Elements
    last: list[NestExpr]


class ThreadScans:
    """Emits loops over threads for scans and filters."""

    def __init__(self, loops: Loops, folds: ThreadFolds) -> None:
        self.loops, self.folds = loops, folds
        self.builder: Builder = loops.builder

    def applies(self, cursor: LoopCursor, position: int) -> bool:
        """Whether threads have pieces of the blocks that the loop at `position` runs over."""
        loops = cursor.lowered.plan.loops
        return (
            position + 1 < len(loops)
            and is_bound(loops[position + 1], "thread")
            and loops[position + 1].name in cursor.lowered.reduced
        )

    def pieces(self, cursor: LoopCursor, position: int) -> Pieces:
        """The pieces of a block, over which the loop at `position` runs; raises ScheduleError unless it runs
        over pieces with loops inside."""
        lowered, plan = cursor.lowered, cursor.lowered.plan.loops[position]
        inside = [loop for loop in lowered.plan.loops[position + 1 :] if loop.name in lowered.reduced]
        if not inside or len(lowered.plan.loops) > position + 1 + len(inside):
            why = (
                "each thread takes a block of consecutive elements"
                if not inside
                else "the elements of the scan are rows"
            )
            raise refused(
                cursor,
                plan,
                why,
                f'split("{plan.name}", 8), and bind its outer loop' if not inside else "leave it serial",
            )
        low, high, step = self.loops.bounds(cursor.instances[0], plan.name)
        threads = self.folds.threads(cursor, position, low, high, step)
        live = self.loops.bind("live", ix.ceildiv(ix.sub(high, low), step), ix.as_index(0), ix.as_index(threads))
        return Pieces(plan, lowered.stage.name, live, threads)

    def each(
        self,
        cursor: LoopCursor,
        position: int,
        pieces: Pieces,
        body: Callable[[LoopCursor, int, Expr], None],
        certificates: tuple[Certificate, ...] = (),
    ) -> None:
        """Runs `body` for the piece of every thread, with the loop cursor inside, the position where its loops
        begin, and the thread's number."""
        low, _, step = cursor.instances[0].bounds(pieces.loop.name)
        with self.over(pieces, pieces.live, certificates) as t:

            def begin(inner: LoopCursor, at: int) -> bool:
                body(inner, at, t)
                return True

            part = cloned(cursor, phase=Phase(takes_over=begin))
            self.loops.choose(part, position, [[ix.add(low, ix.mul(t, step))]])

    def over(
        self, pieces: Pieces, count: Expr, certificates: tuple[Certificate, ...] = ()
    ) -> AbstractContextManager[Expr]:
        """A loop over `count` threads."""
        return self.folds.over(pieces.loop, pieces.stage, count, pieces.threads, certificates)

    @contextmanager
    def in_turn(self, pieces: Pieces, count: Expr, certificates: tuple[Certificate, ...]) -> Iterator[Var]:
        """A loop over 0..count of which neighbouring threads have neighbouring indices."""
        with (
            self.over(pieces, ix.as_index(pieces.threads), certificates) as t,
            self.builder.loop(index := fresh("k"), t, count, pieces.threads),
        ):
            yield index

    def parts(self, pieces: Pieces, dtypes: Sequence[DType]) -> tuple[Buffer, ...]:
        """Allocates shared memory with one value of each dtype for every thread."""
        shape = (ix.as_index(pieces.threads),)
        return tuple(self.builder.alloc("part", dtype, shape, "shared") for dtype in dtypes)

    def before_pieces(self, cursor: LoopCursor, position: int, values: Sequence[Buffer]) -> tuple[Buffer, ...]:
        """Allocates memory with a value for every thread of every block of the loop at `position`, like
        `values`, which have one for each block."""
        inside = self.folds.threads_inside(cursor, position)
        assert inside is not None
        shape = (values[0].shape[0], ix.as_index(inside[1]))
        return tuple(self.builder.alloc("pieces", b.dtype, shape, "heap") for b in values)

    def keep(
        self, pieces: Pieces, prefixes: Prefixes, block: Expr, before: Sequence[Buffer], values: Sequence[Buffer]
    ) -> None:
        """Stores the scan of a block's threads in `before`, and its total in `values`."""
        builder = self.builder
        with self.over(pieces, pieces.live) as t:
            builder.store(before, (block, t), prefixes.at(t))
        builder.store(values, (block,), prefixes.last)

    def scan(self, pieces: Pieces, parts: Sequence[Buffer], combine: Combine, operator: Reduce) -> Prefixes:
        """Combines each thread's value with those of all the threads before, by register exchanges in a subgroup if the
        schedule and operator allow."""
        plain = self.loops.emitter.is_operator(operator)
        group = min(pieces.loop.subgroup, 1 << (pieces.threads - 1).bit_length()) if plain else 0
        last = ix.sub(pieces.live, 1)

        def as_they_are(scanned: Sequence[Buffer]) -> Prefixes:
            elements = _elements(scanned)
            return Prefixes(elements, [self.builder.name("last", value) for value in elements(last)])

        if group <= 1:
            return as_they_are(self._tree(pieces, parts, combine))
        t, level = fresh("t"), pieces.loop.level
        self.loops.emitter.collect(operator, parts, (t,), t, pieces.live, group, False, level, prefix=True)
        groups = -(-pieces.threads // group)
        if groups == 1:
            return as_they_are(parts)
        end = self._read("last", parts, last)  # read here, where all threads come by, because it waits for all of them
        before = self._before_groups(pieces, parts, combine, group, groups)

        def with_groups(own: Sequence[Buffer], position: Expr, whole: bool = False) -> list[NestExpr]:
            with self._reaches(position, group):
                earlier = before(position, whole)
                combine(own, (), earlier, [self.builder.name("right", Read(b, (), None)) for b in own])
            return [Read(b, (), None) for b in own]

        return Prefixes(
            lambda position: with_groups(self._read("own", parts, position), position), with_groups(end, last, True)
        )

    def begins(self, pieces: Pieces, prefixes: Prefixes, dtypes: Sequence[DType]) -> Elements:
        """The exclusive prefix of each thread but the first, computed once into memory of the thread."""
        shape = (ix.as_index(pieces.threads),)
        begins = tuple(self.builder.alloc("begin", dtype, shape, "stack") for dtype in dtypes)
        with self.over(pieces, pieces.live) as t, self._reaches(t, 1):
            self.builder.store(begins, (t,), prefixes.at(ix.sub(t, 1)))
        return _elements(begins)

    def _before_groups(
        self, pieces: Pieces, parts: Sequence[Buffer], combine: Combine, group: int, groups: int
    ) -> Callable[[Expr, bool], list[NestExpr]]:
        """A function that emits the prefix before a thread's group: for few groups a fold of their totals by each thread, for many a scan.
        whole: the thread is the last live one, which usually is in the last group."""
        builder, dtypes = self.builder, [b.dtype for b in parts]
        if groups <= FEW_GROUPS:
            folds = self._folds_of_groups(pieces, parts, combine, group, groups)

            def chosen(t: Expr, whole: bool) -> list[NestExpr]:
                earlier = tuple(builder.alloc("earlier", dtype, (), "register") for dtype in dtypes)

                def become(fold: Sequence[Buffer]) -> None:
                    builder.store(earlier, (), [Read(buffer, (), None) for buffer in fold])

                with builder.block(branch=True) as all_groups:
                    become(folds[-1])
                with builder.block(branch=True) as some:
                    become(folds[0])
                    for g in range(1, groups - 1):
                        with self._reaches(t, (g + 1) * group):
                            become(folds[g])
                if whole:
                    last = Op("le", bool_, (ix.as_index((groups - 1) * group), t))
                    builder.branch(last, all_groups, some)
                else:
                    builder.add(closed(some))
                return [builder.name("left", Read(b, (), None)) for b in earlier]

            return chosen
        few = replace(pieces, live=ix.ceildiv(pieces.live, group), threads=groups)
        totals = self.parts(few, dtypes)
        with self.over(few, few.live) as g:
            last = ix.minimum(ix.add(ix.mul(g, group), group - 1), ix.sub(pieces.live, 1))
            builder.store(totals, (g,), [Read(source, (last,), None) for source in parts])
        scanned = self._tree(few, totals, combine)
        return lambda t, whole: [
            builder.name("left", Read(b, (ix.sub(ix.floordiv(t, group), 1),), None)) for b in scanned
        ]

    def _folds_of_groups(
        self, pieces: Pieces, parts: Sequence[Buffer], combine: Combine, group: int, groups: int
    ) -> list[tuple[Buffer, ...]]:
        """Registers of every thread with the total of the first group, of the first two, and so on; each is set if a live thread
        follows."""
        builder = self.builder
        totals = [[Read(b, (ix.as_index(g * group + group - 1),), None) for b in parts] for g in range(groups - 1)]
        folds = [tuple(builder.alloc("fold", b.dtype, (), "register") for b in parts) for _ in totals]
        for g, total in enumerate(totals):
            with self._reaches(ix.sub(pieces.live, 1), (g + 1) * group):
                if g == 0:
                    builder.store(folds[0], (), total)
                else:
                    left = [builder.name("left", Read(b, (), None)) for b in folds[g - 1]]
                    combine(folds[g], (), left, [builder.name("right", value) for value in total])
        return folds

    def _tree(self, pieces: Pieces, parts: Sequence[Buffer], combine: Combine) -> tuple[Buffer, ...]:
        """Emits the inclusive scan through shared memory alone, and returns the buffers that hold it."""
        builder, apart = self.builder, 1
        here, there = tuple(parts), self.parts(pieces, [b.dtype for b in parts])
        while apart < pieces.threads:
            with self.over(pieces, pieces.live) as t:
                own = self._read("own", here, t)
                self._with(own, here, t, apart, combine)
                if 2 * apart < pieces.threads:
                    with self._reaches(t, 2 * apart):
                        others = self._read("others", here, ix.sub(t, 2 * apart))
                        self._with(others, here, t, 3 * apart, combine)
                        left, right = (
                            [builder.name(name, Read(b, (), None)) for b in registers]
                            for name, registers in (("left", others), ("right", own))
                        )
                        combine(own, (), left, right)
                builder.store(there, (t,), [Read(register, (), None) for register in own])
            here, there, apart = there, here, 4 * apart
        return here

    def _read(self, name: str, buffers: Sequence[Buffer], position: Expr) -> tuple[Buffer, ...]:
        """Registers that hold the elements at an index."""
        return self._registers(name, [Read(buffer, (position,), None) for buffer in buffers])

    def _registers(self, name: str, values: Sequence[NestExpr]) -> tuple[Buffer, ...]:
        """Registers that hold values."""
        made = tuple(self.builder.alloc(name, v.dtype, (), "register") for v in values)
        self.builder.store(made, (), values)
        return made

    def _with(self, own: Sequence[Buffer], buffers: Sequence[Buffer], t: Expr, apart: int, combine: Combine) -> None:
        """Combines registers, on the left, with the elements `apart` places before, if there are such."""
        builder = self.builder
        with self._reaches(t, apart):
            left = [builder.name("left", Read(b, (ix.sub(t, apart),), None)) for b in buffers]
            combine(own, (), left, [builder.name("right", Read(b, (), None)) for b in own])

    def _reaches(self, t: Expr, apart: int) -> AbstractContextManager[object]:
        """Opens a test that there is a thread `apart` places before."""
        return self.builder.when(Op("le", bool_, (ix.as_index(apart), t)), ix.sub(t, apart))

    def follow(self, registers: Sequence[Buffer], t: Expr, others: Sequence[NestExpr], combine: Combine) -> None:
        """Combines registers that hold the prefix of the block with the totals of the threads before this one,
        `others`, except in the first thread."""
        builder = self.builder
        with builder.when(Op("lt", bool_, (ix.as_index(0), t)), ix.sub(t, 1)):
            before = [builder.name("before", Read(b, (), None)) for b in registers]
            combine(registers, (), before, [builder.name("others", value) for value in others])

    def exchange(
        self,
        cursor: LoopCursor,
        position: int,
        first: Sequence[NestExpr],
        values: Sequence[Buffer],
        combine: Combine,
        every: Sequence[Buffer] = (),
    ) -> None:
        """Replaces a value of every block by the exclusive prefix from `first` on, by the threads of one block.

        every: registers that receive the fold of `first` and all blocks, if any.
        """
        builder, lowered = self.builder, cursor.lowered
        inside = self.folds.threads_inside(cursor, position)
        assert inside is not None
        loop, threads = inside
        count = values[0].shape[0]
        names = {"stage": lowered.stage.name, "loop": lowered.plan.loops[position].name}
        with (
            builder.unless_empty([count]),
            builder.loop(fresh("block"), ix.as_index(0), ix.as_index(1), 1, kind="parallel", level="block.x", **names),
        ):
            length = builder.name("piece", ix.ceildiv(count, threads))
            live = builder.name("live", ix.floordiv(ix.add(count, ix.sub(length, 1)), length))
            pieces = Pieces(loop, lowered.stage.name, live, threads)
            parts = self.parts(pieces, [b.dtype for b in values])

            with self.over(pieces, live) as t:
                start = builder.name("first", ix.mul(t, length))
                own = self._registers("own", [Read(b, (start,), None) for b in values])
                with builder.loop(block := fresh("block"), ix.add(start, 1), self._end(start, length, count), 1):
                    left = [builder.name("left", Read(b, (), None)) for b in own]
                    combine(own, (), left, [builder.name("right", Read(b, (block,), None)) for b in values])
                builder.store(parts, (t,), [Read(register, (), None) for register in own])
            scanned = self._tree(pieces, parts, combine)
            with self.over(pieces, live) as t:
                start = builder.name("first", ix.mul(t, length))
                running = self._registers("running", first)
                self.follow(running, t, [Read(b, (ix.sub(t, 1),), None) for b in scanned], combine)
                with builder.loop(block := fresh("block"), start, self._end(start, length, count), 1):
                    own_value = [builder.name("own", Read(b, (block,), None)) for b in values]
                    before = [builder.name("before", Read(b, (), None)) for b in running]
                    builder.store(values, (block,), before)
                    combine(running, (), before, own_value)
            if every:
                last = [builder.name("last", Read(b, (ix.sub(live, 1),), None)) for b in scanned]
                combine(every, (), list(first), last)

    def _end(self, start: Expr, length: Expr, count: Expr) -> Expr:
        return ix.minimum(ix.add(start, length), count)


def _elements(buffers: Sequence[Buffer]) -> Elements:
    """A function that reads the elements at an index."""
    return lambda position: [Read(b, (position,), None) for b in buffers]
