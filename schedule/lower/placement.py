"""Producers inside loops: what part of each is needed there, where it is kept, and what of it is new.

At the loop where producers are computed, the boxes of all stages inside that loop are found from their readers, consumers first. A
producer kept further out than it is computed slides: along the one dimension that moves with the loop, each round computes only
what lies beyond what earlier rounds computed, in a buffer folded to a power of two.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from raido.algo import index as ix
from raido.algo.dtypes import i64
from raido.algo.expr import Expr, Op, Result, Var
from raido.schedule.lower.builder import Builder, Scope, new_serial
from raido.schedule.lower.convert import Storage
from raido.schedule.lower.jobs import Job, laid_out_shape, parts_of_layout
from raido.schedule.lower.loops import Loops
from raido.schedule.lower.regions import Box, extent_bound, hull, region_read
from raido.schedule.lower.work import Work, ranges_of
from raido.schedule.nest.nodes import Alloc, Buffer, Read, Store
from raido.schedule.plan import At
from raido.schedule.stages.normalise import scalar_nodes

STACK_BYTES = 32 << 10
Ranges = Mapping[Var, tuple[Expr, Expr]]


@dataclass(slots=True)
class Window:
    """Memory that outlives the loop its contents are computed in.

    `reached`: how far the slid dimension is done, a register for each scope in which the window starts anew.
    """

    scope: Scope
    storage: Storage
    slides: bool
    buffers: dict[int, Buffer] = field(default_factory=dict)
    reached: dict[int, tuple[Scope, Buffer]] = field(default_factory=dict)


class Placement:
    """Computes producers at the loops where the plans put them."""

    def __init__(self, loops: Loops, jobs: dict[str, Job]) -> None:
        self.loops, self.jobs = loops, jobs
        self.builder: Builder = loops.builder
        self.computed: dict[tuple[str, str], list[Job]] = {}
        self.kept: dict[tuple[str, str], list[Job]] = {}
        self.levels: dict[str, int] = {}
        self.windows: dict[tuple[str, int], Window] = {}
        for job in jobs.values():
            if isinstance(job.plan.compute, At) and job.plan.compute_with is None:
                self.computed.setdefault((job.plan.compute.stage, job.plan.compute.loop), []).append(job)
            if isinstance(job.plan.store, At):
                self.kept.setdefault((job.plan.store.stage, job.plan.store.loop), []).append(job)
        loops.placer = self

    def places(self, work: Work, position: int) -> bool:
        """Whether any producer is computed or kept at the loop."""
        key = (work.job.stage.name, work.job.plan.loops[position].name)
        return key in self.computed or key in self.kept

    def inside(self, work: Work, position: int) -> None:
        """Emits the producers computed at the loop at `position`."""
        key = (work.job.stage.name, work.job.plan.loops[position].name)
        for job in self.kept.get(key, ()):
            self.levels[job.stage.name] = self.builder.scope.level
        here = self.computed.get(key)
        if not here:
            return
        whole = self._boxes(work, position, here)
        for job in sorted(here, key=lambda j: j.position):
            name = job.stage.name
            if job.plan.store is not None and self._slides(job, work, position, whole[name]):
                continue
            self.loops.nest(job, self._keep(job, whole[name]))

    # Regions

    def _members(self, work: Work, position: int) -> list[Job]:
        """Every stage computed inside the loop, consumers first."""
        found: dict[str, Job] = {}
        pending = [(work.job.stage.name, loop.name) for loop in work.job.plan.loops[position:]]
        while pending:
            for job in self.computed.get(pending.pop(), ()):
                if job.stage.name not in found:
                    found[job.stage.name] = job
                    pending += [(job.stage.name, loop.name) for loop in job.plan.loops]
        return sorted(found.values(), key=lambda j: -j.position)

    def _boxes(self, work: Work, position: int, here: list[Job]) -> dict[str, Box]:
        """The box of each stage inside the loop: all that is read of it there."""
        facts = self.builder.facts
        members = self._members(work, position)
        ranges: dict[str, Ranges] = {work.job.stage.name: ranges_of(work)}
        readers = [work.job]
        boxes: dict[str, Box] = {}
        for job in members:
            shape = [axis.extent for axis in job.stage.axes]
            regions = []
            for reader in readers:
                if job.form in reader.reads.loads:
                    regions += region_read(reader.reads, job.form, shape, ranges[reader.stage.name], facts)
            box = hull(regions, shape, facts)
            boxes[job.stage.name] = box
            own: dict[Var, tuple[Expr, Expr]] = {a.var: b for a, b in zip(job.stage.axes, box, strict=True)}
            own |= {a.var: (ix.as_index(0), ix.sub(a.extent, 1)) for a in job.stage.reduction_axes}
            ranges[job.stage.name] = own
            readers.append(job)
        return boxes

    # Memory

    def _keep(self, job: Job, box: Box) -> Box:
        """Memory for the box, here; the stage's loads go there from now on. Returns the box with its bounds named."""
        builder, label = self.builder, job.stage.name.rsplit("/", 1)[-1]
        shape = tuple(
            extent_bound(low, high, axis.extent, builder.meaning)
            for axis, (low, high) in zip(job.stage.axes, box, strict=True)
        )
        box = tuple(
            (builder.name_bound(f"{label}_{axis.name}", low), high)
            for axis, (low, high) in zip(job.stage.axes, box, strict=True)
        )
        origin = tuple(
            None if ix.constant_value(low) == 0 or extent is axis.extent else low
            for axis, (low, _), extent in zip(job.stage.axes, box, shape, strict=True)
        )
        kept = laid_out_shape(job, shape)
        for k, body in enumerate(job.bodies):
            scope = job.plan.scope or self._scope(kept, body.dtype.itemsize)
            buffer = self.builder.alloc(label, body.dtype, kept, scope, padded(job, kept))
            storage = Storage(buffer, origin, (), parts_of_layout(job))
            self.loops.converter.storages[Result(job.form, k)] = storage  # type: ignore[index]
        return box

    def _variables(self) -> set[Var]:
        return {v for v in self.builder.level_of if isinstance(v, Var)}

    def _scope(self, shape: tuple[Expr, ...], itemsize: int) -> str:
        total = itemsize
        for e in shape:
            value = ix.constant_value(e)
            if value is None:
                return "heap"
            total *= value
        if total == itemsize:
            return "register"
        return "stack" if total <= STACK_BYTES else "heap"

    # Sliding

    def _slides(self, job: Job, work: Work, position: int, box: Box) -> bool:
        """Keeps the stage at its outer place; computes what is new. False where that is not possible here."""
        builder, name = self.builder, job.stage.name
        if not self._all_loops(job, work, position):
            return False
        level = (
            self.levels.get(name, self.loops.emitter.floor)
            if isinstance(job.plan.store, At)
            else self.loops.emitter.floor
        )
        loops = [s for s in builder.scopes[level + 1 :] if s.var is not None]
        between = {v for v in self._variables() if builder.level_of.get(v, 0) > level}
        moving = [d for d, bounds in enumerate(box) if any(_mentions(e, between) for e in bounds)]
        steady = self._steady(loops)
        slid = [d for d in moving if steady and all(grows_with(e, steady[0], between) for e in box[d])]
        reset = max([level, *(s.level for s in loops if s.var not in steady)])
        settled = {v for v in between if builder.level_of[v] > reset}
        if any(_mentions(e, settled) for d in moving if d not in slid for e in box[d]):
            slid = []
        scope = builder.scopes[level]
        window = self.windows.get((name, id(scope)))
        if window is None:
            window = Window(scope, *self._window(job, box, level, moving, slid))
            self.windows[name, id(scope)] = window
        storage = window.storage
        for k in range(len(job.bodies)):
            kept = Storage(self._output(job, k, window), storage.origin, storage.fold)
            self.loops.converter.storages[Result(job.form, k)] = kept  # type: ignore[index]
            builder.level_of[kept.buffer] = builder.scope.level
        if not window.slides or len(slid) != 1:
            self.loops.nest(job, box)
            return True
        (d,) = slid
        reached = self._reached(job, window, reset)
        low, high = box[d]
        before = builder.name(f"{job.stage.axes[d].name}_done", Read(reached, (), None))
        start = builder.name(f"{job.stage.axes[d].name}_new", ix.maximum(low, before))
        builder.scope.facts = builder.facts.with_range(start, low, ix.add(high, 1))
        new = tuple((start, high) if k == d else bounds for k, bounds in enumerate(box))
        self.loops.nest(job, new)
        builder.add(Store(reached, (), ix.maximum(before, ix.add(high, 1))))
        return True

    def _steady(self, loops: list[Scope]) -> list[Var]:
        """The innermost loop's variable, and those outside it that it continues: its own range starts where theirs stands."""
        found: list[Var] = []
        ranges = self.builder.facts.ranges
        variables = [s.var for s in loops]
        var = variables[-1] if variables else None
        while var is not None and var in variables:
            found.append(var)
            low = ranges[var][0]
            var = low if isinstance(low, Var) else None
        return found

    def _window(self, job: Job, box: Box, level: int, moving: list[int], slid: list[int]) -> tuple[Storage, bool]:
        """The layout of the memory kept at `level`, folded along the one slid dimension, and whether there is one."""
        builder = self.builder
        inside = {v for v in self._variables() if builder.level_of[v] > level}
        slides = len(slid) == 1
        shape, origin, fold = [], [], []
        for d, (axis, (low, high)) in enumerate(zip(job.stage.axes, box, strict=True)):
            extent = extent_bound(low, high, axis.extent, builder.meaning)
            value = ix.constant_value(extent)
            if d in moving and slides and d in slid and value is not None and ix.constant_value(axis.extent) is None:
                size = 1 << max(0, value - 1).bit_length()
                shape.append(ix.as_index(size))
                origin.append(None)
                fold.append(size)
            elif d in moving or any(_mentions(e, inside) for e in (low, high)):
                shape.append(axis.extent)
                origin.append(None)
                fold.append(0)
            else:
                shape.append(extent)
                origin.append(None if extent is axis.extent else low)
                fold.append(0)
        storage = Storage(_unplaced(job, tuple(shape)), tuple(origin), tuple(fold))
        return storage, slides

    def _reached(self, job: Job, window: Window, reset: int) -> Buffer:
        """The register that says how far the slid dimension has been computed since the window last started anew."""
        scope = self.builder.scopes[reset]
        if id(scope) not in window.reached:
            register = Buffer(f"{job.stage.name}_reached", i64, (), "register", new_serial(), (), 1, None)
            self.builder.level_of[register] = reset
            scope.statements += [Alloc(register), Store(register, (), ix.as_index(0))]
            window.reached[id(scope)] = (scope, register)
        return window.reached[id(scope)][1]

    def _all_loops(self, job: Job, work: Work, position: int) -> bool:
        """Whether the loops between memory and computation are loops in the nest: of unrolled rounds each computes its own part."""
        store = job.plan.store
        loops = [loop.name for loop in work.job.plan.loops[: position + 1]]
        if isinstance(store, At) and store.stage == work.job.stage.name and store.loop in loops:
            loops = loops[loops.index(store.loop) + 1 :]
        values = [c.ranges[name].value for name in loops for c in work.copies]
        return len(work.copies) == 1 and all(isinstance(v, Var) for v in values)

    def _output(self, job: Job, k: int, window: Window) -> Buffer:
        """The buffer of result `k`, allocated where the window is kept."""
        if k not in window.buffers:
            shape, dtype = window.storage.buffer.shape, job.bodies[k].dtype
            label = job.stage.name.rsplit("/", 1)[-1]
            buffer = Buffer(label, dtype, shape, self._scope(shape, dtype.itemsize), new_serial(), (), 1, None)
            window.scope.statements.append(Alloc(buffer))
            window.buffers[k] = buffer
        return window.buffers[k]


def _unplaced(job: Job, shape: tuple[Expr, ...]) -> Buffer:
    return Buffer("", job.bodies[0].dtype, shape, "heap", 0, (), 1, None)


def _mentions(e: Expr, variables: set[Var]) -> bool:
    return any(n in variables for n in scalar_nodes(e))


def padded(job: Job, shape: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """Strides of a buffer whose rows are longer than their contents (`store(pad=…)`); () for dense ones."""
    if not job.plan.pad or len(shape) < 2:
        return ()
    strides: list[Expr] = [ix.as_index(1)]
    row = ix.add(shape[-1], job.plan.pad)
    for extent in (row, *reversed(shape[1:-1])):
        strides.append(ix.mul(strides[-1], extent))
    return tuple(reversed(strides))


def grows_with(e: Expr, var: Var, moving: set[Var]) -> bool:
    """Whether a bound is made of `var` so that it never decreases as `var` grows, and of nothing else that moves."""
    for atom, c in ix.linear(e)[1].items():
        if atom is var or not _mentions(atom, moving):
            if atom is var and c < 0:
                return False
        elif c < 0 or not isinstance(atom, Op):
            return False
        elif atom.name in ("minimum", "maximum"):
            if not all(grows_with(a, var, moving) for a in atom.args):
                return False
        elif (
            atom.name != "floordiv" or not ix.constant_value(atom.args[1]) or not grows_with(atom.args[0], var, moving)
        ):
            return False
    return True
