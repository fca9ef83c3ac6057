"""Segmented reductions in blocks that are even, however long segments are: `strategy("flat")`.

Segments' ends and values, merged in order, are one sequence; blocks are equal parts of it, so that neither many short segments nor a
long one make a block more work than another. Where a block begins is found by bisection. Threads fold the pieces of segments in each
block and finish the segments that lie inside; the pieces at a block's borders are combined afterwards, in order. Blocks follow from the
numbers of segments and values alone. (Merrill & Garland, Merge-based parallel sparse matrix-vector multiplication, 2016.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from raido.algo.graph import index as ix
from raido.algo.graph.dtypes import bool_, i64
from raido.algo.graph.expr import Expr, Item, Node, Op, Reduce, const, fresh
from raido.algo.graph.reduction import identities_of
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


@dataclass(frozen=True, slots=True)
class Flat:
    """The segments of a stage, from number `base` on, and their blocks: where each begins, what its two border pieces are, and whether
    they have values.
    """

    segments: Segments
    base: Expr
    count: Expr
    total: Expr
    block: int
    blocks: Expr
    begins: Buffer
    pieces: tuple[Buffer, ...]
    filled: Buffer

    def diagonal(self, number: Expr) -> Expr:
        """How many ends and values stand before a block."""
        return ix.minimum(ix.mul(number, self.block), self.total)


class FlatSegments:
    """Emits segmented reductions with the loops of `Loops`."""

    def __init__(self, loops: Loops) -> None:
        self.loops = loops
        self.builder: Builder = loops.builder

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
        low, high = (builder.alloc(name, i64, (), "register") for name in ("low", "high"))
        builder.add(Store(low, (), ix.maximum(ix.sub(before, ix.sub(flat.total, flat.count)), 0)))
        builder.add(Store(high, (), ix.minimum(before, flat.count)))
        with builder.block(loop=True) as setup:
            first, last = (builder.name(b.name, Read(b, (), None)) for b in (low, high))
            with builder.block(loop=True) as body:
                middle = builder.name("middle", ix.floordiv(ix.add(first, last), 2))
                (end,) = self._values(work, (segments.end,), {axis.var: ix.add(flat.base, middle)})
                ended = Op("le", bool_, (end, ix.sub(ix.sub(before, middle), 1)))
                with builder.block(branch=True) as yes:
                    builder.add(Store(low, (), ix.add(middle, 1)))
                with builder.block(branch=True) as no:
                    builder.add(Store(high, (), middle))
                builder.add(If(ended, closed(yes), closed(no)))
        builder.add(While(closed(setup), Op("lt", bool_, (first, last)), closed(body)))
        builder.add(Store(flat.begins, (number,), Read(low, (), None)))

    def _blocks(self, work: Work, position: int, flat: Flat) -> None:
        """Every block's pieces; the segments inside are finished."""
        builder, segments, stage = self.builder, flat.segments, work.job.stage
        axis, loop = stage.axes[segments.axis], part_loop(stage, work.job.plan, "fold", 0)
        block, number, slot = fresh("block"), fresh(axis.name), fresh("slot")
        how = as_planned(loop, stage.name, "serial" if builder.threaded else loop.kind)
        if how["kind"] == "parallel":
            how["certificates"] = self.loops.certificates("flat", work.job)
        with builder.loop(block, ZERO, flat.blocks, 1, **how):
            first = builder.name("first", Read(flat.begins, (block,), None))
            last = builder.name("last", Read(flat.begins, (ix.add(block, 1),), None))
            low = builder.name("low", ix.sub(flat.diagonal(block), first))
            high = builder.name("high", ix.sub(flat.diagonal(ix.add(block, 1)), last))
            borders = ix.add(ONE, Op("select", i64, (Op("lt", bool_, (first, last)), ONE, ZERO)))
            with builder.loop(slot, ZERO, borders, 1):
                border = builder.name("border", Op("select", i64, (Op("eq", bool_, (slot, FIRST)), first, last)))
                with builder.when(Op("lt", bool_, (border, flat.count)), ix.sub(ix.sub(flat.count, border), 1)):
                    border = ix.add(flat.base, border)
                    begin, start, stop = self._bounds(work, segments, border, low, high)
                    builder.add(Store(flat.filled, (block, slot), Op("lt", bool_, (start, stop))))
                    piece = self._piece(work, segments, border, begin, start, stop)
                    for buffer, register in zip(flat.pieces, piece, strict=True):
                        builder.add(Store(buffer, (block, slot), Read(register, (), None)))
            with builder.loop(number, ix.add(flat.base, ix.add(first, 1)), ix.add(flat.base, last), 1):
                begin, start, stop = self._bounds(work, segments, number, low, high)
                piece = self._piece(work, segments, number, begin, start, stop)
                result = self._start(work, segments, "result")
                some = Op("lt", bool_, (start, stop))
                self._take(work, segments, result, [Read(b, (), None) for b in piece], some)
                self._finish(work, position, segments, number, result)

    def _bounds(self, work: Work, segments: Segments, number: Expr, low: Expr, high: Expr) -> tuple[Expr, Expr, Expr]:
        """The first index of a segment, and its part of low … high: nothing else is read, even if offsets are in no order."""
        axis = work.job.stage.axes[segments.axis]
        begin, end = self._values(work, (segments.begin, segments.end), {axis.var: number})
        begin = self.builder.name("begin", begin)
        start = self.builder.name("start", ix.maximum(low, begin))
        return begin, start, self.builder.name("stop", ix.maximum(start, ix.minimum(high, end)))

    def _piece(
        self, work: Work, segments: Segments, number: Expr, begin: Expr, start: Expr, stop: Expr
    ) -> tuple[Buffer, ...]:
        """The values start … stop − 1, all of one segment, folded; anything where there are none."""
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
            first = ix.add(start, 1)
        loop = part_loop(work.job.stage, work.job.plan, "fold", -1)
        how = as_planned(loop, work.job.stage.name) if loop.kind == "vector" and neutral else {}
        place = fresh(fold.axes[0].var.name)
        with builder.loop(place, first, stop, 1, **how):
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
        builder, fold = self.builder, segments.fold
        operator = Reduce(
            fold.axes, fold.left, fold.right, fold.combine, fold.neutral, fold.neutral, False, fold.monoid
        )
        with builder.when(some):
            left = [builder.name("left", Read(register, (), None)) for register in total]
            right = [builder.name("right", value) for value in piece]
            values = self.loops.environment(work, 0)
            (item,) = self.loops.converter.convert((Item(operator, 0),), values, builder.facts, work.identity)
            self.loops.emitter.combine_into(item.form, total, (), left, right)

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

    def _take_piece(self, work: Work, flat: Flat, running: Sequence[Buffer], block: Expr, slot: Expr) -> None:
        some = self.builder.name("some", Read(flat.filled, (block, slot), None))
        piece = [Read(buffer, (block, slot), None) for buffer in flat.pieces]
        self._take(work, flat.segments, running, piece, some)
