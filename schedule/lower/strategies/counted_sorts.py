"""Counting sort of integers in a small range (Knuth, The Art of Computer Programming 3, 5.2): one pass of `append_by_key`, whose keys are
the differences from the least one.

    these    7 5 9 5    least 5    counters 0 … 4, whose indices are 0 2 2 3 3
    places   2 0 3 1               equal keys keep their order

Where no values move with the keys, the counts suffice: each key is written as often as it occurs.

The method is chosen by the difference of the greatest and the least key, found by a vectorised loop over all keys: a few thousand cells,
groups, columns or ratings take one pass whatever the dtype of their keys.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from raido.algo.graph import index as ix
from raido.algo.graph.dtypes import DType, bool_, i64, u64
from raido.algo.graph.expr import Expr, Op, const, fresh
from raido.schedule.lower.builder import Builder
from raido.schedule.lower.loops.chunks import Chunks, as_many_chunks, each_chunk
from raido.schedule.lower.strategies.append_by_key import Take, append_by_key, positions_by_key
from raido.schedule.nest.nodes import Certificate
from raido.schedule.nest.values import NestExpr, Read
from raido.schedule.stages.sort_keys import sortable, value_of

if TYPE_CHECKING:
    from raido.schedule.lower.strategies.sorts import Row

ZERO = ix.as_index(0)


class KeyRange:
    """The range of integers from the least to the greatest key, cut off at `most`, the greatest number to be counted."""

    def __init__(self, builder: Builder, least: Expr, greatest: Expr, most: int) -> None:
        first, last = sortable(least), sortable(greatest)
        self.first = builder.name("lowest", first)
        apart = builder.name("apart", Op("cast", u64, (Op("sub", last.dtype, (last, self.first)),)))
        self.few = Op("lt", bool_, (apart, const(u64, most)))
        bounded = Op("cast", i64, (Op("minimum", u64, (apart, const(u64, most - 1))),))
        self.number = builder.name("number", ix.add(builder.name("apart", bounded), 1))

    def pay(self, elements: Expr, chunks: Chunks) -> NestExpr:
        """Whether counting pays: the range is small, and all chunks together have no more counters than there are elements."""
        filled = Op("le", bool_, (ix.mul(chunks.count, self.number), elements))
        return Op("logical_and", bool_, (self.few, filled))

    def key(self, digit: Expr, dtype: DType) -> NestExpr:
        """The key at an index of the range."""
        own = Op("add", self.first.dtype, (self.first, Op("cast", self.first.dtype, (digit,))))
        return value_of(own, dtype)

    def digit(self, key: NestExpr) -> NestExpr:
        """The index of a key in the range."""
        own = sortable(key)
        return Op("cast", i64, (Op("sub", own.dtype, (own, self.first)),))


def sort_by_counting(
    builder: Builder,
    row: Row,
    values: Callable[[Expr], Sequence[NestExpr]],
    chunks: Chunks,
    keys: KeyRange,
    lanes: Mapping[str, Any],
) -> None:
    """Stores all elements in the order of their keys. values: those of an element, the key first. lanes: the `For`
    fields of loops along elements."""
    counts = builder.alloc("counts", i64, (chunks.count, keys.number), "heap")

    def in_chunk(first: Expr, end: Expr, take: Take, moves: bool) -> None:
        with builder.loop(element := fresh("i"), first, end, 1):
            own = values(element)
            position = take(builder.name("key", keys.digit(own[0])))
            if moves:
                row.keep(position, own)

    certificate = Certificate("quicksort", row.results())
    if len(row.results()) > 1:
        append_by_key(builder, chunks, counts, in_chunk, certificate)
        return
    positions_by_key(builder, chunks, counts, in_chunk)
    of_keys = as_many_chunks(builder, chunks, ZERO, keys.number)
    with (
        each_chunk(builder, of_keys, certificates=(certificate,)) as part,
        builder.loop(position := fresh("key"), *part[1:], 1),
    ):
        key = builder.name("value", keys.key(position, row.results()[0].dtype))
        begin = builder.name("begin", Read(counts, (ZERO, position), None))
        last = Op("eq", bool_, (ix.add(position, 1), keys.number))
        following = Read(counts, (ZERO, ix.add(position, 1)), Op("logical_not", bool_, (last,)))
        end = builder.name("end", Op("select", i64, (last, chunks.high, following)))
        with builder.loop(at := fresh("i"), begin, end, 1, **lanes):
            row.keep(at, [key])
