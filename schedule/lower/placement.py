"""Producers inside loops: the region of each that is needed there, and its memory.

At the loop where producers are computed, the boxes of all stages inside that loop follow from their readers, consumers first (Halide's
bounds inference). A stage and the stages fused into its loops are computed for the same indices along the axes that they share: the
bounding box of all reads of any of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import prod
from typing import TYPE_CHECKING, TypeAlias

from raido.algo.errors import CompileError, ScheduleError, explain
from raido.algo.graph import index as ix
from raido.algo.graph.expr import Array, Expr, Node, Result, Var
from raido.algo.graph.facts import Facts
from raido.algo.graph.rewrite import loads_in
from raido.schedule.checks.branches import takes_copy
from raido.schedule.lower.builder import Builder
from raido.schedule.lower.convert import Storage
from raido.schedule.lower.jobs import Job, laid_out_shape, parts_of_layout
from raido.schedule.lower.regions import Box, Reads, extent_bound, hull, region_read
from raido.schedule.lower.sharing import Guest
from raido.schedule.lower.sliding import Sliding, kept_scope
from raido.schedule.lower.work import Work, ranges_of
from raido.schedule.plan import At
from raido.schedule.refusal import place
from raido.schedule.stages.stage import initial_values

if TYPE_CHECKING:
    from raido.schedule.lower.loops import Loops

MOST_STACK = 256 << 10  # bytes of one buffer
Ranges = Mapping[Var, tuple[Expr, Expr]]
Reader: TypeAlias = tuple[Reads, Ranges]
"""The loads of a consumer, with the ranges of the variables in their indices."""


class Placement:
    """Emits producers at the loops where the plans place them."""

    def __init__(self, loops: Loops, jobs: dict[str, Job], guests: dict[str, list[Guest]]) -> None:
        self.loops, self.jobs = loops, jobs
        self.builder: Builder = loops.builder
        self.guests = guests
        self.computed: dict[tuple[str, str], list[Job]] = {}
        self.kept: dict[tuple[str, str], list[Job]] = {}
        self.sliding = Sliding(loops, self.guests, self._compute)
        for job in jobs.values():
            if isinstance(job.plan.compute, At) and job.plan.compute_with is None:
                self.computed.setdefault((job.plan.compute.stage, job.plan.compute.loop), []).append(job)
            if isinstance(job.plan.store, At):
                self.kept.setdefault((job.plan.store.stage, job.plan.store.loop), []).append(job)

    def places(self, job: Job, position: int) -> bool:
        """Whether any producer is computed or stored at the loop."""
        key = (job.stage.name, job.plan.loops[position].name)
        return bool(self._computed(job, position)) or key in self.kept

    def _computed(self, job: Job, position: int) -> list[Job]:
        """The producers computed at the loop, without cached copies of arrays that a branch on sizes reads directly."""
        found = self.computed.get((job.stage.name, job.plan.loops[position].name), [])
        own = self.jobs[job.stage.name].plan if job.stage.name in self.jobs else job.plan
        return [each for each in found if takes_copy(each.plan, own, job.plan)] if own.instead else found

    def keeps(self, job: Job, position: int) -> bool:
        """Whether a producer is stored at the loop, or computed at it and stored further out."""
        key = (job.stage.name, job.plan.loops[position].name)
        return key in self.kept or any(each.plan.store is not None for each in self.computed.get(key, ()))

    def begin_pass(self) -> None:
        """Restarts sliding windows along a stage's loops, for a second pass over them."""
        self.sliding.start_anew()

    def inside(self, work: Work, position: int) -> None:
        """Emits the producers computed at the loop at `position`."""
        key = (work.job.stage.name, work.job.plan.loops[position].name)
        for job in self.kept.get(key, ()):
            self.sliding.levels[job.stage.name] = self.builder.scope.level
        here = self._computed(work.job, position)
        if here and work.phase is self.loops.updates.setting:
            here = self._for_start(work, here)
        if not here:
            return
        whole = self.boxes(work, position)
        for job in self._sorted(here):
            group = [job, *(guest.job for guest in self.guests.get(job.stage.name, ()))]
            boxes = {each.stage.name: whole[each.stage.name] for each in group}
            if job.plan.store is not None and self.sliding.slides(group, boxes):
                continue
            kept = {each.stage.name: self._keep(each, boxes[each.stage.name]) for each in group}
            self._compute(group, kept)

    def _for_start(self, work: Work, jobs: list[Job]) -> list[Job]:
        """The stages among `jobs` on which an update's initial values depend; producers of its iterations are computed later."""
        assert work.job.reduction is not None
        needed: set[Node] = {
            load.array.form for load in loads_in(*initial_values(work.job.reduction)) if isinstance(load.array, Result)
        }
        for job in sorted(self.jobs.values(), key=lambda j: -j.position):
            if job.form in needed:
                needed |= set(job.reads.loads)
        return [job for job in jobs if job.form in needed]

    def _compute(self, group: list[Job], boxes: dict[str, Box]) -> None:
        """Emits a stage over its box, with the stages fused into its loops."""
        self.loops.sharing.boxes |= {guest.stage.name: boxes[guest.stage.name] for guest in group[1:]}
        self.loops.nest(group[0], boxes[group[0].stage.name])

    @contextmanager
    def made_for(self, read: Expr, values: Mapping[Var, Expr], stages: Sequence[Job]) -> Iterator[None]:
        """Emits, here, the stages that an expression reads when its variables have these values, wherever else they are computed.

        Each is emitted by itself, without fused stages, into memory that is dead after the `with` block.
        """
        reader: Reader = Reads((read,)), {var: (value, value) for var, value in values.items()}
        made_by = {job.form: job for job in stages}
        tops: dict[str, Job] = {}
        nested: dict[str, Job] = {}
        storages: dict[Array, Storage] = self.loops.converter.storages  # type: ignore[assignment]
        guests, before = dict(self.guests), dict(storages)
        in_place = [job for job in stages if job.in_place]
        self.guests.clear()
        for job in in_place:
            job.in_place = False
        pending = [reader[0]]
        while pending:
            for form in pending.pop().loads:
                job = made_by.get(form)
                if job is not None and job.stage.name not in tops:
                    tops[job.stage.name] = job
                    inner = self._nested(job)
                    nested |= {each.stage.name: each for each in inner}
                    pending += [each.reads for each in (job, *inner)]
        boxes = self._boxes_of([*({**tops, **nested}).values()], [reader])
        for job in sorted(tops.values(), key=lambda j: j.position):
            if job.stage.name not in nested:
                self.loops.nest(job, self._keep(job, boxes[job.stage.name]))
        yield
        self.guests.update(guests)
        storages.clear()
        storages.update(before)
        for job in in_place:
            job.in_place = True

    # Regions

    def _nested(self, job: Job, position: int = 0) -> list[Job]:
        """Every stage computed inside the loops of a stage from `position` on, fused stages and those inside them included."""
        found: dict[str, Job] = {}
        pending = [(job, position)]
        while pending:
            each, first = pending.pop()
            inside = [p for at in range(first, len(each.plan.loops)) for p in self._computed(each, at)]
            inside += [guest.job for guest in self.guests.get(each.stage.name, ()) if guest.last >= first]
            for other in inside:
                if other.stage.name not in found:
                    found[other.stage.name] = other
                    pending.append((other, 0))
        return list(found.values())

    def _sorted(self, jobs: list[Job]) -> list[Job]:
        """Stages computed at one loop, each after those whose results are read in its loops; CompileError where they depend on each
        other."""
        jobs = sorted(jobs, key=lambda j: j.position)
        if not self.guests:
            return jobs
        nests = {job.stage.name: [job, *self._nested(job)] for job in jobs}
        makes: dict[Node, str] = {each.form: name for name, nest in nests.items() for each in nest}
        needs = {
            name: {makes[form] for each in nest for form in each.reads.loads if form in makes} - {name}
            for name, nest in nests.items()
        }
        done: list[Job] = []
        while jobs:
            names = {job.stage.name for job in jobs}
            ready = next((job for job in jobs if not needs[job.stage.name] & names), None)
            if ready is None:
                raise CompileError("stages that share loops need each other's whole results")
            jobs.remove(ready)
            done.append(ready)
        return done

    def _units(self, members: list[Job]) -> list[list[Job]]:
        """The stages computed inside a loop, readers first; a leader and the stages fused with it are one group, the leader last."""
        names = {job.stage.name for job in members}
        hosts = [job for job in members if job.plan.compute_with is None or job.plan.compute_with.stage not in names]
        units = []
        for host in hosts:
            guests = (
                [guest.job for guest in self.guests.get(host.stage.name, ())]
                if isinstance(host.plan.compute, At)
                else []
            )
            units.append([*sorted(guests, key=lambda j: -j.position), host])
        units.sort(key=lambda unit: -max(job.position for job in unit))
        done: list[list[Job]] = []
        while units:
            readers = {id(unit): {form for job in unit for form in job.reads.loads} for unit in units}
            ready = next(
                unit
                for unit in units
                if not any(job.form in readers[id(other)] for job in unit for other in units if other is not unit)
            )
            units.remove(ready)
            done.append(ready)
        return done

    def boxes(self, work: Work, position: int) -> dict[str, Box]:
        """The box of each stage computed inside the loop: the bounding box of all that is read of it there."""
        around = [work, *self.loops.sharing.running_inside(work, position)]
        present = {each.job.stage.name for each in around}
        members = [job for job in self._nested(work.job, position) if job.stage.name not in present]
        return self._boxes_of(members, [(each.job.reads, ranges_of(each)) for each in around])

    def _boxes_of(self, members: list[Job], readers: list[Reader]) -> dict[str, Box]:
        """The box of each of these stages: the bounding box of all that the readers and one another read of it."""
        facts = self.builder.facts
        boxes: dict[str, Box] = {}
        for unit in self._units(members):
            common = self._common(unit, readers) if len(unit) > 1 else {}
            for job in unit:
                shape = [axis.extent for axis in job.stage.axes]
                box = list(hull(_regions(job, readers, facts), shape, facts))
                for d, bounds in common.get(job.stage.name, {}).items():
                    box[d] = bounds
                for d, axis in enumerate(job.stage.axes):
                    if axis in job.stage.whole_axes:
                        box[d] = (ix.as_index(0), ix.sub(axis.extent, 1))
                boxes[job.stage.name] = tuple(box)
                box = list(aligned(job, box))
                own: dict[Var, tuple[Expr, Expr]] = {a.var: b for a, b in zip(job.stage.axes, box, strict=True)}
                own |= {a.var: (ix.as_index(0), ix.sub(a.extent, 1)) for a in job.stage.reduction_axes}
                readers = [*readers, (job.reads, own)]
        return boxes

    def _common(self, unit: list[Job], readers: list[Reader]) -> dict[str, dict[int, tuple[Expr, Expr]]]:
        """For each stage of a fused group and each dimension along a shared axis, the inclusive bounds that all of them compute: the
        bounding box of the reads of any. The whole axis if the leader folds over it or goes through it as a whole."""
        host, facts = unit[-1], self.builder.facts
        matched = {guest.job.stage.name: guest.matched for guest in self.guests[host.stage.name]}
        shared = {name for theirs in matched.values() for name in theirs.values()}
        matched[host.stage.name] = {name: name for name in shared}
        bounds: dict[str, list[list[tuple[Expr, Expr] | None]]] = {name: [] for name in shared}
        for job in unit:
            for region in _regions(job, readers, facts):
                for axis, reach in zip(job.stage.axes, region, strict=True):
                    if axis.name in matched[job.stage.name]:
                        bounds[matched[job.stage.name][axis.name]].append([reach])
        found: dict[str, tuple[Expr, Expr]] = {}
        for axis in host.stage.all_axes:
            if axis not in host.stage.axes or axis in host.stage.whole_axes:
                found[axis.name] = (ix.as_index(0), ix.sub(axis.extent, 1))
            elif bounds.get(axis.name):
                (found[axis.name],) = hull(bounds[axis.name], (axis.extent,), facts)
        return {
            job.stage.name: {
                d: found[matched[job.stage.name][axis.name]]
                for d, axis in enumerate(job.stage.axes)
                if matched[job.stage.name].get(axis.name) in found
            }
            for job in unit
        }

    # Memory

    def _keep(self, job: Job, box: Box) -> Box:
        """Allocates memory for the box here, which the stage's loads read from now on; returns the box with its bounds named."""
        builder, label = self.builder, job.stage.name.rsplit("/", 1)[-1]
        multiples = dict(job.plan.aligned)
        shape = tuple(
            extent_bound(
                ix.sub(low, multiples.get(axis.name, 1) - 1), high, axis.extent, builder.facts, builder.meaning
            )
            for axis, (low, high) in zip(job.stage.axes, box, strict=True)
        )
        name = builder.name_bound
        box = aligned(job, box, lambda axis, low: name(f"{label}_{axis}", low))
        origin = tuple(
            None if ix.constant_value(low) == 0 or extent is axis.extent else low
            for axis, (low, _), extent in zip(job.stage.axes, box, shape, strict=True)
        )
        kept = laid_out_shape(job, shape)
        for k, body in enumerate(job.bodies):
            scope = asked_scope(job, kept, body.dtype.itemsize, builder) or kept_scope(kept, body.dtype.itemsize)
            with builder.at(self.loops.converter.sites, job.stage.site):
                buffer = builder.alloc(label, body.dtype, kept, scope, padded(job, kept), job.plan.buffers)
            storage = Storage(buffer, origin, (), parts_of_layout(job))
            self.loops.converter.storages[Result(job.form, k)] = storage  # type: ignore[index]
        return box


def aligned(
    job: Job, box: Iterable[tuple[Expr, Expr]], name: Callable[[str, Expr], Expr] = lambda axis, low: low
) -> Box:
    """The box with low bounds rounded down to the multiples that `align` asks for; `name` names a low bound, or
    of a multiple its quotient."""
    found = []
    for axis, (low, high) in zip(job.stage.axes, box, strict=True):
        each = dict(job.plan.aligned).get(axis.name, 1)
        start = name(axis.name, low if each == 1 else ix.floordiv(low, each))
        found.append((ix.mul(start, each), high))
    return tuple(found)


def _regions(job: Job, readers: list[Reader], facts: Facts) -> list[list[tuple[Expr, Expr] | None]]:
    """The regions of a stage that the readers reach, one for each load."""
    shape = [axis.extent for axis in job.stage.axes]
    regions = []
    for reads, ranges in readers:
        if job.form in reads.loads:
            regions += region_read(reads, job.form, shape, ranges, facts)
    return regions


def asked_scope(job: Job, shape: tuple[Expr, ...], itemsize: int, builder: Builder) -> str:
    """The memory scope of a stage's storage if the schedule names one ("local" becomes "stack"), else "" or None; raises ScheduleError if
    the scope cannot hold the shape, or no enclosing loop is bound to a block or thread."""
    scope = job.plan.scope
    if scope not in ("stack", "register", "shared", "local"):
        return scope
    counts = [ix.constant_value(extent) for extent in shape]
    held = f"[{', '.join(ix.text(extent) for extent in shape)}]"
    why = f"an iteration needs {held} of the stage, which has no constant size" if None in counts else ""
    if not why and scope != "shared" and prod(count or 0 for count in counts) * itemsize > MOST_STACK:
        why = f"an iteration needs {held} of the stage, more than {MOST_STACK >> 10} KiB"
    remedy = 'tile in all axes the loop at which the stage is computed, or scope="heap"'
    level = {"shared": "block", "local": "thread"}.get(scope)
    if level is not None and not builder.inside(level):
        why = f"no loop around the stage is bound to {level}s"
        remedy = f'compute the stage inside a loop that is bound to "{level}.x", or scope="heap"'
    if why:
        headline = f'cannot keep stage "{job.stage.name}" in scope "{scope}"'
        site = place(job.stage.site) + "   " + job.stage.site.text if job.stage.site else None
        raise ScheduleError(explain(headline, algorithm=site, why=why, **{"try": remedy}))
    return "stack" if scope == "local" else scope


def padded(job: Job, shape: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """The strides of a buffer whose rows are longer than their contents (`store(pad=…)`); () for dense ones."""
    if not job.plan.pad or len(shape) < 2:
        return ()
    strides: list[Expr] = [ix.as_index(1)]
    row = ix.add(shape[-1], job.plan.pad)
    for extent in (row, *reversed(shape[1:-1])):
        strides.append(ix.mul(strides[-1], extent))
    return tuple(reversed(strides))
