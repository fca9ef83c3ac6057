"""Quicksort: elements before a pivot move to the front, the others behind them, and both parts are sorted in the same way.

    these    5 2 9 1 7   pivot 5          a short part is sorted by ranks: each element goes to the index that is the number of
    these    2 1 | 5 9 7                  elements before it; slightly longer ones of keys alone by a network (`part_networks`)

The front overwrites elements already read; the rest goes to other memory and from there behind the front, both in order, so that the sort
is stable. Elements already in order are not moved, and two sorted runs are merged (`merged_runs`). Where no element precedes the pivot,
those equal to it are split off and done. Lanes append what they keep, a gang at a time. Pivots are medians of three or of nine elements, at
pseudo-random places that depend on the part's bounds.

(Hoare, Quicksort, 1962; Bentley and McIlroy, Engineering a sort function, 1993; Bramas, A novel hybrid quicksort algorithm
vectorized using AVX-512, 2017.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from raido.algo.graph import index as ix
from raido.algo.graph.dtypes import bool_, i32, i64
from raido.algo.graph.expr import Expr, Op, Var, const, fresh
from raido.algo.graph.primitives import EXTREMES
from raido.schedule.lower.builder import Builder, closed
from raido.schedule.lower.loops.chunks import Chunks, chunks_of, each_chunk
from raido.schedule.lower.loops.register_folds import fold_into, identity
from raido.schedule.lower.strategies.counted_sorts import KeyRange, sort_by_counting
from raido.schedule.lower.strategies.merged_runs import Merge
from raido.schedule.lower.strategies.part_networks import PartNetworks
from raido.schedule.nest.nodes import Append, Store, While
from raido.schedule.nest.values import Buffer, NestExpr, Read
from raido.schedule.stages.sort_keys import precedes
from raido.schedule.strategies.table import parameters_of_sort

if TYPE_CHECKING:
    from raido.schedule.lower.strategies.sorts import Row

ZERO, ONE = ix.as_index(0), ix.as_index(1)
LONG = 1024  # elements: longer parts take the median of nine as pivot
DEEPEST = 64  # the most waiting parts: the shorter of two is sorted first, so the depth is at most log2 of the length
CHANCES = 15  # bits of the pseudo-random number that chooses places
SPREAD = 0x9E3779B1  # 2³² over the golden ratio, so that places spread (Knuth, The Art of Computer Programming 3, 6.4)


@dataclass(frozen=True, slots=True)
class Part:
    """A range low … high − 1 of the elements."""

    low: Expr
    high: Expr


Test: TypeAlias = "Callable[[NestExpr], NestExpr]"


class Quicksort:
    """A sort by one thread. these: memory for each array of the elements, the key first; others: memory of the same size. Both are () until
    elements are to be moved, or are read again and not in memory already."""

    def __init__(self, builder: Builder, row: Row) -> None:
        lowered = row.lowered
        assert lowered.reduction is not None
        self.builder, self.row = builder, row
        parameters = parameters_of_sort(lowered.stage, lowered.plan)
        self.ranked, self.network = int(parameters["ranked"]), int(parameters.get("network", 0))
        self.counted = int(parameters.get("counted", 0))
        self.count = row.axis.extent
        self.chunks: Chunks = chunks_of(builder, ZERO, self.count, parameters["chunks"])
        self.dtypes = tuple(value.dtype for value in lowered.reduction.left)
        self.key = self.dtypes[0]
        self.counter = i32 if self.key.bits <= i32.bits else i64  # with 64-bit keys i64, so that their lanes match
        self.these: tuple[Buffer, ...] = ()
        self.others: tuple[Buffer, ...] = ()
        loop = lowered.plan.loops[-1]
        self.lanes: dict[str, Any] = {"kind": loop.kind, "stage": lowered.stage.name, "loop": loop.name}
        if loop.kind == "vector":
            self.lanes |= {"lanes": loop.lanes, "interleave": loop.interleave, "tail": loop.tail}
        else:
            self.network = 0  # a network consists of vector loops

    def sort(self) -> None:
        """Emits the sort and the stores of the results: nothing is moved if the elements are in order, and two runs in order are merged."""
        builder = self.builder
        if not self.row.is_there():
            self._read()
        descents, *extremes = self._survey()
        in_order = Op("eq", bool_, (descents, ZERO))
        with builder.block(branch=True) as sorted_already, self._elements() as (_, at):
            self.row.keep(at, self._values(at))
        with builder.block(branch=True) as unsorted, self._unless_two_runs(descents):
            if extremes:
                self._sort_by_range(*extremes)
            else:
                self._sort_by_comparisons()
        builder.branch(in_order, sorted_already, unsorted)

    @contextmanager
    def _unless_two_runs(self, descents: Expr) -> Iterator[None]:
        """The branch for elements that are not merged, as a context: short arrays, and those of more than two runs in order."""
        builder = self.builder
        if builder.assumptions.less_equal(self.count, self.ranked):
            yield
            return
        with builder.block(branch=True) as two_runs:
            Merge(builder, self.row, self._values, self.chunks, self.lanes).merge()
        with builder.block(branch=True) as more:
            yield
        tests = (Op("lt", bool_, (ix.as_index(self.ranked), self.count)), Op("eq", bool_, (descents, ONE)))
        builder.branch(Op("logical_and", bool_, tests), two_runs, more)

    def _sort_by_range(self, least: Expr, greatest: Expr) -> None:
        """Sorts and stores all elements: by counting where their keys lie close together, else by comparisons."""
        builder, keys = self.builder, KeyRange(self.builder, least, greatest, self.counted)
        with builder.block(branch=True) as close:
            sort_by_counting(builder, self.row, self._values, self.chunks, keys, self.lanes)
        with builder.block(branch=True) as apart:
            self._sort_by_comparisons()
        builder.branch(keys.pay(self.count, self.chunks), close, apart)

    def _sort_by_comparisons(self) -> None:
        """Sorts and stores all elements by comparisons."""
        if not self.these:
            self._read()
        self.others = self._memory("others")
        self._sort_part(Part(ZERO, self.count))

    def _memory(self, name: str) -> tuple[Buffer, ...]:
        """Allocates memory for all elements."""
        return tuple(self.builder.alloc(name, dtype, (self.count,), "heap") for dtype in self.dtypes)

    def _read(self) -> None:
        """Computes all elements into `these`."""
        self.these = self._memory("these")
        with self._elements() as (_, at):
            self.builder.store(self.these, (at,), self.row.elements(at))

    def _values(self, at: Expr) -> Sequence[NestExpr]:
        """The values of an element, the key first, before any has moved."""
        if not self.these:
            return self.row.elements(at)
        return [self.builder.name("value", Read(buffer, (at,), None)) for buffer in self.these]

    # A survey decides how all elements are sorted

    def _survey(self) -> list[Var]:
        """The number of descents of the elements (those that precede the one before them); where keys may be counted, also the
        least and the greatest key."""
        return self._survey_of(Part(ZERO, self.count))

    def _survey_of(self, part: Part) -> list[Var]:
        """As `_survey`, for a part."""
        builder = self.builder
        found = [builder.register("descents", ZERO)]
        if self.counted:
            found += [builder.register(name, identity(name, self.key)) for name in EXTREMES]
        with self._along(Part(ix.maximum(part.low, 1), part.high)) as at:
            before, own = (self._values(position)[0] for position in (ix.sub(at, 1), at))
            self._fold(found[0], chosen(precedes(own, before), ONE, ZERO), "add")
            for register, name in zip(found[1:], EXTREMES, strict=False):
                self._fold(register, own, name)
        if self.counted:
            first = self._values(builder.name("first", ix.minimum(part.low, ix.sub(self.count, 1))))[0]
        for register, name in zip(found[1:], EXTREMES, strict=False):
            builder.add(Store(register, (), Op(name, self.key, (Read(register, (), None), first))))
        return [builder.name(register.name, Read(register, (), None)) for register in found]

    # Loops

    @contextmanager
    def _along(self, part: Part) -> Iterator[Var]:
        """A loop along a part, with the schedule's lanes."""
        at = fresh("i")
        with self.builder.loop(at, part.low, part.high, 1, **self.lanes):
            yield at

    @contextmanager
    def _elements(self) -> Iterator[tuple[Var, Var]]:
        """A loop over every element of every chunk, as a context."""
        with each_chunk(self.builder, self.chunks) as (chunk, low, high), self._along(Part(low, high)) as at:
            yield chunk, at

    def _copy(self, source: Sequence[Buffer], part: Part, target: Sequence[Buffer], ahead: Expr = ZERO) -> None:
        """Copies a part to other memory, `ahead` places further on."""
        with self._along(part) as at:
            self.builder.store(target, (ix.add(at, ahead),), [Read(a, (at,), None) for a in source])

    def _split(
        self,
        source: Sequence[Buffer],
        part: Part,
        test: Test,
        *sides: tuple[Sequence[Buffer], Buffer],
    ) -> None:
        """Appends the elements of a part whose key passes a test to one side, and the others to the other side.

        A side is its buffers, and the register with the next index.
        """
        builder = self.builder
        with self._along(part) as at:
            values = tuple(builder.name("value", Read(buffer, (at,), None)) for buffer in source)
            holds = builder.name("holds", test(values[0]))
            for (memory, position), kept in zip(sides, (holds, negated(holds)), strict=True):
                builder.add(Append(tuple(memory), position, values, kept, spare=True))

    # One part, by one thread

    def _sort_part(self, part: Part) -> None:
        """Sorts a part, and stores it."""
        builder = self.builder
        waiting = builder.alloc("waiting", i64, (ix.as_index(DEEPEST), ix.as_index(2)), "stack")
        number = builder.register("number", ZERO)

        def push(low: NestExpr, high: NestExpr) -> None:
            with self._if_wanted(low, high):
                at = builder.name("at", Read(number, (), None))
                builder.add(Store(waiting, (at, ZERO), low))
                builder.add(Store(waiting, (at, ONE), high))
                builder.add(Store(number, (), ix.add(at, 1)))

        networks = PartNetworks(builder, self.these[0], self.lanes, self.row.keep, self.ranked, self.network)
        push(part.low, part.high)
        with builder.block(loop=True) as setup:
            last = builder.name("last", ix.sub(builder.name("number", Read(number, (), None)), 1))
        with builder.block(loop=True) as body:
            low, high = (
                builder.name(name, Read(waiting, (last, k), None)) for name, k in (("low", ZERO), ("high", ONE))
            )
            builder.add(Store(number, (), last))
            with builder.block(branch=True) as few:
                self._by_ranks(Part(low, high))
            with builder.block(branch=True) as many:
                done = networks.sort(low, high)
                with nullcontext() if done is None else builder.when(negated(Read(done, (), None))):
                    self._split_in_two(Part(low, high), push)
            is_few = Op("le", bool_, (ix.sub(high, low), ix.as_index(self.ranked)))
            builder.branch(is_few, few, many)
        builder.add(While(closed(setup), Op("le", bool_, (ZERO, last)), closed(body)))

    def _if_wanted(self, low: NestExpr, high: NestExpr) -> AbstractContextManager[object]:
        """Opens a block for statements of the part low … high − 1; here they always run."""
        return nullcontext()

    def _split_in_two(self, part: Part, push: Callable[[NestExpr, NestExpr], None]) -> None:
        """Splits a part by a pivot, and pushes both sides; elements equal to the pivot are stored at once where none precedes it."""
        builder, low, high = self.builder, part.low, part.high
        pivot = self._pivot(part)
        begin, front, behind = (builder.register(name, low) for name in ("begin", "front", "behind"))

        def split(test: Test, source: Sequence[Buffer] = self.these) -> None:
            self._split(source, part, test, (self.these, front), (self.others, behind))

        if pivot.dtype.is_float:
            with builder.block(branch=True) as number:
                split(lambda key: Op("lt", bool_, (key, pivot)))
            with builder.block(branch=True) as nan:
                split(lambda key: Op("eq", bool_, (key, key)))
            builder.branch(Op("eq", bool_, (pivot, pivot)), number, nan)
        else:
            split(lambda key: precedes(key, pivot))
        with builder.when(Op("eq", bool_, (Read(front, (), None), low))):
            builder.add(Store(behind, (), low))
            split(lambda key: negated(precedes(pivot, key)), self.others)
            end = builder.name("end", Read(front, (), None))
            with self._along(Part(low, end)) as at:
                self.row.keep(at, [Read(buffer, (at,), None) for buffer in self.these])
            builder.add(Store(begin, (), end))
        start, middle, end = (
            builder.name(name, Read(register, (), None))
            for name, register in (("start", begin), ("middle", front), ("end", behind))
        )
        with self._if_wanted(middle, high):
            self._copy(self.others, Part(low, end), self.these, ix.sub(middle, low))
        shorter = builder.name("shorter", Op("lt", bool_, (ix.sub(middle, start), ix.sub(high, middle))))
        for first in (negated(shorter), shorter):
            push(chosen(first, start, middle), chosen(first, middle, high))

    def _by_ranks(self, part: Part) -> None:
        """Stores every element at its rank, the number of elements before it.

        Of two elements that differ one is before the other, so fewer comparisons hold where some are equal or NaN. Only then are ranks
        counted again with ties broken by position, and, for NaN, once more in the total order of sorts.
        """

        def less(key: NestExpr, own: NestExpr, _: NestExpr) -> NestExpr:
            return Op("lt", bool_, (key, own))

        def less_or_earlier(key: NestExpr, own: NestExpr, earlier: NestExpr) -> NestExpr:
            equal = Op("logical_and", bool_, (earlier, Op("eq", bool_, (key, own))))
            return Op("logical_or", bool_, (less(key, own, earlier), equal))

        def in_order(key: NestExpr, own: NestExpr, earlier: NestExpr) -> NestExpr:
            as_before = Op("logical_and", bool_, (earlier, negated(precedes(own, key))))
            return Op("logical_or", bool_, (precedes(key, own), as_before))

        self._by_ranks_of(part, (less, less_or_earlier, in_order) if self.key.is_float else (less, less_or_earlier))

    def _by_ranks_of(self, part: Part, orders: Sequence[Callable[[NestExpr, NestExpr, NestExpr], NestExpr]]) -> None:
        """Stores every element at its rank by the first of these orders that gives each a rank of its own."""
        builder = self.builder
        if len(orders) == 1:
            self._rank(part, orders[0])
            return
        found = builder.register("found", const(self.counter, 0))
        self._rank(part, orders[0], found)
        length = builder.name("length", ix.sub(part.high, part.low))
        pairs = Op("mul", i64, (length, ix.sub(length, 1)))
        some = Op("cast", i64, (builder.name("found", Read(found, (), None)),))
        with builder.when(Op("ne", bool_, (ix.mul(some, 2), pairs))):
            self._by_ranks_of(part, orders[1:])

    def _rank(
        self, part: Part, before: Callable[[NestExpr, NestExpr, NestExpr], NestExpr], found: Buffer | None = None
    ) -> None:
        """Stores each element at the index that is the number of elements `before` it. before: a condition on the other key, the own key,
        and whether the other stands earlier. found: a register that receives the sum of all ranks."""
        builder, counter = self.builder, self.counter
        with self._along(part) as at:
            own = [builder.name("value", Read(buffer, (at,), None)) for buffer in self.these]
            number = builder.name("number", Op("cast", counter, (ix.sub(at, part.low),)))
            rank = builder.register("rank", const(counter, 0))
            other = fresh("j")
            with builder.loop(other, part.low, part.high, 1):
                earlier = Op("lt", bool_, (Op("cast", counter, (ix.sub(other, part.low),)), number))
                holds = before(builder.name("other", Read(self.these[0], (other,), None)), own[0], earlier)
                more = chosen(holds, const(counter, 1), const(counter, 0))
                builder.add(Store(rank, (), Op("add", counter, (Read(rank, (), None), more))))
            rank_of = builder.name("rank", Read(rank, (), None))
            position = builder.name("place", Op("cast", i64, (rank_of,)))
            self.row.keep(ix.add(part.low, position), own)
            if found is not None:
                self._fold(found, rank_of, "add")

    # Pivots

    def _pivot(self, part: Part) -> Expr:
        """The median of three keys of a part, or of nine of one longer than LONG."""
        builder = self.builder
        length = builder.name("length", ix.sub(part.high, part.low))
        pivot = builder.alloc("pivot", self.key, (), "register")
        chance = Op(
            "shr", i64, (Op("mul", i64, (ix.add(part.low, ix.mul(part.high, 3)), const(i64, SPREAD))), const(i64, 16))
        )
        chance = builder.name("chance", Op("bit_and", i64, (chance, const(i64, (1 << CHANCES) - 1))))
        half = ix.floordiv(length, 2)
        spread = Op("shr", i64, (Op("mul", i64, (chance, half)), const(i64, CHANCES)))
        first = builder.name("first", ix.add(part.low, spread))
        some = Op("lt", bool_, (ZERO, length))

        def median(number: int) -> NestExpr:
            distance = ix.floordiv(half, number - 1)
            keys: list[NestExpr] = [
                builder.name("key", Read(self.these[0], (ix.add(first, ix.mul(distance, k)),), some))
                for k in range(number)
            ]
            while len(keys) > 1:
                keys = [builder.name("median", _median(*keys[k : k + 3])) for k in range(0, len(keys), 3)]
            return keys[0]

        with builder.block(branch=True) as short:
            builder.add(Store(pivot, (), median(3)))
        with builder.block(branch=True) as long:
            builder.add(Store(pivot, (), median(9)))
        builder.branch(Op("le", bool_, (length, ix.as_index(LONG))), short, long)
        return builder.name("pivot", Read(pivot, (), None))

    def _fold(self, register: Buffer, value: NestExpr, name: str) -> None:
        """Folds a value into a register by an operator, in lanes or serially."""
        fold_into(self.builder, register, value, name)


def negated(test: NestExpr) -> NestExpr:
    """The negation of a test."""
    return Op("logical_not", bool_, (test,))


def chosen(test: NestExpr, a: NestExpr, b: NestExpr) -> NestExpr:
    """A selection between two values."""
    return Op("select", a.dtype, (test, a, b))


def _median(a: NestExpr, b: NestExpr, c: NestExpr) -> NestExpr:
    """The median of three keys."""
    low = chosen(precedes(b, c), b, chosen(precedes(a, c), c, a))
    high = chosen(precedes(a, c), a, chosen(precedes(b, c), c, b))
    return chosen(precedes(a, b), low, high)
