"""Updates whose iterations are first sorted by the elements that they change: `strategy("sorted")`.

The bins are divided into ranges that fit in a cache. Chunks of the iterations count those of each range; the counts become indices, by
range and by chunk within one; chunks move each iteration's bin and values to its index. Then ranges, those of part "ranges", run the
iterations of each in their original order: whatever the operator, the result is that of `serial`, and the last write wins. (Counting sort,
as in Knuth, The Art of Computer Programming 3, 5.2.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from raido.algo.graph import index as ix
from raido.algo.graph.dtypes import DType, bool_, i64, u8, u16, u32
from raido.algo.graph.expr import Axis, Const, Expr, Node, Op, fresh
from raido.schedule.lower.builder import as_planned, closed
from raido.schedule.lower.loop_cursor import LoopCursor, cloned
from raido.schedule.lower.loops.chunks import chunks_of
from raido.schedule.lower.strategies.append_by_key import Take, append_by_key
from raido.schedule.nest.nodes import Certificate, If, Store
from raido.schedule.nest.values import Buffer, NestExpr, Read, converted
from raido.schedule.strategies.parts import part_loop

if TYPE_CHECKING:
    from raido.schedule.lower.strategies.updates import Updates

ZERO, ONE = ix.as_index(0), ix.as_index(1)


@dataclass(slots=True)
class Sorting:
    """Memory for the sorted iterations: `counts[chunk, range]`, their numbers, then indices; `offsets`: each one's bin relative to its
    range of `width` bins; `values`: the values that they store or combine, or constants. axes: the axes of the bins."""

    counts: Buffer
    offsets: Buffer
    axes: tuple[Axis, ...]
    width: int
    values: list[Buffer | Const]


class SortedUpdates:
    """Emits sorted updates, with the loops of `Loops`."""

    def __init__(self, updates: Updates) -> None:
        self.updates = updates
        self.loops, self.builder = updates.loops, updates.builder

    def update(self, cursor: LoopCursor, position: int, width: int, wanted: int | Expr) -> None:
        """Emits the iterations, from the outermost loop over them on, sorted by ranges of `width` bins, in `wanted` chunks."""
        builder = self.builder
        axes, fold, loop = self.updates.open_axes(cursor), cursor.lowered.reduction, cursor.lowered.plan.loops[position]
        assert fold is not None
        bins, all_updates = self._extents(cursor)
        ranges = builder.name("ranges", ix.ceildiv(bins, width))
        low, high, _ = cursor.instances[0].bounds(loop.name)
        chunks = chunks_of(builder, low, high, wanted)
        counts = builder.alloc("counts", i64, (chunks.count, ranges), "heap")
        offsets = builder.alloc("offsets", offset_dtype(width), (all_updates,), "heap")
        brought = fold.values[: len(fold.left)]
        buffers: dict[Expr, Buffer | Const] = {
            value: value if isinstance(value, Const) else builder.alloc("moved", value.dtype, (all_updates,), "heap")
            for value in dict.fromkeys(brought)
        }
        values = [buffers[value] for value in brought]
        sorting = Sorting(counts, offsets, axes, width, values)

        def in_chunk(first: Expr, end: Expr, take: Take, moves: bool) -> None:
            part = cloned(cursor)
            part.instances[0].narrow(loop.name, first, end)
            part.phase = self.updates.each_element(partial(self.step, sorting, take, moves))
            self.loops.loop(part, position, "serial")

        moved = Certificate("sorted", tuple(each for each in (offsets, *buffers.values()) if isinstance(each, Buffer)))
        how: dict[str, Any] = {"stage": cursor.lowered.stage.name, "loop": loop.name}
        append_by_key(builder, chunks, counts, in_chunk, moved, **how)
        self._fold(cursor, sorting)

    def _extents(self, cursor: LoopCursor) -> tuple[Expr, Expr]:
        """The number of bins and the number of iterations."""
        bins, all_updates = ONE, ONE
        for axis in self.updates.open_axes(cursor):
            bins = ix.mul(bins, axis.extent)
        for axis in cursor.lowered.stage.reduction_axes:
            all_updates = ix.mul(all_updates, axis.extent)
        return bins, all_updates

    def step(self, sorting: Sorting, take: Take, moves: bool, cursor: LoopCursor, values: dict[Node, Node]) -> None:
        """Emits one iteration of the update, which is counted, or moved."""
        builder = self.builder
        brought, coordinates, holds = self.updates.read_update(cursor, values, with_values=moves)
        flat: Expr = ZERO
        for axis in sorting.axes:
            flat = ix.add(ix.mul(flat, axis.extent), coordinates[axis])
        with builder.block(branch=holds is not None) as scope:
            flat = builder.name("bin", flat)
            number = builder.name("range", ix.floordiv(flat, sorting.width))
            position = take(number)
            if moves:
                offset = ix.sub(flat, ix.mul(number, sorting.width))
                builder.add(Store(sorting.offsets, (position,), converted(offset, sorting.offsets.dtype)))
                for buffer, value in dict(zip(sorting.values, brought, strict=True)).items():
                    if isinstance(buffer, Buffer):
                        builder.add(Store(buffer, (position,), value))
        builder.add(closed(scope) if holds is None else If(holds, closed(scope)))

    def _fold(self, cursor: LoopCursor, sorting: Sorting) -> None:
        """Emits the loop over ranges, each of which runs its iterations one after the other."""
        builder, lowered = self.builder, cursor.lowered
        chunks, ranges = sorting.counts.shape
        loop = part_loop(lowered.stage, lowered.plan, "ranges", 0)
        number, k = fresh("range"), fresh("k")
        last = ix.sub(chunks, 1)
        how = as_planned(loop, lowered.stage.name, "serial" if builder.threaded else loop.kind)
        if how["kind"] == "parallel":
            how["certificates"] = self.loops.certificates("sorted", lowered)
        with builder.loop(number, ZERO, ranges, 1, **how):
            not_first = Op("lt", bool_, (ZERO, number))
            begin = builder.name("begin", Read(sorting.counts, (last, ix.sub(number, 1)), not_first))
            end = builder.name("end", Read(sorting.counts, (last, number), None))
            with builder.loop(k, begin, end, 1):
                offset: NestExpr = Read(sorting.offsets, (k,), None)
                flat = ix.mul(number, sorting.width)
                flat = builder.name("bin", ix.add(flat, converted(offset, i64)))
                values = self.loops.environment(cursor, 0)
                found = self._unfold(sorting.axes, flat)
                coordinates: dict[Axis, NestExpr] = {
                    axis: found[axis] if axis in found else values[axis.var]  # type: ignore[misc]
                    for axis in lowered.stage.axes
                }
                brought = [
                    v if isinstance(v, Const) else builder.name("value", Read(v, (k,), None)) for v in sorting.values
                ]
                self.updates.apply_update(cursor, values, coordinates, brought)

    def _unfold(self, axes: Sequence[Axis], flat: Expr) -> dict[Axis, NestExpr]:
        """The index along every axis of a flat index."""
        found: dict[Axis, NestExpr] = {}
        for axis in reversed(axes[1:]):
            found[axis] = self.builder.name(axis.name, ix.mod(flat, axis.extent))
            flat = self.builder.name("rest", ix.floordiv(flat, axis.extent))
        found[axes[0]] = flat
        return found


def offset_dtype(width: int) -> DType:
    """The narrowest dtype that holds offsets in a range of `width` bins."""
    return next((dtype for dtype in (u8, u16, u32) if width <= 1 << dtype.bits), i64)
