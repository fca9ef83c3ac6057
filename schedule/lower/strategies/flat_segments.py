"""Segmented reductions in even blocks, however long segments are (strategy "flat"), as stages of the ordinary kinds.

    before   for s in 0..segments: out[s] = fold of a[offsets[s] .. offsets[s + 1]]

    after    for s: check that offsets are in order                                                       a map
             for block: begins[block] = number of segments that end before it                             a map
             for block by threads:
               for slot in 0, 1: pieces[block, slot] = fold of its values of a segment at its borders     a reduction
               for s inside the block: out[s] = fold of a[offsets[s] .. offsets[s + 1]]                   the stage
             for block in which segment s ends after beginning before: out[s] = fold of the pieces of s   the stage, of pieces

Segments' ends and values, merged in order, are one sequence (a merge path), and blocks are equal parts of it, so neither many short
segments nor a long one make a block more work than another, and a segment's blocks follow from where it begins and ends. Blocks depend on
the numbers of segments and values alone. (Merrill & Garland, Merge-based parallel sparse matrix-vector multiplication, 2016.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING

from raido.algo.graph import index as ix
from raido.algo.graph.dtypes import bool_, i64
from raido.algo.graph.expr import Array, Axis, Expr, Generate, Item, Load, Node, Op, Result, Var, While, fresh
from raido.algo.graph.node import with_fields
from raido.algo.graph.reduction import identities_of
from raido.schedule.lower.builder import Builder, as_planned
from raido.schedule.lower.expressions.convert import Storage
from raido.schedule.lower.loop_cursor import LoopCursor, Phase
from raido.schedule.lower.loops.partials import unused
from raido.schedule.lower.lowered_stage import LoweredStage
from raido.schedule.lower.regions.coordinates import Coordinates
from raido.schedule.lower.threads.block_segments import BlockSegments, Flat, Part, threads_of_block
from raido.schedule.nest.nodes import Store
from raido.schedule.nest.values import NestExpr, Read
from raido.schedule.plan import LoopPlan
from raido.schedule.stages.segments import find_segments
from raido.schedule.strategies.parts import part_loop, part_plan, part_stage, without_threads

if TYPE_CHECKING:
    from raido.schedule.lower.loops.loops import Loops

ZERO, ONE, TWO = (ix.as_index(k) for k in range(3))


class FlatSegments:
    """Rewrites segmented reductions into even blocks, with the loops of `Loops`."""

    def __init__(self, loops: Loops) -> None:
        self.loops = loops
        self.builder: Builder = loops.builder
        self.together = BlockSegments(self)

    def reduce(self, cursor: LoopCursor, position: int) -> None:
        """Emits the stage from the loop over segments on, for each unrolled instance."""
        for k in range(len(cursor.instances)):
            single = replace(cursor, instances=[cursor.instances[k]], origin_of=[cursor.origin_of[k]])
            self._reduce(single, position)

    def _reduce(self, cursor: LoopCursor, position: int) -> None:
        builder, lowered = self.builder, cursor.lowered
        segments = find_segments(lowered.bodies, lowered.stage.axes)
        assert segments is not None
        axis, fold = lowered.stage.axes[segments.axis], segments.fold
        block = int(str(dict(lowered.plan.strategy[1])["block"]))  # type: ignore[index]
        base, end, _ = cursor.instances[0].bounds(lowered.plan.loops[position].name)
        count = ix.sub(end, base)
        (size,) = self._values(cursor, (segments.size,), {})
        total = builder.name("total", ix.add(count, size))
        blocks = builder.name("blocks", ix.ceildiv(total, block))
        begins = builder.alloc("begins", i64, (ix.add(blocks, 1),), "heap")
        own = tuple(Axis(fresh(unused(name, cursor.instances[0])), n) for name, n in (("block", blocks), ("slot", TWO)))
        pieces = Generate((*lowered.stage.axes, *own), tuple(Item(fold, k) for k in range(len(fold.left))))
        flat = Flat(segments, axis, position, base, count, total, block, blocks, begins, pieces)
        storages: dict[Array, Storage] = self.loops.converter.storages  # type: ignore[assignment]
        for k, value in enumerate(fold.left):
            buffer = builder.alloc("pieces", value.dtype, (blocks, TWO), "heap")
            storages[Result(pieces, k)] = Storage(
                buffer, (), (), tuple((len(lowered.stage.axes) + d, ()) for d in (0, 1))
            )
        # the offsets of every segment are checked once, whichever blocks read them
        self._part(
            cursor, "check", base, end, lambda number: self._values(cursor, (segments.checked,), {axis.var: number})
        )
        with builder.unless_empty([count]):
            self._part(cursor, "search", ZERO, ix.add(blocks, 1), lambda number: self._begin(cursor, flat, number))
            self._blocks(cursor, flat)
            self._join(cursor, flat)

    def _values(self, cursor: LoopCursor, expressions: Sequence[Expr], more: dict[Node, Node]) -> list[NestExpr]:
        """Emits expressions of the stage, given the values of more of its variables."""
        values = {**self.loops.environment(cursor, 0), **more}
        converter = self.loops.converter
        return self.loops.emitter.values(
            converter.convert(expressions, values, self.builder.assumptions, cursor.identity)
        )

    def _part(self, cursor: LoopCursor, part: str, low: Expr, high: Expr, body: Callable[[Expr], object]) -> None:
        """Emits a part of the strategy with one axis, over low … high − 1, in its own loops, with `body` at each index."""
        lowered = cursor.lowered

        def element(inner: LoopCursor) -> None:
            for coordinates in inner.instances:
                (number,) = (coordinates.ranges[axis.name].value for axis in inner.lowered.stage.axes)
                assert number is not None
                body(number)

        whole = part_stage(lowered.stage, lowered.plan, part)
        plan = without_threads(part_plan(lowered.stage, lowered.plan, part), self.builder.threaded > 0)
        own = LoweredStage(whole, plan, (), None, lowered.position)
        coordinates = Coordinates([(whole.axes[0].name, low, high)], plan.relations)
        self.loops.level(LoopCursor(own, [coordinates], Phase(element)), 0)

    def _begin(self, cursor: LoopCursor, flat: Flat, block: Expr) -> None:
        """Stores the number of segments that end before a block, by bisection along its diagonal."""
        low, high = fresh("low"), fresh("high")
        before = self.builder.name("before", flat.diagonal(block))
        start = self.builder.name("start", ix.maximum(ix.sub(before, ix.sub(flat.total, flat.count)), 0))
        stop = self.builder.name("stop", ix.minimum(before, flat.count))
        middle = ix.floordiv(ix.add(low, high), 2)
        ended = Op("le", bool_, (flat.segments.end, ix.sub(ix.sub(before, middle), 1)))
        halves = Op("select", i64, (ended, ix.add(middle, 1), low)), Op("select", i64, (ended, high, middle))
        search = While(Op("lt", bool_, (low, high)), (low, high), (start, stop), halves)
        (found,) = self._values(cursor, (Item(search, 0),), {flat.axis.var: ix.add(flat.base, middle)})
        self.builder.add(Store(flat.begins, (block,), found))

    @contextmanager
    def _each_block(self, cursor: LoopCursor, flat: Flat, part: str) -> Iterator[Part]:
        """The loop over blocks of a part, as a context that yields the block's share."""
        builder, stage, block = self.builder, cursor.lowered.stage, fresh("block")
        loop = part_loop(stage, cursor.lowered.plan, part, 0)
        how = as_planned(loop, stage.name, "serial" if builder.threaded else loop.kind)
        if how["kind"] == "parallel":
            how["certificates"] = self.loops.certificates("flat", cursor.lowered)
        with builder.loop(block, ZERO, flat.blocks, 1, **how):
            first = builder.name("first", Read(flat.begins, (block,), None))
            last = builder.name("last", Read(flat.begins, (ix.add(block, 1),), None))
            low = builder.name("low", ix.sub(flat.diagonal(block), first))
            yield Part(block, first, last, low, ix.sub(flat.diagonal(ix.add(block, 1)), last))

    def _blocks(self, cursor: LoopCursor, flat: Flat) -> None:
        """Emits the loop over blocks that makes the border pieces, and the results of the segments inside."""
        builder, lowered, segments = self.builder, cursor.lowered, flat.segments
        values = part_loop(lowered.stage, lowered.plan, "fold", -1)
        threads = None if builder.threaded else threads_of_block(lowered.stage, lowered.plan)
        own = values if values.kind == "vector" and identities_of(segments.fold) else LoopPlan(values.name)
        with self._each_block(cursor, flat, "fold") as part:
            part = replace(part, high=builder.name("high", part.high))
            if threads is not None:
                self.together.block(cursor, flat, part, threads)
                return
            with self.border(cursor, flat, part) as (piece, of_piece):
                self.fold(self.of_values(piece, flat, of_piece, own), flat)
            number = fresh(flat.axis.name)
            with builder.loop(number, ix.add(flat.base, ix.add(part.first, 1)), ix.add(flat.base, part.last), 1):
                self.fold(self.of_values(self.at(cursor, flat, number), flat, part, own), flat)

    def _join(self, cursor: LoopCursor, flat: Flat) -> None:
        """Emits the segments that end in a block and begin before it or with it, each as the fold of its pieces."""
        builder, piece = self.builder, fresh("piece")
        with self._each_block(cursor, flat, "join") as part, builder.when(Op("lt", bool_, (part.first, part.last))):
            here = self.at(cursor, flat, ix.add(flat.base, part.first))
            begin, end = self._values(here, (flat.segments.begin, flat.segments.end), {})
            # values before the first segment count as its own here; offsets may be out of order, so indices are clamped
            begin = Op("select", i64, (Op("lt", bool_, (ZERO, part.first)), ix.add(begin, part.first), ZERO))
            begin = builder.name("begin", begin)
            start = ix.minimum(ix.maximum(ix.floordiv(begin, flat.block), 0), part.block)
            stop = ix.add(part.block, Op("cast", i64, (Op("lt", bool_, (part.low, end)),)))
            slot = Op("cast", i64, (Op("lt", bool_, (ix.mul(piece, flat.block), begin)),))
            indices = (*(each.var for each in here.lowered.stage.axes), piece, slot)
            loads = tuple(Load(Result(flat.pieces, k), indices, False) for k in range(len(flat.pieces.bodies)))
            self.fold(self._along(here, flat, LoopPlan(piece.name), piece, loads, start, stop), flat)

    # Segments, whole and in pieces

    def at(self, cursor: LoopCursor, flat: Flat, number: Expr) -> LoopCursor:
        """The loop cursor of the stage at the segment of that number."""
        here = cursor.instances[0].copy()
        here.choose(cursor.lowered.plan.loops[flat.position].name, number, self.loops.bind)
        return replace(cursor, instances=[here])

    @contextmanager
    def border(self, cursor: LoopCursor, flat: Flat, part: Part) -> Iterator[tuple[LoopCursor, Part]]:
        """The loop cursor of the reduction to pieces at each of a block's two, and the values of that piece: none if the block lies inside
        one segment, or behind all."""
        builder, slot = self.builder, fresh("slot")
        block, side = flat.pieces.axes[-2:]
        lowered = copy(cursor.lowered)
        lowered.stage, lowered.bodies = (
            replace(lowered.stage, axes=flat.pieces.axes, form=flat.pieces),
            flat.pieces.bodies,
        )
        with builder.loop(slot, ZERO, TWO, 1):
            other = Op("select", i64, (Op("lt", bool_, (part.first, part.last)), part.last, flat.count))
            border = builder.name("border", Op("select", i64, (Op("eq", bool_, (slot, ZERO)), part.first, other)))
            high = Op("select", i64, (Op("lt", bool_, (border, flat.count)), part.high, part.low))
            own = replace(part, high=builder.name("high", high))
            here = self.at(cursor, flat, ix.add(flat.base, ix.minimum(border, ix.sub(flat.count, 1))))
            chosen = here.instances[0]
            for axis, value in ((block, part.block), (side, slot)):
                chosen = chosen.extended(axis.name, value, ix.add(value, 1), value)
            yield replace(here, lowered=lowered, instances=[chosen]), own

    def of_values(self, cursor: LoopCursor, flat: Flat, part: Part, loop: LoopPlan) -> LoopCursor:
        """The loop cursor of the stage as a fold of a segment's values in a block; no other values are read,
        even if offsets are out of order."""
        builder, segments = self.builder, flat.segments
        begin, end = self._values(cursor, (segments.begin, segments.end), {})
        start = builder.name("start", ix.maximum(part.low, begin))
        stop = builder.name("stop", ix.maximum(start, ix.minimum(part.high, end)))
        made = self._along(cursor, flat, loop, segments.fold.axes[0].var, segments.fold.values, start, stop)
        zero = unused("begin", made.instances[0])  # values are read at this variable plus their number in the segment
        made.lowered.variables |= {zero: segments.checked}  # type: ignore[dict-item]
        return replace(made, instances=[made.instances[0].extended(zero, ZERO, ONE, ZERO)])

    def _along(
        self,
        cursor: LoopCursor,
        flat: Flat,
        loop: LoopPlan,
        variable: Var,
        values: tuple[Expr, ...],
        low: Expr,
        high: Expr,
    ) -> LoopCursor:
        """The loop cursor of the stage as a fold of `values` along a variable, over low … high − 1, by a loop inside its own."""
        lowered, fold = cursor.lowered, flat.segments.fold
        loop = replace(loop, name=unused(loop.name, cursor.instances[0]))
        commutes = fold.commutative or bool(identities_of(fold))
        axes = (Axis(fresh(loop.name), high),)
        fold = with_fields(fold, axes=axes, values=values, commutative=commutes)
        plan = replace(lowered.plan, strategy=None, parts=(), loops=(*lowered.plan.loops, loop))
        made = LoweredStage(replace(lowered.stage, reduction=fold), plan, (), None, lowered.position, lowered.blocked)
        made.bodies, made.reduction, made.carried = lowered.bodies, flat.segments.fold, fold
        made.variables = {**made.variables, loop.name: variable}
        here = cursor.instances[0].extended(loop.name, low, high)
        return replace(cursor, lowered=made, instances=[here], phase=self.loops.compute, versioned=True)

    def fold(self, cursor: LoopCursor, flat: Flat, by: Callable[[LoopCursor, int], None] | None = None) -> None:
        """Emits the stage at a segment: its fold, by its own loop unless `by` emits it, and its results. Lanes and threads skip empty
        segments, because combining their parts takes longer than folding one value."""
        position, own = flat.position + 1, self.loops.reductions
        loop = cursor.lowered.plan.loops[position]
        low, high, _ = cursor.instances[0].bounds(loop.name)
        total = own.allocate(cursor, position)
        own.part(cursor, position, own.start, total)
        with ExitStack() as tests:
            if by is not None or loop.kind == "vector":
                some = self.builder.when(Op("lt", bool_, (low, high)), ix.sub(ix.sub(high, low), 1))
                tests.enter_context(some)
            if by is None:
                own.part(cursor, position, own.fold, total)
            else:
                by(replace(cursor, phase=own.fold, accumulators=total), position)
        own.part(cursor, position, own.finish, total)
