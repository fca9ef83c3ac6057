"""Loop fusion by `compute_with`: stages that share the outer loops of a leader; of a scan, those of the pass that stores its results.

A fused stage's outermost loops are its leader's. Where the leader has emitted the body of the last shared loop, the fused stage
goes on from there with the same coordinates. A fused reduction over shared loops begins before the leader's loop and ends after
it; where that loop is parallel, each iteration has a partial result (`partials`). Where the leader is computed for part of its
indices, so are the fused stages.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from raido.algo.graph import index as ix
from raido.algo.graph.expr import Expr
from raido.schedule.lower.builder import Builder
from raido.schedule.lower.loop_cursor import Accumulators, LoopCursor
from raido.schedule.lower.loops.partials import Partials
from raido.schedule.lower.lowered_stage import LoweredStage
from raido.schedule.lower.regions.coordinates import Bind, Coordinates
from raido.schedule.lower.regions.regions import Box, spread
from raido.schedule.plan import At

if TYPE_CHECKING:
    from raido.schedule.lower.loops.loops import Loops
    from raido.schedule.lower.loops.reductions import Reductions


@dataclass(frozen=True, slots=True)
class Running:
    """A fused stage's reduction while its leader's loops are open. instance_at: the number of the unrolled instance that began at these values
    of the leader's outer loops."""

    outer: LoopCursor
    accumulators: Accumulators
    instance_at: dict[tuple[Expr | None, ...], int]


@dataclass(frozen=True, slots=True)
class InChunks:
    """A fused stage's reduction in chunks, the iterations of its leader's parallel loop, which counts from `low` by `step`."""

    partials: Partials
    low: Expr
    step: int


@dataclass(frozen=True, slots=True)
class FusedStage:
    """A stage fused with a leader, and the position of the last loop that it shares. matched: the leader's axis for each axis
    that shared loops run over."""

    lowered: LoweredStage
    last: int
    matched: dict[str, str]


def fused_stages_by_leader(lowered_stages: dict[str, LoweredStage]) -> dict[str, list[FusedStage]]:
    """The fused stages of each leader, by the leader's name."""
    found: dict[str, list[FusedStage]] = {}
    for lowered in lowered_stages.values():
        at = lowered.plan.compute_with
        if at is not None and at.stage in lowered_stages:
            leader = lowered_stages[at.stage]
            last = [loop.name for loop in leader.plan.loops].index(at.loop)
            shared = {axis for loop in leader.plan.loops[: last + 1] for axis in leader.axis_of[loop.name]}
            pairs = zip(lowered.stage.all_axes, leader.stage.all_axes, strict=False)
            matched = {ours.name: theirs.name for ours, theirs in pairs if theirs.name in shared}
            found.setdefault(at.stage, []).append(FusedStage(lowered, last, matched))
    return found


class Sharing:
    """Emits fused stages at the hooks that `Loops` calls. boxes: the box of a fused stage that is computed,
    where that is not the whole array."""

    def __init__(self, loops: Loops, reductions: Reductions, fused_stages: dict[str, list[FusedStage]]) -> None:
        self.loops, self.reductions = loops, reductions
        self.builder: Builder = loops.builder
        self.fused_stages = fused_stages
        self.running: dict[str, Running] = {}
        self.in_chunks: dict[str, InChunks] = {}
        self.boxes: dict[str, Box] = {}

    def _of(self, cursor: LoopCursor) -> list[FusedStage]:
        if not cursor.phase.shares or not self.fused_stages:
            return []
        return self.fused_stages.get(cursor.lowered.stage.name, [])

    def _work(self, fused_stage: FusedStage, leader: LoopCursor, count: int, bind: Bind | None = None) -> LoopCursor:
        """The loop cursor of a fused stage whose first `count` loops have the leader's values."""
        lowered, instances = fused_stage.lowered, []
        box = self.boxes.get(lowered.stage.name, ())
        for coordinates in leader.instances:
            bounds = {axis.name: (ix.as_index(0), axis.extent) for axis in lowered.stage.all_axes}
            bounds |= {
                a.name: (low, spread(ix.add(high, 1))) for a, (low, high) in zip(lowered.stage.axes, box, strict=False)
            }
            bounds |= {ours: coordinates.whole[theirs] for ours, theirs in fused_stage.matched.items()}
            own = Coordinates([(name, low, high) for name, (low, high) in bounds.items()], lowered.plan.relations)
            for theirs, ours in zip(leader.lowered.plan.loops[:count], lowered.plan.loops, strict=False):
                value = coordinates.ranges[theirs.name].value
                assert value is not None
                own.choose(ours.name, value, bind or self.loops.bind)
                own.guards.clear()
            own.simplify(self.builder.assumptions.simplify)
            instances.append(own)
        return LoopCursor(
            lowered,
            instances,
            self.loops.compute,
            versioned=lowered.version_at < count,
            origin_of=list(range(len(instances))),
        )

    def running_inside(self, cursor: LoopCursor, position: int) -> list[LoopCursor]:
        """The loop cursors of fused stages that share the loop at `position`, with the values chosen so far."""
        inside = [fused_stage for fused_stage in self._of(cursor) if fused_stage.last >= position]
        return [
            self._work(fused_stage, cursor, position + 1, lambda name, value, low, high: value)
            for fused_stage in inside
        ]

    def sharers(self, lowered: LoweredStage, position: int) -> list[LoweredStage]:
        """The fused stages that share the loop at `position`."""
        return [
            fused_stage.lowered
            for fused_stage in self.fused_stages.get(lowered.stage.name, ())
            if fused_stage.last >= position
        ]

    def forwards(self, lowered: LoweredStage) -> bool:
        """Whether a fused stage reads the values that the stage stores."""
        return any(
            lowered.form in fused_stage.lowered.reads.loads
            for fused_stage in self.fused_stages.get(lowered.stage.name, ())
        )

    def before(self, cursor: LoopCursor, position: int) -> None:
        """Starts the fused reductions whose outermost loop is the leader's loop at `position`, before that loop."""
        for fused_stage in self._of(cursor):
            if fused_stage.lowered.first_reduction != position or position > fused_stage.last:
                continue
            outer = self._work(fused_stage, cursor, position)
            if cursor.lowered.plan.loops[position].kind == "parallel":
                low, high, step = cursor.instances[0].bounds(cursor.lowered.plan.loops[position].name)
                count = ix.ceildiv(ix.sub(high, low), step)
                lowered, own = fused_stage.lowered, fused_stage.lowered.plan.loops[position].name
                others = (axis for axis in lowered.stage.reduction_axes if axis.name not in lowered.axis_of[own])
                folds = cursor.lowered.plan.loops[position].name in cursor.lowered.reduced
                within = [axis.extent for axis in others] if folds else []  # iterations of a map are made if empty, too
                partials = self.loops.partials.rewritten(outer, position, count, within)
                self.in_chunks[fused_stage.lowered.stage.name] = InChunks(partials, low, step)
                continue
            total = self.reductions.allocate(outer, position)
            self.reductions.part(outer, position, self.reductions.start, total)
            instance_at = {_values(c, cursor, position): k for k, c in enumerate(cursor.instances)}
            self.running[fused_stage.lowered.stage.name] = Running(outer, total, instance_at)

    def enter(self, cursor: LoopCursor, position: int) -> None:
        """Starts the partial results of fused reductions in an iteration, perhaps an empty one, of the leader's
        parallel loop at `position`."""
        for fused_stage in self._of(cursor):
            chunks = self.in_chunks.get(fused_stage.lowered.stage.name)
            if chunks is not None and fused_stage.lowered.first_reduction == position:
                value = cursor.instances[0].ranges[cursor.lowered.plan.loops[position].name].value
                assert value is not None
                outer = self._work(fused_stage, cursor, position)
                number = ix.floordiv(ix.sub(value, chunks.low), chunks.step)
                here = chunks.partials.at(outer.instances[0], number)
                part = replace(outer, lowered=chunks.partials.lowered, instances=[here])
                own = self.reductions.allocate(part, position)
                self.reductions.part(part, position, self.reductions.start, own)
                self.running[fused_stage.lowered.stage.name] = Running(
                    part, own, {_values(cursor.instances[0], cursor, position): 0}
                )

    def inside(self, cursor: LoopCursor, position: int) -> None:
        """Emits the fused stages that go on from the leader's loop at `position`, once the leader's body is emitted.

        Values that the leader has just stored in this very block are forwarded in registers.
        """
        if not self._of(cursor):
            return
        here = self.builder.scope
        converter = self.loops.converter
        converter.forward = {read: value for read, (value, scope) in self.loops.stored.items() if scope is here}
        for fused_stage in self._of(cursor):
            if fused_stage.last == position:
                inner = self._work(fused_stage, cursor, position + 1)
                if fused_stage.lowered.first_reduction <= position:
                    running = self.running[fused_stage.lowered.stage.name]
                    inner.phase, inner.accumulators = self.reductions.fold, running.accumulators
                    begun = fused_stage.lowered.first_reduction
                    inner.origin_of = [running.instance_at[_values(c, cursor, begun)] for c in cursor.instances]
                self.loops.level(inner, position + 1)
        converter.forward = {}

    def leave(self, cursor: LoopCursor, position: int) -> None:
        """Stores the partial results of fused reductions at the end of an iteration of the leader's loop at `position`."""
        for fused_stage in self._of(cursor):
            if fused_stage.lowered.stage.name in self.in_chunks and fused_stage.lowered.first_reduction == position:
                self._finish(fused_stage, position)

    def after(self, cursor: LoopCursor, position: int) -> None:
        """Finishes the fused reductions whose outermost loop is the leader's loop at `position`, after that loop."""
        for fused_stage in self._of(cursor):
            if fused_stage.lowered.first_reduction != position or position > fused_stage.last:
                continue
            chunks = self.in_chunks.pop(fused_stage.lowered.stage.name, None)
            if chunks is None:
                self._finish(fused_stage, position)
            else:
                self.loops.partials.fold(chunks.partials, position)

    def _finish(self, fused_stage: FusedStage, position: int) -> None:
        running = self.running.pop(fused_stage.lowered.stage.name)
        self.reductions.part(running.outer, position, self.reductions.finish, running.accumulators)


def _values(coordinates: Coordinates, cursor: LoopCursor, count: int) -> tuple[Expr | None, ...]:
    """The current values of the first `count` loops."""
    return tuple(coordinates.ranges[loop.name].value for loop in cursor.lowered.plan.loops[:count])


def outermost(lowered: LoweredStage, lowered_stages: dict[str, LoweredStage]) -> LoweredStage:
    """The root stage in whose loops a stage is computed, itself if it is at root."""
    while True:
        at = lowered.plan.compute_with or (lowered.plan.compute if isinstance(lowered.plan.compute, At) else None)
        if at is None or at.stage not in lowered_stages:
            return lowered
        lowered = lowered_stages[at.stage]
