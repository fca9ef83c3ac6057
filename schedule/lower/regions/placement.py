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
from raido.algo.graph.assumptions import Assumptions
from raido.algo.graph.expr import Array, Expr, Node, Result, Var
from raido.algo.graph.rewrite import loads_in
from raido.schedule.checks.branches import takes_copy
from raido.schedule.lower.builder import Builder
from raido.schedule.lower.expressions.convert import Storage
from raido.schedule.lower.loop_cursor import LoopCursor, ranges_of
from raido.schedule.lower.lowered_stage import LoweredStage, laid_out_shape, parts_of_layout
from raido.schedule.lower.regions.regions import Box, Reads, bounding_box, extent_bound, region_read
from raido.schedule.lower.regions.sharing import FusedStage
from raido.schedule.lower.regions.sliding import Sliding, kept_scope
from raido.schedule.plan import At
from raido.schedule.refusal import location
from raido.schedule.stages.stage import initial_values

if TYPE_CHECKING:
    from raido.schedule.lower.loops.loops import Loops

MOST_STACK = 256 << 10  # bytes of one buffer
Ranges = Mapping[Var, tuple[Expr, Expr]]
Reader: TypeAlias = tuple[Reads, Ranges]
"""The loads of a consumer, with the ranges of the variables in their indices."""


class Placement:
    """Emits producers at the loops where the plans place them."""

    def __init__(
        self, loops: Loops, lowered_stages: dict[str, LoweredStage], fused_stages: dict[str, list[FusedStage]]
    ) -> None:
        self.loops, self.lowered_stages = loops, lowered_stages
        self.builder: Builder = loops.builder
        self.fused_stages = fused_stages
        self.computed: dict[tuple[str, str], list[LoweredStage]] = {}
        self.kept: dict[tuple[str, str], list[LoweredStage]] = {}
        self.sliding = Sliding(loops, self.fused_stages, self._compute)
        for lowered in lowered_stages.values():
            if isinstance(lowered.plan.compute, At) and lowered.plan.compute_with is None:
                self.computed.setdefault((lowered.plan.compute.stage, lowered.plan.compute.loop), []).append(lowered)
            if isinstance(lowered.plan.store, At):
                self.kept.setdefault((lowered.plan.store.stage, lowered.plan.store.loop), []).append(lowered)

    def places(self, lowered: LoweredStage, position: int) -> bool:
        """Whether any producer is computed or stored at the loop."""
        key = (lowered.stage.name, lowered.plan.loops[position].name)
        return bool(self._computed(lowered, position)) or key in self.kept

    def _computed(self, lowered: LoweredStage, position: int) -> list[LoweredStage]:
        """The producers computed at the loop, without cached copies of arrays that a branch on sizes reads directly."""
        found = self.computed.get((lowered.stage.name, lowered.plan.loops[position].name), [])
        own = (
            self.lowered_stages[lowered.stage.name].plan if lowered.stage.name in self.lowered_stages else lowered.plan
        )
        return [each for each in found if takes_copy(each.plan, own, lowered.plan)] if own.instead else found

    def keeps(self, lowered: LoweredStage, position: int) -> bool:
        """Whether a producer is stored at the loop, or computed at it and stored further out."""
        key = (lowered.stage.name, lowered.plan.loops[position].name)
        return key in self.kept or any(each.plan.store is not None for each in self.computed.get(key, ()))

    def begin_pass(self) -> None:
        """Restarts sliding windows along a stage's loops, for a second pass over them."""
        self.sliding.start_anew()

    def inside(self, cursor: LoopCursor, position: int) -> None:
        """Emits the producers computed at the loop at `position`."""
        key = (cursor.lowered.stage.name, cursor.lowered.plan.loops[position].name)
        for lowered in self.kept.get(key, ()):
            self.sliding.levels[lowered.stage.name] = self.builder.scope.level
        here = self._computed(cursor.lowered, position)
        if here and cursor.phase is self.loops.updates.setting:
            here = self._for_start(cursor, here)
        if not here:
            return
        whole = self.boxes(cursor, position)
        for lowered in self._sorted(here):
            group = [lowered, *(fused_stage.lowered for fused_stage in self.fused_stages.get(lowered.stage.name, ()))]
            boxes = {each.stage.name: whole[each.stage.name] for each in group}
            if lowered.plan.store is not None and self.sliding.slides(group, boxes):
                continue
            kept = {each.stage.name: self._keep(each, boxes[each.stage.name]) for each in group}
            self._compute(group, kept)

    def _for_start(self, cursor: LoopCursor, lowered_stages: list[LoweredStage]) -> list[LoweredStage]:
        """The stages among `lowered_stages` on which an update's initial values depend; producers of its iterations are computed later."""
        assert cursor.lowered.reduction is not None
        needed: set[Node] = {
            load.array.form
            for load in loads_in(*initial_values(cursor.lowered.reduction))
            if isinstance(load.array, Result)
        }
        for lowered in sorted(self.lowered_stages.values(), key=lambda j: -j.position):
            if lowered.form in needed:
                needed |= set(lowered.reads.loads)
        return [lowered for lowered in lowered_stages if lowered.form in needed]

    def _compute(self, group: list[LoweredStage], boxes: dict[str, Box]) -> None:
        """Emits a stage over its box, with the stages fused into its loops."""
        self.loops.sharing.boxes |= {fused_stage.stage.name: boxes[fused_stage.stage.name] for fused_stage in group[1:]}
        self.loops.nest(group[0], boxes[group[0].stage.name])

    @contextmanager
    def made_for(self, read: Expr, values: Mapping[Var, Expr], stages: Sequence[LoweredStage]) -> Iterator[None]:
        """Emits, here, the stages that an expression reads when its variables have these values, wherever else they are computed.

        Each is emitted by itself, without fused stages, into memory that is dead after the `with` block.
        """
        reader: Reader = Reads((read,)), {var: (value, value) for var, value in values.items()}
        made_by = {lowered.form: lowered for lowered in stages}
        tops: dict[str, LoweredStage] = {}
        nested: dict[str, LoweredStage] = {}
        storages: dict[Array, Storage] = self.loops.converter.storages  # type: ignore[assignment]
        fused_stages, before = dict(self.fused_stages), dict(storages)
        in_place = [lowered for lowered in stages if lowered.in_place]
        self.fused_stages.clear()
        for lowered in in_place:
            lowered.in_place = False
        pending = [reader[0]]
        while pending:
            for form in pending.pop().loads:
                lowered = made_by.get(form)
                if lowered is not None and lowered.stage.name not in tops:
                    tops[lowered.stage.name] = lowered
                    inner = self._nested(lowered)
                    nested |= {each.stage.name: each for each in inner}
                    pending += [each.reads for each in (lowered, *inner)]
        boxes = self._boxes_of([*({**tops, **nested}).values()], [reader])
        for lowered in sorted(tops.values(), key=lambda j: j.position):
            if lowered.stage.name not in nested:
                self.loops.nest(lowered, self._keep(lowered, boxes[lowered.stage.name]))
        yield
        self.fused_stages.update(fused_stages)
        storages.clear()
        storages.update(before)
        for lowered in in_place:
            lowered.in_place = True

    # Regions

    def _nested(self, lowered: LoweredStage, position: int = 0) -> list[LoweredStage]:
        """Every stage computed inside the loops of a stage from `position` on, fused stages and those inside them included."""
        found: dict[str, LoweredStage] = {}
        pending = [(lowered, position)]
        while pending:
            each, first = pending.pop()
            inside = [p for at in range(first, len(each.plan.loops)) for p in self._computed(each, at)]
            inside += [
                fused_stage.lowered
                for fused_stage in self.fused_stages.get(each.stage.name, ())
                if fused_stage.last >= first
            ]
            for other in inside:
                if other.stage.name not in found:
                    found[other.stage.name] = other
                    pending.append((other, 0))
        return list(found.values())

    def _sorted(self, lowered_stages: list[LoweredStage]) -> list[LoweredStage]:
        """Stages computed at one loop, each after those whose results are read in its loops; CompileError where they depend on each
        other."""
        lowered_stages = sorted(lowered_stages, key=lambda j: j.position)
        if not self.fused_stages:
            return lowered_stages
        nests = {lowered.stage.name: [lowered, *self._nested(lowered)] for lowered in lowered_stages}
        makes: dict[Node, str] = {each.form: name for name, nest in nests.items() for each in nest}
        needs = {
            name: {makes[form] for each in nest for form in each.reads.loads if form in makes} - {name}
            for name, nest in nests.items()
        }
        done: list[LoweredStage] = []
        while lowered_stages:
            names = {lowered.stage.name for lowered in lowered_stages}
            ready = next((lowered for lowered in lowered_stages if not needs[lowered.stage.name] & names), None)
            if ready is None:
                raise CompileError("stages that share loops need each other's whole results")
            lowered_stages.remove(ready)
            done.append(ready)
        return done

    def _units(self, members: list[LoweredStage]) -> list[list[LoweredStage]]:
        """The stages computed inside a loop, readers first; a leader and the stages fused with it are one group, the leader last."""
        names = {lowered.stage.name for lowered in members}
        leaders = [
            lowered
            for lowered in members
            if lowered.plan.compute_with is None or lowered.plan.compute_with.stage not in names
        ]
        units = []
        for leader in leaders:
            fused_stages = (
                [fused_stage.lowered for fused_stage in self.fused_stages.get(leader.stage.name, ())]
                if isinstance(leader.plan.compute, At)
                else []
            )
            units.append([*sorted(fused_stages, key=lambda j: -j.position), leader])
        units.sort(key=lambda unit: -max(lowered.position for lowered in unit))
        done: list[list[LoweredStage]] = []
        while units:
            readers = {id(unit): {form for lowered in unit for form in lowered.reads.loads} for unit in units}
            ready = next(
                unit
                for unit in units
                if not any(
                    lowered.form in readers[id(other)] for lowered in unit for other in units if other is not unit
                )
            )
            units.remove(ready)
            done.append(ready)
        return done

    def boxes(self, cursor: LoopCursor, position: int) -> dict[str, Box]:
        """The box of each stage computed inside the loop: the bounding box of all that is read of it there."""
        around = [cursor, *self.loops.sharing.running_inside(cursor, position)]
        present = {each.lowered.stage.name for each in around}
        members = [lowered for lowered in self._nested(cursor.lowered, position) if lowered.stage.name not in present]
        return self._boxes_of(members, [(each.lowered.reads, ranges_of(each)) for each in around])

    def _boxes_of(self, members: list[LoweredStage], readers: list[Reader]) -> dict[str, Box]:
        """The box of each of these stages: the bounding box of all that the readers and one another read of it."""
        assumptions = self.builder.assumptions
        boxes: dict[str, Box] = {}
        for unit in self._units(members):
            common = self._common(unit, readers) if len(unit) > 1 else {}
            for lowered in unit:
                shape = [axis.extent for axis in lowered.stage.axes]
                box = list(bounding_box(_regions(lowered, readers, assumptions), shape, assumptions))
                for d, bounds in common.get(lowered.stage.name, {}).items():
                    box[d] = bounds
                for d, axis in enumerate(lowered.stage.axes):
                    if axis in lowered.stage.whole_axes:
                        box[d] = (ix.as_index(0), ix.sub(axis.extent, 1))
                boxes[lowered.stage.name] = tuple(box)
                box = list(aligned(lowered, box))
                own: dict[Var, tuple[Expr, Expr]] = {a.var: b for a, b in zip(lowered.stage.axes, box, strict=True)}
                own |= {a.var: (ix.as_index(0), ix.sub(a.extent, 1)) for a in lowered.stage.reduction_axes}
                readers = [*readers, (lowered.reads, own)]
        return boxes

    def _common(self, unit: list[LoweredStage], readers: list[Reader]) -> dict[str, dict[int, tuple[Expr, Expr]]]:
        """For each stage of a fused group and each dimension along a shared axis, the inclusive bounds that all of them compute: the
        bounding box of the reads of any. The whole axis if the leader folds over it or goes through it as a whole."""
        leader, assumptions = unit[-1], self.builder.assumptions
        matched = {
            fused_stage.lowered.stage.name: fused_stage.matched for fused_stage in self.fused_stages[leader.stage.name]
        }
        shared = {name for theirs in matched.values() for name in theirs.values()}
        matched[leader.stage.name] = {name: name for name in shared}
        bounds: dict[str, list[list[tuple[Expr, Expr] | None]]] = {name: [] for name in shared}
        for lowered in unit:
            for region in _regions(lowered, readers, assumptions):
                for axis, reach in zip(lowered.stage.axes, region, strict=True):
                    if axis.name in matched[lowered.stage.name]:
                        bounds[matched[lowered.stage.name][axis.name]].append([reach])
        found: dict[str, tuple[Expr, Expr]] = {}
        for axis in leader.stage.all_axes:
            if axis not in leader.stage.axes or axis in leader.stage.whole_axes:
                found[axis.name] = (ix.as_index(0), ix.sub(axis.extent, 1))
            elif bounds.get(axis.name):
                (found[axis.name],) = bounding_box(bounds[axis.name], (axis.extent,), assumptions)
        return {
            lowered.stage.name: {
                d: found[matched[lowered.stage.name][axis.name]]
                for d, axis in enumerate(lowered.stage.axes)
                if matched[lowered.stage.name].get(axis.name) in found
            }
            for lowered in unit
        }

    # Memory

    def _keep(self, lowered: LoweredStage, box: Box) -> Box:
        """Allocates memory for the box here, which the stage's loads read from now on; returns the box with its bounds named."""
        builder, label = self.builder, lowered.stage.name.rsplit("/", 1)[-1]
        multiples = dict(lowered.plan.aligned)
        shape = tuple(
            extent_bound(
                ix.sub(low, multiples.get(axis.name, 1) - 1), high, axis.extent, builder.assumptions, builder.meaning
            )
            for axis, (low, high) in zip(lowered.stage.axes, box, strict=True)
        )
        name = builder.name_bound
        box = aligned(lowered, box, lambda axis, low: name(f"{label}_{axis}", low))
        origin = tuple(
            None if ix.constant_value(low) == 0 or extent is axis.extent else low
            for axis, (low, _), extent in zip(lowered.stage.axes, box, shape, strict=True)
        )
        kept = laid_out_shape(lowered, shape)
        for k, body in enumerate(lowered.bodies):
            scope = explicit_scope(lowered, kept, body.dtype.itemsize, builder) or kept_scope(kept, body.dtype.itemsize)
            with builder.at(self.loops.converter.sites, lowered.stage.site):
                buffer = builder.alloc(label, body.dtype, kept, scope, padded(lowered, kept), lowered.plan.buffers)
            storage = Storage(buffer, origin, (), parts_of_layout(lowered))
            self.loops.converter.storages[Result(lowered.form, k)] = storage  # type: ignore[index]
        return box


def aligned(
    lowered: LoweredStage, box: Iterable[tuple[Expr, Expr]], name: Callable[[str, Expr], Expr] = lambda axis, low: low
) -> Box:
    """The box with low bounds rounded down to the multiples that `align` asks for; `name` names a low bound, or
    of a multiple its quotient."""
    found = []
    for axis, (low, high) in zip(lowered.stage.axes, box, strict=True):
        each = dict(lowered.plan.aligned).get(axis.name, 1)
        start = name(axis.name, low if each == 1 else ix.floordiv(low, each))
        found.append((ix.mul(start, each), high))
    return tuple(found)


def _regions(
    lowered: LoweredStage, readers: list[Reader], assumptions: Assumptions
) -> list[list[tuple[Expr, Expr] | None]]:
    """The regions of a stage that the readers reach, one for each load."""
    shape = [axis.extent for axis in lowered.stage.axes]
    regions = []
    for reads, ranges in readers:
        if lowered.form in reads.loads:
            regions += region_read(reads, lowered.form, shape, ranges, assumptions)
    return regions


def explicit_scope(lowered: LoweredStage, shape: tuple[Expr, ...], itemsize: int, builder: Builder) -> str:
    """The memory scope of a stage's storage if the schedule names one ("local" becomes "stack"), else "" or None; raises ScheduleError if
    the scope cannot hold the shape, or no enclosing loop is bound to a block or thread."""
    scope = lowered.plan.scope
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
        headline = f'cannot keep stage "{lowered.stage.name}" in scope "{scope}"'
        site = location(lowered.stage.site) + "   " + lowered.stage.site.text if lowered.stage.site else None
        raise ScheduleError(explain(headline, algorithm=site, why=why, **{"try": remedy}))
    return "stack" if scope == "local" else scope


def padded(lowered: LoweredStage, shape: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """The strides of a buffer whose rows are longer than their contents (`store(pad=…)`); () for dense ones."""
    if not lowered.plan.pad or len(shape) < 2:
        return ()
    strides: list[Expr] = [ix.as_index(1)]
    row = ix.add(shape[-1], lowered.plan.pad)
    for extent in (row, *reversed(shape[1:-1])):
        strides.append(ix.mul(strides[-1], extent))
    return tuple(reversed(strides))
