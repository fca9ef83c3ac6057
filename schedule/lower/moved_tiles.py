"""Tiles of products of matrices that the edge of their result cuts off, moved back so that they end with it (the "shift" of tails).

    for yo in 0..n step 128: tile yo..min(n, yo + 128)        last tile: loops in order, element by element
    tile y = min(yo, n - 128) .. y + 128                      a whole one, which matrix units make; rows from yo on are stored

Elements that two tiles have are made twice, with the same bits, and stored once. There are such tiles where the result is as long as one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from raido.algo.graph import index as ix
from raido.algo.graph.expr import Expr
from raido.schedule.lower.coordinates import Coordinates
from raido.schedule.lower.work import Work
from raido.schedule.matrix_units import matrix_loop
from raido.schedule.plan import Split

if TYPE_CHECKING:
    from raido.schedule.lower.loops import Loops


def lengths_of_tiles(work: Work, position: int) -> dict[str, int]:
    """The lengths of a block's tile along the axes that the edge may cut off, by the loops over blocks; none where tiles stay."""
    plan, outer = work.job.plan, work.job.plan.loops[:position]
    if matrix_loop(plan) is None or len(work.copies) > 1 or work.job.fused:
        return {}
    if not all(loop.level.startswith("block") for loop in outer):
        return {}
    (coordinates,), names = work.copies, {loop.name for loop in outer}
    found: dict[str, int] = {}
    for relation in plan.relations:
        if isinstance(relation, Split) and relation.parent in coordinates.whole and relation.outer in names:
            r = coordinates.ranges[relation.parent]
            if r.value is None and ix.constant_value(ix.sub(r.high, r.low)) is None:
                found[relation.outer] = relation.factor
    return found


def ends_of(work: Work, tiles: dict[str, int]) -> list[Expr]:
    """Where the last whole tile begins, along each axis: at least 0 where there is one."""
    return [
        ix.sub(work.copies[0].whole[relation.parent][1], tiles[relation.outer])
        for relation in work.job.plan.relations
        if isinstance(relation, Split) and relation.outer in tiles
    ]


def moved_back(loops: Loops, work: Work, position: int, tiles: dict[str, int]) -> Work:
    """The work on the tile that ends inside the result, whose facts say that there is one."""
    (old,), plan, builder = work.copies, work.job.plan, loops.builder
    made = Coordinates([(name, *old.whole[name]) for name in old.axes], plan.relations, old.most)
    parents = {r.outer: r.parent for r in plan.relations if isinstance(r, Split)}
    own: list[tuple[str, Expr]] = []
    for loop in plan.loops[:position]:
        value = old.ranges[loop.name].value
        assert value is not None
        if loop.name in tiles:
            axis, length = parents[loop.name], tiles[loop.name]
            end = ix.sub(old.whole[axis][1], length)
            own.append((axis, value))
            value = loops.bind(axis, ix.minimum(value, end), ix.as_index(0), end)
            builder.scope.facts = builder.facts.with_known(ix.sub(end, value))
        made.choose(loop.name, value, loops.bind)
    made.simplify(builder.facts.decided)
    return Work(work.job, [made], work.phase, work.identity, work.versioned, own=tuple(own))
