"""Radix sorts, least significant digit first, so that equal keys keep their order.

A pass counts the digits of every chunk, turns the counts into indices (an exclusive sum over digits, and over chunks within a digit), and
moves every element from one half of memory to its index in the other. A digit that is the same in all elements moves none of them: its pass
is skipped. Few elements are sorted by insertion. Threads take chunks, as many as the schedule says. The order is that of `sort_keys`.
(Knuth, The Art of Computer Programming 3, 5.2.5; insertion: 5.2.1.)
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from raido.algo.graph import index as ix
from raido.algo.graph.dtypes import DType, bool_, i64
from raido.algo.graph.expr import Axis, Const, Expr, Op, Var, const, fresh
from raido.schedule.lower.builder import Builder, closed
from raido.schedule.lower.loops.chunks import Chunks, chunks_of, each_chunk
from raido.schedule.lower.lowered_stage import LoweredStage
from raido.schedule.lower.strategies.append_by_key import Take, append_by_key
from raido.schedule.nest.nodes import Certificate, Store, While
from raido.schedule.nest.values import Buffer, NestExpr, Read
from raido.schedule.stages.sort_keys import comes_before, sortable, unsigned
from raido.schedule.strategies.table import parameters_of_sort

if TYPE_CHECKING:
    from raido.schedule.lower.strategies.sorts import Row

ZERO, ONE = ix.as_index(0), ix.as_index(1)


@dataclass(slots=True)
class Sorting:
    """One sort: `count` elements along `axis`, in `chunks`, by `passes[k]` digits of `bits` bits of key k; up
    to `few` elements by insertion.

    `values[j][side, element]` is memory for two copies of every array, the keys first; the elements are in the half that `side` names.
    `some[k][chunk]` and `every[k][chunk]` are the bitwise or, and the bitwise and, of the keys in a chunk.
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

    @property
    def count(self) -> Expr:
        return self.axis.extent


class RadixSort:
    """One radix sort."""

    def __init__(self, builder: Builder, row: Row) -> None:
        self.builder, self.row = builder, row

    def sort(self) -> None:
        """Emits the sort, from reading the elements to storing the results."""
        builder, sorting = self.builder, self._begin(self.row.lowered)
        self._load(sorting)
        insert, pass_by_pass = partial(self._insert, sorting), partial(self._pass_by_pass, sorting)
        builder.by_length(sorting.count, ix.as_index(sorting.few), insert, pass_by_pass)
        self._store(sorting)

    def _begin(self, lowered: LoweredStage) -> Sorting:
        """Allocates the memory of a sort, and reads its parameters."""
        builder, stage = self.builder, lowered.stage
        assert stage.sort is not None and lowered.reduction is not None
        axis = stage.reduction_axes[0]
        count = axis.extent
        dtypes = [v.dtype for v in lowered.reduction.left]
        keys = [unsigned(dtype) for dtype in dtypes[: stage.sort.keys]]
        parameters = parameters_of_sort(stage, lowered.plan)
        bits, chunks = parameters["bits"], chunks_of(builder, ZERO, count, parameters["chunks"])
        return Sorting(
            axis,
            bits,
            parameters["insertion"],
            chunks,
            tuple(-(-key.bits // bits) for key in keys),
            tuple(builder.alloc("these", dtype, (ix.as_index(2), count), "heap") for dtype in dtypes),
            builder.register("side", ZERO),
            tuple(builder.alloc("some", key, (chunks.count,), "heap") for key in keys),
            tuple(builder.alloc("every", key, (chunks.count,), "heap") for key in keys),
        )

    # Loops

    def _load(self, sorting: Sorting) -> None:
        """Reads all elements once, and records the bits in which their keys differ."""
        builder, element = self.builder, fresh("i")
        with each_chunk(builder, sorting.chunks) as (chunk, low, high):
            keys = [buffer.dtype for buffer in sorting.some]
            some = [builder.register("some", const(key, 0)) for key in keys]
            every = [builder.register("every", const(key, (1 << key.bits) - 1)) for key in keys]
            with builder.loop(element, low, high, 1):
                named = self.row.elements(element)
                builder.store(sorting.values, (ZERO, element), named)
                for a, b, value in zip(some, every, named, strict=False):
                    key = builder.name("key", sortable(value))
                    builder.add(Store(a, (), Op("bit_or", a.dtype, (Read(a, (), None), key))))
                    builder.add(Store(b, (), Op("bit_and", b.dtype, (Read(b, (), None), key))))
            builder.store(
                (*sorting.some, *sorting.every), (chunk,), [Read(register, (), None) for register in (*some, *every)]
            )

    def _store(self, sorting: Sorting) -> None:
        side = self.builder.name("side", Read(sorting.side, (), None))
        with (
            each_chunk(self.builder, sorting.chunks) as (_, low, high),
            self.builder.loop(element := fresh("i"), low, high, 1),
        ):
            self.row.keep(element, [Read(buffer, (side, element), None) for buffer in sorting.values])

    # Insertion

    def _insert(self, sorting: Sorting) -> None:
        """Emits an insertion sort: every element moves before those in front of it that it precedes."""
        builder, element = self.builder, fresh("i")
        with builder.loop(element, ONE, sorting.count, 1):
            own = [builder.name("value", Read(buffer, (ZERO, element), None)) for buffer in sorting.values]
            keys = [builder.name("key", sortable(value)) for value in own[: len(sorting.passes)]]
            gap = builder.register("gap", element)
            with builder.block(loop=True) as setup:
                position = builder.name("place", Read(gap, (), None))
                previous = builder.name("previous", ix.sub(position, 1))
                inside = Op("lt", bool_, (ZERO, position))
                others = [
                    builder.name("other", Read(buffer, (ZERO, previous), inside))
                    for buffer in sorting.values[: len(keys)]
                ]
                after = comes_before(keys, [sortable(other) for other in others])
                with builder.block(loop=True) as body:
                    for buffer in sorting.values:
                        builder.add(Store(buffer, (ZERO, position), Read(buffer, (ZERO, previous), None)))
                    builder.add(Store(gap, (), previous))
            builder.add(While(closed(setup), Op("logical_and", bool_, (inside, after)), closed(body)))
            position = builder.name("place", Read(gap, (), None))
            builder.store(sorting.values, (ZERO, position), own)

    # Passes

    def _pass_by_pass(self, sorting: Sorting) -> None:
        """Emits the passes, those of the last key first; passes whose digit is the same in all elements are skipped."""
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
        registers = [builder.register(buffer.name, Read(buffer, (ZERO,), None)) for buffer in buffers]
        with builder.loop(chunk, ONE, sorting.chunks.count, 1):
            for register, buffer, name in zip(registers, buffers, ("bit_or", "bit_and"), strict=True):
                both = (Read(register, (), None), Read(buffer, (chunk,), None))
                builder.add(Store(register, (), Op(name, key, both)))
        some, every = (builder.name(register.name, Read(register, (), None)) for register in registers)
        return builder.name("differing", Op("bit_xor", key, (some, every)))

    def _pass(self, sorting: Sorting, k: int, low: Expr, counts: Buffer) -> None:
        """Emits the move of all elements to the other half by one digit of a key."""
        builder = self.builder
        source = builder.name("source", Read(sorting.side, (), None))
        target = builder.name("target", ix.sub(1, source))

        def in_chunk(first: Expr, end: Expr, take: Take, moves: bool) -> None:
            with builder.loop(element := fresh("i"), first, end, 1):
                value = builder.name("value", Read(sorting.values[k], (source, element), None))
                digit = Op("cast", i64, (digit_of(sortable(value), low, sorting.bits),))
                position = take(builder.name("digit", digit))
                for buffer in sorting.values if moves else ():
                    builder.add(Store(buffer, (target, position), Read(buffer, (source, element), None)))

        append_by_key(builder, sorting.chunks, counts, in_chunk, Certificate("radix", sorting.values))
        builder.add(Store(sorting.side, (), target))


def digit_of(key: NestExpr, low: NestExpr, bits: int) -> NestExpr:
    """The digit of `bits` bits of a key that begins at bit `low`."""
    dtype: DType = key.dtype
    moved = key if isinstance(low, Const) and not low.value else Op("shr", dtype, (key, low))
    return moved if bits >= dtype.bits else Op("bit_and", dtype, (moved, const(dtype, (1 << bits) - 1)))
