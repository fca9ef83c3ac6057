"""Loop versioning of rows of unknown length whose stores may bypass the caches: one version for large results, one for others.

    before   for x in 0..m by vector: out[y, x] = … (stream above B bytes)

    after    if 4 * n * m > B:  for x in 0..m by vector: out[y, x] = … (stream above B bytes)
             else:              for x in 0..m by vector: out[y, x] = …

A loop with streamed stores tests for each row where it begins in its cache line, and runs from end to end; without them, the last
gang of a row may be moved back, and short rows cost nothing extra. Whether results are large is one test for all rows. Chunks of a
long row are long themselves, and stay unchanged; so do rows with long bodies, where the test takes relatively little and a second
version would double the compile time.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce

from raido.algo.graph import index as ix
from raido.algo.graph.dtypes import bool_
from raido.algo.graph.expr import Expr, Op
from raido.algo.graph.rewrite import topological
from raido.schedule.gang.vector_loops import replace_vector_loops
from raido.schedule.nest.nodes import Block, For, If, Nest, Statement, Store
from raido.schedule.nest.passes.rows import kept_in_caches
from raido.schedule.nest.values import Buffer, Read
from raido.schedule.nest.walk import expressions_of, statements_within

SHORT = 8  # operations and loads for each element


def part_large_streams(nest: Nest) -> Nest:
    """The nest with two versions of rows whose stores are streamed only where results are large."""
    return replace_vector_loops(nest, _parted)


def _parted(loop: For) -> Statement:
    large = _is_large(loop)
    if large is None:
        return loop
    return If(large, Block((loop,)), Block((replace(loop, body=kept_in_caches(loop.body)),)))


def _is_large(loop: For) -> Op | None:
    """The condition that the largest result of a loop is streamed; None where its sizes are constant, or the
    loop is a chunk or has a long body."""
    low, high = ix.as_index(loop.low), ix.as_index(loop.high)
    if any(ix.difference(member, low) is not None for member in ix.members_of(high)):
        return None
    inside = list(statements_within(loop.body))
    if (
        sum(isinstance(node, (Op, Read)) for node in topological(*(e for s in inside for e in expressions_of(s))))
        > SHORT
    ):  # type: ignore[misc]
        return None
    stores = [s for s in inside if isinstance(s, Store) and s.stream]
    above, sizes = {s.stream for s in stores}, [_bytes(s.buffer) for s in stores]
    if len(above) != 1 or None in sizes:
        return None
    return Op("gt", bool_, (reduce(ix.maximum, sizes), ix.as_index(above.pop() or 0)))  # type: ignore[arg-type]


def _bytes(buffer: Buffer) -> Expr | None:
    """The size of a buffer in bytes; None where it is constant, or the buffer has strides."""
    if buffer.strides:
        return None
    size: Expr = ix.as_index(buffer.dtype.itemsize)
    for extent in buffer.shape:
        size = ix.mul(size, extent)
    return None if ix.constant_value(size) is not None else size
