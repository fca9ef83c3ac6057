"""Sorts of two consecutive sorted runs by merging, as in the concatenation of two sorted arrays.

    these    1 4 6 9 | 2 5 7 8      the second run begins at the only descent
    pieces   1 2 4 5 | 6 7 8 9      of the result; bisection finds the number of elements of the first run before each

The pieces of a chunk are merged in an interleaved loop: a step waits for the comparison of the step before in its piece, not for the other
pieces. Of equal keys those of the first run come first. (Green, McColl and Bader, GPU merge path, 2012.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from raido.algo.graph import index as ix
from raido.algo.graph.dtypes import bool_, i64
from raido.algo.graph.expr import Expr, Op, Var, fresh
from raido.schedule.lower.builder import Builder
from raido.schedule.lower.loops.chunks import Chunks, each_chunk
from raido.schedule.lower.loops.register_folds import fold_into
from raido.schedule.lower.strategies.bisection import first_where
from raido.schedule.nest.nodes import Certificate, Store
from raido.schedule.nest.values import Buffer, NestExpr, Read
from raido.schedule.stages.sort_keys import precedes

if TYPE_CHECKING:
    from raido.schedule.lower.strategies.sorts import Row

ZERO, ONE = ix.as_index(0), ix.as_index(1)
PIECES = 4  # interleaved: the latency of a step is some 12 cycles (a load, a comparison, a selection), and it issues in three


class Merge:
    """A merge of the elements `values` (those at an index, the key first) in `chunks` of the result."""

    def __init__(
        self,
        builder: Builder,
        row: Row,
        values: Callable[[Expr], Sequence[NestExpr]],
        chunks: Chunks,
        lanes: dict[str, Any],
    ) -> None:
        self.builder, self.row, self.values, self.chunks, self.lanes = builder, row, values, chunks, lanes
        self.count = chunks.high

    def merge(self) -> None:
        """Stores all elements in order; exactly one of them must precede the one before it."""
        builder = self.builder
        self.second = self._second_run()
        certificates = (Certificate("quicksort", self.row.results()),)
        with each_chunk(builder, self.chunks, certificates=certificates) as (_, first, end):
            length = builder.name("length", ix.floordiv(ix.sub(end, first), PIECES))
            starts = builder.alloc("starts", i64, (ix.as_index(PIECES),), "stack")
            with builder.loop(piece := fresh("piece"), ZERO, ix.as_index(PIECES), 1):
                begin = builder.name("begin", ix.add(first, ix.mul(piece, length)))
                builder.add(Store(starts, (piece,), self._taken_before(begin)))
            taken = [builder.register("taken", Read(starts, (ix.as_index(k),), None)) for k in range(PIECES)]
            with builder.loop(output := fresh("k"), ZERO, length, 1):
                for k, register in enumerate(taken):
                    self._take_one(builder.name("at", ix.add(first, ix.add(ix.mul(length, k), output))), register)
            with builder.loop(at := fresh("i"), ix.add(first, ix.mul(length, PIECES)), end, 1):
                self._take_one(at, taken[-1])

    def _second_run(self) -> Var:
        """The index at which the second run begins: the sum of the indices of all descents, of which there is one, chunk by chunk."""
        builder = self.builder
        memory = builder.alloc("found", i64, (self.chunks.count,), "heap")
        with each_chunk(builder, self.chunks) as (chunk, first, end):
            found = builder.register("found", ZERO)
            with builder.loop(at := fresh("i"), ix.maximum(first, 1), end, 1, **self.lanes):
                before, own = (self.values(position)[0] for position in (ix.sub(at, 1), at))
                fold_into(builder, found, Op("select", i64, (precedes(own, before), at, ZERO)), "add")
            builder.add(Store(memory, (chunk,), Read(found, (), None)))
        second = builder.register("second", ZERO)
        with builder.loop(chunk := fresh("chunk"), ZERO, self.chunks.count, 1):
            fold_into(builder, second, Read(memory, (chunk,), None), "add")
        return builder.name("second", Read(second, (), None))

    def _taken_before(self, position: Expr) -> Var:
        """The number of elements of the first run before an index of the result."""
        builder, second = self.builder, self.second

        def goes_behind(middle: Var) -> NestExpr:
            (one, *_), (other, *_) = self.values(middle), self.values(self._beside(middle, ix.sub(position, 1)))
            return builder.name("behind", precedes(other, one))

        least = ix.maximum(ix.sub(position, ix.sub(self.count, second)), 0)
        return builder.name("before", first_where(builder, least, ix.minimum(position, second), goes_behind))

    def _beside(self, taken: Expr, position: Expr) -> Expr:
        """The index of the second run's next element, if `taken` elements of the first run precede index `position` of the result."""
        return ix.add(self.second, ix.sub(position, taken))

    def _take_one(self, at: Expr, register: Buffer) -> None:
        """Stores the element at index `at` of the result: the first run's next one, unless there is none or the second run's precedes
        it."""
        builder = self.builder
        taken = builder.name("taken", Read(register, (), None))
        beside = builder.name("beside", self._beside(taken, at))
        one = self.values(builder.name("one", ix.minimum(taken, ix.sub(self.second, 1))))
        other = self.values(builder.name("other", ix.minimum(beside, ix.sub(self.count, 1))))
        keeps_order = Op("logical_not", bool_, (precedes(other[0], one[0]),))
        none_beside = Op("le", bool_, (self.count, beside))
        stays = Op("logical_or", bool_, (none_beside, keeps_order))
        first = builder.name("first", Op("logical_and", bool_, (Op("lt", bool_, (taken, self.second)), stays)))
        self.row.keep(at, [Op("select", a.dtype, (first, a, b)) for a, b in zip(one, other, strict=True)])
        builder.add(Store(register, (), ix.add(taken, Op("cast", i64, (first,)))))
