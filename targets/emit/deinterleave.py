"""Strided vector reads that lie between one another: the colours of a pixel, the elements of a pair, the taps of a decimating filter.

Each alone loads the vectors that cover its lanes, which begin at its own first element: no two have a vector in common. Those less than
a stride apart are a *window*: all load the same vectors, from its first element to its last, and shuffle their lanes out of these.
Lanes that descend (a mirrored image) are a window of ascending ones, whose order is reversed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from raido.algo.graph.rewrite import topological
from raido.schedule.machine import INTERLEAVED
from raido.schedule.nest.values import VectorRead
from raido.schedule.nest.walk import expressions_of
from raido.targets.emit.order import distance


class Place(NamedTuple):
    """Of a read in a window: the elements before its first, and how far apart the first elements of the window's reads are at most."""

    before: int
    span: int


def find_windows(statements: Sequence[Any]) -> dict[VectorRead, Place]:
    """The reads of a block, all of which are made, that share a window with others."""
    groups: list[list[tuple[int, VectorRead]]] = []
    roots = [e for s in statements for e in expressions_of(s)]
    for e in topological(*roots):
        if isinstance(e, VectorRead) and e.mask is None and 2 <= abs(e.stride) <= INTERLEAVED:
            _join(groups, e)
    found: dict[VectorRead, Place] = {}
    for group in groups:
        rest = sorted(group, key=lambda each: each[0])
        while rest:
            first = rest[0][0]
            window = [each for each in rest if each[0] < first + abs(each[1].stride)]
            rest = rest[len(window) :]
            span = window[-1][0] - first
            if span:
                found |= {e: Place(place - first, span) for place, e in window}
    return found


def _join(groups: list[list[tuple[int, VectorRead]]], e: VectorRead) -> None:
    for group in groups:
        first = group[0][1]
        if (e.buffer, e.stride, e.lanes) == (first.buffer, first.stride, first.lanes):
            place = distance(e, first)
            if place is not None:
                group.append((place, e))
                return
    groups.append([(0, e)])
