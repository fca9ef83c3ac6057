"""Index-set splitting of a row at boundaries: borders, where boundary operations take effect, and the interior between them.

Borders are as narrow as the boundaries, except in a row whose stores are streamed and that is not unrolled with others: if its length is a
multiple of a cache line, it is split at cache lines, so that no line is stored in two ways. Where sizes are not known, that is tested.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from raido.algo.graph import index as ix
from raido.algo.graph.assumptions import Assumptions
from raido.algo.graph.expr import Expr
from raido.schedule.lower.loop_cursor import LoopCursor
from raido.schedule.machine import LINE

NARROW = 16  # iterations of a border: lanes of 32 bits in a 512-bit register


@dataclass(frozen=True, slots=True)
class Piece:
    """The iterations low … high − 1 of a row, run by one kind of loop, inside the interior or not.

    An iteration x of a border lies before the interior or behind it: `beyond + side · x` is at least 0.
    """

    inside: bool
    kind: str
    low: Expr
    high: Expr
    side: int = 0
    beyond: Expr | None = None

    def known(self, x: Expr) -> tuple[Expr, ...]:
        """An assumption about iteration x of a border, an expression of at least 0, which its bounds (minima and maxima) may not show."""
        return () if self.beyond is None else (ix.add(self.beyond, ix.mul(x, self.side)),)


@dataclass(frozen=True, slots=True)
class Peeling:
    """A row low … high − 1 split around the interior first … last; `kinds` of the loops before, in and behind it.

    The split is legal where each of `conditions` is at least 0.
    """

    low: Expr
    first: Expr
    last: Expr
    high: Expr
    kinds: tuple[str, str, str]
    conditions: tuple[Expr, ...] = ()

    def pieces(self, assumptions: Assumptions) -> Iterator[Piece]:
        """The pieces of the row, in order, without those provably empty."""
        before, inside, behind = self.kinds
        start = assumptions.decided(ix.minimum(ix.maximum(self.first, self.low), self.high))
        stop = assumptions.decided(ix.maximum(ix.minimum(ix.add(self.last, 1), self.high), start))
        if self.low is not start:
            yield Piece(False, before, self.low, start, -1, ix.sub(self.first, 1))
        yield Piece(True, inside, start, stop)
        if stop is not self.high:
            yield Piece(False, behind, stop, self.high, 1, ix.sub(-1, self.last))


def at_boundaries(
    kind: str, bounds: tuple[Expr, Expr], interior: tuple[Expr, Expr], extent: Expr, assumptions: Assumptions
) -> Peeling:
    """The split of a row of `extent` elements exactly where its boundary operations become the identity."""
    (low, high), (first, last) = bounds, interior
    after = ix.sub(ix.sub(extent, 1), last)
    return Peeling(
        low, first, last, high, (_border_kind(kind, first, assumptions), kind, _border_kind(kind, after, assumptions))
    )


def _border_kind(kind: str, width: Expr, assumptions: Assumptions) -> str:
    """The kind of a border's loop: serial instead of vector if the border has at most NARROW iterations."""
    return "serial" if kind == "vector" and assumptions.less_equal(width, NARROW) else kind


def at_lines(cursor: LoopCursor, kind: str, bounds: tuple[Expr, Expr], interior: tuple[Expr, Expr]) -> Peeling | None:
    """The split of a row at cache lines; None where the loop is not vectorised or stores are not streamed, or where the row is provably too
    short or no multiple of a line."""
    lowered, (low, high), (first, last) = cursor.lowered, bounds, interior
    alone = all(loop.kind != "unroll" for loop in lowered.plan.loops)
    if kind != "vector" or lowered.plan.stream_stores is None or not alone or ix.constant_value(low) != 0:
        return None
    line = max(LINE // body.dtype.itemsize for body in lowered.bodies)
    widths = [ix.constant_value(width) for width in (first, ix.sub(ix.sub(high, 1), last))]
    before, behind = (None if width is None else -(-width // line) * line for width in widths)
    if before is None or behind is None:
        return None
    conditions = [ix.sub(high, before + behind + line), ix.mul(ix.mod(high, line), -1)]
    unknown = tuple(c for c in conditions if ix.constant_value(c) is None)
    if any((ix.constant_value(c) or 0) < 0 for c in conditions):
        return None
    return Peeling(low, ix.as_index(before), ix.sub(high, behind + 1), high, (kind, kind, kind), unknown)
