"""Stages that share the loops of another (`compute_with`).

A guest's outermost loops are its host's. Where the host has emitted the body of the last shared loop, the guest goes on from there
with the same coordinates. A guest's reduction over shared loops begins before the host's loop and ends after it; where that loop is
parallel, each round keeps a partial.
"""

from __future__ import annotations

from dataclasses import dataclass

from raido.algo import index as ix
from raido.algo.expr import Expr
from raido.schedule.lower.builder import Builder
from raido.schedule.lower.coordinates import Coordinates
from raido.schedule.lower.jobs import Job
from raido.schedule.lower.loops import Loops
from raido.schedule.lower.reductions import Reductions
from raido.schedule.lower.work import Accumulators, Work
from raido.schedule.nest.nodes import Buffer
from raido.schedule.plan import At


@dataclass(slots=True)
class Running:
    """A guest's reduction while its host's loops are open."""

    total: Accumulators
    outer: Work
    own: Accumulators
    partials: tuple[Buffer, ...] = ()
    low: Expr | None = None
    span: int = 1


class Sharing:
    """Emits guests at the hooks that `Loops` calls."""

    def __init__(self, loops: Loops, reductions: Reductions, jobs: dict[str, Job]) -> None:
        self.loops, self.reductions = loops, reductions
        self.builder: Builder = loops.builder
        self.guests: dict[str, list[tuple[Job, int]]] = {}
        self.running: dict[str, Running] = {}
        for job in jobs.values():
            at = job.plan.compute_with
            if at is not None and at.stage in jobs:
                names = [loop.name for loop in jobs[at.stage].plan.loops]
                self.guests.setdefault(at.stage, []).append((job, names.index(at.loop)))
        loops.sharing = self

    def _of(self, work: Work) -> list[tuple[Job, int]]:
        if work.mode not in ("compute", "fold") or not self.guests:
            return []
        return self.guests.get(work.job.stage.name, [])

    def _work(self, guest: Job, host: Work, count: int) -> Work:
        """The guest with its first `count` loops where the host's are."""
        copies = []
        for coordinates in host.copies:
            axes = [(a.name, ix.as_index(0), a.extent) for a in guest.stage.all_axes]
            own = Coordinates(axes, guest.plan.relations)
            for theirs, ours in zip(host.job.plan.loops[:count], guest.plan.loops, strict=False):
                value = coordinates.ranges[theirs.name].value
                assert value is not None
                own.choose(ours.name, value, self.loops.bind)
                own.guards.clear()
            own.simplify(self.builder.facts.simplify)
            copies.append(own)
        return Work(guest, copies, versioned=guest.version_at < count, origin_of=list(range(len(copies))))

    def forwards(self, job: Job) -> bool:
        """Whether a guest reads what the stage stores."""
        return any(job.form in guest.reads.loads for guest, _ in self.guests.get(job.stage.name, ()))

    def before(self, work: Work, position: int) -> None:
        """The host's loop at `position` begins: so do reductions of guests over it."""
        for guest, last in self._of(work):
            if guest.first_reduction != position or position > last:
                continue
            outer = self._work(guest, work, position)
            parallel = work.job.plan.loops[position].kind == "parallel"
            total = self.reductions.allocate(outer, position, registers=not parallel)
            running = Running(total, outer, total)
            if parallel:
                low, high, step = work.copies[0].bounds(work.job.plan.loops[position].name)
                running.low, running.span = low, step
                count = ix.ceildiv(ix.sub(high, low), step)
                running.partials = self.reductions.partials(outer, total, count)
            else:
                self.reductions.part(outer, position, "start", total)
            self.running[guest.stage.name] = running

    def enter(self, work: Work, position: int) -> None:
        """The host is inside its loop at `position`: a partial begins."""
        for guest, _ in self._of(work):
            running = self.running.get(guest.stage.name)
            if running is not None and running.partials and guest.first_reduction == position:
                inner = self._work(guest, work, position)
                running.own = self.reductions.allocate(inner, position, registers=False)
                self.reductions.clear(inner, running.own)

    def inside(self, work: Work, position: int) -> None:
        """The host has emitted what is inside its loop at `position`: guests go on from here, partials end.

        What the host has just stored, in this very block, guests take from where it was computed.
        """
        if not self._of(work):
            return
        here = self.builder.scope
        converter = self.loops.converter
        converter.forward = {read: value for read, (value, scope) in self.loops.stored.items() if scope is here}
        for guest, last in self._of(work):
            running = self.running.get(guest.stage.name)
            if last == position:
                inner = self._work(guest, work, position + 1)
                if guest.first_reduction <= position:
                    assert running is not None
                    inner.mode, inner.accumulators = "fold", running.own
                    inner.origin_of = [0] * len(inner.copies) if not running.own.copied else inner.origin_of
                self.loops.level(inner, position + 1)
            if running is not None and running.partials and guest.first_reduction == position:
                assert running.low is not None
                value = work.copies[0].ranges[work.job.plan.loops[position].name].value
                assert value is not None
                chunk = ix.floordiv(ix.sub(value, running.low), running.span)
                self.reductions.keep(running.own, running.partials, chunk)
        converter.forward = {}

    def after(self, work: Work, position: int) -> None:
        """The host's loop at `position` has ended: so do reductions of guests over it."""
        for guest, last in self._of(work):
            if guest.first_reduction != position or position > last:
                continue
            running = self.running.pop(guest.stage.name)
            if running.partials:
                self.reductions.join(running.outer, running.total, running.partials)
            self.reductions.part(running.outer, position, "finish", running.total)


def outermost(job: Job, jobs: dict[str, Job]) -> Job:
    """The stage at root in whose loops a stage is computed."""
    while True:
        at = job.plan.compute_with or (job.plan.compute if isinstance(job.plan.compute, At) else None)
        if at is None or at.stage not in jobs:
            return job
        job = jobs[at.stage]
