"""Reductions: accumulators set before the first reduction loop, folded inside, stored after it.

Statements inside the outermost reduction loop get an accumulator per element: over the box of the pure loops inside it, and for each
unrolled instance. Accumulators are registers where the box is constant and every index will be, else a buffer on the stack or the heap. A
parallel reduction loop makes partial results, which are folded by a reduction of their own (`partials`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

from raido.algo.graph import index as ix
from raido.algo.graph.expr import Expr, Item, Node, Reduce, fresh
from raido.schedule.lower.builder import Builder, as_planned, closed
from raido.schedule.lower.loop_cursor import (
    Accumulators,
    LoopCursor,
    Phase,
    accumulators_of,
    carried,
    cloned,
    over_reduced,
)
from raido.schedule.lower.loops.edges import Edge, edges_of, parts
from raido.schedule.lower.loops.versions import all_hold
from raido.schedule.lower.lowered_stage import LoweredStage
from raido.schedule.lower.regions.coordinates import Coordinates
from raido.schedule.lower.regions.regions import extent_bound
from raido.schedule.lower.threads.thread_folds import is_bound
from raido.schedule.nest.nodes import Store
from raido.schedule.nest.values import Buffer, NestExpr, Read
from raido.schedule.plan import LoopPlan
from raido.schedule.stages.stage import initial_values

if TYPE_CHECKING:
    from raido.schedule.lower.loops.loops import Loops

REGISTER_BYTES = 8 << 10  # of one accumulator over all elements of the box
STACK_BYTES = 64 << 10  # likewise
FoldTarget: TypeAlias = tuple[Reduce, Sequence[Buffer], tuple[Expr, ...]]
"""One step of a fold: the fold, the buffers of its accumulators, and the indices into them."""


class Reductions:
    """Emits reductions with the loops of `Loops`."""

    def __init__(self, loops: Loops) -> None:
        self.loops = loops
        self.builder: Builder = loops.builder
        self.start = Phase(self._start_element, over_reduced, reads=False)
        self.fold = Phase(self._fold_element, shares=True, cuts=True)
        self.finish = Phase(self._finish_element, over_reduced, reads=False)

    def reduce(self, cursor: LoopCursor, position: int) -> None:
        """Emits the reduction whose outermost loop stands at `position`."""
        plan = cursor.lowered.plan.loops[position]
        if plan.kind == "parallel" and not is_bound(plan, "thread") and plan.name in cursor.lowered.reduced:
            self.loops.sharing.before(cursor, position)
            self.loops.partials.reduce(cursor, position)
            self.loops.sharing.after(cursor, position)
            return
        edges = edges_of(self.loops, cursor, position)
        if not edges:
            self._tile(cursor, position)
            return
        assumptions, whole = self.builder.assumptions, [each for edge in edges for each in edge.whole]
        with self.builder.block(branch=True) as cut_off:
            self._rows(cursor, position, edges)
        lanes = any(
            loop.kind == "vector" and loop.name not in cursor.lowered.reduced
            for loop in cursor.lowered.plan.loops[position:]
        )
        in_one = all(edge.rows == edge.most for edge in edges)  # a whole tile takes as long in one part as by itself
        if not lanes or in_one or any(assumptions.nonnegative(ix.sub(-1, each)) for each in whole):
            self.builder.add(closed(cut_off))
            return
        known = assumptions.with_known(*whole)
        with self.builder.block(known, branch=True) as full:
            whole_tile = cloned(cursor)
            for coordinates in whole_tile.instances:
                coordinates.simplify(known.decided)
            self._tile(whole_tile, position)
        self.builder.branch(all_hold(whole), full, cut_off)

    def _tile(self, cursor: LoopCursor, position: int) -> None:
        """Emits the reduction with accumulators for every element that its loops run over."""
        accumulators = self.allocate(cursor, position)
        for phase in (self.start, self.fold, self.finish):
            self.part(cursor, position, phase, accumulators)

    def _rows(self, cursor: LoopCursor, position: int, edges: Sequence[Edge]) -> None:
        """Emits the reduction of a tile that the edge of an array cuts off, some rows at a time."""
        with parts(self.loops, cursor, edges) as rows:
            beside = replace(cursor, instances=[row.coordinates for row in rows])
            accumulators = self.allocate(beside, position)
            for phase in (self.start, self.fold):
                self.part(beside, position, phase, accumulators)
            for k, row in enumerate(rows):
                with ExitStack() as tests:
                    if row.conditions:
                        holds = all_hold(row.conditions)
                        tests.enter_context(self.builder.when(holds, *row.conditions))
                    one = replace(beside, instances=[row.coordinates.copy()], phase=self.finish)
                    self.loops.level(replace(one, accumulators=accumulators, origin_of=[k]), position)

    def part(self, cursor: LoopCursor, position: int, phase: Phase, accumulators: Accumulators) -> None:
        """Emits one phase, over the loops from `position` on."""
        if phase is self.start and accumulators.lengths and self._folds_in_lanes(cursor, position):
            self._fill(cursor, accumulators, accumulators.buffers[0].shape)
            return
        self.loops.placer.begin_pass()
        origins = list(range(len(cursor.instances)))
        self.loops.level(cloned(cursor, phase=phase, accumulators=accumulators, origin_of=origins), position)

    def _folds_in_lanes(self, cursor: LoopCursor, position: int) -> bool:
        """Whether a reduction loop is vectorised: each lane's partial results cover the whole buffer, so all of it must be set."""
        lowered = cursor.lowered
        lanes = any(loop.kind == "vector" and loop.name in lowered.reduced for loop in lowered.plan.loops[position:])
        return lanes and lowered.stage.scan is None

    def _fill(self, cursor: LoopCursor, acc: Accumulators, shape: Sequence[Expr]) -> None:
        loops, assumptions = self.loops, self.builder.assumptions
        init = initial_values(carried(cursor))

        def store(at: tuple[Expr, ...]) -> None:
            values = loops.converter.convert(init, self._environment(cursor, acc, at), assumptions, cursor.identity)
            self.builder.store(acc.buffers, at, loops.emitter.values(values))

        self.each(shape, store, unrolled=acc.buffers[0].scope == "register", how=as_own_loop(cursor.lowered, acc))

    def _environment(self, cursor: LoopCursor, acc: Accumulators, at: tuple[Expr, ...]) -> dict[Node, Node]:
        """The values of the axis variables for the accumulator at these indices."""
        k = ix.constant_value(at[0]) or 0 if acc.per_instance else 0
        values = self.loops.environment(cursor, k)
        for axis, i in zip(acc.axes, at[1:] if acc.per_instance else at, strict=True):
            values[cursor.lowered.variables[axis]] = ix.add(acc.origins[k][axis], i)
        return values

    def allocate(self, cursor: LoopCursor, position: int, registers: bool = True, label: str = "") -> Accumulators:
        """Allocates accumulators for the pure loops from `position` on, and for the unrolled instances."""
        reduction = carried(cursor)
        axes, extents, used = self.open_box(cursor)
        per_instance = len(cursor.instances) > 1
        shape: list[Expr] = [ix.as_index(len(cursor.instances))] if per_instance else []
        lengths = [*shape, *used]
        shape += extents
        origins = tuple({axis: c.ranges[axis].low for axis in axes} for c in cursor.instances)
        scope = self._scope(cursor, position, shape, max(v.dtype.itemsize for v in reduction.left), axes)
        if scope == "register" and shape and not registers:
            scope = "stack"
        label = label or ("sum" if reduction.monoid == "add" else "acc")
        buffers = tuple(self.builder.alloc(label, v.dtype, tuple(shape), scope) for v in reduction.left)
        return Accumulators(buffers, axes, origins, per_instance, tuple(lengths))

    def open_box(self, cursor: LoopCursor) -> tuple[tuple[str, ...], list[Expr], list[Expr]]:
        """The pure axes that no loop has chosen yet; upper bounds of their extents, and the extents themselves."""
        lowered = cursor.lowered
        folded = {a.name for a in lowered.stage.reduction_axes}
        axes = tuple(
            a for a in lowered.stage.axes if a.name not in folded and cursor.instances[0].ranges[a.name].value is None
        )
        if lowered.stage.filter is not None:  # which keeps whole rows
            axes = ()
        shape, lengths = [], []
        for axis in axes:
            low, high = cursor.instances[0].box(axis.name)
            shape.append(extent_bound(low, high, axis.extent, self.builder.assumptions, self.builder.meaning))
            lengths.append(ix.add(ix.sub(high, low), 1))
        return tuple(axis.name for axis in axes), shape, lengths

    def _scope(
        self, cursor: LoopCursor, position: int, shape: Sequence[Expr], itemsize: int, axes: Sequence[str]
    ) -> str:
        if not shape:
            return "register"
        sizes = [ix.constant_value(e) for e in shape]
        if any(s is None for s in sizes):
            return "heap"
        total = itemsize
        for s in sizes:
            total *= s or 0
        lowered = cursor.lowered
        pure = [loop for loop in lowered.plan.loops[position:] if loop.name not in lowered.reduced]
        masked = [loop for loop in pure if loop.kind == "vector" and loop.lanes != 1]
        lanes = {axis for loop in masked for axis in lowered.axis_of[loop.name]}
        spans = [(axis in lanes, c.box(axis)) for c in cursor.instances for axis in axes]
        spans += [(loop in masked, span) for c in cursor.instances for loop, span in _spans(c, pure)]
        kinds = all(
            loop.kind == "unroll" or (loop.kind == "vector" and loop.name not in lowered.fused) for loop in pure
        )
        fixed = kinds and all(self._is_fixed(low, high, masked) for masked, (low, high) in dict.fromkeys(spans))
        if fixed and total <= REGISTER_BYTES:
            return "register"
        return "stack" if total <= STACK_BYTES else "heap"

    def _is_fixed(self, low: Expr, high: Expr, masked: bool) -> bool:
        """Whether a constant number of registers suffices for low … high − 1: the extent is constant, or bounded by a constant in lanes,
        where masks turn off the rest."""
        if ix.difference(high, low) is not None or not masked or self.builder.inside("block"):
            return ix.difference(high, low) is not None
        most = extent_bound(low, high, ix.add(ix.sub(high, low), 1), self.builder.assumptions, self.builder.meaning)
        return ix.constant_value(most) is not None

    def _start_element(self, cursor: LoopCursor) -> None:
        reduction, acc, loops = carried(cursor), accumulators_of(cursor), self.loops
        instances = [loops.environment(cursor, k) for k in range(len(cursor.instances))]
        assumptions, identity = self.builder.assumptions, cursor.identity
        converted = loops.converter.convert_instances(initial_values(reduction), instances, assumptions, identity)
        for k, values in enumerate(converted):
            self.builder.store(acc.buffers, self.indices_of(cursor, acc, k), loops.emitter.values(values))

    def _fold_element(self, cursor: LoopCursor) -> None:
        self.loops.emitter.folds(self.fold_targets(cursor))

    def _finish_element(self, cursor: LoopCursor) -> None:
        reduction, acc = cursor.lowered.reduction, accumulators_of(cursor)
        assert reduction is not None
        extra: list[dict[Node, Node]] = []
        for k in range(len(cursor.instances)):
            indices = self.indices_of(cursor, acc, k)
            extra.append({Item(reduction, j): Read(b, indices, None) for j, b in enumerate(acc.buffers)})
        self.loops.finish(cursor, extra)

    def fold_targets(self, cursor: LoopCursor) -> list[FoldTarget]:
        """One fold step for each unrolled instance: the fold with its axis variables replaced, the accumulators, and their indices."""
        loops, acc, fold = self.loops, accumulators_of(cursor), (Item(carried(cursor), 0),)
        instances = [loops.environment(cursor, k) for k in range(len(cursor.instances))]
        converted = loops.converter.convert_instances(fold, instances, self.builder.assumptions, cursor.identity)
        return [(item.form, acc.buffers, self.indices_of(cursor, acc, k)) for k, (item,) in enumerate(converted)]

    def indices_of(self, cursor: LoopCursor, acc: Accumulators, k: int) -> tuple[Expr, ...]:
        coordinates, origin = cursor.instances[k], acc.origins[cursor.origin_of[k]]
        indices: list[Expr] = [ix.as_index(cursor.origin_of[k])] if acc.per_instance else [*acc.prefix]
        for axis in acc.axes:
            value = coordinates.ranges[axis].value
            assert value is not None
            indices.append(ix.sub(value, origin[axis]))
        return (*indices, *acc.suffix)

    def partials(self, cursor: LoopCursor, shape: tuple[Expr, ...], count: Expr) -> tuple[Buffer, ...]:
        """Allocates memory for the accumulators of `count` chunks, each of that shape."""
        return tuple(self.builder.alloc("partial", v.dtype, (count, *shape), "heap") for v in carried(cursor).left)

    def keep(self, lowered: LoweredStage, own: Accumulators, partials: Sequence[Buffer], chunk: Expr) -> None:
        """Stores one chunk's accumulators as its partial result."""
        how = as_own_loop(lowered, own)
        self.each(own.lengths, lambda at: self.copy(own.buffers, at, partials, (chunk, *at)), how=how)

    def clear(self, cursor: LoopCursor, acc: Accumulators) -> None:
        """Sets all of the accumulators to the initial values."""
        whole = self._folds_in_lanes(cursor, 0)
        self._fill(cursor, acc, acc.buffers[0].shape if whole else acc.lengths)

    def each(
        self,
        shape: Sequence[Expr],
        body: Callable[[tuple[Expr, ...]], None],
        at: tuple[Expr, ...] = (),
        unrolled: bool = False,
        how: Mapping[str, Any] | None = None,
    ) -> None:
        """Emits loops over a box of that shape, the innermost one with the fields in `how`; `unrolled` writes them out, as
        registers need constant indices."""
        if len(at) == len(shape):
            body(at)
            return
        extent = shape[len(at)]
        if unrolled and (count := ix.constant_value(extent)) is not None:
            for k in range(count):
                self.each(shape, body, (*at, ix.as_index(k)), unrolled, how)
            return
        var = fresh(f"i{len(at)}")
        with self.builder.loop(var, ix.as_index(0), extent, 1, **((how if len(at) + 1 == len(shape) else None) or {})):
            self.each(shape, body, (*at, var), unrolled, how)

    def neutral(self, cursor: LoopCursor, acc: Accumulators, at: tuple[Expr, ...]) -> list[NestExpr]:
        """The neutral elements for the accumulators at these indices."""
        values = self._environment(cursor, acc, at)
        assumptions = self.builder.assumptions
        return self.loops.emitter.values(
            self.loops.converter.convert(carried(cursor).neutral, values, assumptions, cursor.identity)
        )

    def set_all(self, acc: Accumulators, values: Sequence[Expr]) -> None:
        """Sets every accumulator to these constants."""
        pairs = tuple(zip(acc.buffers, values, strict=True))

        def store(at: tuple[Expr, ...]) -> None:
            for buffer, value in pairs:
                self.builder.add(Store(buffer, at, value))

        self.each(acc.buffers[0].shape, store)

    def merge(self, cursor: LoopCursor, acc: Accumulators, others: Accumulators) -> None:
        """Combines other accumulators, on the right, into `acc`."""

        def one(at: tuple[Expr, ...]) -> None:
            left = [self.builder.name("left", Read(b, at, None)) for b in acc.buffers]
            right = [self.builder.name("right", Read(b, at, None)) for b in others.buffers]
            self.combine(cursor, acc, at, left, right)

        self.each(acc.lengths, one)

    def combine(
        self, cursor: LoopCursor, acc: Accumulators, at: tuple[Expr, ...], left: Sequence[Expr], right: Sequence[Expr]
    ) -> None:
        """Sets the accumulators at these indices to the operator of `left` and `right`."""
        self.combine_where(cursor, self._environment(cursor, acc, at), acc.buffers, at, left, right)

    def combine_where(
        self,
        cursor: LoopCursor,
        values: dict[Node, Node],
        buffers: Sequence[Buffer],
        at: tuple[Expr, ...],
        left: Sequence[Expr],
        right: Sequence[Expr],
    ) -> None:
        """Emits buffers[at] = the operator of `left` and `right`, for the element at which the axes have these values."""
        self.loops.emitter.combine_into(self._converted(cursor, values), buffers, at, left, right)

    def operator(self, cursor: LoopCursor, k: int = 0) -> Reduce:
        """The reduction with its operator converted at the coordinates of unrolled instance `k`."""
        return self._converted(cursor, self.loops.environment(cursor, k))

    def _converted(self, cursor: LoopCursor, values: dict[Node, Node]) -> Reduce:
        converted = self.loops.converter.convert(
            (Item(carried(cursor), 0),), values, self.builder.assumptions, cursor.identity
        )
        return converted[0].form

    def copy(
        self, source: Sequence[Buffer], at: tuple[Expr, ...], target: Sequence[Buffer], indices: tuple[Expr, ...]
    ) -> None:
        self.builder.store(target, indices, [Read(a, at, None) for a in source])


def as_own_loop(lowered: LoweredStage, acc: Accumulators) -> dict[str, Any]:
    """The `For` fields of a loop over the last axis of the accumulators: vector, or parallel over threads, if the stage's own loop
    over that axis is; else {}."""
    own = [loop for loop in lowered.plan.loops if acc.axes[-1:] == (*lowered.axis_of[loop.name],)]
    chosen = [loop for loop in own if loop.kind == "vector"] or [loop for loop in own if is_bound(loop, "thread")]
    return as_planned(chosen[0], lowered.stage.name) if chosen else {}


def _spans(coordinates: Coordinates, loops: Sequence[LoopPlan]) -> list[tuple[LoopPlan, tuple[Expr, Expr]]]:
    """The bounds of loops, outermost first, each with the vector loops outside it entered: a part of the same
    axis may begin at the lane's index."""
    inside = coordinates.copy()
    spans = []
    for loop in loops:
        spans.append((loop, inside.bounds(loop.name)[:2]))
        if loop.kind == "vector":
            inside.choose(loop.name, fresh(loop.name), lambda name, value, low, high: value)
    return spans
