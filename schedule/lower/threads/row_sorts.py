"""Sorts of many rows on a GPU, each by one block.

    block.x row: for each digit:
      thread.x: counts[d] = number of elements of the row with digit d; then an exclusive sum
      for part of the row: order its elements by the digit; move them to indices from places[d] on; places[d] += their number

A block goes through its row part by part and in order, so its places are all that a part needs of those before it. A row that is no longer
than a part never leaves shared memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from raido.algo.graph import index as ix
from raido.algo.graph.dtypes import i32, i64
from raido.algo.graph.expr import Expr, Op, Var, fresh
from raido.schedule.lower.strategies.radix_sorts import digit_of
from raido.schedule.lower.threads.block_ranks import ONE, ZERO
from raido.schedule.lower.threads.block_sorts import KEYS, BlockSort, Pass
from raido.schedule.nest.nodes import Certificate, Store
from raido.schedule.nest.values import Buffer, NestExpr, Read
from raido.schedule.stages.sort_keys import sortable
from raido.schedule.strategies.table import BITS_OF_A_DIGIT


class RowSort(BlockSort):
    """A sort inside a loop over blocks: the parts of a row are processed by one block, one after the other."""

    @contextmanager
    def _each_block(self, count: Expr, certificates: tuple[Certificate, ...] = ()) -> Iterator[Expr]:
        if count is ONE:
            yield ZERO
            return
        with self.builder.loop(part := fresh("part"), ZERO, count, 1):
            yield part

    def _begin(self, passes: int) -> None:
        """Allocates, for each digit, the index of the next element with it."""
        self.positions = self.builder.alloc("places", i64, (ix.as_index(KEYS),), "shared")

    def _pass(self, each: Pass, these: tuple[Buffer, ...]) -> None:
        """Emits the move of all elements by one digit."""
        builder, threads, positions = self.builder, self.threads, self.positions
        counts = self._counters("counts", i32)
        with threads.in_turn(self.count) as i:
            value = each.load(i)[each.key]
            digit = Op("cast", i64, (digit_of(sortable(value), each.low, BITS_OF_A_DIGIT),))
            self._count(counts, digit, ONE)
        with threads.each(KEYS) as d:
            builder.add(Store(positions, (d,), Op("cast", i64, (Read(counts, (d,), None),))))  # type: ignore[arg-type]
        self._scan(ix.as_index(KEYS), positions, lambda k: (k,))

        def before(part: Expr, d: Expr, amount: NestExpr) -> Var:
            position = builder.name("place", Read(positions, (d,), None))
            builder.add(Store(positions, (d,), Op("add", i64, (position, amount))))  # type: ignore[arg-type]
            return position

        self._move(each, these, before)
