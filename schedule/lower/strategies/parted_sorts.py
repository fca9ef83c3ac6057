"""Quicksorts by threads, which split the elements by pivots until each part is sorted by one thread.

    bounds    0         9         a part, then two, then four, …: each has a pivot, the median of some of its keys
    chunks    1 1 0 1 | 0 1 1     append the elements before the pivot of each part that they overlap, and the rest (`append_by_key`)

A part has two keys, which lanes count and append a gang of elements at a time. Both sides keep the order of their elements, as in
`quicksorts`. (Blelloch, Prefix sums and their applications, 1990: the split.)
"""

from __future__ import annotations

from raido.algo.graph import index as ix
from raido.algo.graph.dtypes import bool_, i64
from raido.algo.graph.expr import Expr, Op, Var, fresh
from raido.schedule.lower.builder import closed
from raido.schedule.lower.loops.chunks import each_chunk
from raido.schedule.lower.loops.register_folds import identity
from raido.schedule.lower.strategies.append_by_key import Take, append_by_key
from raido.schedule.lower.strategies.quicksorts import EXTREMES, ONE, ZERO, Part, Quicksort, Test, chosen
from raido.schedule.nest.nodes import Certificate, Store, While
from raido.schedule.nest.values import Buffer, NestExpr, Read
from raido.schedule.stages.sort_keys import precedes


class PartedQuicksort(Quicksort):
    """One sort by threads, in as many chunks as the schedule says."""

    def _survey(self) -> list[Var]:
        """The number of descents of the elements; where keys may be counted, also the least and the greatest key."""
        builder = self.builder
        names = ("add", *EXTREMES[: 2 if self.counted else 0])
        kinds = (i64, *(self.key for _ in names[1:]))
        found = [builder.alloc("found", kind, (self.chunks.count,), "heap") for kind in kinds]
        with each_chunk(builder, self.chunks) as (chunk, low, high):
            for memory, value in zip(found, self._survey_of(Part(low, high)), strict=True):
                builder.add(Store(memory, (chunk,), value))
        whole = [builder.register(name, identity(name, kind)) for name, kind in zip(names, kinds, strict=True)]
        chunk = fresh("chunk")
        with builder.loop(chunk, ZERO, self.chunks.count, 1):
            for register, memory, name in zip(whole, found, names, strict=True):
                self._fold(register, Read(memory, (chunk,), None), name)
        return [builder.name(register.name, Read(register, (), None)) for register in whole]

    def _sort_all(self) -> None:
        """Splits all elements into a power of two of parts, at least as many as there are chunks, and sorts these."""
        builder, chunks = self.builder, self.chunks
        most = ix.mul(chunks.count, 2)
        bounds = builder.alloc("bounds", i64, (ix.add(most, 1),), "heap")
        pivots = builder.alloc("pivots", self.key, (most,), "heap")
        counts = builder.alloc("counts", i64, (chunks.count, ix.mul(most, 2)), "heap")
        parts = builder.register("parts", ONE)
        with builder.block(loop=True) as setup:
            number = builder.name("number", Read(parts, (), None))
        with builder.block(loop=True) as body:
            builder.add(Store(parts, (), ix.mul(number, 2)))
        builder.add(While(closed(setup), Op("lt", bool_, (number, chunks.count)), closed(body)))
        number = builder.name("number", Read(parts, (), None))
        builder.add(Store(bounds, (ZERO,), ZERO))
        bound = fresh("k")
        with builder.loop(bound, ONE, ix.add(number, 1), 1):
            builder.add(Store(bounds, (bound,), self.count))
        width = builder.register("width", number)
        with builder.block(loop=True) as setup:
            whole = builder.name("whole", Read(width, (), None))
        with builder.block(loop=True) as body:
            half = builder.name("half", ix.floordiv(whole, 2))
            self._split_parts(bounds, pivots, counts, whole, half, builder.name("open", ix.floordiv(number, whole)))
            builder.add(Store(width, (), half))
        builder.add(While(closed(setup), Op("lt", bool_, (ONE, whole)), closed(body)))
        chunk, turn, kind = fresh("chunk"), fresh("turn"), "serial" if builder.threaded else "parallel"
        certificates = (Certificate("quicksort", (*self.these, *self.others, *self.row.results())),)
        with (
            builder.loop(chunk, ZERO, chunks.count, 1, kind=kind, certificates=certificates),
            builder.loop(turn, ZERO, ix.as_index(2), 1),
        ):
            part = builder.name("part", ix.add(chunk, ix.mul(turn, chunks.count)))
            with builder.when(Op("lt", bool_, (part, number))):
                self._sort_part(self._part(bounds, part, ONE))

    def _part(self, bounds: Buffer, number: Expr, width: Expr) -> Part:
        """Part `number` at a level where parts consist of `width` of the final ones."""
        low, high = (
            self.builder.name(name, Read(bounds, (ix.mul(k, width),), None))
            for name, k in (("low", number), ("high", ix.add(number, 1)))
        )
        return Part(low, high)

    def _split_parts(
        self, bounds: Buffer, pivots: Buffer, counts: Buffer, whole: Expr, half: Expr, number: Expr
    ) -> None:
        """Splits each of `number` parts, of `whole` final parts each, in two."""
        builder = self.builder
        part = fresh("part")
        with builder.loop(part, ZERO, number, 1):
            builder.add(Store(pivots, (part,), self._pivot(self._part(bounds, part, whole))))

        def in_chunk(low: Expr, high: Expr, take: Take, moves: bool) -> None:
            with builder.loop(part := fresh("part"), ZERO, number, 1):
                pivot, own = builder.name("pivot", Read(pivots, (part,), None)), self._part(bounds, part, whole)
                begin = builder.name("begin", ix.maximum(low, own.low))
                end = builder.name("end", ix.maximum(begin, ix.minimum(high, own.high)))
                piece, sides = Part(begin, end), (ix.mul(part, 2), ix.add(ix.mul(part, 2), 1))

                def goes_before(key: NestExpr) -> NestExpr:
                    return precedes(key, pivot)

                if moves:
                    front, behind = (builder.register("next", take(side, 0)) for side in sides)
                    self._split(self.these, piece, goes_before, (self.others, front), (self.others, behind))
                else:
                    before = self._count(piece, goes_before)
                    for side, found in zip(sides, (before, ix.sub(ix.sub(end, begin), before)), strict=True):
                        take(side, found)

        keys = ix.mul(number, 2)
        append_by_key(builder, self.chunks, counts, in_chunk, Certificate("quicksort", self.others), keys)
        with builder.loop(part := fresh("part"), ZERO, number, 1):
            middle = Read(counts, (ZERO, ix.add(ix.mul(part, 2), 1)), None)
            builder.add(Store(bounds, (ix.add(ix.mul(part, whole), half),), middle))
        with self._elements() as (_, at):
            for these, other in zip(self.these, self.others, strict=True):
                builder.add(Store(these, (at,), Read(other, (at,), None)))

    def _count(self, part: Part, test: Test) -> Var:
        """The number of elements of a part whose key passes a test."""
        count = self.builder.register("count", ZERO)
        with self._along(part) as at:
            key = self.builder.name("key", Read(self.these[0], (at,), None))
            self._add(count, chosen(test(key), ONE, ZERO))
        return self.builder.name("count", Read(count, (), None))
