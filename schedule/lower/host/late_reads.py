"""Reads of an array after an in-place update of it has begun: which of them find their elements unchanged.

    for y in 0..h:                        sum[y] reads m[y, :] in the loops of the update of m:
      sum = m[y, 0] + … + m[y, w - 1]     no iteration before this one has changed that row, so the
      for x in 0..w:                      sums need no copy of m
        m[y, x] = m[y, x] / sum

Two kinds of reads are legal: those of elements that no iteration changes, wherever they stand (`stages/updates/dependence.py`); and those of a
stage that is computed in the update's own loops, if no iteration changes an element that a later one reads. The second is the test for
loop-carried dependences, loop by loop (Allen & Kennedy): with the loops outside at the same indices, an earlier iteration of a serial loop,
or any other iteration of a loop that runs in no order, changes elements outside the box that is read here (`regions`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from raido.algo.graph import index as ix
from raido.algo.graph.assumptions import Assumptions, Interval, interval
from raido.algo.graph.expr import Expr, Load, fresh
from raido.algo.graph.rewrite import scalar_nodes
from raido.schedule.lower.loop_cursor import LoopCursor, ranges_of
from raido.schedule.lower.lowered_stage import LoweredStage
from raido.schedule.lower.regions.coordinates import Coordinates
from raido.schedule.lower.regions.placement import Placement
from raido.schedule.plan import At, Fuse, Split
from raido.schedule.stages.updates.dependence import ElementUpdates, bare_index, leaves_alone


def finds_unchanged(
    load: Load, reader: LoweredStage, update: LoweredStage, updates: ElementUpdates, placement: Placement
) -> bool:
    """Whether a read by a stage that runs in the loops of an update, or later, provably finds the elements from before
    the update's first iteration."""
    if leaves_alone(updates, load.indices, reader.stage.all_axes, scalar_nodes(*reader.bodies)):
        return True
    position = _position(reader, update, placement.lowered_stages)
    one_pass = update.plan.strategy is None or update.plan.strategy[0] in ("serial", "atomic")
    if position is None or not one_pass or update.overlaps or update.plan.instead:
        return False
    around = _loops_around(update, position)
    return around is not None and _is_carried_by_none(around, position, load, reader, update, updates, placement)


def _position(reader: LoweredStage, update: LoweredStage, lowered_stages: Mapping[str, LoweredStage]) -> int | None:
    """The position of the update's loop at which a stage, or an outer stage in whose loops it is computed, is
    computed; None outside its loops."""
    while True:
        at = reader.plan.compute_with or (reader.plan.compute if isinstance(reader.plan.compute, At) else None)
        if at is None or at.stage not in lowered_stages:
            return None
        if at.stage == update.stage.name:
            return [loop.name for loop in update.plan.loops].index(at.loop)
        reader = lowered_stages[at.stage]


def _loops_around(update: LoweredStage, position: int) -> list[tuple[str, bool]] | None:
    """The loops of the update's iterations down to a position, and whether each runs in order; a fused loop as the loops that it consists
    of. None where a fused loop is split again."""
    fused = {r.into: (r.outer, r.inner) for r in update.plan.relations if isinstance(r, Fuse)}
    if any(isinstance(r, Split) and r.parent in fused for r in update.plan.relations):
        return None
    loops = (loop for k, loop in enumerate(update.plan.loops[: position + 1]) if not update.chosen_by_updates(k))
    found = [(loop.name, loop.kind == "serial") for loop in loops]
    while any(name in fused for name, _ in found):
        found = [(part, in_order) for name, in_order in found for part in fused.get(name, (name,))]
    return found


def _is_carried_by_none(
    around: Sequence[tuple[str, bool]],
    position: int,
    load: Load,
    reader: LoweredStage,
    update: LoweredStage,
    updates: ElementUpdates,
    placement: Placement,
) -> bool:
    """Whether none of these loops around a read and the update carries a dependence from the update to the read: no earlier iteration, or
    no other one of a loop that runs in no order, changes an element that the current one reads."""
    axes = [(axis.name, ix.as_index(0), axis.extent) for axis in update.stage.all_axes]
    here = Coordinates(axes, [r for r in update.plan.relations if isinstance(r, Split)])
    assumptions, others = Assumptions(), []
    for name, in_order in around:
        low, high, stride = here.bounds(name)
        chosen, outside = fresh(name), here.copy()
        assumptions = assumptions.with_range(chosen, low, ix.sub(high, 1))
        here.choose(name, chosen, _as_it_is)
        others.append((name, outside, (low, ix.sub(chosen, stride))))
        if not in_order:
            others.append((name, outside, (ix.add(chosen, stride), ix.sub(high, 1))))
    read = _region(load, reader, LoopCursor(update, [here], placement.loops.compute), position, assumptions, placement)
    for name, outside, (first, last) in others:
        there, other = outside.copy(), fresh(name)
        there.choose(name, other, _as_it_is)
        ranges = ranges_of(LoopCursor(update, [there], placement.loops.compute))
        known = assumptions.with_range(other, first, last)
        changed = (interval(bare_index(e), ranges, known) for e in updates.indices)
        if not any(_lie_apart(a, b, known) for a, b in zip(read, changed, strict=True)):
            return False
    return True


def _region(
    load: Load, reader: LoweredStage, around: LoopCursor, position: int, assumptions: Assumptions, placement: Placement
) -> list[Interval | None]:
    """The inclusive bounds along each dimension of the indices that a read takes in one iteration of the loop at a position; None for a
    dimension without known bounds."""
    with placement.builder.block(assumptions):
        box = placement.boxes(around, position)[reader.stage.name]
    ranges = {axis.var: bounds for axis, bounds in zip(reader.stage.axes, box, strict=True)}
    ranges |= {a.var: (ix.as_index(0), ix.sub(a.extent, 1)) for a in reader.stage.reduction_axes}
    ranges |= reader.reads.inner
    unknown = reader.reads.opaque
    return [
        None if unknown.intersection(scalar_nodes(index)) else interval(ix.canonical(index), ranges, assumptions)
        for index in load.indices
    ]


def _lie_apart(one: Interval | None, other: Interval | None, assumptions: Assumptions) -> bool:
    if one is None or other is None:
        return False
    return assumptions.less(one[1], other[0]) or assumptions.less(other[1], one[0])


def _as_it_is(name: str, value: Expr, low: Expr, high: Expr) -> Expr:
    """Returns a computed coordinate unchanged; only fused loops have any."""
    return value
