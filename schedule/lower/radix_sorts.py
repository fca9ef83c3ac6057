"""Sorts by digits of some bits, the least significant first, so that equal keys keep their order.

A pass counts the digits of every chunk, turns the counts into places (digit by digit, and chunk by chunk within a digit), and moves
every element to its place, from one side of memory to the other. A digit that is the same in all elements moves none of them: its pass
is left out. Few elements are sorted by insertion. Threads take chunks, as many as the schedule says. The order is that of `sort_keys`.
(Knuth, The Art of Computer Programming 3, 5.2.5; insertion: 5.2.1.)
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from raido.algo.graph import index as ix
from raido.algo.graph.dtypes import DType, bool_, i64
from raido.algo.graph.expr import Axis, Expr, Op, Var, const, fresh
from raido.schedule.lower.builder import Builder, closed
from raido.schedule.lower.chunks import Chunks, chunks_of, counts_to_places, each_chunk
from raido.schedule.lower.jobs import Job
from raido.schedule.nest.nodes import Certificate, If, Store, While
from raido.schedule.nest.values import Buffer, NestExpr, Read
from raido.schedule.stages.sort_keys import comes_before, sortable, unsigned
from raido.schedule.strategies import USUAL_CHUNKS, numbers_of_sort

if TYPE_CHECKING:
    from raido.schedule.lower.sorts import Row

ZERO, ONE = ix.as_index(0), ix.as_index(1)


@dataclass(slots=True)
class Sorting:
    """One sort: `count` elements along `axis`, in `chunks`, by `passes[k]` digits of `bits` bits of key k; a `few` by
    insertion.

    `values[j][side, element]` is memory for two of every array, the keys first; the elements are on the side that `side` holds.
    `some[k][chunk]` and `every[k][chunk]` are the bits that any, and that all, of the keys in a chunk have. `many`: there may be more
    chunks than are worth going through one after the other.
    """

    axis: Axis
    bits: int
    few: int
    chunks: Chunks
    passes: tuple[int, ...]
    values: tuple[Buffer, ...]
    side: Buffer
    some: tuple[Buffer, ...]
    every: tuple[Buffer, ...]
    many: bool

    @property
    def count(self) -> Expr:
        return self.axis.extent


class RadixSort:
    """One sort."""

    def __init__(self, builder: Builder, row: Row) -> None:
        self.builder, self.row = builder, row

    def sort(self) -> None:
        """Statements that read the elements, sort them and store them."""
        builder, sorting = self.builder, self._begin(self.row.job)
        builder.add(Store(sorting.side, (), ZERO))
        self._load(sorting)
        is_few = Op("le", bool_, (sorting.count, ix.as_index(sorting.few)))
        if builder.facts.less_equal(sorting.count, sorting.few):
            self._insert(sorting)
        elif builder.facts.less(sorting.few, sorting.count):
            self._pass_by_pass(sorting)
        else:
            with builder.block(branch=True) as few:
                self._insert(sorting)
            with builder.block(branch=True) as many:
                self._pass_by_pass(sorting)
            builder.add(If(is_few, closed(few), closed(many)))
        self._store(sorting)

    def _begin(self, job: Job) -> Sorting:
        """The memory of a sort, and its numbers."""
        builder, stage = self.builder, job.stage
        assert stage.sort is not None and job.reduction is not None
        axis = stage.reduction_axes[0]
        count = axis.extent
        dtypes = [v.dtype for v in job.reduction.left]
        keys = [unsigned(dtype) for dtype in dtypes[: stage.sort.keys]]
        numbers = numbers_of_sort(stage, job.plan)
        bits, wanted = numbers["bits"], ix.maximum(numbers["chunks"], 1)
        chunks = builder.name("chunks", wanted) if ix.constant_value(wanted) is None else wanted
        return Sorting(
            axis,
            bits,
            numbers["insertion"],
            chunks_of(builder, ZERO, count, chunks),
            tuple(-(-key.bits // bits) for key in keys),
            tuple(builder.alloc("these", dtype, (ix.as_index(2), count), "heap") for dtype in dtypes),
            builder.alloc("side", i64, (), "register"),
            tuple(builder.alloc("some", key, (chunks,), "heap") for key in keys),
            tuple(builder.alloc("every", key, (chunks,), "heap") for key in keys),
            not (builder.threaded or builder.facts.less_equal(wanted, USUAL_CHUNKS)),
        )

    # Loops

    @contextmanager
    def _elements(self, sorting: Sorting, certificates: tuple[Certificate, ...] = ()) -> Iterator[tuple[Var, Var]]:
        """A loop over every element of every chunk, as a context."""
        element = fresh("i")
        with (
            each_chunk(self.builder, sorting.chunks, certificates=certificates) as (chunk, low, high),
            self.builder.loop(element, low, high, 1),
        ):
            yield chunk, element

    def _load(self, sorting: Sorting) -> None:
        """Reads all elements once, and notes in which bits their keys differ."""
        builder, element = self.builder, fresh("i")
        with each_chunk(builder, sorting.chunks) as (chunk, low, high):
            some, every = (
                [builder.alloc(name, buffer.dtype, (), "register") for buffer in sorting.some]
                for name in ("some", "every")
            )
            for a, b in zip(some, every, strict=True):
                builder.add(Store(a, (), const(a.dtype, 0)))
                builder.add(Store(b, (), const(b.dtype, (1 << b.dtype.bits) - 1)))
            with builder.loop(element, low, high, 1):
                named = self.row.elements(element)
                for buffer, value in zip(sorting.values, named, strict=True):
                    builder.add(Store(buffer, (ZERO, element), value))
                for a, b, value in zip(some, every, named, strict=False):
                    key = builder.name("key", sortable(value))
                    builder.add(Store(a, (), Op("bit_or", a.dtype, (Read(a, (), None), key))))
                    builder.add(Store(b, (), Op("bit_and", b.dtype, (Read(b, (), None), key))))
            for register, buffer in zip((*some, *every), (*sorting.some, *sorting.every), strict=True):
                builder.add(Store(buffer, (chunk,), Read(register, (), None)))

    def _store(self, sorting: Sorting) -> None:
        side = self.builder.name("side", Read(sorting.side, (), None))
        with self._elements(sorting) as (_, element):
            self.row.keep(element, [Read(buffer, (side, element), None) for buffer in sorting.values])

    # Insertion

    def _insert(self, sorting: Sorting) -> None:
        """Every element goes before those that stand in front of it and belong behind it."""
        builder, element = self.builder, fresh("i")
        with builder.loop(element, ONE, sorting.count, 1):
            own = [builder.name("value", Read(buffer, (ZERO, element), None)) for buffer in sorting.values]
            keys = [builder.name("key", sortable(value)) for value in own[: len(sorting.passes)]]
            gap = builder.alloc("gap", i64, (), "register")
            builder.add(Store(gap, (), element))
            with builder.block(loop=True) as setup:
                place = builder.name("place", Read(gap, (), None))
                previous = builder.name("previous", ix.sub(place, 1))
                inside = Op("lt", bool_, (ZERO, place))
                others = [
                    builder.name("other", Read(buffer, (ZERO, previous), inside))
                    for buffer in sorting.values[: len(keys)]
                ]
                after = comes_before(keys, [sortable(other) for other in others])
                with builder.block(loop=True) as body:
                    for buffer in sorting.values:
                        builder.add(Store(buffer, (ZERO, place), Read(buffer, (ZERO, previous), None)))
                    builder.add(Store(gap, (), previous))
            builder.add(While(closed(setup), Op("logical_and", bool_, (inside, after)), closed(body)))
            place = builder.name("place", Read(gap, (), None))
            for buffer, value in zip(sorting.values, own, strict=True):
                builder.add(Store(buffer, (ZERO, place), value))

    # Passes

    def _pass_by_pass(self, sorting: Sorting) -> None:
        """The passes whose digits differ, those of the last key first."""
        builder = self.builder
        counts = builder.alloc("counts", i64, (sorting.chunks.count, ix.as_index(1 << sorting.bits)), "heap")
        for k in reversed(range(len(sorting.passes))):
            differing = self._differing(sorting, k)
            number = fresh("pass")
            with builder.loop(number, ZERO, ix.as_index(sorting.passes[k]), 1):
                low = builder.name("low", Op("cast", differing.dtype, (ix.mul(number, sorting.bits),)))
                digit = digit_of(differing, low, sorting.bits)
                with builder.when(Op("ne", bool_, (digit, const(digit.dtype, 0)))):
                    self._pass(sorting, k, low, counts)

    def _differing(self, sorting: Sorting, k: int) -> Var:
        """The bits in which some keys differ."""
        builder, chunk = self.builder, fresh("chunk")
        buffers, key = (sorting.some[k], sorting.every[k]), sorting.some[k].dtype
        registers = [builder.alloc(buffer.name, key, (), "register") for buffer in buffers]
        for register, buffer in zip(registers, buffers, strict=True):
            builder.add(Store(register, (), Read(buffer, (ZERO,), None)))
        with builder.loop(chunk, ONE, sorting.chunks.count, 1):
            for register, buffer, name in zip(registers, buffers, ("bit_or", "bit_and"), strict=True):
                both = (Read(register, (), None), Read(buffer, (chunk,), None))
                builder.add(Store(register, (), Op(name, key, both)))
        some, every = (builder.name(register.name, Read(register, (), None)) for register in registers)
        return builder.name("differing", Op("bit_xor", key, (some, every)))

    def _pass(self, sorting: Sorting, k: int, low: Expr, counts: Buffer) -> None:
        """Elements move to their places on the other side by one digit of a key."""
        builder = self.builder
        source = builder.name("source", Read(sorting.side, (), None))
        target = builder.name("target", ix.sub(1, source))

        def digit(element: Expr) -> NestExpr:
            value = builder.name("value", Read(sorting.values[k], (source, element), None))
            return builder.name("digit", Op("cast", i64, (digit_of(sortable(value), low, sorting.bits),)))

        d, element = fresh("d"), fresh("i")
        with each_chunk(builder, sorting.chunks) as (chunk, first, end):
            with builder.loop(d, ZERO, ix.as_index(1 << sorting.bits), 1):
                builder.add(Store(counts, (chunk, d), ZERO))
            with builder.loop(element, first, end, 1):
                place = (chunk, digit(element))
                builder.add(Store(counts, place, Op("add", i64, (Read(counts, place, None), ONE))))
        counts_to_places(builder, counts, sorting.many)
        with self._elements(sorting, (Certificate("radix", sorting.values),)) as (chunk, element):
            own = (chunk, digit(element))
            place = builder.name("place", Read(counts, own, None))
            for buffer in sorting.values:
                builder.add(Store(buffer, (target, place), Read(buffer, (source, element), None)))
            builder.add(Store(counts, own, Op("add", i64, (place, ONE))))
        builder.add(Store(sorting.side, (), target))


def digit_of(key: NestExpr, low: NestExpr, bits: int) -> NestExpr:
    """The digit of some bits of a key that begins at bit `low`."""
    dtype: DType = key.dtype
    moved = Op("shr", dtype, (key, low))
    return moved if bits >= dtype.bits else Op("bit_and", dtype, (moved, const(dtype, (1 << bits) - 1)))
