"""Appending values by key, in chunks: the same loop body first counts the iterations of each key, then moves their values.

    before   for i in low..high: append values[i] to those of key k[i]

    after    for chunk: for i of the chunk: counts[chunk, k[i]] += 1
             counts become indices, by an exclusive sum over keys, and over chunks within a key
             for chunk: for i of the chunk: p = counts[chunk, k[i]]++; out[p] = values[i]

Chunks are contiguous and each runs its iterations in order, so values of equal keys keep their order (Knuth, The Art of Computer
Programming 3, 5.2). Keys are the digits of a radix sort, the ranges of bins of an update whose iterations are sorted, and the parts of a
long quicksort.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from raido.algo.graph import index as ix
from raido.algo.graph.dtypes import i64
from raido.algo.graph.expr import Expr, Op, Var, fresh
from raido.schedule.lower.builder import Builder
from raido.schedule.lower.loops.chunks import Chunks, each_chunk
from raido.schedule.nest.nodes import Certificate, Store
from raido.schedule.nest.values import Buffer, NestExpr, Read

ZERO = ix.as_index(0)
Take: TypeAlias = Callable[[NestExpr], Var]
"""`take(key)` emits the increment of a key's counter, and returns the name of the counter's old value."""


def append_by_key(
    builder: Builder,
    chunks: Chunks,
    counts: Buffer,
    sort_range: Callable[[Expr, Expr, Take, bool], None],
    certificate: Certificate,
    keys: Expr | None = None,
    **how: Any,
) -> None:
    """Emits both phases. `sort_range(first, end, take, moves)` emits the loop over the iterations of a chunk, which take indices, and
    store there if it `moves` them.

    Afterwards counts[chunk, key] is the index behind the last one that the chunk took. keys: the number of
    keys, if less than that of counters.
    """
    positions_by_key(builder, chunks, counts, sort_range, keys, **how)
    with each_chunk(builder, chunks, certificates=(certificate,), **how) as (chunk, first, end):
        sort_range(first, end, _taken(builder, counts, chunk), True)


def positions_by_key(
    builder: Builder,
    chunks: Chunks,
    counts: Buffer,
    sort_range: Callable[[Expr, Expr, Take, bool], None],
    keys: Expr | None = None,
    **how: Any,
) -> None:
    """Emits the first phase, after which counts[chunk, key] is the first index for that key in the chunk."""
    keys = counts.shape[1] if keys is None else keys
    with each_chunk(builder, chunks, **how) as (chunk, first, end):
        with builder.loop(key := fresh("key"), ZERO, keys, 1):
            builder.add(Store(counts, (chunk, key), ZERO))
        sort_range(first, end, _taken(builder, counts, chunk), False)
    _counts_to_positions(builder, counts, keys, chunks.many)


def _taken(builder: Builder, counts: Buffer, chunk: Expr) -> Take:
    """The function `take`, which emits that a chunk takes indices of a key."""

    def take(key: NestExpr) -> Var:
        position = builder.name("place", Read(counts, (chunk, key), None))  # type: ignore[arg-type]
        builder.add(Store(counts, (chunk, key), ix.add(position, 1)))  # type: ignore[arg-type]
        return position

    return take


def _counts_to_positions(builder: Builder, counts: Buffer, keys: Expr, many: bool) -> None:
    """Replaces counts[chunk, key] by the number of elements with smaller keys, or of that key in earlier chunks. If chunks may be `many`,
    keys are distributed over threads once the totals of smaller keys are known."""
    chunks, _ = counts.shape
    total = builder.register("total", ZERO)
    smaller = builder.alloc("smaller", i64, (keys,), "heap") if many else None
    if smaller is not None:
        with builder.loop(key := fresh("key"), ZERO, keys, 1, kind="parallel"):
            own = builder.register("own", ZERO)
            with builder.loop(chunk := fresh("chunk"), ZERO, chunks, 1):
                builder.add(Store(own, (), Op("add", i64, (Read(own, (), None), Read(counts, (chunk, key), None)))))
            builder.add(Store(smaller, (key,), Read(own, (), None)))
        with builder.loop(key := fresh("key"), ZERO, keys, 1):
            _take_in(builder, total, smaller, (key,))
    with builder.loop(key := fresh("key"), ZERO, keys, 1, kind="parallel" if many else "serial"):
        running = total if smaller is None else builder.register("running", Read(smaller, (key,), None))
        with builder.loop(chunk := fresh("chunk"), ZERO, chunks, 1):
            _take_in(builder, running, counts, (chunk, key))


def _take_in(builder: Builder, running: Buffer, counts: Buffer, at: tuple[Expr, ...]) -> None:
    """Replaces a count by the running sum, and adds the count to that."""
    own = builder.name("own", Read(counts, at, None))
    before = builder.name("before", Read(running, (), None))
    builder.add(Store(counts, at, before))
    builder.add(Store(running, (), Op("add", i64, (before, own))))
