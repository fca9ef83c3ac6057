"""How a row whose boundaries are partitioned is cut: borders, where boundaries are met, and the interior between them.

Borders are as narrow as boundaries are. A row that is streamed by itself, without others side by side, is cut at lines of the cache
instead, if it consists of lines: no line is then stored in two ways. Where sizes are not known, that is tested.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from raido.algo.graph import index as ix
from raido.algo.graph.expr import Expr
from raido.algo.graph.facts import Facts
from raido.schedule.lower.work import Work
from raido.schedule.machine import LINE

NARROW = 16


@dataclass(frozen=True, slots=True)
class Piece:
    """The iterations low … high − 1 of a row, by a kind of loop, in the interior or not. An iteration x of a border lies before or
    behind the interior: `beyond + side · x` is at least 0.
    """

    inside: bool
    kind: str
    low: Expr
    high: Expr
    side: int = 0
    beyond: Expr | None = None

    def known(self, x: Expr) -> tuple[Expr, ...]:
        """The fact about an iteration that the bounds of a border, minima and maxima, may not show: it is at least 0."""
        return () if self.beyond is None else (ix.add(self.beyond, ix.mul(x, self.side)),)


@dataclass(frozen=True, slots=True)
class Cut:
    """A row low … high − 1 with the interior first … last; `kinds` of the loops before, in and behind it.

    It may be made where each of `conditions` is at least 0.
    """

    low: Expr
    first: Expr
    last: Expr
    high: Expr
    kinds: tuple[str, str, str]
    conditions: tuple[Expr, ...] = ()

    def pieces(self, facts: Facts) -> Iterator[Piece]:
        """The pieces of the row, in order, without those known to be empty."""
        before, inside, behind = self.kinds
        start = facts.decided(ix.minimum(ix.maximum(self.first, self.low), self.high))
        stop = facts.decided(ix.maximum(ix.minimum(ix.add(self.last, 1), self.high), start))
        if self.low is not start:
            yield Piece(False, before, self.low, start, -1, ix.sub(self.first, 1))
        yield Piece(True, inside, start, stop)
        if stop is not self.high:
            yield Piece(False, behind, stop, self.high, 1, ix.sub(-1, self.last))


def at_boundaries(kind: str, bounds: tuple[Expr, Expr], interior: tuple[Expr, Expr], extent: Expr, facts: Facts) -> Cut:
    """The cut where boundaries begin and end to vanish, of an axis of so many elements."""
    (low, high), (first, last) = bounds, interior
    after = ix.sub(ix.sub(extent, 1), last)
    return Cut(low, first, last, high, (_border_kind(kind, first, facts), kind, _border_kind(kind, after, facts)))


def _border_kind(kind: str, width: Expr, facts: Facts) -> str:
    """How a border runs: lanes are for borders that may be wider than a gang."""
    return "serial" if kind == "vector" and facts.less_equal(width, NARROW) else kind


def at_lines(work: Work, kind: str, bounds: tuple[Expr, Expr], interior: tuple[Expr, Expr]) -> Cut | None:
    """The cut at lines; None where it has no use or the row is known not to consist of lines."""
    job, (low, high), (first, last) = work.job, bounds, interior
    alone = all(loop.kind != "unroll" for loop in job.plan.loops)
    if kind != "vector" or job.plan.stream_stores is None or not alone or ix.constant_value(low) != 0:
        return None
    line = max(LINE // body.dtype.itemsize for body in job.bodies)
    widths = [ix.constant_value(width) for width in (first, ix.sub(ix.sub(high, 1), last))]
    before, behind = (None if width is None else -(-width // line) * line for width in widths)
    if before is None or behind is None:
        return None
    conditions = [ix.sub(high, before + behind + line), ix.mul(ix.mod(high, line), -1)]
    unknown = tuple(c for c in conditions if ix.constant_value(c) is None)
    if any((ix.constant_value(c) or 0) < 0 for c in conditions):
        return None
    return Cut(low, ix.as_index(before), ix.sub(high, behind + 1), high, (kind, kind, kind), unknown)
