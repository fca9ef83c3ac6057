"""Chunks of a range, as many as the schedule says, and the places to which each of them moves its elements by keys.

before   for i in low..high: …
after    for chunk in 0..count:
           first = min(low + chunk * span, high)
           for i in first..min(first + span, high): …

Chunks are contiguous and each goes through its elements in order, so places that are counted by key, and by chunk within a key, keep
the order of elements with equal keys (Knuth, The Art of Computer Programming 3, 5.2).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from raido.algo.graph import index as ix
from raido.algo.graph.dtypes import i64
from raido.algo.graph.expr import Expr, Op, Var, fresh
from raido.schedule.lower.builder import Builder
from raido.schedule.nest.nodes import Store
from raido.schedule.nest.values import Buffer, Read

ZERO = ix.as_index(0)


@dataclass(frozen=True, slots=True)
class Chunks:
    """`count` chunks of the range low..high, of `span` indices but for the last ones."""

    low: Expr
    high: Expr
    count: Expr
    span: Expr


def chunks_of(builder: Builder, low: Expr, high: Expr, count: Expr) -> Chunks:
    """So many chunks of a range, at least one."""
    span = builder.name("span", ix.floordiv(ix.add(ix.sub(high, low), ix.sub(count, 1)), count))
    return Chunks(low, high, count, span)


@contextmanager
def each_chunk(builder: Builder, chunks: Chunks, **how: Any) -> Iterator[tuple[Var, Expr, Expr]]:
    """A loop over chunks, as a context: the number of a chunk, its first index and its end. For threads, unless they are at work already."""
    alone = builder.threaded or ix.constant_value(chunks.count) == 1
    chunk = fresh("chunk")
    with builder.loop(chunk, ZERO, chunks.count, 1, **{"kind": "serial" if alone else "parallel", **how}):
        first = builder.name("first", ix.minimum(ix.add(chunks.low, ix.mul(chunk, chunks.span)), chunks.high))
        yield chunk, first, ix.minimum(ix.add(first, chunks.span), chunks.high)


def counts_to_places(builder: Builder, counts: Buffer, side_by_side: bool = False) -> None:
    """counts[chunk, key], numbers of elements, give way to the place of the first of them: key by key, and chunk by chunk within a key.

    `side_by_side`: keys are dealt out to threads, which is worth it where chunks are many: each adds up those of earlier chunks, and then
    what smaller keys come to.
    """
    if side_by_side:
        _counts_to_places_by_key(builder, counts)
        return
    total = builder.alloc("total", i64, (), "register")
    builder.add(Store(total, (), ZERO))
    chunks, keys = counts.shape
    key, chunk = fresh("key"), fresh("chunk")
    with builder.loop(key, ZERO, keys, 1), builder.loop(chunk, ZERO, chunks, 1):
        take_in(builder, total, counts, (chunk, key))


def _counts_to_places_by_key(builder: Builder, counts: Buffer) -> None:
    chunks, keys = counts.shape
    totals = builder.alloc("totals", i64, (keys,), "heap")
    key, chunk, smaller, total = fresh("d"), fresh("chunk"), fresh("d"), builder.alloc("total", i64, (), "register")
    with builder.loop(key, ZERO, keys, 1, kind="parallel"):
        running = builder.alloc("running", i64, (), "register")
        builder.add(Store(running, (), ZERO))
        with builder.loop(chunk, ZERO, chunks, 1):
            take_in(builder, running, counts, (chunk, key))
        builder.add(Store(totals, (key,), Read(running, (), None)))
    builder.add(Store(total, (), ZERO))
    with builder.loop(smaller, ZERO, keys, 1):
        take_in(builder, total, totals, (smaller,))
    key, chunk = fresh("d"), fresh("chunk")
    with builder.loop(key, ZERO, keys, 1, kind="parallel"):
        first = builder.name("first", Read(totals, (key,), None))
        with builder.loop(chunk, ZERO, chunks, 1):
            place = (chunk, key)
            builder.add(Store(counts, place, Op("add", i64, (Read(counts, place, None), first))))


def take_in(builder: Builder, running: Buffer, counts: Buffer, at: tuple[Expr, ...]) -> None:
    """A count gives way to the sum of those before it, to which it is added."""
    own = builder.name("own", Read(counts, at, None))
    before = builder.name("before", Read(running, (), None))
    builder.add(Store(counts, at, before))
    builder.add(Store(running, (), Op("add", i64, (before, own))))
