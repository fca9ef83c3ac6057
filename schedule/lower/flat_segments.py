"""Segmented reductions in blocks that are even, however long segments are: `strategy("flat")`.

Segments' ends and values, merged in order, are one sequence; blocks are equal parts of it, so that neither many short segments nor a
long one make a block more work than another. Where a block begins is found by bisection. Threads fold the pieces of segments in each
block and finish the segments that lie inside; the pieces at a block's borders are combined afterwards, in order. Blocks follow from the
numbers of segments and values alone. (Merrill & Garland, Merge-based parallel sparse matrix-vector multiplication, 2016.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from raido.algo.graph import index as ix
from raido.algo.graph.dtypes import bool_, i64
from raido.algo.graph.expr import Expr, Item, Node, Op, Reduce, const, fresh
from raido.algo.graph.reduction import identities_of
from raido.schedule.levels import bound
from raido.schedule.lower.block_segments import BlockSegments, Flat, Part, borders_of, threads_of_block
from raido.schedule.lower.builder import Builder, as_planned, closed
from raido.schedule.lower.coordinates import Coordinates
from raido.schedule.lower.jobs import Job
from raido.schedule.lower.steps import replace_neutral
from raido.schedule.lower.work import Phase, Work
from raido.schedule.nest.nodes import If, Store, While
from raido.schedule.nest.values import Buffer, NestExpr, Read
from raido.schedule.stages.segments import Segments, find_segments
from raido.schedule.strategy_parts import part_loop, part_plan, part_stage, without_threads

if TYPE_CHECKING:
    from raido.schedule.lower.loops import Loops

ZERO, ONE = ix.as_index(0), ix.as_index(1)
FIRST, LAST = ix.as_index(0), ix.as_index(1)


class FlatSegments:
    """Emits segmented reductions with the loops of `Loops`."""

    def __init__(self, loops: Loops) -> None:
        self.loops = loops
        self.builder: Builder = loops.builder
        self.together = BlockSegments(self)

    def reduce(self, work: Work, position: int) -> None:
        """The stage from the loop over segments on, for each copy."""
        for k in range(len(work.copies)):
            single = replace(work, copies=[work.copies[k]], origin_of=[work.origin_of[k]])
            self._reduce(single, position)

    def _reduce(self, work: Work, position: int) -> None:
        builder, job = self.builder, work.job
        segments = find_segments(job.bodies, job.stage.axes)
        assert segments is not None
        block = int(str(dict(job.plan.strategy[1])["block"]))  # type: ignore[index]
        base, end, _ = work.copies[0].bounds(job.plan.loops[position].name)
        count = ix.sub(end, base)
        (size,) = self._values(work, (segments.size,), {})
        total = builder.name("total", ix.add(count, size))
        blocks = builder.name("blocks", ix.ceildiv(total, block))
        begins = builder.alloc("begins", i64, (ix.add(blocks, 1),), "heap")
        two = ix.as_index(2)
        pieces = tuple(builder.alloc("pieces", v.dtype, (blocks, two), "heap") for v in segments.fold.left)
        filled = builder.alloc("filled", bool_, (blocks, two), "heap")
        flat = Flat(segments, base, count, total, block, blocks, begins, pieces, filled)
        # every segment's offsets are in order, whichever blocks look at it
        self._part(work, "check", base, ix.add(base, count), lambda number: self._check(work, segments, number))
        self._part(work, "search", ZERO, ix.add(blocks, 1), lambda number: self._bisect(work, flat, number))
        self._blocks(work, position, flat)
        self._join(work, position, flat)

    def _values(self, work: Work, expressions: Sequence[Expr], more: dict[Node, Node]) -> list[NestExpr]:
        """Statements that evaluate expressions of the stage, given more of its variables."""
        values = {**self.loops.environment(work, 0), **more}
        converter = self.loops.converter
        return self.loops.emitter.values(converter.convert(expressions, values, self.builder.facts, work.identity))

    def _part(self, work: Work, part: str, low: Expr, high: Expr, body: Callable[[Expr], object]) -> None:
        """A part with one axis, over low … high − 1, in its own loops, with `body` at each place."""
        job = work.job

        def element(inner: Work) -> None:
            for coordinates in inner.copies:
                (number,) = (coordinates.ranges[axis.name].value for axis in inner.job.stage.axes)
                assert number is not None
                body(number)

        whole = part_stage(job.stage, job.plan, part)
        plan = without_threads(part_plan(job.stage, job.plan, part), self.builder.threaded > 0)
        own = Job(whole, plan, (), None, job.position)
        coordinates = Coordinates([(whole.axes[0].name, low, high)], plan.relations)
        self.loops.level(Work(own, [coordinates], Phase(element)), 0)

    def _check(self, work: Work, segments: Segments, number: Expr) -> None:
        self._values(work, (segments.checked,), {work.job.stage.axes[segments.axis].var: number})

    def _bisect(self, work: Work, flat: Flat, number: Expr) -> None:
        """How many segments have ended before a block."""
        builder, segments = self.builder, flat.segments
        axis = work.job.stage.axes[segments.axis]
        before = builder.name("before", flat.diagonal(number))
        start = ix.maximum(ix.sub(before, ix.sub(flat.total, flat.count)), 0)

        def has_ended(middle: Expr) -> Expr:
            (end,) = self._values(work, (segments.end,), {axis.var: ix.add(flat.base, middle)})
            return Op("le", bool_, (end, ix.sub(ix.sub(before, middle), 1)))

        ended = self._bisected(start, ix.minimum(before, flat.count), has_ended)
        builder.add(Store(flat.begins, (number,), ended))

    def _bisected(self, start: Expr, stop: Expr, holds: Callable[[Expr], Expr]) -> Read:
        """The first of the numbers start … stop − 1 for which something does not hold that held for all before it, else `stop`."""
        builder = self.builder
        low, high = (builder.alloc(name, i64, (), "register") for name in ("low", "high"))
        builder.add(Store(low, (), start))
        builder.add(Store(high, (), stop))
        with builder.block(loop=True) as setup:
            first, last = (builder.name(b.name, Read(b, (), None)) for b in (low, high))
            with builder.block(loop=True) as body:
                middle = builder.name("middle", ix.floordiv(ix.add(first, last), 2))
                condition = holds(middle)
                with builder.block(branch=True) as yes:
                    builder.add(Store(low, (), ix.add(middle, 1)))
                with builder.block(branch=True) as no:
                    builder.add(Store(high, (), middle))
                builder.add(If(condition, closed(yes), closed(no)))
        builder.add(While(closed(setup), Op("lt", bool_, (first, last)), closed(body)))
        return Read(low, (), None)

    def _blocks(self, work: Work, position: int, flat: Flat) -> None:
        """Every block's pieces; the segments inside are finished."""
        builder, segments, stage = self.builder, flat.segments, work.job.stage
        axis, loop = stage.axes[segments.axis], part_loop(stage, work.job.plan, "fold", 0)
        block, number, slot = fresh("block"), fresh(axis.name), fresh("slot")
        how = as_planned(loop, stage.name, "serial" if builder.threaded else loop.kind)
        if how["kind"] == "parallel":
            how |= bound(stage, work.job.plan, loop)
            how["certificates"] = self.loops.certificates("flat", work.job)
        threads = None if builder.threaded else threads_of_block(stage, work.job.plan)
        with builder.loop(block, ZERO, flat.blocks, 1, **how):
            first = builder.name("first", Read(flat.begins, (block,), None))
            last = builder.name("last", Read(flat.begins, (ix.add(block, 1),), None))
            low = builder.name("low", ix.sub(flat.diagonal(block), first))
            high = builder.name("high", ix.sub(flat.diagonal(ix.add(block, 1)), last))
            if threads is not None:
                self.together.block(work, position, flat, Part(block, first, last, low, high), threads)
                return
            borders = borders_of(first, last)
            with builder.loop(slot, ZERO, borders, 1):
                border = builder.name("border", Op("select", i64, (Op("eq", bool_, (slot, FIRST)), first, last)))
                with builder.when(Op("lt", bool_, (border, flat.count)), ix.sub(ix.sub(flat.count, border), 1)):
                    border = ix.add(flat.base, border)
                    begin, start, stop = self.bounds(work, segments, border, low, high)
                    builder.add(Store(flat.filled, (block, slot), Op("lt", bool_, (start, stop))))
                    piece = self.piece(work, segments, border, begin, start, stop)
                    for buffer, register in zip(flat.pieces, piece, strict=True):
                        builder.add(Store(buffer, (block, slot), Read(register, (), None)))
            with builder.loop(number, ix.add(flat.base, ix.add(first, 1)), ix.add(flat.base, last), 1):
                self.segment(work, position, segments, number, self.bounds(work, segments, number, low, high))

    def segment(
        self, work: Work, position: int, segments: Segments, number: Expr, bounds: tuple[Expr, Expr, Expr]
    ) -> None:
        """A segment that lies inside a block: its values are folded, and its results stored."""
        begin, start, stop = bounds
        piece = self.piece(work, segments, number, begin, start, stop)
        self.finish(
            work, position, segments, number, [Read(b, (), None) for b in piece], Op("lt", bool_, (start, stop))
        )

    def finish(
        self, work: Work, position: int, segments: Segments, number: Expr, piece: Sequence[NestExpr], some: NestExpr
    ) -> None:
        """The results of a segment that is one piece, if that has values."""
        result = self._start(work, segments, "result")
        self._take(work, segments, result, piece, some)
        self._finish(work, position, segments, number, result)

    def bounds(self, work: Work, segments: Segments, number: Expr, low: Expr, high: Expr) -> tuple[Expr, Expr, Expr]:
        """The first index of a segment, and its part of low … high: nothing else is read, even if offsets are in no order."""
        axis = work.job.stage.axes[segments.axis]
        begin, end = self._values(work, (segments.begin, segments.end), {axis.var: number})
        begin = self.builder.name("begin", begin)
        start = self.builder.name("start", ix.maximum(low, begin))
        return begin, start, self.builder.name("stop", ix.maximum(start, ix.minimum(high, end)))

    def piece(
        self, work: Work, segments: Segments, number: Expr, begin: Expr, start: Expr, stop: Expr, step: int = 1
    ) -> tuple[Buffer, ...]:
        """The values start … stop − 1, all of one segment, or every so many-th of them, folded; anything where there are none."""
        builder, fold = self.builder, segments.fold
        piece = tuple(builder.alloc(v.name, v.dtype, (), "register") for v in fold.left)
        neutral = identities_of(fold)
        first = start
        for register, v in zip(piece, neutral or [const(v.dtype, 0) for v in fold.left], strict=True):
            builder.add(Store(register, (), v))
        if not neutral:
            with builder.when(Op("lt", bool_, (start, stop)), ix.sub(ix.sub(stop, start), 1)):
                form = self._form(work, segments, number, begin, start)
                for register, value in zip(piece, self.loops.emitter.values(form.values), strict=True):
                    builder.add(Store(register, (), value))
            first = ix.add(start, step)
        loop = part_loop(work.job.stage, work.job.plan, "fold", -1)
        how = as_planned(loop, work.job.stage.name) if loop.kind == "vector" and neutral else {}
        place = fresh(fold.axes[0].var.name)
        with builder.loop(place, first, stop, step, **how):
            form = self._form(work, segments, number, begin, place)
            form = replace_neutral(form, neutral) if neutral else form
            self.loops.emitter.folds([(form, piece, ())])
        return piece

    def _form(self, work: Work, segments: Segments, number: Expr, begin: Expr, place: Expr) -> Reduce:
        """The fold for the value at `place` of a segment."""
        fold = segments.fold
        step: dict[Node, Node] = {
            work.job.stage.axes[segments.axis].var: number,
            segments.checked: begin,
            fold.axes[0].var: ix.sub(place, begin),
        }
        values = {**self.loops.environment(work, 0), **step}
        (item,) = self.loops.converter.convert((Item(fold, 0),), values, self.builder.facts, work.identity)
        form: Reduce = item.form
        return form

    def _start(self, work: Work, segments: Segments, name: str) -> tuple[Buffer, ...]:
        """Registers that hold what a segment begins as."""
        made = tuple(self.builder.alloc(name, v.dtype, (), "register") for v in segments.fold.left)
        self._clear(work, segments, made)
        return made

    def _clear(self, work: Work, segments: Segments, registers: Sequence[Buffer]) -> None:
        for register, value in zip(registers, self._values(work, segments.fold.neutral, {}), strict=True):
            self.builder.add(Store(register, (), value))

    def _take(
        self, work: Work, segments: Segments, total: Sequence[Buffer], piece: Sequence[NestExpr], some: NestExpr
    ) -> None:
        """`total` takes a piece in, on the right, if it has values."""
        builder = self.builder
        with builder.when(some):
            left = [builder.name("left", Read(register, (), None)) for register in total]
            right = [builder.name("right", value) for value in piece]
            self.loops.emitter.combine_into(self.operator(work, segments), total, (), left, right)

    def operator(self, work: Work, segments: Segments) -> Reduce:
        """The fold, of which the operator alone is used, where the stage is."""
        fold = segments.fold
        form = Reduce(fold.axes, fold.left, fold.right, fold.combine, fold.neutral, fold.neutral, False, fold.monoid)
        values = self.loops.environment(work, 0)
        (item,) = self.loops.converter.convert((Item(form, 0),), values, self.builder.facts, work.identity)
        operator: Reduce = item.form
        return operator

    def _finish(self, work: Work, position: int, segments: Segments, number: Expr, result: Sequence[Buffer]) -> None:
        """The stage's results for one segment."""
        copies = [c.copy() for c in work.copies]
        copies[0].choose(work.job.plan.loops[position].name, number, self.loops.bind)
        named = [self.builder.name(b.name, Read(b, (), None)) for b in result]
        items: dict[Node, Node] = {Item(segments.fold, k): value for k, value in enumerate(named)}
        self.loops.finish(replace(work, copies=copies), [items])

    def _join(self, work: Work, position: int, flat: Flat) -> None:
        """The pieces at the blocks' borders, in order, and the segments that end there."""
        builder, segments = self.builder, flat.segments
        loop = part_loop(work.job.stage, work.job.plan, "join", 0)
        if loop.kind == "parallel" and not builder.threaded:
            self._join_apart(work, position, flat, as_planned(loop, work.job.stage.name))
            return
        running = self._start(work, segments, "running")
        block = fresh("block")
        with builder.loop(block, ZERO, flat.blocks, 1):
            first = builder.name("first", Read(flat.begins, (block,), None))
            last = builder.name("last", Read(flat.begins, (ix.add(block, 1),), None))
            with builder.when(Op("lt", bool_, (first, flat.count))):
                self._take_piece(work, flat, running, block, FIRST)
                with builder.when(Op("lt", bool_, (first, last))):
                    self._finish(work, position, segments, ix.add(flat.base, first), running)
                    self._clear(work, segments, running)
                    with builder.when(Op("lt", bool_, (last, flat.count))):
                        self._take_piece(work, flat, running, block, LAST)

    def _join_apart(self, work: Work, position: int, flat: Flat, how: dict[str, Any]) -> None:
        """The same, by threads: each takes the pieces of a segment that ends in its block, from the block in which it begins."""
        builder, segments = self.builder, flat.segments
        block, other = fresh("block"), fresh("other")
        with builder.loop(block, ZERO, flat.blocks, 1, **how, certificates=self.loops.certificates("flat", work.job)):
            first = builder.name("first", Read(flat.begins, (block,), None))
            last = builder.name("last", Read(flat.begins, (ix.add(block, 1),), None))
            with builder.when(Op("lt", bool_, (first, last))):
                smaller = lambda middle: Op(
                    "lt", bool_, (builder.name("at", Read(flat.begins, (middle,), None)), first)
                )
                begin = builder.name("begin", self._bisected(ZERO, block, smaller))
                running = self._start(work, segments, "running")
                with builder.when(Op("lt", bool_, (ZERO, begin)), ix.sub(begin, 1)):
                    self._take_piece(work, flat, running, ix.sub(begin, 1), LAST)
                with builder.loop(other, begin, ix.add(block, 1), 1):
                    self._take_piece(work, flat, running, other, FIRST)
                self._finish(work, position, segments, ix.add(flat.base, first), running)

    def _take_piece(self, work: Work, flat: Flat, running: Sequence[Buffer], block: Expr, slot: Expr) -> None:
        some = self.builder.name("some", Read(flat.filled, (block, slot), None))
        piece = [Read(buffer, (block, slot), None) for buffer in flat.pieces]
        self._take(work, flat.segments, running, piece, some)
