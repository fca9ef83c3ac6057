"""Chunks of a range, as many as the schedule says: contiguous, and each traverses its elements in order.

    before   for i in low..high: …

    after    for chunk in 0..count:
               first = min(low + chunk * span, high)
               for i in first..min(first + span, high): …

The number of chunks never depends on the number of threads.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from raido.algo.graph import index as ix
from raido.algo.graph.expr import Expr, Op, Var, fresh
from raido.schedule.lower.builder import Builder
from raido.schedule.strategies.table import USUAL_CHUNKS

ZERO = ix.as_index(0)


@dataclass(frozen=True, slots=True)
class Chunks:
    """`count` chunks of the range low..high, of `span` indices except for the last ones. many: whether there may be more than a single
    thread should go through."""

    low: Expr
    high: Expr
    count: Expr
    span: Expr
    many: bool


def chunks_of(builder: Builder, low: Expr, high: Expr, wanted: int | Expr) -> Chunks:
    """The range in `wanted` chunks, at least one."""
    count = builder.assumptions.decided(ix.maximum(wanted, 1))
    many = not (builder.threaded or builder.assumptions.less_equal(count, USUAL_CHUNKS))
    count = builder.name("chunks", count) if isinstance(count, Op) else count
    return Chunks(low, high, count, _span(builder, low, high, count), many)


def as_many_chunks(builder: Builder, chunks: Chunks, low: Expr, high: Expr) -> Chunks:
    """Another range in the same number of chunks."""
    return Chunks(low, high, chunks.count, _span(builder, low, high, chunks.count), chunks.many)


def _span(builder: Builder, low: Expr, high: Expr, count: Expr) -> Expr:
    return builder.name("span", ix.floordiv(ix.add(ix.sub(high, low), ix.sub(count, 1)), count))


@contextmanager
def each_chunk(builder: Builder, chunks: Chunks, **how: Any) -> Iterator[tuple[Var, Expr, Expr]]:
    """A loop over chunks, as a context that yields a chunk's number, its first index and its end. It is parallel by default, unless an
    enclosing loop is, or there is a single chunk."""
    alone = builder.threaded or ix.constant_value(chunks.count) == 1
    chunk = fresh("chunk")
    with builder.loop(chunk, ZERO, chunks.count, 1, **{"kind": "serial" if alone else "parallel", **how}):
        first = builder.name("first", ix.minimum(ix.add(chunks.low, ix.mul(chunk, chunks.span)), chunks.high))
        yield chunk, first, ix.minimum(ix.add(first, chunks.span), chunks.high)
