"""Bins that the threads of a block share: a chunk of an update's steps for each block.

before   for r in 0..n: out[k[r]] += v[r]
after    blocks over chunks:
           own: shared;  threads over bins: own[b] = 0
           threads over the chunk's steps: atomic own[k[r]] += v[r]
           threads over bins: bins[chunk, b] = own[b]
         for b: out[b] += bins[0, b] + bins[1, b] + …

The threads' steps are indivisible. Bins without a constant size, or too large, are in memory of the device instead of shared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING

from raido.algo.graph import index as ix
from raido.algo.graph.expr import Axis, Expr, Node, fresh
from raido.schedule.lower.builder import Builder
from raido.schedule.lower.chunks import chunks_of, each_chunk
from raido.schedule.lower.coordinates import Coordinates
from raido.schedule.lower.jobs import Job
from raido.schedule.lower.thread_folds import SHARED_BYTES, is_bound
from raido.schedule.lower.work import Work
from raido.schedule.nest.nodes import Store
from raido.schedule.nest.values import Buffer, Read

if TYPE_CHECKING:
    from raido.schedule.lower.updates import Updates


@dataclass(frozen=True, slots=True)
class Bins:
    """The destination of a chunk's steps: buffers, their first indices, and the axes of the other indices."""

    buffers: tuple[Buffer, ...]
    first: tuple[Expr, ...]
    axes: tuple[Axis, ...]


class BlockBins:
    """Bins that the threads of a block share."""

    def __init__(self, updates: Updates) -> None:
        self.updates, self.loops = updates, updates.loops
        self.builder: Builder = updates.builder

    def chunks(self, work: Work, position: int, copies: int, chunks: Expr) -> None:
        """Every block takes a chunk of the steps, into bins of its own, and leaves these to be taken in."""
        builder, job, updates = self.builder, work.job, self.updates
        plan, axes = job.plan.loops[position], updates.open_axes(work)
        assert job.reduction is not None
        dtypes = [v.dtype for v in job.reduction.left]
        axis = next(iter(job.axis_of[plan.name]))
        low, last = work.copies[0].box(axis)
        high = ix.add(last, 1)
        dealt = chunks_of(builder, low, high, chunks)
        shape = (ix.as_index(copies), *(each.extent for each in axes))
        kept = tuple(builder.alloc("bins", dtype, (chunks, *shape), "heap") for dtype in dtypes)
        how = {"kind": "parallel", "level": "block.x", "stage": job.stage.name, "loop": plan.name}
        with each_chunk(builder, dealt, **how) as (chunk, first, end):
            own = Bins(kept, (chunk,), axes)
            shared = is_small(shape, sum(dtype.itemsize for dtype in dtypes))
            if shared:
                own = Bins(tuple(builder.alloc("own", dtype, shape, "shared") for dtype in dtypes), (), axes)
            self._each_copy(copies, lambda copy: updates.clear(work, replace(own, first=(*own.first, copy))))
            part = restricted(work, axis, first, end)
            variable = job.variables[axis]

            def step(inner: Work, values: dict[Node, Node]) -> None:
                copy = ix.mod(values[variable], copies) if copies > 1 else ix.as_index(0)  # type: ignore[arg-type]
                updates.step(inner, values, replace(own, first=(*own.first, copy)))

            self.loops.loop(replace(part, phase=updates.steps(step)), position)
            if shared:
                self._each_copy(copies, lambda copy: self._keep(work, own, kept, chunk, copy))
        updates.take_in(work, Bins(kept, (), axes), chunks, copies)

    def _each_copy(self, copies: int, body: Callable[[Expr], None]) -> None:
        copy = fresh("copy")
        with self.builder.loop(copy, ix.as_index(0), ix.as_index(copies), 1):
            body(copy)

    def _keep(self, work: Work, own: Bins, kept: Sequence[Buffer], chunk: Expr, copy: Expr) -> None:
        """One set of a block's bins goes to memory that other blocks see."""

        def one(values: dict[Node, Node], at: tuple[Expr, ...]) -> None:
            for source, target in zip(own.buffers, kept, strict=True):
                self.builder.add(Store(target, (chunk, copy, *at), Read(source, (copy, *at), None)))

        self.updates.each_bin(work, own.axes, one)


def is_small(shape: Sequence[Expr], itemsize: int) -> bool:
    """Whether so many elements fit into a block's shared memory."""
    counts = [ix.constant_value(extent) for extent in shape]
    return None not in counts and prod(count or 0 for count in counts) * itemsize <= SHARED_BYTES


def restricted(work: Work, axis: str, low: Expr, high: Expr) -> Work:
    """The work over a part of an axis, of whose loops none has been chosen yet."""
    old = work.copies[0]
    new = Coordinates([(a, *((low, high) if a == axis else old.whole[a])) for a in old.axes], work.job.plan.relations)
    for name in old.axes:
        value = old.ranges[name].value
        if value is not None:
            new.fix(name, value)
    return replace(work, copies=[new])


def deals_out(job: Job) -> bool:
    """Whether the steps of an update are bound to the threads of a block."""
    return any(is_bound(loop, "thread") and loop.name in job.reduced for loop in job.plan.loops)
