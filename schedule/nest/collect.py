"""The rounds in which the parts of a `Collect` are combined, and its meaning: the same tree, one pair after the other.

halves, of 8          neighbours, of 8
0 1 2 3 | 4 5 6 7     0←1 2←3 4←5 6←7
0 1 | 2 3             0←2 4←6
0 | 1                 0←4
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from raido.algo.graph import index as ix
from raido.algo.graph.expr import Expr, Node, fresh
from raido.algo.graph.rewrite import substitute
from raido.schedule.nest.nodes import Block, Collect, For, Let, Statement, Store
from raido.schedule.nest.values import Read


@dataclass(frozen=True, slots=True)
class Round:
    """The pairs that are combined beside one another: part t and part t + `distance`, which is below `limit`, for multiples t of `every`."""

    distance: int
    every: int
    limit: Expr


def rounds_of(s: Collect) -> Iterator[Round]:
    """The rounds of a collection, in order."""
    if s.halves:
        left = s.width
        while left > 1:
            half = -(-left // 2)
            yield Round(half, 1, ix.minimum(ix.as_index(left), s.count))
            left = half
        return
    distance = 1
    while distance < s.width:
        yield Round(distance, 2 * distance, s.count)
        distance *= 2


def collected_in_order(s: Collect) -> Block:
    """The statements of a collection as one thread runs it."""
    made: list[Statement] = []
    for each in rounds_of(s):
        part = fresh(s.var.name)
        here, there = (_at(s, place) for place in (part, ix.add(part, each.distance)))
        left, right = ([fresh(v.name, v.dtype) for v in operands] for operands in (s.left, s.right))
        values: dict[Node, Any] = dict(zip((*s.left, *s.right), (*left, *right), strict=True))
        body: list[Statement] = []
        for names, place in ((left, here), (right, there)):
            body += [Let(v, Read(buffer, place, None)) for v, buffer in zip(names, s.buffers, strict=True)]
        body += [Store(buffer, here, substitute(e, values)) for buffer, e in zip(s.buffers, s.combine, strict=True)]
        last = ix.sub(each.limit, each.distance)
        made.append(For(part, ix.as_index(0), last, each.every, Block(tuple(body))))
    return Block(tuple(made))


def _at(s: Collect, place: Expr) -> tuple[Any, ...]:
    """The indices of the part of a thread."""
    return tuple(substitute(i, {s.var: place}) for i in s.indices)
