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
from raido.schedule.lower.convert import Storage
from raido.schedule.lower.coordinates import Coordinates
from raido.schedule.lower.jobs import Job
from raido.schedule.lower.thread_folds import is_bound
from raido.schedule.lower.work import Work
from raido.schedule.nest.nodes import For, Statement
from raido.schedule.nest.walk import map_block, with_blocks
from raido.schedule.plan import LoopPlan, Split, StagePlan
from raido.schedule.strategies.parts import part_name

if TYPE_CHECKING:
    from raido.schedule.lower.loops import Loops
    from raido.schedule.lower.reductions import Reductions


@dataclass(frozen=True, slots=True)
class Partials:
    """A reduction in chunks: `job` stores the partial result of a chunk, whose number is the axis `chunk`; `fold` combines them."""

    job: Job
    chunk: str
    fold: Work

    def at(self, coordinates: Coordinates, number: Expr) -> Coordinates:
        """The coordinates of the stage in chunk `number`."""
        return coordinates.extended(self.chunk, number, ix.add(number, 1), number)


class PartialFolds:
    """Emits reductions in chunks with the loops of `Loops`."""

    def __init__(self, loops: Loops, reductions: Reductions) -> None:
        self.loops, self.reductions = loops, reductions
        self.builder: Builder = loops.builder

    def reduce(self, work: Work, position: int) -> None:
        """Emits the reduction whose outermost loop, at `position`, runs over tasks or blocks."""
        job, plan, builder = work.job, work.job.plan.loops[position], self.builder
        low, high, step = work.copies[0].bounds(plan.name)
        span = step if step > 1 else plan.grain
        within = [axis.extent for axis in job.stage.reduction_axes if axis.name not in job.axis_of[plan.name]]
        partials = self.rewritten(work, position, ix.ceildiv(ix.sub(high, low), span), within)
        how = {
            **as_planned(plan, job.stage.name),
            **bound(job.stage, job.plan, plan),
            "grain": plan.grain if step > 1 else 0,
        }
        with builder.unless_empty(within), builder.loop(var := fresh(plan.name), low, high, span, **how):
            here = partials.at(work.copies[0], ix.floordiv(ix.sub(var, low), span))
            part = replace(work, job=partials.job, copies=[here], origin_of=[0])
            self._chunk(part, position, var, ix.minimum(ix.add(var, span), high))
        self.fold(partials, position)

    def _chunk(self, part: Work, position: int, first: Var, end: Expr) -> None:
        """Emits the partial results of the chunk that begins at `first`."""
        job, plan, reductions = part.job, part.job.plan.loops[position], self.reductions
        whole = part.copies[0].bounds(plan.name)[2] > 1
        if whole and self._is_in_tiles(job, position + 1):
            inner = (p for p in range(position + 1, len(job.plan.loops)) if job.plan.loops[p].name in job.reduced)
            job.first_reduction = next(inner, len(job.plan.loops))  # of each tile apart: accumulators may be registers
            job.version_at = job.version_from(position + 1)  # and tiles may be full
            self.loops.choose(replace(part, phase=self.loops.compute, versioned=False), position, [[first]])
            return
        own = reductions.allocate(part, position)
        reductions.part(part, position, reductions.start, own)
        fold = replace(part, copies=[part.copies[0].copy()], phase=reductions.fold, accumulators=own)
        if whole:
            self.loops.choose(fold, position, [[first]])
        else:
            fold.copies[0].narrow(plan.name, first, end)
            self.loops.loop(fold, position, "serial")
        reductions.part(part, position, reductions.finish, own)

    def _is_in_tiles(self, job: Job, position: int) -> bool:
        """Whether the loop at `position` runs over elements of the result, on blocks of a GPU or around other loops of the reduction."""
        if position == len(job.plan.loops) or job.plan.loops[position].name in job.reduced:
            return False
        around = any(loop.name in job.reduced for loop in job.plan.loops[position:])
        return around or is_bound(job.plan.loops[position], "block")

    def fold(self, partials: Partials, position: int) -> None:
        """Emits the stage's results as the fold of its partial results.

        LLVM does not copy the loops of this fold, which are a small part of the work.
        """
        with self._block(partials.fold.job):
            made = self.builder.scope.statements
            before = len(made)
            self.loops.level(partials.fold, position)
            made[before:] = map(_made_once, made[before:])

    def rewritten(self, work: Work, position: int, count: Expr, within: Sequence[Expr] = ()) -> Partials:
        """The two reductions, with memory for `count` partial results; zero chunks if an extent in `within` is 0."""
        job, fold = work.job, work.job.carried
        assert fold is not None
        for n in self.builder.can_be_empty(within):  # chunks of nothing, however many, are not counted
            count = ix.mul(count, ix.minimum(n, 1))
        open_, extents, _ = self.reductions.open_box(work)
        chunk = Axis(fresh(unused("chunk", work.copies[0])), count)
        axes, last = (*job.stage.axes, chunk), len(job.stage.axes)
        items = tuple(Item(fold, k) for k in range(len(fold.left)))
        form = Generate(axes, items)
        where = [d for d, axis in enumerate(job.stage.axes) if axis.name in open_]
        origin = (*(work.copies[0].box(axis.name)[0] for axis in job.stage.axes), None)
        storages: dict[Array, Storage] = self.loops.converter.storages  # type: ignore[assignment]
        loads = []
        for k, item in enumerate(items):
            buffer = self.builder.alloc("partial", item.dtype, (count, *extents), "heap")
            layout = ((last, ()), *((d, ()) for d in where))
            storages[Result(form, k)] = Storage(buffer, origin, (), layout)
            loads.append(Load(Result(form, k), tuple(axis.var for axis in axes), False))
        part = copy(job)
        part.stage, part.bodies = replace(job.stage, axes=axes, form=form, bodies=items), items
        part.variables = {**job.variables, chunk.name: chunk.var}
        combined = with_fields(fold, axes=(chunk,), values=tuple(loads))
        return Partials(part, chunk.name, self._fold(work, position, combined))

    def _fold(self, work: Work, position: int, fold: Reduce) -> Work:
        """The loop cursor of the fold of partial results: the stage with one reduction axis, of chunks."""
        job, (chunk,) = work.job, fold.axes
        name = part_name(job.stage.name, "combine")
        stage = replace(job.stage, name=name, reduction=fold)
        loops, relations = self._loops(work, position, chunk)
        loops = job.plan.loops[:position] + loops
        pure = tuple(each for each in job.plan.relations if each.outer not in job.reduced)
        plan = StagePlan(name, (*pure, *relations), loops, stream_stores=job.plan.stream_stores)
        combined = Job(stage, plan, (), None, job.position, job.blocked)
        combined.bodies, combined.reduction, combined.carried = job.bodies, job.reduction, fold
        here = work.copies[0].extended(chunk.name, ix.as_index(0), chunk.extent, relations=relations)
        return replace(work, job=combined, copies=[here], phase=self.loops.compute, versioned=True)

    def _loops(self, work: Work, position: int, chunk: Axis) -> tuple[tuple[LoopPlan, ...], tuple[Split, ...]]:
        """The loops of the fold from `position` on, and the splits that they need."""
        job = work.job
        own = [loop for loop in job.plan.loops[position:] if loop.name not in job.reduced]
        if not is_bound(job.plan.loops[position], "block"):
            return ((*own, LoopPlan(chunk.name)) if _lanes_in_tiles(job, own) else (LoopPlan(chunk.name), *own)), ()
        if any(is_bound(loop, "block") for loop in own):
            return (*own, LoopPlan(chunk.name)), ()
        if own:
            own.sort(key=lambda loop: not is_bound(loop, "thread"))
            first, *others = (loop.name for loop in own)
            return (LoopPlan(first, "parallel"), *map(LoopPlan, others), LoopPlan(chunk.name)), ()
        inside = self.loops.thread_folds.threads_inside(work, position)
        if inside is None:
            return (LoopPlan(chunk.name),), ()
        loop, threads = inside
        steps, line = LoopPlan(chunk.name + "o"), replace(loop, name=chunk.name + "i")
        commutative = job.carried is not None and job.carried.commutative
        relation = Split(chunk.name, steps.name, line.name, threads)
        return ((line, steps) if commutative else (steps, line)), (relation,)

    def _block(self, job: Job) -> AbstractContextManager[object]:
        """A loop over one block if threads fold the partial results, else an empty context."""
        if not any(is_bound(loop, "thread") for loop in job.plan.loops[job.first_reduction :]):
            return nullcontext()
        how = {"kind": "parallel", "level": "block.x", "stage": job.stage.name, "loop": job.plan.loops[-1].name}
        return self.builder.loop(fresh("block"), ix.as_index(0), ix.as_index(1), 1, **how)


def _made_once(s: Statement) -> Statement:
    """The statement with loops of which no copies are to be made."""
    s = with_blocks(s, lambda block: map_block(block, _made_once))
    return replace(s, copied=False) if isinstance(s, For) else s


def _lanes_in_tiles(job: Job, own: Sequence[LoopPlan]) -> bool:
    """Whether a vector loop runs over part of an axis that another loop outside it tiles."""
    axes = [job.axis_of[loop.name] for loop in own]
    return any(
        loop.kind == "vector" and any(axes[k] & axes[outside] for outside in range(k)) for k, loop in enumerate(own)
    )


def unused(name: str, coordinates: Coordinates) -> str:
    """A name that neither an axis or loop has, nor its halves (name + "o", name + "i")."""
    while {name, name + "o", name + "i"} & coordinates.ranges.keys():
        name += "_"
    return name
