"""Interleaved strided vector stores: the parts of complex numbers, the colours of a pixel, phases of a loop.

`stride` stores of that stride, at offsets 0 … stride − 1 from the first of them, fill a contiguous piece of memory. Their values are
shuffled into order and stored as whole vectors, without a scatter. Other stores may stand between them (of other rows, of other gangs) if
they write other elements, and no value is read from memory that these stores write.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import Any

from raido.algo.graph.index import constant_value, difference
from raido.algo.graph.rewrite import topological
from raido.schedule.machine import INTERLEAVED
from raido.schedule.nest.nodes import VectorStore
from raido.schedule.nest.values import lanes_of, strides_of
from raido.targets.emit.order import distance


def find_interleaved(statements: Sequence[Any], position: int) -> list[VectorStore]:
    """Stores that together fill contiguous memory, by ascending offset, of which the first to run is at `position`; empty where the set is
    incomplete."""
    first = statements[position]
    if not isinstance(first, VectorStore) or not 2 <= first.stride <= INTERLEAVED or first.mask is not None:
        return []
    run = list(takewhile(lambda s: isinstance(s, VectorStore), statements[position:]))
    by_offset = {0: first}
    for k, s in enumerate(run[1:], 1):
        if not _belongs(s, first) or (offset := distance(s, first)) is None or abs(offset) >= first.stride:
            continue
        if offset in by_offset or not all(_may_pass(s, other) for other in run[:k] if other not in by_offset.values()):
            return []
        by_offset[offset] = s
        if len(by_offset) == first.stride:
            ordered = sorted(by_offset)
            return [by_offset[each] for each in ordered] if ordered[-1] - ordered[0] == first.stride - 1 else []
    return []


def _belongs(s: VectorStore, first: VectorStore) -> bool:
    same = (s.buffer, s.stride, s.mask, lanes_of(s.value)) == (first.buffer, first.stride, None, lanes_of(first.value))
    return same and not _reads(s, first) and not _reads(first, s)


def _may_pass(s: VectorStore, other: VectorStore) -> bool:
    """Whether two stores commute: neither reads memory that the other writes, and they write different elements."""
    if _reads(s, other) or _reads(other, s):
        return False
    if s.buffer is not other.buffer:
        return True
    if s.stride != other.stride:
        return False
    offset = distance(s, other)
    if offset is not None:
        return offset % s.stride != 0 or abs(offset) >= s.stride * max(lanes_of(s.value), lanes_of(other.value))
    return not s.across and not other.across and _in_other_rows(s, other)


def _in_other_rows(s: VectorStore, other: VectorStore) -> bool:
    """Whether the indices differ by a constant along a dimension whose stride is unknown, so that lanes along the last dimension cannot
    meet."""
    for i, j, stride in zip(s.indices, other.indices, strides_of(s.buffer), strict=True):
        if difference(i, j) and constant_value(stride) is None:  # type: ignore[arg-type]
            return True
    return False


def _reads(s: VectorStore, other: VectorStore) -> bool:
    return any(getattr(node, "buffer", None) is other.buffer for node in topological(s.value, *s.indices))
