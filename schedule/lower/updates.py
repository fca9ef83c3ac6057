"""Updates: results with initial arrays, and iterations that each change the element that they name.

    serial   the results are set, then the iterations run in order
    atomic   the results are set, then the iterations run in any order, each an atomic update
    private  chunks of the iterations fold into bins of their own, which are folded into the results (`private_bins`)
    sorted   the iterations are sorted by the elements that they change first (`sorted_updates`)

The schedule sets the number of chunks; it never depends on the number of threads. The values and indices of iterations in order may be
computed beforehand, tile by tile (`step_strips`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from raido.algo.graph import index as ix
from raido.algo.graph.dtypes import bool_, i64
from raido.algo.graph.expr import Axis, Const, Expr, Item, Node, Op, Reduce, Result, Var, const
from raido.algo.graph.faults import unsigned_kind
from raido.schedule.lower.builder import Builder, closed
from raido.schedule.lower.convert import conjunction
from raido.schedule.lower.index_checks import is_affine
from raido.schedule.lower.private_bins import PrivateBins
from raido.schedule.lower.sorted_updates import SortedUpdates
from raido.schedule.lower.step_strips import NOTHING, Made, StepStrips
from raido.schedule.lower.work import Phase, Work, over_reduced, over_results
from raido.schedule.nest.effects import reads_memory
from raido.schedule.nest.nodes import Check, If, Store
from raido.schedule.nest.values import Buffer, NestExpr
from raido.schedule.stages.stage import initial_values

if TYPE_CHECKING:
    from raido.schedule.lower.loops import Loops

Step = Callable[..., None]
"""Emits one step of an update: (cursor, values of the variables, made=its precomputed values and indices)."""


class Updates:
    """Emits updates with the loops of `Loops`."""

    def __init__(self, loops: Loops) -> None:
        self.loops = loops
        self.builder: Builder = loops.builder
        self.sorted = SortedUpdates(self)
        self.private = PrivateBins(self)
        self.strips = StepStrips(self)
        self.setting = Phase(self._each_copy(self._set), over_reduced)
        self.stepping = self.in_strips(self._in_turn)

    def update(self, work: Work, position: int) -> None:
        """Emits the update whose outermost loop over iterations stands at `position`."""
        name, numbers = work.job.plan.strategy or ("serial", ())
        if not work.job.in_place and name != "private":
            self.run(work, position, self.setting)
        if name not in ("private", "sorted"):
            self.run(work, position, self.stepping)
            return
        chosen: dict[str, Any] = dict(numbers)
        for k in range(len(work.copies)):
            single = replace(work, copies=[work.copies[k]], origin_of=[work.origin_of[k]])
            if name == "private":
                self.private.update(single, position, chosen["chunks"], chosen["replicas"])
            else:
                self.sorted.update(single, position, chosen["bins"], chosen["chunks"])

    def steps(self, step: Callable[[Work, dict[Node, Node]], None]) -> Phase:
        """The phase that runs `step` at each iteration of an update, given the values of variables."""
        return Phase(self._each_copy(step), over_results)

    def in_strips(self, take: Callable[[Work, int, Callable[[Work], Made]], None]) -> Phase:
        """The phase that runs iterations tile by tile where the schedule says so; `take` emits the loop over those of a tile."""

        def takes_over(work: Work, position: int) -> bool:
            if position == len(work.job.plan.loops) or not self.strips.applies(work, position):
                return False
            self.strips.emit(work, position, take)
            return True

        return Phase(self._each_copy(self.step), over_results, takes_over)

    def of_made(self, made: Callable[[Work], Made]) -> Phase:
        """The phase of iterations of which some values and indices, `made`, are already computed, so that producers need not run again."""

        def element(work: Work) -> None:
            for k, coordinates in enumerate(work.copies):
                one = replace(work, copies=[coordinates], origin_of=[work.origin_of[k]])
                self.step(one, self.loops.environment(one, 0), made(one))

        return Phase(element, over_results, reads=False)

    def _in_turn(self, work: Work, position: int, made: Callable[[Work], Made]) -> None:
        self.loops.loop(replace(work, phase=self.of_made(made)), position, "serial")

    def run(self, work: Work, position: int, phase: Phase) -> None:
        """Emits one phase over the loops from `position` on."""
        self.loops.placer.begin_pass()
        self.loops.level(replace(work, copies=[c.copy() for c in work.copies], phase=phase), position)

    def open_axes(self, work: Work) -> tuple[Axis, ...]:
        """The result's axes that no loop has chosen yet."""
        return tuple(axis for axis in work.job.stage.axes if work.copies[0].ranges[axis.name].value is None)

    def _form(self, work: Work, values: dict[Node, Node]) -> Reduce:
        """The fold with the axes' variables replaced."""
        return self._converted(work, _fold(work), values)

    def _operator(self, work: Work, values: dict[Node, Node]) -> Reduce:
        """The fold with the axes' variables replaced and the neutral elements as values, which are defined outside iterations."""
        own = _fold(work)
        form = Reduce(own.axes, own.left, own.right, own.combine, own.neutral, own.neutral, own.commutative, own.monoid)
        return self._converted(work, form, values)

    def _converted(self, work: Work, form: Reduce, values: dict[Node, Node]) -> Reduce:
        (item,) = self.loops.converter.convert((Item(form, 0),), values, self.builder.facts, work.identity)
        converted: Reduce = item.form
        return converted

    # One element

    def _each_copy(self, body: Callable[[Work, dict[Node, Node]], None]) -> Callable[[Work], None]:
        """The `element` function of a phase: runs `body` for each unrolled instance, given the values of variables."""

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

    def step(self, work: Work, values: dict[Node, Node], made: Made = NOTHING) -> None:
        """Emits one iteration of the update."""
        brought, places, holds = self.read_step(work, values, made=made)
        self.take_step(work, values, places, brought, holds)

    def make(self, work: Work, values: dict[Node, Node], numbers: Sequence[int]) -> list[NestExpr]:
        """Emits the values and indices of an iteration at these positions of the fold's `values`; indices are checked here."""
        update, form = work.job.stage.update, self._form(work, values)
        assert update is not None
        named = self.loops.emitter.values([form.values[k] for k in numbers])
        for d, (axis, number) in enumerate(zip(work.job.stage.axes, update.places, strict=True)):
            if number in numbers:
                k = numbers.index(number)
                named[k] = self.builder.name("index", named[k])
                self._tests(work, form, d, axis, named[k], update.checked)
        return named

    def read_step(
        self, work: Work, values: dict[Node, Node], with_values: bool = True, made: Made = NOTHING
    ) -> tuple[list[NestExpr], dict[Axis, NestExpr], NestExpr | None]:
        """The values of an iteration, the index that it updates, and the condition under which it does (None: always).
        made: those already computed."""
        job, loops, builder = work.job, self.loops, self.builder
        update, form = job.stage.update, self._form(work, values)
        assert update is not None
        count, indices = len(form.left), sum(number is not None for number in update.places)
        first = 0 if with_values else count
        wanted = [k for k in range(first, count + indices) if k not in made]
        found = dict(zip(wanted, loops.emitter.values([form.values[k] for k in wanted]), strict=True))
        for k, value in found.items():
            if _reads(value) and (job.in_place or k >= count):  # an index is tested before it is used
                found[k] = builder.name("new" if job.in_place else "index", value)
        found |= made
        places: dict[Axis, NestExpr] = {}
        tests: list[NestExpr] = []
        for d, (axis, number) in enumerate(zip(job.stage.axes, update.places, strict=True)):
            places[axis] = values[axis.var] if number is None else found[number]  # type: ignore[assignment]
            if number is not None:
                if not update.checked and (choice := _chosen_place(places[axis])) is not None:
                    test, places[axis] = choice
                    tests.append(test)
                tests += self._tests(work, form, d, axis, places[axis], update.checked and number not in made)
        brought = [found[k] for k in range(first, count)]
        return brought, places, conjunction(tests) if tests else None

    def _tests(self, work: Work, form: Reduce, d: int, axis: Axis, place: NestExpr, checked: bool) -> list[NestExpr]:
        """The conditions under which an index of dimension `d` is in range; if `checked`, emits the check that they hold."""
        update, inside = work.job.stage.update, self._inside(place, axis.extent)
        assert update is not None
        if inside and checked:
            kind = unsigned_kind("index", form.values[update.places[d] or 0])
            told = work.job.origin or work.job.stage
            dimension = const(i64, d - len(work.job.stage.axes) + len(told.axes))
            site = self.loops.converter.sites.number(told.form)
            self.builder.check(Check(conjunction(inside), kind, site, (dimension, place, axis.extent)))
        return inside

    def take_step(
        self,
        work: Work,
        values: dict[Node, Node],
        places: dict[Axis, NestExpr],
        brought: Sequence[NestExpr],
        holds: NestExpr | None = None,
    ) -> None:
        """Emits the update of the element at `places` by an iteration's values."""
        job, update = work.job, work.job.stage.update
        assert update is not None
        storages = [self.loops.converter.storages[Result(job.form, j)] for j in range(len(brought))]
        where = storages[0].place(tuple(places.values()), self.builder.facts)  # type: ignore[arg-type]
        buffers = tuple(storage.buffer for storage in storages)
        if update.mode == "combine":
            atomic = job.plan.strategy is not None and job.plan.strategy[0] == "atomic"
            self._fold_in(self._operator(work, values), brought, buffers, where, holds, atomic)
            return
        for buffer, value in zip(buffers, brought, strict=True):
            self.builder.add(Store(buffer, where, value, holds))

    def _inside(self, place: NestExpr, extent: Expr) -> list[NestExpr]:
        """The conditions under which an index is in range, without those provably true."""
        facts, affine = self.builder.facts, is_affine(place)
        tests: list[NestExpr] = []
        if not (affine and facts.nonnegative(place)):
            tests.append(Op("ge", bool_, (place, const(i64, 0))))
        if not (affine and facts.less(place, extent)):
            tests.append(Op("lt", bool_, (place, extent)))
        return tests

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


def _chosen_place(e: NestExpr) -> tuple[Expr, Expr] | None:
    """The condition and the index of `select(condition, index, −1)`, None for other expressions: consecutive lanes then
    stay consecutive, under a mask."""
    none = isinstance(e, Op) and e.name == "select" and ix.constant_value(e.args[2]) == -1
    return (e.args[0], e.args[1]) if none else None  # type: ignore[union-attr]


def _fold(work: Work) -> Reduce:
    assert work.job.reduction is not None
    return work.job.reduction


def _reads(e: NestExpr) -> bool:
    """Whether a value is read from memory, which iterations change."""
    return not isinstance(e, (Const, Var)) and reads_memory(e)
