"""Loop peeling of strip-mined vector loops: over tiles whose few indices are unrolled inside, as `split(x, 2)` makes them.

Each unrolled index is a *phase*: quotients and remainders by the tile's length are the loop's counter and constants there, lanes read
consecutive elements, and the stores of all phases together fill memory (`targets/emit/interleave.py`). That takes whole tiles: the loop
runs over these, counted from 0; the partial tile at its end, and tiles that meet boundaries at either end, are peeled off and run serially.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from raido.algo.graph import index as ix
from raido.algo.graph.assumptions import Assumptions
from raido.algo.graph.expr import Expr
from raido.schedule.lower.loop_cursor import LoopCursor


@dataclass(frozen=True, slots=True)
class PeeledTiles:
    """The iterations low … high − 1 of a loop over tiles, its kind, and the loop cursor inside them."""

    cursor: LoopCursor
    kind: str
    low: Expr
    high: Expr


def peeled_tiles(
    border: LoopCursor,
    inner: LoopCursor,
    name: str,
    bounds: tuple[Expr, Expr],
    interior: tuple[Expr, Expr],
    step: int,
    assumptions: Assumptions,
) -> Iterator[PeeledTiles]:
    """The peeled parts of a loop low … high − 1 over tiles of `step` indices: tiles that meet boundaries, then the whole tiles of the
    `interior` (first index, index behind it), then the rest."""
    low, high = bounds
    first, behind = interior
    before = assumptions.decided(ix.maximum(ix.sub(first, low), 0))
    start = assumptions.decided(ix.minimum(ix.add(low, ix.mul(ix.ceildiv(before, step), step)), high))
    length = assumptions.decided(ix.maximum(ix.sub(assumptions.decided(ix.minimum(behind, high)), start), 0))
    stop = ix.add(start, ix.mul(ix.floordiv(length, step), step))
    for cursor, kind, begin, end in (
        (border, "serial", low, start),
        (inner, "vector", start, stop),
        (border, "serial", stop, high),
    ):
        if begin is end:
            continue
        instances = [coordinates.copy() for coordinates in cursor.instances]
        for coordinates in instances:
            coordinates.narrow(name, begin, end)
        yield PeeledTiles(replace(cursor, instances=instances), kind, begin, end)
