"""Updates in chunks with private bins, as stages of the ordinary kinds: strategy "private".

    before   for r in 0..n: out[k[r]] += v[r]

    after    for chunk by threads:
               for copy, b: bins[chunk, copy, b] = 0                            a map
               for r of the chunk: bins[chunk, r mod copies, k[r]] += v[r]      an update of two more axes, in place
             for b: out[b] = out[b] + bins[0, 0, b] + bins[0, 1, b] + …         a reduction over chunks and replicas

None has an emitter of its own. A chunk has several replicas of its bins, used in turn, so that an iteration need not wait for the one
before it. Values of one type that are combined apart lie beside each other in one array of bins, so that an iteration changes elements of one
cache line. Where the iterations are bound to threads of a GPU, a chunk is a block, whose threads share bins and update them atomically: in
shared memory if the bins have a constant size, from which one more map stores them. With fewer than two chunks the iterations run in order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from copy import copy as copied
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, TypeAlias

from raido.algo.graph import index as ix
from raido.algo.graph.dtypes import DType, bool_
from raido.algo.graph.expr import Array, Axis, Const, Expr, Generate, Item, Load, Node, Op, Reduce, Result, fresh
from raido.schedule.lower.builder import Builder
from raido.schedule.lower.expressions.convert import Storage
from raido.schedule.lower.loop_cursor import LoopCursor
from raido.schedule.lower.loops.chunks import chunks_of, each_chunk
from raido.schedule.lower.loops.partials import unused
from raido.schedule.lower.lowered_stage import LoweredStage
from raido.schedule.lower.regions.coordinates import Coordinates
from raido.schedule.lower.strategies.update_tiles import Made
from raido.schedule.lower.threads.thread_folds import SHARED_BYTES, is_bound
from raido.schedule.nest.values import Buffer
from raido.schedule.plan import LoopPlan, StagePlan
from raido.schedule.stages.stage import Stage, StageFold, initial_values
from raido.schedule.stages.updates.siblings import structure_fields
from raido.schedule.strategies.parts import part_plan, without_threads

if TYPE_CHECKING:
    from raido.schedule.lower.strategies.updates import Updates

ZERO = ix.as_index(0)
Set: TypeAlias = tuple[Axis, Expr, Expr]
"""An axis of replicas or chunks of bins, with the first index of the stage along it and the one after its last."""


class PrivateBins:
    """Rewrites updates to private bins, with the loops of `Loops`."""

    def __init__(self, updates: Updates) -> None:
        self.updates, self.loops = updates, updates.loops
        self.builder: Builder = updates.builder

    def update(self, cursor: LoopCursor, position: int, wanted: int | Expr, replicas: int) -> None:
        """Emits the update in `wanted` chunks with `replicas` of the bins each; in order, if there is but one chunk. Results with constant
        initial values are not set before the bins are folded. Bins that lie together serve a single chunk, too."""
        updates, builder, lowered = self.updates, self.builder, copied(cursor.lowered)
        lowered.plan = replace(lowered.plan, strategy=("atomic" if _deals_out(lowered) else "serial", ()))
        cursor, fold = replace(cursor, lowered=lowered), _reduction(lowered)
        constants = not lowered.in_place and all(isinstance(v, Const) for v in initial_values(fold))
        if not (lowered.in_place or constants):
            updates.run(cursor, position, updates.setting)

        def in_order() -> None:
            if constants:
                updates.run(cursor, position, updates.setting)
            updates.run(cursor, position, updates.stepping)

        most_in_order = 0 if max(_fields(lowered).values()) > 1 else 1
        if ix.constant_value(wanted) in range(most_in_order + 1):
            in_order()
            return
        chunks = builder.name("chunks", ix.as_index(wanted))
        with builder.block(branch=True) as plain:
            in_order()
        with builder.block(builder.assumptions.with_known(ix.sub(chunks, most_in_order + 1)), branch=True) as chunked:
            chunk, replica = (fresh(unused(name, cursor.instances[0])) for name in ("chunk", "copy"))
            sets = Axis(chunk, chunks), Axis(replica, ix.as_index(replicas))
            bins = self._allocate(cursor, "bins", sets, "heap")
            self._fill(cursor, position, sets, bins)
            starts = initial_values(fold) if constants else _loads(lowered.form, lowered.stage.axes, fold)
            self._fold(cursor, sets, bins, starts)
        builder.branch(Op("lt", bool_, (ix.as_index(most_in_order), chunks)), chunked, plain)

    def _fill(self, cursor: LoopCursor, position: int, sets: tuple[Axis, Axis], bins: Generate) -> None:
        """Emits the loop over chunks in which each updates its bins."""
        lowered, builder = cursor.lowered, self.builder
        (chunk, replica), loop, fold = sets, lowered.plan.loops[position], _reduction(lowered)
        how, (axis, *_) = {"stage": lowered.stage.name, "loop": loop.name}, lowered.axis_of[loop.name]
        low, high, _ = cursor.instances[0].bounds(loop.name)
        on_threads = _deals_out(lowered)
        if on_threads:
            how |= {"kind": "parallel", "level": "block.x"}
            low, last = cursor.instances[0].box(axis)
            high = ix.add(last, 1)
        with each_chunk(builder, chunks_of(builder, low, high, chunk.extent), **how) as (number, first, end):
            here: list[Set] = [(chunk, number, ix.add(number, 1)), (replica, ZERO, replica.extent)]
            own, shared = bins, here
            if on_threads and self._is_small(cursor, replica):
                own, shared = self._allocate(cursor, "own", (replica,), "shared"), here[1:]
            self._map(cursor, shared, own, fold.neutral)
            part = _into(cursor, shared, own)
            if on_threads:
                self._on_threads(part, position, replica, first, end)
            else:
                part.instances[0].narrow(loop.name, first, end)
                self._by_one_thread(part, position, replica)
            if own is not bins:
                self._map(cursor, here, bins, _loads(own, (replica, *lowered.stage.axes), fold))

    def _fold(self, cursor: LoopCursor, sets: tuple[Axis, Axis], bins: Generate, starts: tuple[Expr, ...]) -> None:
        """Emits the fold of the bins of every element of the results, from `starts` on, in the loops of part "combine"."""
        lowered, fold = cursor.lowered, _reduction(cursor.lowered)
        values = _loads(bins, (*sets, *lowered.stage.axes), fold)
        parts = (sets, fold.left, fold.right, fold.combine, fold.neutral, values, fold.commutative, fold.monoid)
        plan = without_threads(part_plan(lowered.stage, lowered.plan, "combine"), self.builder.threaded > 0)
        plan = replace(plan, loops=(*plan.loops, *(LoopPlan(axis.name) for axis in sets)))
        stage = replace(lowered.stage, bodies=lowered.bodies, reduction=StageFold(*parts, starts))
        self._run(cursor, [(axis, ZERO, axis.extent) for axis in sets], stage, plan)

    # Steps

    def _by_one_thread(self, part: LoopCursor, position: int, replica: Axis) -> None:
        """Emits the iterations of a chunk by one thread; in the only loop over them, or the loop over a tile, they use the
        replicas of the bins in turn."""

        def take(tile: LoopCursor, at: int, made: Callable[[LoopCursor], Made]) -> None:
            self._in_turn(replace(tile, phase=self.updates.of_made(made)), at, replica)

        phase = self.updates.in_tiles(take)
        part = replace(part, phase=phase)
        if phase.takes_over(part, position):
            return
        loop, reduced = part.lowered.plan.loops[position], part.lowered.reduced
        if loop.kind != "serial" or any(inner.name in reduced for inner in part.lowered.plan.loops[position + 1 :]):
            self.loops.loop(part, position, None if loop.kind == "vector" else "serial")
        else:
            self._in_turn(part, position, replica)

    def _in_turn(self, part: LoopCursor, position: int, replica: Axis) -> None:
        """Emits the loop over iterations, unrolled by the replicas of the bins, which they use in turn."""
        lowered, loop, replicas = (
            part.lowered,
            part.lowered.plan.loops[position],
            ix.constant_value(replica.extent) or 1,
        )
        if replicas == 1:
            self.loops.loop(part, position, "serial")
            return
        low, high, step = part.instances[0].bounds(loop.name)
        rest = self.builder.name("rest", ix.sub(high, ix.mod(ix.maximum(ix.sub(high, low), 0), replicas * step)))
        for start, end, count in ((low, rest, replicas), (rest, high, 1)):
            var = fresh(loop.name)
            with self.builder.loop(var, start, end, count * step, stage=lowered.stage.name, loop=loop.name):
                for k in range(count):
                    one = part.instances[0].copy()
                    one.fix(replica.name, ix.as_index(k))
                    self.loops.choose(replace(part, instances=[one]), position, [[ix.add(var, k * step)]])

    def _on_threads(self, part: LoopCursor, position: int, replica: Axis, first: Expr, end: Expr) -> None:
        """Emits the iterations of a chunk by the threads of a block; an iteration's number selects the replica of the bins."""
        lowered = part.lowered
        (axis, *_) = lowered.axis_of[lowered.plan.loops[position].name]

        def step(inner: LoopCursor, values: dict[Node, Node]) -> None:
            turn = ix.mod(values[lowered.variables[axis]], replica.extent)  # type: ignore[arg-type]
            self.updates.update_element(inner, {**values, replica.var: turn})

        self.loops.loop(replace(_restricted(part, axis, first, end), phase=self.updates.each_element(step)), position)

    # Stages

    def _allocate(self, cursor: LoopCursor, name: str, sets: Sequence[Axis], scope: str) -> Generate:
        """Allocates sets of bins along these axes, as the results of a form: one bin for each element that no loop has chosen yet."""
        fold, open_, axes = (
            _reduction(cursor.lowered),
            self.updates.open_axes(cursor),
            (*sets, *cursor.lowered.stage.axes),
        )
        form = Generate(axes, tuple(Item(fold, k) for k in range(len(fold.left))))
        along = [d for d, axis in enumerate(axes) if axis in (*sets, *open_)]
        storages: dict[Array, Storage] = self.loops.converter.storages  # type: ignore[assignment]
        layout, shape = tuple((d, ()) for d in along), tuple(axes[d].extent for d in along)
        dtypes, fields = [value.dtype for value in fold.left], _fields(cursor.lowered)
        shared: dict[DType, Buffer] = {}
        for k, dtype in enumerate(dtypes):
            if fields[dtype] == 1:
                storage = Storage(self.builder.alloc(name, dtype, shape, scope), layout=layout)
            else:
                if dtype not in shared:
                    shared[dtype] = self.builder.alloc(name, dtype, (*shape, ix.as_index(fields[dtype])), scope)
                storage = Storage(shared[dtype], layout=layout, field=dtypes[:k].count(dtype))
            storages[Result(form, k)] = storage
        return form

    def _is_small(self, cursor: LoopCursor, replica: Axis) -> bool:
        """Whether the bins of a chunk fit into a block's shared memory (SHARED_BYTES)."""
        counts = [ix.constant_value(axis.extent) for axis in (replica, *self.updates.open_axes(cursor))]
        itemsize = sum(v.dtype.itemsize for v in _reduction(cursor.lowered).left)
        return None not in counts and prod(count or 0 for count in counts) * itemsize <= SHARED_BYTES

    def _map(self, cursor: LoopCursor, sets: Sequence[Set], form: Generate, bodies: tuple[Expr, ...]) -> None:
        """Emits a map over sets of bins, in the loops of part "combine"; along the last axis by the threads of a block
        where these run the iterations."""
        lowered = cursor.lowered
        plan = without_threads(part_plan(lowered.stage, lowered.plan, "combine"), True)
        threads = [loop for loop in lowered.plan.loops if is_bound(loop, "thread")]
        if threads:
            *others, last = (axis.name for axis in lowered.stage.axes)
            plan = StagePlan(plan.stage, (), (*map(LoopPlan, others), replace(threads[0], name=last)))
        axes = tuple(axis for axis, _, _ in sets)
        plan = replace(plan, loops=(*(LoopPlan(axis.name) for axis in axes), *plan.loops))
        stage = replace(lowered.stage, axes=(*axes, *lowered.stage.axes), form=form, bodies=bodies, reduction=None)
        self._run(cursor, sets, stage, plan)

    def _run(self, cursor: LoopCursor, sets: Sequence[Set], stage: Stage, plan: StagePlan) -> None:
        """Emits a stage over the results or over sets of bins: a map, or a reduction over the sets."""
        lowered, fold = cursor.lowered, stage.reduction
        ranges = list[tuple[str, Expr, Expr]]((axis.name, low, high) for axis, low, high in sets)
        for axis in lowered.stage.axes:
            value = cursor.instances[0].ranges[axis.name].value
            ranges.append((axis.name, *((ZERO, axis.extent) if value is None else (value, ix.add(value, 1)))))
        part = LoweredStage(replace(stage, name=plan.stage, update=None), plan, (), None, lowered.position)
        part.bodies, part.reduction, part.carried = stage.bodies, fold and lowered.reduction, fold
        self.loops.level(LoopCursor(part, [Coordinates(ranges, plan.relations)], self.loops.compute, versioned=True), 0)


def _reduction(lowered: LoweredStage) -> Reduce:
    assert lowered.reduction is not None
    return lowered.reduction


def _loads(form: Node, axes: Sequence[Axis], fold: Reduce) -> tuple[Expr, ...]:
    """The elements of a form's results at the variables of these axes."""
    return tuple(Load(Result(form, k), tuple(axis.var for axis in axes), False) for k in range(len(fold.left)))


def _into(cursor: LoopCursor, sets: Sequence[Set], form: Generate) -> LoopCursor:
    """The loop cursor of the update redirected into the first of these sets of bins."""
    lowered, stage = copied(cursor.lowered), cursor.lowered.stage
    assert stage.update is not None
    added = tuple(axis for axis, _, _ in sets)
    update = replace(stage.update, index_values=(*(None for _ in added), *stage.update.index_values))
    lowered.stage = replace(stage, axes=(*added, *stage.axes), form=form, update=update)
    lowered.origin = stage
    lowered.variables = {**lowered.variables, **{axis.name: axis.var for axis in added}}
    here = cursor.instances[0]
    for axis, low, _ in sets:
        here = here.extended(axis.name, low, ix.add(low, 1), low)
    return replace(cursor, lowered=lowered, instances=[here.copy()])


def _restricted(cursor: LoopCursor, axis: str, low: Expr, high: Expr) -> LoopCursor:
    """The loop cursor restricted to a part of an axis, none of whose loops has been chosen yet."""
    old = cursor.instances[0]
    new = Coordinates(
        [(a, *((low, high) if a == axis else old.whole[a])) for a in old.axes], cursor.lowered.plan.relations
    )
    for name in old.axes:
        value = old.ranges[name].value
        if value is not None:
            new.fix(name, value)
    return replace(cursor, instances=[new])


def _fields(lowered: LoweredStage) -> Counter[DType]:
    """The number of values of each type whose bins lie together: not those that several threads update atomically."""
    fields = structure_fields(lowered.stage)
    return Counter({*fields}) if _deals_out(lowered) else fields


def _deals_out(lowered: LoweredStage) -> bool:
    """Whether the iterations of an update are bound to the threads of a block."""
    return any(is_bound(loop, "thread") and loop.name in lowered.reduced for loop in lowered.plan.loops)
