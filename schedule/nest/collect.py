"""The rounds of the tree by which a `Collect` combines parts, and its serial meaning, with the same pairs in order.

halves, of 8          neighbours, of 8
0 1 2 3 | 4 5 6 7     0←1 2←3 4←5 6←7
0 1 | 2 3             0←2 4←6
0 | 1                 0←4

prefixes, of 4        each takes in the one before it, then that two before it, of the same four
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from raido.algo.graph import index as ix
from raido.algo.graph.dtypes import bool_, i64
from raido.algo.graph.expr import Expr, Op, fresh
from raido.algo.graph.rewrite import substitute
from raido.schedule.nest.carry import applied
from raido.schedule.nest.nodes import Block, Collect, For, If, Let, Statement, Store
from raido.schedule.nest.values import Read


@dataclass(frozen=True, slots=True)
class TreeLevel:
    """The pairs that are combined concurrently: part t and part t + `distance`, which is below `limit`, for multiples t of `every`."""

    distance: int
    every: int
    limit: Expr


def tree_levels(s: Collect) -> Iterator[TreeLevel]:
    """Yields the rounds of a collection, in order."""
    if s.halves:
        left = s.width
        while left > 1:
            half = -(-left // 2)
            yield TreeLevel(half, 1, ix.minimum(ix.as_index(left), s.count))
            left = half
        return
    distance = 1
    while distance < s.width:
        yield TreeLevel(distance, 2 * distance, s.count)
        distance *= 2


def collected_in_order(s: Collect) -> Block:
    """Returns the statements of a collection as one thread runs it."""
    if s.prefix:
        return _prefixes_in_order(s)
    made: list[Statement] = []
    for each in tree_levels(s):
        part = fresh(s.var.name)
        body = _pair(s, part, ix.add(part, each.distance), part)
        last = ix.sub(each.limit, each.distance)
        made.append(For(part, ix.as_index(0), last, each.every, Block(tuple(body))))
    return Block(tuple(made))


def distances_of(s: Collect) -> Iterator[int]:
    """Yields how far back each part takes in another, round by round, of prefixes (Hillis & Steele 1986)."""
    distance = 1
    while distance < s.width:
        yield distance
        distance *= 2


def _prefixes_in_order(s: Collect) -> Block:
    """Returns the statements of a prefix collection, the last part first, so that each takes in another's value from before the round."""
    made: list[Statement] = []
    for distance in distances_of(s):
        back, part = fresh("back"), fresh(s.var.name)
        named = Let(part, ix.sub(ix.sub(s.count, 1), back))  # type: ignore[arg-type]
        lane = Op("mod", i64, (part, ix.as_index(s.width)))
        pair = _pair(s, ix.sub(part, distance), part, part)
        reaches = If(Op("le", bool_, (ix.as_index(distance), lane)), Block(tuple(pair)))
        made.append(For(back, ix.as_index(0), ix.sub(s.count, distance), 1, Block((named, reaches))))  # type: ignore[arg-type]
    return Block(tuple(made))


def _pair(s: Collect, first: Expr, second: Expr, target: Expr) -> list[Statement]:
    """Returns the statements that combine two parts into `target`."""
    left, right = ([fresh(v.name, v.dtype) for v in operands] for operands in (s.left, s.right))
    body: list[Statement] = []
    for names, index in ((left, first), (right, second)):
        body += [Let(v, Read(buffer, _at(s, index), None)) for v, buffer in zip(names, s.buffers, strict=True)]
    combined = zip(s.buffers, applied(s, left, right), strict=True)
    return [*body, *(Store(buffer, _at(s, target), value) for buffer, value in combined)]


def _at(s: Collect, index: Expr) -> tuple[Any, ...]:
    """Returns the indices of the part of a thread."""
    return tuple(substitute(i, {s.var: index}) for i in s.indices)
