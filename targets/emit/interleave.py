"""Strided vector stores that lie between one another: the parts of complex numbers, the colours of a pixel.

`stride` stores of that stride, to the places 0 … stride − 1 from the first of them, fill a piece of memory without gaps. Their values
are shuffled into that order and stored whole, which takes no scatter.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from raido.algo.graph.index import add, as_index, constant_value, mul, sub
from raido.algo.graph.rewrite import topological
from raido.schedule.nest.nodes import VectorStore
from raido.targets.emit.order import strides_of

_MOST = 4


def find_interleaved(statements: Sequence[Any], position: int) -> list[VectorStore]:
    """The stores that begin at `position` and fill memory together, in the order of their places; none where there are not enough."""
    first = statements[position]
    if not isinstance(first, VectorStore) or not 2 <= first.stride <= _MOST or first.mask is not None:
        return []
    group = statements[position : position + first.stride]
    if len(group) < first.stride or not all(_belongs(s, first) for s in group):
        return []
    places = {_distance(s, first): s for s in group}
    if None in places or len(places) < len(group):
        return []
    ordered = sorted(place for place in places if place is not None)
    return [places[place] for place in ordered] if ordered[-1] - ordered[0] == first.stride - 1 else []


def _belongs(s: Any, first: VectorStore) -> bool:
    if not isinstance(s, VectorStore) or (s.buffer, s.stride, s.mask) != (first.buffer, first.stride, None):
        return False
    return not any(getattr(node, "buffer", None) is s.buffer for node in topological(s.value))


def _distance(s: VectorStore, first: VectorStore) -> int | None:
    """Elements between the first lanes of two stores, if that is a constant."""
    total = as_index(0)
    for i, j, stride in zip(s.indices, first.indices, strides_of(s.buffer), strict=True):
        total = add(total, mul(sub(i, j), stride))  # type: ignore[arg-type]
    return constant_value(total)
