"""Reductions along a loop over tasks or blocks, as two: the partial result of every chunk, and the fold of these, in order.

    before   for c in 0..n step B by threads: for r in c..min(c + B, n): acc = op(acc, a[r])

    after    for c in 0..n step B by threads: partial[c // B] = op over r in c..min(c + B, n) of a[r]
             for chunk in 0..ceil(n / B): acc = op(acc, partial[chunk])

Loops over tiles of results between the loop over chunks and the reduction loops inside it stay around the fold: each tile has accumulators
of its own. In the fold of partial results the loop over chunks stands around the stage's other loops, so that partial results are read
consecutively; inside the vector loops of a tile, where a gang's sums are registers and a chunk has several interleaved gangs.

Both are reductions like any other (Halide's `rfactor`: Suriana, Adams & Kamil, Parallel associative reductions in Halide, 2017). The first
has one more axis, of chunks, and the loops of the stage. The second is emitted in the stage's own loops; where blocks of a GPU have chunks,
by a thread for each element, or of a single value by the threads of one block. Chunks are fixed by schedule and sizes, so results do not
depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from copy import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from raido.algo.graph import index as ix
from raido.algo.graph.expr import Array, Axis, Expr, Generate, Item, Load, Reduce, Result, Var, fresh
from raido.algo.graph.node import with_fields
from raido.schedule.checks.levels import bound
from raido.schedule.lower.builder import Builder, as_planned
from raido.schedule.lower.expressions.convert import Storage
from raido.schedule.lower.loop_cursor import LoopCursor
from raido.schedule.lower.lowered_stage import LoweredStage
from raido.schedule.lower.regions.coordinates import Coordinates
from raido.schedule.lower.threads.thread_folds import is_bound
from raido.schedule.nest.nodes import For, Statement
from raido.schedule.nest.walk import map_block, with_blocks
from raido.schedule.plan import LoopPlan, Split, StagePlan
from raido.schedule.strategies.parts import part_name

if TYPE_CHECKING:
    from raido.schedule.lower.loops.loops import Loops
    from raido.schedule.lower.loops.reductions import Reductions


@dataclass(frozen=True, slots=True)
class Partials:
    """A reduction in chunks: `lowered` stores the partial result of a chunk, whose number is the axis `chunk`; `fold` combines them."""

    lowered: LoweredStage
    chunk: str
    fold: LoopCursor

    def at(self, coordinates: Coordinates, number: Expr) -> Coordinates:
        """The coordinates of the stage in chunk `number`."""
        return coordinates.extended(self.chunk, number, ix.add(number, 1), number)


class PartialFolds:
    """Emits reductions in chunks with the loops of `Loops`."""

    def __init__(self, loops: Loops, reductions: Reductions) -> None:
        self.loops, self.reductions = loops, reductions
        self.builder: Builder = loops.builder

    def reduce(self, cursor: LoopCursor, position: int) -> None:
        """Emits the reduction whose outermost loop, at `position`, runs over tasks or blocks."""
        lowered, plan, builder = cursor.lowered, cursor.lowered.plan.loops[position], self.builder
        low, high, step = cursor.instances[0].bounds(plan.name)
        span = step if step > 1 else plan.grain
        within = [axis.extent for axis in lowered.stage.reduction_axes if axis.name not in lowered.axis_of[plan.name]]
        partials = self.rewritten(cursor, position, ix.ceildiv(ix.sub(high, low), span), within)
        how = {
            **as_planned(plan, lowered.stage.name),
            **bound(lowered.stage, lowered.plan, plan),
            "grain": plan.grain if step > 1 else 0,
        }
        with builder.unless_empty(within), builder.loop(var := fresh(plan.name), low, high, span, **how):
            here = partials.at(cursor.instances[0], ix.floordiv(ix.sub(var, low), span))
            part = replace(cursor, lowered=partials.lowered, instances=[here], origin_of=[0])
            self._chunk(part, position, var, ix.minimum(ix.add(var, span), high))
        self.fold(partials, position)

    def _chunk(self, part: LoopCursor, position: int, first: Var, end: Expr) -> None:
        """Emits the partial results of the chunk that begins at `first`."""
        lowered, plan, reductions = part.lowered, part.lowered.plan.loops[position], self.reductions
        whole = part.instances[0].bounds(plan.name)[2] > 1
        if whole and self._is_in_tiles(lowered, position + 1):
            inner = (
                p for p in range(position + 1, len(lowered.plan.loops)) if lowered.plan.loops[p].name in lowered.reduced
            )
            lowered.first_reduction = next(
                inner, len(lowered.plan.loops)
            )  # of each tile apart: accumulators may be registers
            lowered.version_at = lowered.version_from(position + 1)  # and tiles may be full
            self.loops.choose(replace(part, phase=self.loops.compute, versioned=False), position, [[first]])
            return
        own = reductions.allocate(part, position)
        reductions.part(part, position, reductions.start, own)
        fold = replace(part, instances=[part.instances[0].copy()], phase=reductions.fold, accumulators=own)
        if whole:
            self.loops.choose(fold, position, [[first]])
        else:
            fold.instances[0].narrow(plan.name, first, end)
            self.loops.loop(fold, position, "serial")
        reductions.part(part, position, reductions.finish, own)

    def _is_in_tiles(self, lowered: LoweredStage, position: int) -> bool:
        """Whether the loop at `position` runs over elements of the result, on blocks of a GPU or around other loops of the reduction."""
        if position == len(lowered.plan.loops) or lowered.plan.loops[position].name in lowered.reduced:
            return False
        around = any(loop.name in lowered.reduced for loop in lowered.plan.loops[position:])
        return around or is_bound(lowered.plan.loops[position], "block")

    def fold(self, partials: Partials, position: int) -> None:
        """Emits the stage's results as the fold of its partial results.

        LLVM does not copy the loops of this fold, which are a small part of the work.
        """
        with self._block(partials.fold.lowered):
            made = self.builder.scope.statements
            before = len(made)
            self.loops.level(partials.fold, position)
            made[before:] = map(_made_once, made[before:])

    def rewritten(self, cursor: LoopCursor, position: int, count: Expr, within: Sequence[Expr] = ()) -> Partials:
        """The two reductions, with memory for `count` partial results; zero chunks if an extent in `within` is 0."""
        lowered, fold = cursor.lowered, cursor.lowered.carried
        assert fold is not None
        for n in self.builder.can_be_empty(within):  # chunks of nothing, however many, are not counted
            count = ix.mul(count, ix.minimum(n, 1))
        open_, extents, _ = self.reductions.open_box(cursor)
        chunk = Axis(fresh(unused("chunk", cursor.instances[0])), count)
        axes, last = (*lowered.stage.axes, chunk), len(lowered.stage.axes)
        items = tuple(Item(fold, k) for k in range(len(fold.left)))
        form = Generate(axes, items)
        where = [d for d, axis in enumerate(lowered.stage.axes) if axis.name in open_]
        origin = (*(cursor.instances[0].box(axis.name)[0] for axis in lowered.stage.axes), None)
        storages: dict[Array, Storage] = self.loops.converter.storages  # type: ignore[assignment]
        loads = []
        for k, item in enumerate(items):
            buffer = self.builder.alloc("partial", item.dtype, (count, *extents), "heap")
            layout = ((last, ()), *((d, ()) for d in where))
            storages[Result(form, k)] = Storage(buffer, origin, (), layout)
            loads.append(Load(Result(form, k), tuple(axis.var for axis in axes), False))
        part = copy(lowered)
        part.stage, part.bodies = replace(lowered.stage, axes=axes, form=form, bodies=items), items
        part.variables = {**lowered.variables, chunk.name: chunk.var}
        combined = with_fields(fold, axes=(chunk,), values=tuple(loads))
        return Partials(part, chunk.name, self._fold(cursor, position, combined))

    def _fold(self, cursor: LoopCursor, position: int, fold: Reduce) -> LoopCursor:
        """The loop cursor of the fold of partial results: the stage with one reduction axis, of chunks."""
        lowered, (chunk,) = cursor.lowered, fold.axes
        name = part_name(lowered.stage.name, "combine")
        stage = replace(lowered.stage, name=name, reduction=fold)
        loops, relations = self._loops(cursor, position, chunk)
        loops = lowered.plan.loops[:position] + loops
        pure = tuple(each for each in lowered.plan.relations if each.outer not in lowered.reduced)
        plan = StagePlan(name, (*pure, *relations), loops, stream_stores=lowered.plan.stream_stores)
        combined = LoweredStage(stage, plan, (), None, lowered.position, lowered.blocked)
        combined.bodies, combined.reduction, combined.carried = lowered.bodies, lowered.reduction, fold
        here = cursor.instances[0].extended(chunk.name, ix.as_index(0), chunk.extent, relations=relations)
        return replace(cursor, lowered=combined, instances=[here], phase=self.loops.compute, versioned=True)

    def _loops(self, cursor: LoopCursor, position: int, chunk: Axis) -> tuple[tuple[LoopPlan, ...], tuple[Split, ...]]:
        """The loops of the fold from `position` on, and the splits that they need."""
        lowered = cursor.lowered
        own = [loop for loop in lowered.plan.loops[position:] if loop.name not in lowered.reduced]
        if not is_bound(lowered.plan.loops[position], "block"):
            return ((*own, LoopPlan(chunk.name)) if _lanes_in_tiles(lowered, own) else (LoopPlan(chunk.name), *own)), ()
        if any(is_bound(loop, "block") for loop in own):
            return (*own, LoopPlan(chunk.name)), ()
        if own:
            own.sort(key=lambda loop: not is_bound(loop, "thread"))
            first, *others = (loop.name for loop in own)
            return (LoopPlan(first, "parallel"), *map(LoopPlan, others), LoopPlan(chunk.name)), ()
        inside = self.loops.thread_folds.threads_inside(cursor, position)
        if inside is None:
            return (LoopPlan(chunk.name),), ()
        loop, threads = inside
        chunks, line = LoopPlan(chunk.name + "o"), replace(loop, name=chunk.name + "i")
        commutative = lowered.carried is not None and lowered.carried.commutative
        relation = Split(chunk.name, chunks.name, line.name, threads)
        return ((line, chunks) if commutative else (chunks, line)), (relation,)

    def _block(self, lowered: LoweredStage) -> AbstractContextManager[object]:
        """A loop over one block if threads fold the partial results, else an empty context."""
        if not any(is_bound(loop, "thread") for loop in lowered.plan.loops[lowered.first_reduction :]):
            return nullcontext()
        how = {"kind": "parallel", "level": "block.x", "stage": lowered.stage.name, "loop": lowered.plan.loops[-1].name}
        return self.builder.loop(fresh("block"), ix.as_index(0), ix.as_index(1), 1, **how)


def _made_once(s: Statement) -> Statement:
    """The statement with loops of which no copies are to be made."""
    s = with_blocks(s, lambda block: map_block(block, _made_once))
    return replace(s, copied=False) if isinstance(s, For) else s


def _lanes_in_tiles(lowered: LoweredStage, own: Sequence[LoopPlan]) -> bool:
    """Whether a vector loop runs over part of an axis that another loop outside it tiles."""
    axes = [lowered.axis_of[loop.name] for loop in own]
    return any(
        loop.kind == "vector" and any(axes[k] & axes[outside] for outside in range(k)) for k, loop in enumerate(own)
    )


def unused(name: str, coordinates: Coordinates) -> str:
    """A name that neither an axis or loop has, nor its halves (name + "o", name + "i")."""
    while {name, name + "o", name + "i"} & coordinates.ranges.keys():
        name += "_"
    return name
