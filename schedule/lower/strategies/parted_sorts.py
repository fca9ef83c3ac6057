"""Quicksorts of long arrays, which move the elements to parts once; each part is then sorted by one thread, in its caches.

    pivots         3       8      keys of a sample in order, every SAMPLES-th
    part_of    1 1 0 2 | 0 1 1    the number of pivots that do not come after each key, by bisection, in lanes
    moved      0 0 | 1 1 1 1 | 2  chunks append their elements by part (`append_by_key`)

Elements of a part keep their order, as in `quicksorts`. (Frazer and McKellar, Samplesort, 1970; Sanders and Winkel, Super scalar sample sort,
2004.)
"""

from __future__ import annotations

from collections.abc import Sequence

from raido.algo.graph import index as ix
from raido.algo.graph.dtypes import bool_, i64, u8
from raido.algo.graph.expr import Expr, Op, Var, const, fresh
from raido.algo.graph.primitives import EXTREMES
from raido.schedule.lower.builder import closed
from raido.schedule.lower.loops.chunks import each_chunk
from raido.schedule.lower.loops.register_folds import identity
from raido.schedule.lower.strategies.append_by_key import Take, append_by_key
from raido.schedule.lower.strategies.quicksorts import (
    CHANCES,
    ONE,
    SPREAD,
    ZERO,
    Part,
    Quicksort,
    chosen,
    negated,
)
from raido.schedule.nest.nodes import Certificate, Store, While
from raido.schedule.nest.values import Buffer, NestExpr, Read
from raido.schedule.stages.sort_keys import precedes

PARTS = 256  # the most parts: their numbers have eight bits, and each has a line of the first cache to which elements are appended
FEW = 16  # the fewest parts: with fewer, successive elements often advance the same counter, and wait for one another
SAMPLES = 8  # keys of the sample for each part: the largest part is then seldom more than twice as long as their mean


class PartedQuicksort(Quicksort):
    """One sort by threads, in as many chunks as the schedule says."""

    def _survey(self) -> list[Var]:
        """The number of descents of the elements; where keys may be counted, also the least and the greatest key."""
        builder = self.builder
        names = ("add", *EXTREMES[: 2 if self.counted else 0])
        kinds = (i64, *(self.key for _ in names[1:]))
        found = [builder.alloc("found", kind, (self.chunks.count,), "heap") for kind in kinds]
        with each_chunk(builder, self.chunks) as (chunk, low, high):
            builder.store(found, (chunk,), self._survey_of(Part(low, high)))
        whole = [builder.register(name, identity(name, kind)) for name, kind in zip(names, kinds, strict=True)]
        chunk = fresh("chunk")
        with builder.loop(chunk, ZERO, self.chunks.count, 1):
            for register, memory, name in zip(whole, found, names, strict=True):
                self._fold(register, Read(memory, (chunk,), None), name)
        return [builder.name(register.name, Read(register, (), None)) for register in whole]

    def _sort_by_comparisons(self) -> None:
        """Moves the elements of several chunks to a power of two of parts, at least as many as there are chunks, and sorts these."""
        builder, chunks = self.builder, self.chunks
        most = ix.minimum(ix.maximum(ix.mul(chunks.count, 2), FEW), PARTS)
        bounds = builder.alloc("bounds", i64, (ix.add(most, 1),), "heap")
        several = Op("lt", bool_, (ONE, chunks.count))
        parts = builder.register("parts", chosen(several, ix.as_index(FEW), ONE))
        with builder.block(loop=True) as setup:
            number = builder.name("number", Read(parts, (), None))
        with builder.block(loop=True) as body:
            builder.add(Store(parts, (), ix.mul(number, 2)))
        wanted = ix.minimum(chunks.count, PARTS)
        builder.add(While(closed(setup), Op("lt", bool_, (number, wanted)), closed(body)))
        number = builder.name("number", Read(parts, (), None))
        moved = self._memory("moved")
        builder.add(Store(bounds, (ZERO,), ZERO))
        with builder.block(branch=True) as split:
            self._move_to_parts(moved, number, most, bounds)
        with builder.block(branch=True) as one:
            builder.add(Store(bounds, (ONE,), self.count))
            with self._elements() as (_, at):
                builder.store(moved, (at,), self._values(at))
        builder.branch(several, split, one)
        self.these, self.others = moved, self.these or self._memory("others")
        chunk, turn, kind = fresh("chunk"), fresh("turn"), "serial" if builder.threaded else "parallel"
        certificates = (Certificate("quicksort", (*self.these, *self.others, *self.row.results())),)
        with (
            builder.loop(chunk, ZERO, chunks.count, 1, kind=kind, certificates=certificates),
            builder.loop(turn, ZERO, ix.floordiv(ix.sub(ix.add(number, chunks.count), 1), chunks.count), 1),
        ):
            part = builder.name("part", ix.add(chunk, ix.mul(turn, chunks.count)))
            with builder.when(Op("lt", bool_, (part, number))):
                low, high = (
                    builder.name(name, Read(bounds, (k,), None))
                    for name, k in (("low", part), ("high", ix.add(part, 1)))
                )
                self._sort_part(Part(low, high))

    def _move_to_parts(self, moved: Sequence[Buffer], number: Expr, most: Expr, bounds: Buffer) -> None:
        """Moves all elements to memory in which those of a part are adjacent, and stores where each of `number` (at most `most`) parts
        ends."""
        builder, pivots = self.builder, self._pivots(number, most)
        parts = builder.alloc("part_of", u8, (self.count,), "heap")
        counts = builder.alloc("counts", i64, (self.chunks.count, most), "heap")

        def in_chunk(low: Expr, high: Expr, take: Take, moves: bool) -> None:
            if not moves:
                with self._along(Part(low, high)) as at:
                    builder.add(Store(parts, (at,), self._part_of(self._values(at)[0], pivots, number)))
            with builder.loop(at := fresh("i"), low, high, 1):
                part = builder.name("part", Op("cast", i64, (Read(parts, (at,), None),)))
                position = take(part)
                for buffer, value in zip(moved, self._values(at) if moves else (), strict=False):
                    builder.add(Store(buffer, (position,), value))

        append_by_key(builder, self.chunks, counts, in_chunk, Certificate("quicksort", tuple(moved)), number)
        with builder.loop(part := fresh("part"), ZERO, number, 1):
            end = Read(counts, (ix.sub(self.chunks.count, 1), part), None)
            builder.add(Store(bounds, (ix.add(part, 1),), end))

    def _pivots(self, number: Expr, most: Expr) -> Buffer:
        """Some keys in order, SAMPLES for each part, from pseudo-random places in as many equal stretches."""
        builder, keys = self.builder, self.key
        sample, pivots = (builder.alloc(name, keys, (ix.mul(most, SAMPLES),), "heap") for name in ("sample", "pivots"))
        size = builder.name("size", ix.mul(number, SAMPLES))
        stretch = builder.name("stretch", ix.floordiv(self.count, size))
        with builder.loop(at := fresh("k"), ZERO, size, 1):
            chance = Op("shr", i64, (Op("mul", i64, (at, const(i64, SPREAD))), const(i64, 16)))
            chance = Op("bit_and", i64, (chance, const(i64, (1 << CHANCES) - 1)))
            ahead = Op("shr", i64, (Op("mul", i64, (chance, stretch)), const(i64, CHANCES)))
            position = builder.name("place", ix.add(ix.mul(at, stretch), ahead))
            builder.add(Store(sample, (at,), self._values(position)[0]))
        with self._along(Part(ZERO, size)) as at:
            own, rank = builder.name("key", Read(sample, (at,), None)), builder.register("rank", ZERO)
            with builder.loop(other := fresh("j"), ZERO, size, 1):
                key = builder.name("other", Read(sample, (other,), None))
                tie = Op("logical_and", bool_, (Op("lt", bool_, (other, at)), negated(precedes(own, key))))
                before = Op("logical_or", bool_, (precedes(key, own), tie))
                more = ix.add(Read(rank, (), None), chosen(before, ONE, ZERO))
                builder.add(Store(rank, (), more))
            builder.add(Store(pivots, (builder.name("rank", Read(rank, (), None)),), own))
        return pivots

    def _part_of(self, key: NestExpr, pivots: Buffer, number: Expr) -> NestExpr:
        """The number of the part of a key, by bisection: of `number` − 1 pivots those that do not come after it."""
        builder = self.builder
        part, step = builder.register("part", ZERO), builder.register("step", ix.floordiv(number, 2))
        with builder.block(loop=True) as setup:
            half = builder.name("half", Read(step, (), None))
        with builder.block(loop=True) as body:
            further = builder.name("further", ix.add(Read(part, (), None), half))
            pivot = builder.name("pivot", Read(pivots, (ix.mul(further, SAMPLES),), None))
            builder.add(Store(part, (), chosen(precedes(key, pivot), Read(part, (), None), further)))
            builder.add(Store(step, (), ix.floordiv(half, 2)))
        builder.add(While(closed(setup), Op("lt", bool_, (ZERO, half)), closed(body)))
        return Op("cast", u8, (Read(part, (), None),))
