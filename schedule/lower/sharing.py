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
from raido.schedule.lower.coordinates import Bind, Coordinates
from raido.schedule.lower.jobs import Job
from raido.schedule.lower.partials import Partials
from raido.schedule.lower.regions import Box, spread
from raido.schedule.lower.work import Accumulators, Work
from raido.schedule.plan import At

if TYPE_CHECKING:
    from raido.schedule.lower.loops import Loops
    from raido.schedule.lower.reductions import Reductions


@dataclass(frozen=True, slots=True)
class Running:
    """A fused stage's reduction while its leader's loops are open. copy_at: the number of the unrolled instance that began at these values
    of the leader's outer loops."""

    outer: Work
    accumulators: Accumulators
    copy_at: dict[tuple[Expr | None, ...], int]


@dataclass(frozen=True, slots=True)
class InChunks:
    """A fused stage's reduction in chunks, the iterations of its leader's parallel loop, which counts from `low` by `step`."""

    partials: Partials
    low: Expr
    step: int


@dataclass(frozen=True, slots=True)
class Guest:
    """A stage fused with a leader, and the position of the last loop that it shares. matched: the leader's axis for each axis
    that shared loops run over."""

    job: Job
    last: int
    matched: dict[str, str]


def guests_by_host(jobs: dict[str, Job]) -> dict[str, list[Guest]]:
    """The fused stages of each leader, by the leader's name."""
    found: dict[str, list[Guest]] = {}
    for job in jobs.values():
        at = job.plan.compute_with
        if at is not None and at.stage in jobs:
            host = jobs[at.stage]
            last = [loop.name for loop in host.plan.loops].index(at.loop)
            shared = {axis for loop in host.plan.loops[: last + 1] for axis in host.axis_of[loop.name]}
            pairs = zip(job.stage.all_axes, host.stage.all_axes, strict=False)
            matched = {ours.name: theirs.name for ours, theirs in pairs if theirs.name in shared}
            found.setdefault(at.stage, []).append(Guest(job, last, matched))
    return found


class Sharing:
    """Emits fused stages at the hooks that `Loops` calls. boxes: the box of a fused stage that is computed,
    where that is not the whole array."""

    def __init__(self, loops: Loops, reductions: Reductions, guests: dict[str, list[Guest]]) -> None:
        self.loops, self.reductions = loops, reductions
        self.builder: Builder = loops.builder
        self.guests = guests
        self.running: dict[str, Running] = {}
        self.in_chunks: dict[str, InChunks] = {}
        self.boxes: dict[str, Box] = {}

    def _of(self, work: Work) -> list[Guest]:
        if not work.phase.shares or not self.guests:
            return []
        return self.guests.get(work.job.stage.name, [])

    def _work(self, guest: Guest, host: Work, count: int, bind: Bind | None = None) -> Work:
        """The loop cursor of a fused stage whose first `count` loops have the leader's values."""
        job, copies = guest.job, []
        box = self.boxes.get(job.stage.name, ())
        for coordinates in host.copies:
            bounds = {axis.name: (ix.as_index(0), axis.extent) for axis in job.stage.all_axes}
            bounds |= {
                a.name: (low, spread(ix.add(high, 1))) for a, (low, high) in zip(job.stage.axes, box, strict=False)
            }
            bounds |= {ours: coordinates.whole[theirs] for ours, theirs in guest.matched.items()}
            own = Coordinates([(name, low, high) for name, (low, high) in bounds.items()], job.plan.relations)
            for theirs, ours in zip(host.job.plan.loops[:count], job.plan.loops, strict=False):
                value = coordinates.ranges[theirs.name].value
                assert value is not None
                own.choose(ours.name, value, bind or self.loops.bind)
                own.guards.clear()
            own.simplify(self.builder.facts.simplify)
            copies.append(own)
        return Work(
            job, copies, self.loops.compute, versioned=job.version_at < count, origin_of=list(range(len(copies)))
        )

    def running_inside(self, work: Work, position: int) -> list[Work]:
        """The loop cursors of fused stages that share the loop at `position`, with the values chosen so far."""
        inside = [guest for guest in self._of(work) if guest.last >= position]
        return [self._work(guest, work, position + 1, lambda name, value, low, high: value) for guest in inside]

    def sharers(self, job: Job, position: int) -> list[Job]:
        """The fused stages that share the loop at `position`."""
        return [guest.job for guest in self.guests.get(job.stage.name, ()) if guest.last >= position]

    def forwards(self, job: Job) -> bool:
        """Whether a fused stage reads the values that the stage stores."""
        return any(job.form in guest.job.reads.loads for guest in self.guests.get(job.stage.name, ()))

    def before(self, work: Work, position: int) -> None:
        """Starts the fused reductions whose outermost loop is the leader's loop at `position`, before that loop."""
        for guest in self._of(work):
            if guest.job.first_reduction != position or position > guest.last:
                continue
            outer = self._work(guest, work, position)
            if work.job.plan.loops[position].kind == "parallel":
                low, high, step = work.copies[0].bounds(work.job.plan.loops[position].name)
                count = ix.ceildiv(ix.sub(high, low), step)
                job, own = guest.job, guest.job.plan.loops[position].name
                within = [axis.extent for axis in job.stage.reduction_axes if axis.name not in job.axis_of[own]]
                partials = self.loops.partials.rewritten(outer, position, count, within)
                self.in_chunks[guest.job.stage.name] = InChunks(partials, low, step)
                continue
            total = self.reductions.allocate(outer, position)
            self.reductions.part(outer, position, self.reductions.start, total)
            copy_at = {_values(c, work, position): k for k, c in enumerate(work.copies)}
            self.running[guest.job.stage.name] = Running(outer, total, copy_at)

    def enter(self, work: Work, position: int) -> None:
        """Starts the partial results of fused reductions in an iteration, perhaps an empty one, of the leader's
        parallel loop at `position`."""
        for guest in self._of(work):
            chunks = self.in_chunks.get(guest.job.stage.name)
            if chunks is not None and guest.job.first_reduction == position:
                value = work.copies[0].ranges[work.job.plan.loops[position].name].value
                assert value is not None
                outer = self._work(guest, work, position)
                number = ix.floordiv(ix.sub(value, chunks.low), chunks.step)
                here = chunks.partials.at(outer.copies[0], number)
                part = replace(outer, job=chunks.partials.job, copies=[here])
                own = self.reductions.allocate(part, position)
                self.reductions.part(part, position, self.reductions.start, own)
                self.running[guest.job.stage.name] = Running(part, own, {_values(work.copies[0], work, position): 0})

    def inside(self, work: Work, position: int) -> None:
        """Emits the fused stages that go on from the leader's loop at `position`, once the leader's body is emitted.

        Values that the leader has just stored in this very block are forwarded in registers.
        """
        if not self._of(work):
            return
        here = self.builder.scope
        converter = self.loops.converter
        converter.forward = {read: value for read, (value, scope) in self.loops.stored.items() if scope is here}
        for guest in self._of(work):
            if guest.last == position:
                inner = self._work(guest, work, position + 1)
                if guest.job.first_reduction <= position:
                    running = self.running[guest.job.stage.name]
                    inner.phase, inner.accumulators = self.reductions.fold, running.accumulators
                    begun = guest.job.first_reduction
                    inner.origin_of = [running.copy_at[_values(c, work, begun)] for c in work.copies]
                self.loops.level(inner, position + 1)
        converter.forward = {}

    def leave(self, work: Work, position: int) -> None:
        """Stores the partial results of fused reductions at the end of an iteration of the leader's loop at `position`."""
        for guest in self._of(work):
            if guest.job.stage.name in self.in_chunks and guest.job.first_reduction == position:
                self._finish(guest, position)

    def after(self, work: Work, position: int) -> None:
        """Finishes the fused reductions whose outermost loop is the leader's loop at `position`, after that loop."""
        for guest in self._of(work):
            if guest.job.first_reduction != position or position > guest.last:
                continue
            chunks = self.in_chunks.pop(guest.job.stage.name, None)
            if chunks is None:
                self._finish(guest, position)
            else:
                self.loops.partials.fold(chunks.partials, position)

    def _finish(self, guest: Guest, position: int) -> None:
        running = self.running.pop(guest.job.stage.name)
        self.reductions.part(running.outer, position, self.reductions.finish, running.accumulators)


def _values(coordinates: Coordinates, work: Work, count: int) -> tuple[Expr | None, ...]:
    """The current values of the first `count` loops."""
    return tuple(coordinates.ranges[loop.name].value for loop in work.job.plan.loops[:count])


def outermost(job: Job, jobs: dict[str, Job]) -> Job:
    """The root stage in whose loops a stage is computed, itself if it is at root."""
    while True:
        at = job.plan.compute_with or (job.plan.compute if isinstance(job.plan.compute, At) else None)
        if at is None or at.stage not in jobs:
            return job
        job = jobs[at.stage]
