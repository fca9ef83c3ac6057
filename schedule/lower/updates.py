"""Updates: results that start as other arrays, and steps that each change the element they name.

    serial   the results are set, then the steps run in order
    atomic   the results are set, then the steps run in any order, each indivisible
    private  chunks of the steps fold into bins of their own, which start as the neutral element: several sets a chunk, taken in turn, so
             that a step need not wait for the one before it; then every element takes its bins in, chunk by chunk. Fewer than two
             chunks: the steps run in order
             Where the steps are bound to threads of a GPU, a chunk is a block, whose threads share bins, in shared memory if these
             have a constant size, and take their steps indivisibly
    sorted   the steps are brought into the order of the elements that they change first (`sorted_updates`)

How many chunks there are, the schedule says; never the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from raido.algo.graph import index as ix
from raido.algo.graph.dtypes import bool_, i64
from raido.algo.graph.expr import Axis, Const, Expr, Item, Node, Op, Reduce, Result, Var, const, fresh
from raido.algo.graph.faults import unsigned_kind
from raido.algo.graph.rewrite import topological
from raido.schedule.lower.block_bins import Bins, BlockBins, deals_out
from raido.schedule.lower.builder import Builder, as_planned, closed
from raido.schedule.lower.chunks import chunks_of, each_chunk
from raido.schedule.lower.convert import conjunction
from raido.schedule.lower.coordinates import Coordinates
from raido.schedule.lower.index_checks import is_affine
from raido.schedule.lower.jobs import Job
from raido.schedule.lower.sorted_updates import SortedUpdates
from raido.schedule.lower.thread_folds import is_bound
from raido.schedule.lower.work import Phase, Work, over_reduced
from raido.schedule.nest.nodes import Check, If, Store
from raido.schedule.nest.values import Buffer, NestExpr, Read
from raido.schedule.stages.stage import initial_values
from raido.schedule.strategy_parts import part_plan, part_stage, without_threads

if TYPE_CHECKING:
    from raido.schedule.lower.loops import Loops


class Updates:
    """Emits updates with the loops of `Loops`."""

    def __init__(self, loops: Loops) -> None:
        self.loops = loops
        self.builder: Builder = loops.builder
        self.sorted = SortedUpdates(self)
        self.blocks = BlockBins(self)
        self.setting = Phase(self._each_copy(self._set), over_reduced)
        self.stepping = self.steps(self.step)

    def update(self, work: Work, position: int) -> None:
        """The update whose outermost step loop stands at `position`."""
        name, numbers = work.job.plan.strategy or ("serial", ())
        if not work.job.in_place and name != "private":
            self._pass(work, position, self.setting)
        if name not in ("private", "sorted"):
            self._pass(work, position, self.stepping)
            return
        chosen: dict[str, Any] = dict(numbers)
        for k in range(len(work.copies)):
            single = replace(work, copies=[work.copies[k]], origin_of=[work.origin_of[k]])
            if name == "private":
                self._private(single, position, chosen["chunks"], chosen["replicas"])
            else:
                self.sorted.update(single, position, chosen["bins"], chosen["chunks"])

    def steps(self, step: Callable[[Work, dict[Node, Node]], None]) -> Phase:
        """The phase that runs through the steps of an update, with `step` at each, given the values of variables."""
        return Phase(self._each_copy(step), lambda work, position: work.job.chosen_by_steps(position))

    def _pass(self, work: Work, position: int, phase: Phase) -> None:
        self.loops.placer.begin_pass()
        self.loops.level(replace(work, copies=[c.copy() for c in work.copies], phase=phase), position)

    # Private bins

    def _private(self, work: Work, position: int, wanted: int | Expr, copies: int) -> None:
        """The steps in chunks with bins of their own; in order, if there is but one. Results that start as constants are not set before
        chunks: each begins as its constant where it takes bins in."""
        set_before = not work.job.in_place and self._starts_of(work) is None
        if set_before:
            self._pass(work, position, self.setting)

        def in_order() -> None:
            if not work.job.in_place and not set_before:
                self._pass(work, position, self.setting)
            self._pass(work, position, self.stepping)

        if ix.constant_value(wanted) in (0, 1):
            in_order()
            return
        builder = self.builder
        chunks = builder.name("chunks", ix.as_index(wanted))
        with builder.block(branch=True) as plain:
            in_order()
        with builder.block(builder.facts.with_known(ix.sub(chunks, 2)), branch=True) as chunked:
            self._chunks(work, position, copies, chunks)
        builder.add(If(Op("lt", bool_, (ix.as_index(1), chunks)), closed(chunked), closed(plain)))

    def open_axes(self, work: Work) -> tuple[Axis, ...]:
        """The result's axes that no loop has chosen yet."""
        return tuple(axis for axis in work.job.stage.axes if work.copies[0].ranges[axis.name].value is None)

    def _chunks(self, work: Work, position: int, copies: int, chunks: Expr) -> None:
        if deals_out(work.job):
            self.blocks.chunks(work, position, copies, chunks)
            return
        builder, job = self.builder, work.job
        plan, axes = job.plan.loops[position], self.open_axes(work)
        low, high, _ = work.copies[0].bounds(plan.name)
        parts = chunks_of(builder, low, high, chunks)
        shape = (chunks, ix.as_index(copies), *(axis.extent for axis in axes))
        partials = tuple(builder.alloc("bins", v.dtype, shape, "heap") for v in _fold(work).left)
        with each_chunk(builder, parts, stage=job.stage.name, loop=plan.name) as (chunk, first, end):
            copy = fresh("copy")
            with builder.loop(copy, ix.as_index(0), ix.as_index(copies), 1):
                self.clear(work, Bins(partials, (chunk, copy), axes))
            inside = [c.copy() for c in work.copies]
            inside[0].narrow(plan.name, first, end)
            self._steps(replace(work, copies=inside), position, Bins(partials, (chunk,), axes), copies)
        self.take_in(work, Bins(partials, (), axes), chunks, copies)

    def _steps(self, work: Work, position: int, bins: Bins, copies: int) -> None:
        """The steps of a chunk; those of the only loop over them take the sets of bins in turn."""
        plan, job = work.job.plan.loops[position], work.job

        def into(copy: int) -> Phase:
            return self.steps(partial(self.step, bins=replace(bins, first=(*bins.first, ix.as_index(copy)))))

        inner = [loop for loop in job.plan.loops[position:] if loop.name in job.reduced]
        if len(inner) > 1 or plan.kind != "serial" or copies == 1:
            kind = None if plan.kind == "vector" else "serial"
            self.loops.loop(replace(work, phase=into(0)), position, kind)
            return
        low, high, step = work.copies[0].bounds(plan.name)
        rest = self.builder.name("rest", ix.sub(high, ix.mod(ix.maximum(ix.sub(high, low), 0), copies * step)))
        for start, end, count in ((low, rest, copies), (rest, high, 1)):
            var = fresh(plan.name)
            with self.builder.loop(var, start, end, count * step, stage=job.stage.name, loop=plan.name):
                for k in range(count):
                    part = replace(work, copies=[c.copy() for c in work.copies], phase=into(k))
                    self.loops.choose(part, position, [[ix.add(var, k * step)]])

    def clear(self, work: Work, bins: Bins) -> None:
        """Bins start as the neutral element."""

        def set_one(values: dict[Node, Node], at: tuple[Expr, ...]) -> None:
            neutral = self.loops.emitter.values(self._operator(work, values).neutral)
            for buffer, value in zip(bins.buffers, neutral, strict=True):
                self.builder.add(Store(buffer, (*bins.first, *at), value))

        self.each_bin(work, bins.axes, set_one)

    def take_in(self, work: Work, bins: Bins, chunks: Expr, copies: int) -> None:
        """Every element of the results takes its bins in, in order, in the loops of the part "combine"."""
        job = work.job
        whole = part_stage(job.stage, job.plan, "combine")
        plan = without_threads(part_plan(job.stage, job.plan, "combine"), self.builder.threaded > 0)
        ranges = []
        for axis in job.stage.axes:
            value = work.copies[0].ranges[axis.name].value
            ranges.append((axis.name, *((ix.as_index(0), axis.extent) if value is None else (value, ix.add(value, 1)))))

        def combine(_: Work, values: dict[Node, Node]) -> None:
            self._take(work, self.loops.environment(work, 0) | values, bins, chunks, copies)

        part = Job(whole, plan, (), None, job.position)
        phase = Phase(self._each_copy(combine))
        self.loops.level(Work(part, [Coordinates(ranges, plan.relations)], phase), 0)

    def _take(self, work: Work, values: dict[Node, Node], bins: Bins, chunks: Expr, copies: int) -> None:
        """One element takes its bins in."""
        builder, loops, job = self.builder, self.loops, work.job
        form = self._operator(work, values)
        place = tuple(values[axis.var] for axis in job.stage.axes)
        at = tuple(values[axis.var] for axis in bins.axes)
        storages = [loops.converter.storages[Result(job.form, j)] for j in range(len(form.left))]
        where = storages[0].place(place, builder.facts)  # type: ignore[arg-type]
        total = [builder.alloc("total", v.dtype, (), "register") for v in form.left]
        starts = self._starts_of(work) or [Read(storage.buffer, where, None) for storage in storages]
        for register, start in zip(total, starts, strict=True):
            builder.add(Store(register, (), start))
        chunk, copy = fresh("chunk"), fresh("copy")
        with (
            builder.loop(chunk, ix.as_index(0), chunks, 1),
            builder.loop(copy, ix.as_index(0), ix.as_index(copies), 1),
        ):
            left = [builder.name("old", Read(register, (), None)) for register in total]
            right = [builder.name("bin", Read(buffer, (chunk, copy, *at), None)) for buffer in bins.buffers]
            loops.emitter.combine_into(form, total, (), left, right)
        for register, storage in zip(total, storages, strict=True):
            builder.add(Store(storage.buffer, where, Read(register, (), None)))

    @staticmethod
    def _starts_of(work: Work) -> list[NestExpr] | None:
        """The constants that results start as; None where they start as anything else, or are there before the steps."""
        starts = initial_values(_fold(work))
        return list(starts) if not work.job.in_place and all(isinstance(v, Const) for v in starts) else None

    def each_bin(self, work: Work, axes: Sequence[Axis], body: Callable[..., None]) -> None:
        """Loops over axes, along the last as `_along_bins` says; `body(values of variables, indices)` inside."""
        along = self._along_bins(work.job)

        def nest(rest: Sequence[Axis], at: tuple[Expr, ...]) -> None:
            if not rest:
                values = {**self.loops.environment(work, 0), **{a.var: i for a, i in zip(axes, at, strict=True)}}
                body(values, at)
                return
            var = fresh(rest[0].name)
            low, high = ix.as_index(0), rest[0].extent
            with self.builder.loop(var, low, high, 1, **(along if len(rest) == 1 else {})):
                nest(rest[1:], (*at, var))

        nest(axes, ())

    def _along_bins(self, job: Job) -> dict[str, Any]:
        """How the loop along the last axis of bins runs: by threads of a block where the steps do, else in the lanes of part "combine"."""
        lanes = [loop for loop in part_plan(job.stage, job.plan, "combine").loops if loop.kind == "vector"]
        chosen = [loop for loop in job.plan.loops if is_bound(loop, "thread")] or lanes
        return as_planned(chosen[0], job.stage.name) if chosen else {}

    def _form(self, work: Work, values: dict[Node, Node]) -> Reduce:
        """The fold with the axes' variables replaced."""
        return self._converted(work, _fold(work), values)

    def _operator(self, work: Work, values: dict[Node, Node]) -> Reduce:
        """The same with the neutral elements for values, which may be had where no step is."""
        own = _fold(work)
        form = Reduce(own.axes, own.left, own.right, own.combine, own.neutral, own.neutral, own.commutative, own.monoid)
        return self._converted(work, form, values)

    def _converted(self, work: Work, form: Reduce, values: dict[Node, Node]) -> Reduce:
        (item,) = self.loops.converter.convert((Item(form, 0),), values, self.builder.facts, work.identity)
        converted: Reduce = item.form
        return converted

    # One element

    def _each_copy(self, body: Callable[[Work, dict[Node, Node]], None]) -> Callable[[Work], None]:
        """The action of a phase at an element: `body`, for each copy, given the values of variables."""

        def element(work: Work) -> None:
            for k in range(len(work.copies)):
                body(work, self.loops.environment(work, k))

        return element

    def _set(self, work: Work, values: dict[Node, Node]) -> None:
        job, loops = work.job, self.loops
        start = loops.converter.convert(initial_values(_fold(work)), values, self.builder.facts, work.identity)
        place = tuple(values[axis.var] for axis in job.stage.axes)
        for j, value in enumerate(loops.emitter.values(start)):
            storage = loops.converter.storages[Result(job.form, j)]
            self.builder.add(Store(storage.buffer, storage.place(place, self.builder.facts), value))  # type: ignore[arg-type]

    def step(self, work: Work, values: dict[Node, Node], bins: Bins | None = None) -> None:
        """One step, into the results or into bins."""
        brought, places, holds = self.read_step(work, values)
        self.take_step(work, values, places, brought, holds, bins)

    def read_step(
        self, work: Work, values: dict[Node, Node], with_values: bool = True
    ) -> tuple[list[NestExpr], dict[Axis, NestExpr], NestExpr | None]:
        """The values of a step, the index that it updates, and the conditions under which it does."""
        job, loops, builder = work.job, self.loops, self.builder
        update, form = job.stage.update, self._form(work, values)
        assert update is not None
        count, indices = len(form.left), sum(number is not None for number in update.places)
        first = 0 if with_values else count
        named = loops.emitter.values(form.values[first : count + indices])
        for k, value in enumerate(named):
            if _reads(value) and (job.in_place or k >= count - first):  # an index is asked for before it is used
                named[k] = builder.name("new" if job.in_place else "index", value)
        places: dict[Axis, NestExpr] = {}
        tests: list[NestExpr] = []
        for d, (axis, number) in enumerate(zip(job.stage.axes, update.places, strict=True)):
            places[axis] = values[axis.var] if number is None else named[number - first]  # type: ignore[assignment]
            inside = self._inside(places[axis], axis.extent) if number is not None else []
            if inside and update.checked:
                details = (const(i64, d), places[axis], axis.extent)
                kind = unsigned_kind("index", form.values[number or 0])
                builder.add(Check(conjunction(inside), kind, loops.converter.sites.number(job.form), details))
            tests += inside
        return named[: count - first], places, conjunction(tests) if tests else None

    def take_step(
        self,
        work: Work,
        values: dict[Node, Node],
        places: dict[Axis, NestExpr],
        brought: Sequence[NestExpr],
        holds: NestExpr | None = None,
        bins: Bins | None = None,
    ) -> None:
        """The element at `places`, of the results or of bins, takes what a step brings."""
        job, update = work.job, work.job.stage.update
        assert update is not None
        buffers, where = self._target(work, places, len(brought), bins)
        if update.mode == "combine":
            name = job.plan.strategy[0] if job.plan.strategy else ""
            atomic = name == "atomic" or (name == "private" and deals_out(job))
            self._fold_in(self._operator(work, values), brought, buffers, where, holds, atomic)
            return
        for buffer, value in zip(buffers, brought, strict=True):
            self.builder.add(Store(buffer, where, value, holds))

    def _inside(self, place: NestExpr, extent: Expr) -> list[NestExpr]:
        """The conditions under which an index is in range."""
        facts, affine = self.builder.facts, is_affine(place)
        tests: list[NestExpr] = []
        if not (affine and facts.nonnegative(place)):
            tests.append(Op("ge", bool_, (place, const(i64, 0))))
        if not (affine and facts.less(place, extent)):
            tests.append(Op("lt", bool_, (place, extent)))
        return tests

    def _target(
        self, work: Work, places: dict[Axis, NestExpr], count: int, bins: Bins | None
    ) -> tuple[tuple[Buffer, ...], tuple[Expr, ...]]:
        """The buffers that a step changes, and where."""
        if bins is not None:
            return bins.buffers, (*bins.first, *(places[axis] for axis in bins.axes))
        storages = [self.loops.converter.storages[Result(work.job.form, j)] for j in range(count)]
        where = storages[0].place(tuple(places.values()), self.builder.facts)
        return tuple(storage.buffer for storage in storages), where

    def _fold_in(
        self,
        form: Reduce,
        values: Sequence[NestExpr],
        buffers: tuple[Buffer, ...],
        where: tuple[Expr, ...],
        holds: NestExpr | None,
        atomic: bool,
    ) -> None:
        step = Reduce(form.axes, form.left, form.right, form.combine, form.neutral, tuple(values), True, form.monoid)

        def fold() -> None:
            if atomic:
                self.loops.emitter.atomics(step, buffers, where)
            else:
                self.loops.emitter.folds([(step, buffers, where)], contract=False)

        if holds is None:
            fold()
            return
        with self.builder.block(branch=True) as scope:
            fold()
        self.builder.add(If(holds, closed(scope)))


def _fold(work: Work) -> Reduce:
    assert work.job.reduction is not None
    return work.job.reduction


def _reads(e: NestExpr) -> bool:
    """Whether a value is read from memory, which steps change."""
    return not isinstance(e, (Const, Var)) and any(isinstance(node, Read) for node in topological(e))
