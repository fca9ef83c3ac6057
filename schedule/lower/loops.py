"""The loops of a stage: from its plan and the box to compute, to statements.

`level` emits the loop at one position and goes on inside. A `Work` is what is being emitted: the job, its coordinates (several when
loops were unrolled: the copies stand side by side in the loops inside and share what they read), and which part of a reduction.
Order of things at a position: the two versions part (`versions`), a reduction begins, the loop itself, producers placed at it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from raido.algo import index as ix
from raido.algo.dtypes import bool_
from raido.algo.expr import Array, Expr, Node, Op, Result, Var, fresh
from raido.schedule.lower.builder import Builder, Scope, ix_parts
from raido.schedule.lower.convert import Converter, conjunction, is_affine
from raido.schedule.lower.coordinates import Coordinates
from raido.schedule.lower.emit import Emitter
from raido.schedule.lower.jobs import Job
from raido.schedule.lower.partition import Interior, interior_of, solved
from raido.schedule.lower.regions import Box
from raido.schedule.nest import Block, Buffer, If, Prefetch, Read, Store
from raido.schedule.normalise import loads_of
from raido.schedule.plan import LoopPlan

MOST_COPIES = 1024
NARROW = 16


@dataclass(slots=True)
class Accumulators:
    """The running values of a reduction: a buffer for each, and how an element's indices follow from its coordinates.

    `lengths`: how much of each dimension is in use (of the first copy, which others do not exceed).
    """

    buffers: tuple[Buffer, ...]
    axes: tuple[str, ...]
    origins: tuple[dict[str, Expr], ...]
    copied: bool
    lengths: tuple[Expr, ...] = ()


@dataclass(slots=True)
class Work:
    """Something to emit. `mode`: "compute", or the part of a reduction: "start", "fold", "finish"."""

    job: Job
    copies: list[Coordinates]
    mode: str = "compute"
    identity: frozenset[Node] = frozenset()
    versioned: bool = False
    accumulators: Accumulators | None = None
    origin_of: list[int] = field(default_factory=lambda: [0])


class Placer(Protocol):
    """What is computed inside a loop besides the stage itself."""

    def inside(self, work: Work, position: int) -> None:
        """Emits the producers placed at the loop at `position`."""

    def places(self, work: Work, position: int) -> bool:
        """Whether any producer is placed or kept there."""


class Guests(Protocol):
    """Stages that share the loops of the one being emitted: what they do before, in and after each of its loops."""

    def forwards(self, job: Job) -> bool: ...
    def before(self, work: Work, position: int) -> None: ...
    def enter(self, work: Work, position: int) -> None: ...
    def inside(self, work: Work, position: int) -> None: ...
    def after(self, work: Work, position: int) -> None: ...


class Loops:
    """Emits loops of stages into a builder."""

    def __init__(self, builder: Builder, converter: Converter, contract: bool) -> None:
        self.builder = builder
        self.converter = converter
        self.emitter = Emitter(builder, converter.faults, contract)
        self.names: dict[Node, str] = {}
        self.stored: dict[Node, tuple[Expr, Scope]] = {}
        self.placer: Placer
        self.sharing: Guests
        self.reduce: Callable[[Work, int], None]

    def nest(self, job: Job, box: Box) -> None:
        """The stage over a box (inclusive bounds of its pure axes)."""
        axes = [(a.name, low, ix.add(high, 1)) for a, (low, high) in zip(job.stage.axes, box, strict=True)]
        axes += [(a.name, ix.as_index(0), a.extent) for a in job.stage.reduction_axes]
        self.level(Work(job, [Coordinates(axes, job.plan.relations)]), 0)

    def level(self, work: Work, position: int) -> None:
        """Everything from the loop at `position` inwards."""
        job, loops = work.job, work.job.plan.loops
        if work.mode == "compute" and not work.versioned and position == min(job.version_at, len(loops)):
            self.versions(replace(work, versioned=True), position)
        elif work.mode == "compute" and job.reduction is not None and position == job.first_reduction:
            self.reduce(work, position)
        elif position == len(loops):
            self.leaf(work)
        elif work.mode in ("start", "finish") and loops[position].name in job.reduced:
            self.level(work, position + 1)
        else:
            self.sharing.before(work, position)
            self.loop(work, position)
            self.sharing.after(work, position)

    # One loop

    def loop(self, work: Work, position: int, kind: str | None = None) -> None:
        """The loop at `position`, and what is inside."""
        job, plan = work.job, work.job.plan.loops[position]
        kind = kind or self._kind(job, plan)
        bounds = [self._bounds(c, plan.name) for c in work.copies]
        lows, highs, step = [b[0] for b in bounds], [b[1] for b in bounds], bounds[0][2]
        trips = {ix.constant_value(ix.sub(h, lo)) for lo, h in zip(lows, highs, strict=True)}
        trip = None if len(trips) != 1 else trips.pop()
        count = None if trip is None else -(-trip // step)
        if count == 1 and kind != "parallel":
            self.choose(work, position, [[low] for low in lows])
        elif kind == "unroll" and count is not None and 0 < count * len(work.copies) <= MOST_COPIES:
            self.choose(work, position, [[ix.add(low, k * step) for k in range(count)] for low in lows])
        elif all(b == bounds[0] for b in bounds):
            self._segments(work, position, kind, *bounds[0])
        elif trip is not None:
            var = fresh(plan.name)
            with self._for(job, plan, var, ix.as_index(0), ix.as_index(trip), step, kind):
                self.choose(work, position, [[ix.add(low, var)] for low in lows])
        else:
            for k, coordinates in enumerate(work.copies):
                single = replace(work, copies=[coordinates], origin_of=[work.origin_of[k]])
                self.loop(single, position, kind)

    def _kind(self, job: Job, plan: LoopPlan) -> str:
        if plan.kind == "vector" and plan.name in job.reduced and job.reduction and not job.reduction.commutative:
            return "serial"
        return plan.kind

    def _bounds(self, coordinates: Coordinates, loop: str) -> tuple[Expr, Expr, int]:
        low, high, step = coordinates.bounds(loop)
        facts = self.builder.facts
        return decided(low, facts), decided(high, facts), step

    def _for(self, job: Job, plan: LoopPlan, var: Var, low: Expr, high: Expr, step: int, kind: str) -> Any:
        how: dict[str, Any] = {"kind": kind, "stage": job.stage.name, "loop": plan.name}
        if kind == "vector":
            how |= {"lanes": plan.lanes, "interleave": plan.interleave, "tail": plan.tail}
        elif kind == "parallel":
            how |= {"grain": plan.grain, "dynamic": plan.dynamic}
        return self.builder.loop(var, low, high, step, **how)

    def _plain(self, work: Work, position: int, kind: str, low: Expr, high: Expr, step: int) -> None:
        plan = work.job.plan.loops[position]
        if kind == "unroll":
            kind = "serial"
        var = fresh(plan.name)
        if work.job.blocked:
            rounds = ix.ceildiv(ix.sub(high, low), step)
            with self._for(work.job, plan, var, ix.as_index(0), rounds, 1, kind):
                self.choose(work, position, [[ix.add(low, ix.mul(var, step))]] * len(work.copies))
            return
        with self._for(work.job, plan, var, low, high, step, kind):
            self.choose(work, position, [[var]] * len(work.copies))

    def _segments(self, work: Work, position: int, kind: str, low: Expr, high: Expr, step: int) -> None:
        """The loop, cut where boundaries begin and end to vanish if the schedule partitions it."""
        cut = self._cut(work, position, low, high, step)
        if cut is None:
            self._plain(work, position, kind, low, high, step)
            return
        interior, first, last = cut
        facts = self.builder.facts
        start = decided(ix.minimum(ix.maximum(first, low), high), facts)
        stop = decided(ix.maximum(ix.minimum(ix.add(last, 1), high), start), facts)
        inner = replace(work, identity=work.identity | interior.identity)
        if low is not start:
            self._plain(work, position, self._border_kind(kind, low, start), low, start, step)
        self._plain(inner, position, kind, start, stop, step)
        if stop is not high:
            self._plain(work, position, self._border_kind(kind, stop, high), stop, high, step)

    def _border_kind(self, kind: str, low: Expr, high: Expr) -> str:
        return "serial" if kind in ("vector", "serial") else kind

    def _cut(self, work: Work, position: int, low: Expr, high: Expr, step: int) -> tuple[Interior, Expr, Expr] | None:
        job = work.job
        name = job.plan.loops[position].name
        if (
            position != job.cut
            or step != 1
            or (work.mode != "compute" and work.mode != "fold")
            or not job.plan.partition
        ):
            return None
        axes = job.axis_of[name]
        if len(axes) != 1:
            return None
        (axis,) = axes
        if any(axis in job.axis_of[loop.name] for loop in job.plan.loops[position + 1 :]):
            return None
        variable = job.variables[axis]
        if work.copies[0].box(axis)[0] is not low or variable not in job.partitioned():
            return None
        ranges = self.ranges(work)
        boundaries = [b for b in job.boundaries if variable in b.variables or b.node in work.identity]
        allowed = job.partitioned()
        facts = self.builder.facts
        interior = interior_of([b for b in boundaries if variable in b.variables], allowed, ranges, variable, facts)
        bounds = solved(interior)
        if bounds is None or (facts.less_equal(bounds[0], low) and facts.less(ix.sub(high, 1), ix.add(bounds[1], 1))):
            if bounds is not None:
                work.identity = work.identity | interior.identity
            return None
        return interior, bounds[0], bounds[1]

    def choose(self, work: Work, position: int, values: list[list[Expr]]) -> None:
        """The loop at `position` is at these values: for each copy, one or (unrolled) several."""
        job, plan = work.job, work.job.plan.loops[position]
        copies, origins = [], []
        for k, (coordinates, options) in enumerate(zip(work.copies, values, strict=True)):
            for value in options:
                chosen = coordinates.copy()
                chosen.choose(plan.name, value, self.bind)
                copies.append(chosen)
                origins.append(work.origin_of[k])
        jammed = len(copies) == 1 or not (self._places_inside(work, position) or self._ordered(job, position))
        groups = [range(len(copies))] if jammed else [[k] for k in range(len(copies))]
        for group in groups:
            part = replace(work, copies=[copies[k] for k in group], origin_of=[origins[k] for k in group])
            if len(groups) == 1:
                self._guarded(part, position)
            else:
                with self.builder.block() as scope:
                    self._guarded(part, position)
                self.builder.add(Block(tuple(scope.statements)))

    def _places_inside(self, work: Work, position: int) -> bool:
        return any(self.placer.places(work, p) for p in range(position, len(work.job.plan.loops)))

    def _ordered(self, job: Job, position: int) -> bool:
        """Whether the rounds must stay in order: a reduction that is not commutative, with more of its loops inside."""
        loops = job.plan.loops
        if job.reduction is None or job.reduction.commutative or loops[position].name not in job.reduced:
            return False
        return any(loop.name in job.reduced for loop in loops[position + 1 :])

    def _guarded(self, work: Work, position: int) -> None:
        guards = [g for c in work.copies for g in c.guards]
        if not guards:
            self.inside(work, position)
            return
        if len(work.copies) > 1:
            for k, coordinates in enumerate(work.copies):
                with self.builder.block() as scope:
                    self._guarded(replace(work, copies=[coordinates], origin_of=[work.origin_of[k]]), position)
                self.builder.add(Block(tuple(scope.statements)))
            return
        work.copies[0].guards.clear()
        holds = conjunction([Op("lt", bool_, g) for g in guards])
        with self.builder.when(holds, *(ix.sub(ix.sub(b, a), 1) for a, b in guards)):
            self.inside(work, position)

    def inside(self, work: Work, position: int) -> None:
        """Producers placed at the loop, then the loops further in."""
        if work.mode in ("compute", "fold"):
            self._prefetch(work, position)
            self.placer.inside(work, position)
        self.sharing.enter(work, position)
        self.level(work, position + 1)
        self.sharing.inside(work, position)

    def _prefetch(self, work: Work, position: int) -> None:
        """Hints for what the stage will read of an array some rounds later."""
        job, name = work.job, work.job.plan.loops[position].name
        for hint in job.plan.prefetches:
            if hint.loop != name or len(job.axis_of[name]) != 1:
                continue
            (axis,) = job.axis_of[name]
            low, _ = work.copies[0].box(axis)
            ahead = ix.add(low, hint.ahead * work.copies[0].ranges[name].step)
            values: dict[Node, Node] = {v: work.copies[0].box(n)[0] for n, v in job.variables.items()}
            values[job.variables[axis]] = ahead
            loads = [load for load in loads_of(*job.bodies) if self.names.get(array_key(load.array)) == hint.array]
            reads = self.converter.convert(loads, values, self.builder.facts, work.identity)
            for read in dict.fromkeys(reads):
                if all(is_affine(i) for i in read.indices):
                    self.builder.add(Prefetch(read.buffer, read.indices))

    def bind(self, name: str, value: Expr, low: Expr, high: Expr) -> Expr:
        """A name for a computed coordinate, which is known to lie in low … high."""
        if isinstance(value, Var) or ix.constant_value(value) is not None:
            return value
        var = self.builder.name(name, value)
        self.builder.scope.facts = self.builder.facts.with_range(var, low, high)
        return var

    # Versions

    def versions(self, work: Work, position: int) -> None:
        """The general body, and before it the one for full tiles inside the interior, where that makes a difference."""
        job, facts = work.job, self.builder.facts
        conditions = self._full_tile(work, position, facts)
        identity: set[Node] = set()
        allowed = job.partitioned()
        if allowed and len(work.copies) == 1:
            facts = facts.with_known(*conditions) if conditions else facts
            ranges = {v: (decided(a, facts), decided(b, facts)) for v, (a, b) in self.ranges(work).items()}
            cut = self._cut_variable(job)
            mine = [b for b in job.boundaries if b.node not in work.identity]
            inside = interior_of(mine, allowed - ({cut} if cut else set()), ranges, None, facts)
            if inside.identity:
                identity |= inside.identity
                conditions += [c for c in inside.conditions if c not in conditions]
            if cut is not None:
                along = interior_of([b for b in mine if cut in b.variables], allowed, ranges, None, facts)
                tile = along.identity and not any(facts.nonnegative(ix.sub(-1, c)) for c in along.conditions)
                if tile and self._is_tile(job):
                    identity |= along.identity
                    conditions += [c for c in along.conditions if c not in conditions]
        special = replace(work, identity=work.identity | identity)
        conditions = strongest(conditions)
        if not conditions:
            self.level(special, position)
            return
        only = conditions[0] if len(conditions) == 1 else None
        otherwise = None if only is None else self.builder.facts.with_known(ix.sub(-1, only))
        with self.builder.block(otherwise, branch=True) as general:
            self.level(replace(work, copies=[c.copy() for c in work.copies]), position)
        known = self.builder.facts.with_known(*conditions)
        with self.builder.block(known, branch=True) as specialised:
            for coordinates in special.copies:
                coordinates.simplify(lambda e: decided(e, known))
            self.level(special, position)
        holds = conjunction([_as_comparison(c) for c in conditions])
        self.builder.add(If(holds, Block(tuple(specialised.statements)), Block(tuple(general.statements))))

    def _is_tile(self, job: Job) -> bool:
        """Whether the loop that is cut is the inner one of a split."""
        return job.cut < 10**9 and job.plan.loops[job.cut].name not in job.variables

    def _cut_variable(self, job: Job) -> Var | None:
        if job.cut >= len(job.plan.loops):
            return None
        axes = job.axis_of[job.plan.loops[job.cut].name]
        return job.variables[next(iter(axes))] if len(axes) == 1 else None

    def _full_tile(self, work: Work, position: int, facts: ix.Facts) -> list[Expr]:
        """What must be at least 0 for loops further in that are unrolled, or hold accumulators, to be full."""
        job, conditions = work.job, []
        wanted = [
            loop.name
            for loop in job.plan.loops[position:]
            if loop.kind in (("vector", "unroll") if job.reduction else ("unroll",)) and loop.name not in job.variables
        ]
        axes = {axis for name in wanted for axis in job.axis_of[name]}
        if job.reduction is not None and axes:
            axes |= {axis.name for axis in job.stage.axes}
        for axis in sorted(axes):
            for coordinates in work.copies:
                r = coordinates.ranges[axis]
                if r.value is not None or not (isinstance(r.high, Op) and r.high.name == "minimum"):
                    continue
                short = [a for a in _members(r.high) if ix.constant_value(ix.sub(a, r.low)) is not None]
                for other in _members(r.high):
                    gap = ix.sub(other, short[0]) if short else None
                    if gap is None or other is short[0] or facts.nonnegative(gap) or gap in conditions:
                        continue
                    if facts.nonnegative(ix.sub(-1, gap)):
                        return []
                    conditions.append(gap)
        return conditions

    # The element

    def leaf(self, work: Work) -> None:
        """The statements of one element (of each copy)."""
        job = work.job
        if work.mode == "compute":
            self._store(work, job.bodies, [{} for _ in work.copies])
        else:
            self.element(work)

    element: Callable[[Work], None]

    def environment(self, work: Work, k: int) -> dict[Node, Node]:
        """What the stage's axis variables are in copy `k`."""
        coordinates = work.copies[k]
        values: dict[Node, Node] = {}
        for name, variable in work.job.variables.items():
            value = coordinates.ranges[name].value
            if value is not None:
                values[variable] = value
        return values

    def _store(self, work: Work, bodies: tuple[Expr, ...], extra: list[dict[Node, Node]]) -> None:
        job = work.job
        roots: list[Expr] = []
        targets: list[tuple[Buffer, tuple[Expr, ...]]] = []
        outputs = [
            (k, storage)
            for k in range(len(bodies))
            if (storage := self.converter.storages.get(Result(job.form, k))) is not None
        ]
        for k in range(len(work.copies)):
            values = self.environment(work, k)
            indices = tuple(values[axis.var] for axis in job.stage.axes)
            chosen = [bodies[j] for j, _ in outputs]
            roots += self.converter.convert(chosen, {**values, **extra[k]}, self.builder.facts, work.identity)
            facts = self.builder.facts
            targets += [(storage.buffer, storage.place(indices, facts)) for _, storage in outputs]  # type: ignore[arg-type]
        results = self.emitter.values(roots)
        kept = self.sharing.forwards(job)
        for (buffer, place), value in zip(targets, results, strict=True):
            if kept:
                value = self.builder.name(job.stage.name.rsplit("/", 1)[-1], value)
                self.stored[Read(buffer, place, None)] = (value, self.builder.scope)
            self.builder.add(Store(buffer, place, value, None, job.plan.stream_stores))

    def finish(self, work: Work, extra: list[dict[Node, Node]]) -> None:
        """Stores the stage's results with some nodes (the reduction's results) replaced."""
        self._store(work, work.job.bodies, extra)

    def ranges(self, work: Work) -> dict[Var, tuple[Expr, Expr]]:
        """Inclusive bounds of every axis of the stage, over all copies."""
        found: dict[Var, tuple[Expr, Expr]] = {}
        for name, variable in work.job.variables.items():
            boxes = [c.box(name) for c in work.copies]
            low, high = boxes[0]
            for other_low, other_high in boxes[1:]:
                low, high = ix.minimum(low, other_low), ix.maximum(high, other_high)
            found[variable] = (low, high)
        return found


def array_key(array: Array) -> Node:
    """What an array is known by: its form, or itself where it is an input."""
    return array.form if isinstance(array, Result) else array


def decided(e: Expr, facts: ix.Facts) -> Expr:
    """`e` without the minima and maxima that the facts decide."""
    if isinstance(e, Op) and any(isinstance(n, Op) and n.name in ("minimum", "maximum") for n in ix_parts(e)):
        return facts.simplify(e)
    return e


def strongest(conditions: list[Expr]) -> list[Expr]:
    """Without those that follow from another, a constant away."""
    kept: dict[tuple[tuple[Expr, int], ...], tuple[int, Expr]] = {}
    for e in conditions:
        constant, terms = ix.linear(e)
        key = tuple(terms.items())
        if key not in kept or constant < kept[key][0]:
            kept[key] = (constant, e)
    return [e for _, e in kept.values()]


def _members(e: Expr) -> list[Expr]:
    """The arguments of nested minima."""
    if isinstance(e, Op) and e.name == "minimum":
        return [m for a in e.args for m in _members(a)]
    return [e]


def _as_comparison(e: Expr) -> Expr:
    """e >= 0, with the negative part on the other side."""
    constant, terms = ix.linear(e)
    left: Expr = ix.as_index(max(0, -constant))
    right: Expr = ix.as_index(max(0, constant))
    for atom, c in terms.items():
        if c < 0:
            left = ix.add(left, ix.mul(atom, -c))
        else:
            right = ix.add(right, ix.mul(atom, c))
    return Op("le", bool_, (left, right))
