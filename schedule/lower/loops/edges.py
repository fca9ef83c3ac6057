"""Register tiles of accumulators (Wolf & Lam) that the edge of an array cuts off.

Registers cannot be indexed, so a tile in registers has as many rows as its unrolled loops have iterations. At an edge it is computed some
rows at a time, as many as the loops' plans say; of the last group, rows beyond the edge read the last row again, and are not stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

from raido.algo.graph import index as ix
from raido.algo.graph.expr import Expr, Op, fresh
from raido.schedule.lower.loop_cursor import LoopCursor
from raido.schedule.lower.regions.coordinates import Coordinates
from raido.schedule.lower.regions.regions import extent_bound

if TYPE_CHECKING:
    from raido.schedule.lower.loops.loops import Loops

MOST_ROWS = 64  # iterations of one unrolled loop


@dataclass(frozen=True, slots=True)
class Edge:
    """An unrolled loop low … high − 1 of at most `most` iterations, fewer at an edge, where `rows` of them are computed at a time."""

    loop: str
    low: Expr
    high: Expr
    most: int
    rows: int

    @property
    def whole(self) -> tuple[Expr, ...]:
        """Expressions that are all at least 0 exactly if the loop has `most` iterations."""
        return _positive(ix.sub(ix.sub(self.high, self.low), self.most))


@dataclass(frozen=True, slots=True)
class Row:
    """The coordinates of a row that is computed beside others; it exists if each of `conditions` is at least 0."""

    coordinates: Coordinates
    conditions: tuple[Expr, ...]


def edges_of(loops: Loops, cursor: LoopCursor, position: int) -> list[Edge]:
    """The unrolled loops inside the reduction at `position` that an edge may cut off; none where its accumulators are no register tile."""
    lowered, builder = cursor.lowered, loops.builder
    inner = range(position, len(lowered.plan.loops))
    if len(cursor.instances) > 1 or builder.inside("block"):
        return []
    if any(loops.placer.places(lowered, p) or loops.sharing.sharers(lowered, p) for p in inner):
        return []
    (coordinates,) = cursor.instances
    found = []
    for plan in (lowered.plan.loops[p] for p in inner):
        if plan.name in lowered.reduced or plan.kind == "vector":
            continue
        if plan.kind != "unroll" or plan.name in lowered.fused:
            return []
        low, high, step = loops.bounds(coordinates, plan.name)
        if ix.difference(high, low) is not None:
            continue
        most = ix.constant_value(extent_bound(low, ix.sub(high, 1), high, builder.assumptions, builder.meaning))
        if most is None or most > MOST_ROWS or step != 1:
            return []
        found.append(Edge(plan.name, low, high, most, min(plan.edge, most)))
    return found


@contextmanager
def parts(loops: Loops, cursor: LoopCursor, edges: Sequence[Edge]) -> Iterator[list[Row]]:
    """Opens nested loops over groups of rows, and yields the rows of a group."""
    with ExitStack() as open_loops:
        each = []
        for edge in edges:
            var, length = fresh(edge.loop), ix.sub(edge.high, edge.low)
            names = {"stage": cursor.lowered.stage.name, "loop": edge.loop}
            loop = loops.builder.loop(var, ix.as_index(0), length, edge.rows, **names)
            open_loops.enter_context(loop)
            each.append(_values(loops, edge, ix.add(edge.low, var)))
        rows = []
        for values in product(*each):
            coordinates = cursor.instances[0].copy()
            for edge, (value, _) in zip(edges, values, strict=True):
                coordinates.choose(edge.loop, value, loops.bind)
            rows.append(Row(coordinates, tuple(e for _, condition in values for e in condition)))
        yield rows


def _values(loops: Loops, edge: Edge, first: Expr) -> list[tuple[Expr, tuple[Expr, ...]]]:
    """The values of a loop in the group that begins at `first`, each with the conditions under which the loop has that value."""
    last = ix.sub(edge.high, 1)
    values: list[tuple[Expr, tuple[Expr, ...]]] = [(first, ())]
    for k in range(1, edge.rows):
        value = ix.add(first, k)
        values.append((loops.bind(edge.loop, ix.minimum(value, last), edge.low, last), _positive(ix.sub(last, value))))
    return values


def _positive(e: Expr) -> tuple[Expr, ...]:
    """Expressions that are all at least 0 exactly if `e` is, with minima in `e` split into their parts."""
    constant, terms = ix.linear(e)
    least = [a for a, c in terms.items() if c == 1 and isinstance(a, Op) and a.name == "minimum"]
    if not least:
        return () if not terms and constant >= 0 else (e,)
    rest = ix.sub(e, least[0])
    return tuple(each for part in least[0].args for each in _positive(ix.add(rest, part)))
