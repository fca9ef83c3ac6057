"""Radix sorts on a GPU, by digits of eight bits, least significant first, in blocks of consecutive elements; few elements by one block.

    three_phase  for each digit: blocks count their elements; the counts become indices; blocks order their elements and move them

A block orders its elements by a digit in shared memory (`block_ranks.py`), so elements with equal digits, which go to consecutive indices,
are moved by neighbouring threads. The first pass computes the elements, and the last one stores results. Few elements never leave the block
that sorts them. (Satish, Harris & Garland 2009; Merrill & Grimshaw, High performance and scalable radix sorting, 2011.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from raido.algo.graph import index as ix
from raido.algo.graph.dtypes import DType, bool_, i32, i64, u8, u16
from raido.algo.graph.expr import Axis, Expr, Op, Var, const, fresh
from raido.schedule.lower.builder import Builder, closed
from raido.schedule.lower.loops.versions import as_comparison
from raido.schedule.lower.strategies.radix_sorts import digit_of
from raido.schedule.lower.threads.block_ranks import BITS, ONE, ZERO, BlockRanks, BlockThreads
from raido.schedule.nest.nodes import AtomicUpdate, Certificate, If, Store
from raido.schedule.nest.values import Buffer, NestExpr, Read
from raido.schedule.stages.sort_keys import sortable, unsigned
from raido.schedule.strategies.table import BITS_OF_A_DIGIT, parameters_of_sort

if TYPE_CHECKING:
    from raido.schedule.lower.strategies.sorts import Row

KEYS = 1 << BITS_OF_A_DIGIT  # the number of values of a digit


@dataclass(frozen=True, slots=True)
class Pass:
    """Pass `number` of all, which moves elements by a digit: the bits from `low` on of key number `key`. load: the values of an element
    before the pass; store: stores values at an index."""

    key: int
    low: Expr
    number: Expr
    load: Callable[[Var], Sequence[NestExpr]]
    store: Callable[[Var, Sequence[NestExpr]], None]


class BlockSort:
    """A sort by blocks that count and move in three phases.

    apart: whether full blocks have code of their own, without tests for single elements. It is off here, because a
    device may run both sides of a branch.
    """

    apart = False

    def __init__(self, builder: Builder, row: Row) -> None:
        self.builder, self.row = builder, row
        stage, reduction = row.lowered.stage, row.lowered.reduction
        assert stage.sort is not None and reduction is not None
        self.axis: Axis = stage.reduction_axes[0]
        self.dtypes = [v.dtype for v in reduction.left]
        self.keys = [unsigned(dtype) for dtype in self.dtypes[: stage.sort.keys]]
        parameters = parameters_of_sort(stage, row.lowered.plan)
        self.block, self.staged = parameters["block"], parameters["staged"]
        self.threads = BlockThreads(
            row.loops.thread_scans, stage.name, self.axis.name, parameters["threads"], parameters["subgroup"]
        )
        self.blocks = ix.ceildiv(self.count, self.block)

    @property
    def count(self) -> Expr:
        """The number of elements of the sort."""
        return self.axis.extent

    def sort(self) -> None:
        """Emits the sort, from reading the elements to storing the results."""
        self.builder.by_length(self.count, ix.as_index(self.block), self._sort_in_one_block, self._sort_by_blocks)

    # Few elements

    def _sort_in_one_block(self) -> None:
        """Emits the sort of all elements by one block, by each digit of each key in turn; elements that are not staged are computed
        again."""
        builder, threads = self.builder, self.threads
        with self._each_block(ONE):
            ranks = BlockRanks(threads, self.block)
            orders = [builder.alloc("order", u16, (ix.as_index(self.block),), "shared") for _ in range(2)]
            staged = self._stage()
            with threads.in_turn(self.count) as i:
                builder.store(staged, (i,), self.row.elements(i) if staged else ())
                builder.add(Store(orders[0], (i,), Op("cast", u16, (i,))))
            for k in reversed(range(len(self.keys))):
                number = fresh("pass")
                with builder.loop(number, ZERO, ix.as_index(self.keys[k].bits // (2 * BITS)), 1):
                    for half in range(2):
                        low = builder.name("low", self._bits(k, ix.add(ix.mul(number, 2 * BITS), half * BITS)))

                        def digit(element: Expr, k: int = k, low: Expr = low) -> NestExpr:
                            (value,) = self._elements(staged, element, (k,))
                            return Op("cast", i64, (digit_of(sortable(value), low, BITS),))

                        ranks.order(self.count, digit, orders[half], orders[1 - half])
            with threads.in_turn(self.count) as i:
                element = self._within(Op("cast", i64, (Read(orders[0], (i,), None),)), ZERO, self.count)  # type: ignore[arg-type]
                self.row.keep(i, self._elements(staged, element, range(len(self.dtypes))))

    def _elements(self, staged: Sequence[Buffer], element: Expr, which: Sequence[int]) -> list[NestExpr]:
        """The values number `which` of an element."""
        if staged:
            return [Read(staged[k], (element,), None) for k in which]
        var = element if isinstance(element, Var) else self.builder.name("element", element)
        values = self.row.elements(var)
        return [values[k] for k in which]

    # Many

    def _sort_by_blocks(self) -> None:
        """Emits a pass for each digit, between two halves of memory; the first computes the elements, the last one stores results."""
        builder = self.builder
        each = [(k, p) for k in reversed(range(len(self.keys))) for p in range(self.keys[k].bits // BITS_OF_A_DIGIT)]
        sides = ix.as_index(min(2, len(each) - 1))
        these = (
            tuple(builder.alloc("these", d, (sides, self.count), "heap") for d in self.dtypes) if len(each) > 1 else ()
        )
        self._begin(len(each))

        def from_side(side: Expr) -> Callable[[Var], Sequence[NestExpr]]:
            return lambda at: [Read(buffer, (side, at), None) for buffer in these]

        def to_side(side: Expr) -> Callable[[Var, Sequence[NestExpr]], None]:
            return lambda at, values: builder.store(these, (side, at), values)

        def one(number: Expr, k: int, p: Expr, load: Any, store: Any) -> None:
            low = builder.name("low", self._bits(k, ix.mul(p, BITS_OF_A_DIGIT)))
            self._pass(Pass(k, low, number, load, store), these)

        last = len(each) - 1
        for k in reversed(range(len(self.keys))):
            numbers = [number for number, (key, _) in enumerate(each) if key == k]
            inner = [number for number in numbers if 0 < number < last]
            if numbers[0] == 0:
                one(ZERO, k, ZERO, self.row.elements, self.row.keep if last == 0 else to_side(ZERO))
            if inner:
                with builder.loop(number := fresh("pass"), ix.as_index(inner[0]), ix.as_index(inner[-1] + 1), 1):
                    target = builder.name("target", ix.mod(number, 2))
                    source = builder.name("source", ix.sub(1, target))
                    one(number, k, ix.sub(number, numbers[0]), from_side(source), to_side(target))
            if numbers[-1] == last > 0:
                side = ix.as_index((last - 1) % 2)
                one(ix.as_index(last), k, ix.as_index(last - numbers[0]), from_side(side), self.row.keep)

    def _begin(self, passes: int) -> None:
        """Allocates memory for the counts of blocks."""
        shape = (ix.as_index(KEYS), self.blocks)
        self.counts = self.builder.alloc("counts", i64, shape, "heap")
        self.totals = self.builder.alloc("totals", i64, shape[:1], "heap")

    def _pass(self, each: Pass, these: tuple[Buffer, ...]) -> None:
        """Emits the move of all elements by one digit."""
        builder, threads, counts, totals = self.builder, self.threads, self.counts, self.totals
        with self._each_block(self.blocks) as block, self._part(block, self.block) as (first, count):
            own = self._counters("own", i32)
            with threads.in_turn(count) as i:
                value = each.load(builder.name("at", ix.add(first, i)))[each.key]
                digit = Op("cast", i64, (digit_of(sortable(value), each.low, BITS_OF_A_DIGIT),))
                self._count(own, digit, ONE)
            with threads.each(KEYS) as d:
                builder.add(Store(counts, (d, block), Op("cast", i64, (Read(own, (d,), None),))))  # type: ignore[arg-type]
        with self._each_block(ix.as_index(KEYS)) as d:
            builder.add(Store(totals, (d,), self._scan(self.blocks, counts, lambda k: (d, k))))
        with self._each_block(ONE):
            self._scan(ix.as_index(KEYS), totals, lambda k: (k,))

        def before(block: Expr, d: Expr, amount: NestExpr) -> NestExpr:
            return Op("add", i64, (Read(totals, (d,), None), Read(counts, (d, block), None)))  # type: ignore[arg-type]

        self._move(each, these, before)

    def _move(self, each: Pass, these: tuple[Buffer, ...], before: Callable[[Expr, Expr, NestExpr], NestExpr]) -> None:
        """Emits a loop in which blocks order their elements by a digit and move them. `before(block, d, amount)`: the index of the first of
        the block's `amount` elements with digit d."""
        builder, threads = self.builder, self.threads
        certificates = (Certificate("radix", (*these, *self.row.results())),)
        with self._each_block(self.blocks, certificates) as block, self._part(block, self.block) as (first, count):
            size = (ix.as_index(self.block),)
            ranks = BlockRanks(threads, self.block)
            digits = builder.alloc("digits", u8, size, "shared")
            orders = [builder.alloc("order", u16, size, "shared") for _ in range(2)]
            ends = builder.alloc("ends", u16, (ix.as_index(KEYS),), "shared")
            moves = builder.alloc("moves", i64, (ix.as_index(KEYS),), "shared")
            staged = self._stage()

            def load(i: Var) -> None:
                values = each.load(builder.name("at", ix.add(first, i)))
                builder.store(staged, (i,), values if staged else ())
                key = digit_of(sortable(values[each.key]), each.low, BITS_OF_A_DIGIT)
                builder.add(Store(digits, (i,), Op("cast", u8, (key,))))

            def fill(i: Var) -> None:
                """Pads the block with the largest digit, behind all elements."""
                builder.add(Store(digits, (i,), const(u8, KEYS - 1)))

            self._each_element(count, load, fill)
            for half, (source, target) in enumerate(((None, orders[0]), (orders[0], orders[1]))):

                def digit(element: Expr, half: int = half) -> NestExpr:
                    own = Read(digits, (element,), None)
                    return Op("cast", i64, (digit_of(own, const(u8, half * BITS), BITS),))

                ranks.order(ix.as_index(self.block), digit, source, target)
            with threads.each(KEYS) as d:
                builder.add(Store(ends, (d,), Op("cast", u16, (self._end_of(orders[1], digits, d, count),))))
            with threads.each(KEYS) as d:
                there = Op("lt", bool_, (ZERO, d))
                begin, end = (
                    builder.name(name, Op("cast", i64, (Read(ends, (at,), predicate),)))  # type: ignore[arg-type]
                    for name, at, predicate in (("begin", ix.sub(d, 1), there), ("end", d, None))
                )
                position = before(block, d, ix.sub(end, begin))
                builder.add(Store(moves, (d,), Op("sub", i64, (position, begin))))  # type: ignore[arg-type]

            def move(i: Var) -> None:
                own = builder.name("own", Op("cast", i64, (Read(orders[1], (i,), None),)))  # type: ignore[arg-type]
                d = builder.name("digit", Op("cast", i64, (Read(digits, (own,), None),)))  # type: ignore[arg-type]
                position = self._within(Op("add", i64, (Read(moves, (d,), None), i)), ZERO, self.count)  # type: ignore[arg-type]
                at = self._within(ix.add(first, own), first, ix.add(first, count))
                each.store(position, [Read(b, (own,), None) for b in staged] if staged else each.load(at))

            self._each_element(count, move, None, certificates)

    def _each_element(
        self,
        count: Expr,
        there: Callable[[Var], None],
        missing: Callable[[Var], None] | None,
        certificates: tuple[Certificate, ...] = (),
    ) -> None:
        """Emits loops of threads over the `count` elements of a block, and over the missing ones of a partial block."""
        builder, size = self.builder, ix.as_index(self.block)
        with builder.block(branch=True) as part, self.threads.in_turn(size, certificates) as i:
            with builder.block(builder.assumptions.with_known(ix.sub(ix.sub(count, i), 1)), branch=True) as some:
                there(i)
            with builder.block(branch=True) as none:
                if missing is not None:
                    missing(i)
            builder.add(If(Op("lt", bool_, (i, count)), closed(some), closed(none) if none.statements else None))
        if not self.apart:
            builder.add(closed(part))
            return
        gap = ix.sub(count, size)
        with (
            builder.block(builder.assumptions.with_known(gap), branch=True) as whole,
            self.threads.in_turn(size, certificates) as i,
        ):
            there(i)
        builder.branch(as_comparison(gap), whole, part)

    def _end_of(self, order: Buffer, digits: Buffer, d: Expr, count: Expr) -> Expr:
        """The number of a block's `count` ordered elements whose digits are at most `d`, by bisection with the same number of steps in all
        threads, without divergent branches."""
        builder = self.builder
        found = builder.alloc("found", i32, (), "register")
        builder.add(Store(found, (), const(i32, 0)))
        lengths, left = [1], self.block
        while left > 1:
            lengths.insert(-1, left // 2)
            left -= left // 2
        for length in lengths:
            next_ = Op("add", i32, (Read(found, (), None), const(i32, length - 1)))  # type: ignore[arg-type]
            last = builder.name("last", Op("cast", i64, (next_,)))
            element = builder.name("element", Op("cast", i64, (Read(order, (last,), None),)))  # type: ignore[arg-type]
            digit = builder.name("digit", Op("cast", i64, (Read(digits, (element,), None),)))  # type: ignore[arg-type]
            with builder.when(Op("le", bool_, (digit, d))):
                builder.add(Store(found, (), Op("add", i32, (Read(found, (), None), const(i32, length)))))  # type: ignore[arg-type]
        return ix.minimum(builder.name("found", Op("cast", i64, (Read(found, (), None),))), count)  # type: ignore[arg-type]

    # Parts of both

    @contextmanager
    def _each_block(self, count: Expr, certificates: tuple[Certificate, ...] = ()) -> Iterator[Var]:
        """A loop over blocks."""
        how = {"level": "block.x", "certificates": certificates, **self._names("parallel")}
        with self.builder.loop(block := fresh("block"), ZERO, count, 1, **how):
            yield block

    def _names(self, kind: str) -> dict[str, Any]:
        """The `For` fields of a loop of the stage."""
        return {"kind": kind, "stage": self.row.lowered.stage.name, "loop": self.axis.name}

    def _bits(self, k: int, low: Expr) -> Op:
        """The number of a bit, in the dtype of key number `k`, as shift amount."""
        return Op("cast", self.keys[k], (low,))

    @contextmanager
    def _part(self, block: Expr, size: int) -> Iterator[tuple[Expr, Expr]]:
        """The first element of a block, and the number of its elements, at most `size`."""
        first = self.builder.name("first", ix.mul(block, size))
        yield first, self.builder.name("count", ix.minimum(ix.sub(self.count, first), size))

    def _stage(self) -> tuple[Buffer, ...]:
        """Shared memory for the elements of a block; () unless the schedule stages them."""
        size = (ix.as_index(self.block),)
        return tuple(self.builder.alloc("staged", d, size, "shared") for d in self.dtypes) if self.staged else ()

    def _within(self, value: NestExpr, low: Expr, high: Expr) -> Var:
        """A name for an index that is known to lie in low..high."""
        var = self.builder.name("place", value)
        self.builder.scope.assumptions = self.builder.assumptions.with_range(var, low, ix.sub(high, 1))
        return var

    def _counters(self, name: str, dtype: DType, count: int = KEYS) -> Buffer:
        """Shared counters, set to 0; one for each value of a digit by default."""
        buffer = self.builder.alloc(name, dtype, (ix.as_index(count),), "shared")
        with self.threads.in_turn(ix.as_index(count)) as d:
            self.builder.add(Store(buffer, (d,), const(dtype, 0)))
        return buffer

    def _count(self, counters: Buffer, at: NestExpr, more: NestExpr) -> None:
        """Atomically adds `more` to a counter."""
        dtype = counters.dtype
        left, right = fresh("left", dtype), fresh("right", dtype)
        added = Op("add", dtype, (left, right))
        amount = const(dtype, 1) if more is ONE else more
        self.builder.add(AtomicUpdate(counters, (at,), amount, left, right, added, "add"))

    def _scan(self, count: Expr, buffer: Buffer, position: Callable[[Expr], tuple[Expr, ...]]) -> NestExpr:
        """Replaces the elements of an array, addressed by number, by their exclusive sum; returns the total."""
        piece = self.builder.name_bound("piece", ix.ceildiv(count, self.threads.count))

        def at(t: Expr, k: Expr) -> tuple[Expr, ...]:
            return position(ix.add(ix.mul(t, piece), k))

        def write(t: Expr, k: Expr, before: NestExpr) -> None:
            self.builder.add(Store(buffer, at(t, k), before))

        certificates = (Certificate("radix", (buffer,)),)
        return self.threads.scan(
            i64, count, piece, lambda t, k: Read(buffer, at(t, k), None), write, certificates=certificates
        )
