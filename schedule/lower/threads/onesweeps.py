"""Radix sorts that read and write the elements once for each digit: blocks hand on their counts of each digit value by decoupled look-back.

    bins[pass, d] = number of elements with digit d, for all passes at once; then an exclusive sum over d
    for each pass:
      blocks in order: order their elements by the digit; thread.x d: reads the count of d in the blocks before, and hands on the sum
      with its own; the elements are moved

(Adinets & Merrill, Onesweep: a faster least significant digit radix sort for GPUs, 2022; look-back: `kernels/look_back.py`.)
"""

from __future__ import annotations

from raido.algo.graph import index as ix
from raido.algo.graph.dtypes import bool_, i32, i64
from raido.algo.graph.expr import Expr, Op, Var, fresh
from raido.schedule.lower.strategies.radix_sorts import digit_of
from raido.schedule.lower.threads.block_ranks import ONE, ZERO
from raido.schedule.lower.threads.block_sorts import KEYS, BlockSort, Pass
from raido.schedule.lower.threads.thread_folds import SHARED_BYTES
from raido.schedule.nest.nodes import Carry, Store
from raido.schedule.nest.values import Buffer, NestExpr, Read
from raido.schedule.stages.sort_keys import sortable
from raido.schedule.strategies.table import BITS_OF_A_DIGIT

COUNTED = 8  # blocks' worth of elements that a block counts before it adds its counters to the global ones


class Onesweep(BlockSort):
    """A sort by blocks that wait for earlier ones, on devices that run only the side of a branch that all threads of a block take."""

    apart = True

    def _begin(self, passes: int) -> None:
        """Counts the digits of all passes, and computes the index of the first element with each digit."""
        builder, threads = self.builder, self.threads
        cells = ix.as_index(passes * KEYS)
        shape = (ix.mul(ix.add(self.blocks, 1), KEYS),)
        self.bins = builder.alloc("bins", i64, (cells,), "heap")
        self.before = builder.alloc("before", i64, shape, "heap")
        self.state = builder.alloc("state", i64, shape, "heap")
        with builder.loop(cell := fresh("cell"), ZERO, cells, 1, **self._names("parallel")):
            builder.add(Store(self.bins, (cell,), ZERO))
        size = COUNTED * self.block
        with self._each_block(ix.ceildiv(self.count, size)) as block, self._part(block, size) as (first, count):
            own = self.bins
            if passes * KEYS * i32.itemsize <= SHARED_BYTES:
                own = self._counters("own", i32, passes * KEYS)
            with threads.in_turn(count) as i:
                values = self.row.elements(builder.name("at", ix.add(first, i)))
                number = 0
                for k in reversed(range(len(self.keys))):
                    key = builder.name("key", sortable(values[k]))
                    for low in range(0, self.keys[k].bits, BITS_OF_A_DIGIT):
                        digit = Op("cast", i64, (digit_of(key, self._bits(k, ix.as_index(low)), BITS_OF_A_DIGIT),))
                        self._count(own, ix.add(ix.as_index(number * KEYS), builder.name("digit", digit)), ONE)
                        number += 1
            if own is not self.bins:
                with threads.in_turn(cells) as cell:
                    self._count(self.bins, cell, Op("cast", i64, (Read(own, (cell,), None),)))  # type: ignore[arg-type]
        with self._each_block(ix.as_index(passes)) as number_of_pass:
            first = ix.mul(number_of_pass, KEYS)
            self._scan(ix.as_index(KEYS), self.bins, lambda k: (ix.add(first, k),))

    def _pass(self, each: Pass, these: tuple[Buffer, ...]) -> None:
        """Emits the move of all elements by one digit."""
        builder, before, state = self.builder, self.before, self.state
        with builder.loop(cell := fresh("cell"), ZERO, before.shape[0], 1, **self._names("parallel")):
            builder.add(Store(state, (cell,), ZERO))
            with builder.when(Op("lt", bool_, (cell, ix.as_index(KEYS)))):
                start = Read(self.bins, (ix.add(ix.mul(each.number, KEYS), cell),), None)
                builder.add(Store(before, (cell,), start))

        def carried(block: Expr, d: Expr, amount: NestExpr) -> NestExpr:
            taken: Var = fresh("earlier", i64)
            builder.level_of[taken] = builder.scope.level
            left, right = fresh("left"), fresh("right")
            added = (Op("add", i64, (left, right)),)
            carry = Carry((taken,), (before,), block, (amount,), (left,), (right,), added, (), state, True, KEYS, d)
            builder.add(carry)
            return taken

        self._move(each, these, carried)
