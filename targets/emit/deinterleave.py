"""Strided vector reads of interleaved elements: the colours of a pixel, the parts of a complex number, the taps of a decimating filter.

A strided read alone loads the vectors that cover its lanes, from its own first element on, so that no two reads share a load. Reads less
than a stride apart form a *window*: all load the same vectors, from the window's first element to its last, and shuffle their lanes out of
these. Lanes that descend (a mirrored image) are a window of ascending ones in reversed order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from raido.algo.graph.rewrite import topological
from raido.schedule.machine import INTERLEAVED
from raido.schedule.nest.values import VectorRead
from raido.schedule.nest.walk import expressions_of
from raido.targets.emit.order import distance


class Window(NamedTuple):
    """A read's offset in its window, in elements, and `span`: the largest such offset of the window's reads."""

    before: int
    span: int


def find_windows(statements: Sequence[Any]) -> dict[VectorRead, Window]:
    """Strided unmasked reads in a block that share a window with others, each with its place."""
    groups: list[list[tuple[int, VectorRead]]] = []
    roots = [e for s in statements for e in expressions_of(s)]
    for e in topological(*roots):
        if isinstance(e, VectorRead) and e.mask is None and 2 <= abs(e.stride) <= INTERLEAVED:
            _join(groups, e)
    found: dict[VectorRead, Window] = {}
    for group in groups:
        rest = sorted(group, key=lambda each: each[0])
        while rest:
            first = rest[0][0]
            window = [each for each in rest if each[0] < first + abs(each[1].stride)]
            rest = rest[len(window) :]
            span = window[-1][0] - first
            if span:
                found |= {e: Window(offset - first, span) for offset, e in window}
    return found


def _join(groups: list[list[tuple[int, VectorRead]]], e: VectorRead) -> None:
    for group in groups:
        first = group[0][1]
        if (e.buffer, e.stride, e.lanes) == (first.buffer, first.stride, first.lanes):
            offset = distance(e, first)
            if offset is not None:
                group.append((offset, e))
                return
    groups.append([(0, e)])
