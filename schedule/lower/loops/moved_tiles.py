"""Tiles of matrix products that the edge of their result cuts off, moved back so that they end with it (the "shift" of tails).

    for yo in 0..n step 128: tile yo..min(n, yo + 128)        last tile: loops in order, element by element
    tile y = min(yo, n - 128) .. y + 128                      a full one, by matrix units; rows from yo on are stored

Elements of two tiles are computed twice, with the same bits, and stored once. Tiles move where the result is at least as long as a tile.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from raido.algo.graph import index as ix
from raido.algo.graph.expr import Expr
from raido.schedule.checks.matrix_units import matrix_loop
from raido.schedule.lower.loop_cursor import LoopCursor
from raido.schedule.lower.regions.coordinates import Coordinates
from raido.schedule.plan import Split

if TYPE_CHECKING:
    from raido.schedule.lower.loops.loops import Loops


@dataclass(frozen=True, slots=True)
class Tile:
    """A block's tile of an axis: `length` indices of `parent`, by the innermost loop over blocks along the axis."""

    axis: str
    parent: str
    length: int


def tiles_of(cursor: LoopCursor, position: int) -> dict[str, Tile]:
    """The tiles of a block along the axes that the edge may cut off, by the name of their loop; {} where tiles do not move."""
    plan, outer = cursor.lowered.plan, cursor.lowered.plan.loops[:position]
    if matrix_loop(plan) is None or len(cursor.instances) > 1 or cursor.lowered.fused:
        return {}
    if not all(loop.level.startswith("block") for loop in outer):
        return {}
    (coordinates,), names = cursor.instances, {loop.name for loop in outer}
    splits = {r.parent: r for r in plan.relations if isinstance(r, Split) and r.outer in names}
    found: dict[str, Tile] = {}
    for axis in coordinates.whole:
        r, last = coordinates.ranges[axis], splits.get(axis)
        if last is None or r.value is not None or ix.difference(r.high, r.low) is not None:
            continue
        while last.inner in splits:  # groups of tiles
            last = splits[last.inner]
        found[last.outer] = Tile(axis, last.parent, last.factor)
    return found


def ends_of(cursor: LoopCursor, tiles: dict[str, Tile]) -> list[Expr]:
    """The index at which the last full tile begins, along each axis; at least 0 where there is one."""
    return [ix.sub(cursor.instances[0].whole[tile.axis][1], tile.length) for tile in tiles.values()]


def moved_back(loops: Loops, cursor: LoopCursor, position: int, tiles: dict[str, Tile]) -> LoopCursor:
    """The loop cursor at the tile moved back inside the result, under the assumption that the result is at least as long as a tile."""
    (old,), plan, builder = cursor.instances, cursor.lowered.plan, loops.builder
    made = Coordinates([(name, *old.whole[name]) for name in old.axes], plan.relations, old.most)
    own: list[tuple[str, Expr]] = []
    for loop in plan.loops[:position]:
        value, tile = old.ranges[loop.name].value, tiles.get(loop.name)
        assert value is not None
        if tile is not None:
            end = ix.sub(old.whole[tile.axis][1], tile.length)
            own.append((tile.axis, value))
            value = loops.bind(tile.axis, ix.minimum(value, end), ix.as_index(0), end)
            builder.scope.assumptions = builder.assumptions.with_known(ix.sub(end, value))
            if tile.parent != tile.axis:  # a tile may begin in the group before its own
                made.narrow(tile.parent, value, ix.add(value, tile.length))
        made.choose(loop.name, value, loops.bind)
    made.simplify(builder.assumptions.decided)
    return LoopCursor(cursor.lowered, [made], cursor.phase, cursor.identity, cursor.versioned, own=tuple(own))
