"""Updates: results with initial arrays, and iterations that each change the element that they name.

    serial   the results are set, then the iterations run in order
    atomic   the results are set, then the iterations run in any order, each an atomic update
    private  chunks of the iterations fold into bins of their own, which are folded into the results (`private_bins`)
    sorted   the iterations are sorted by the elements that they change first (`sorted_updates`)

The schedule sets the number of chunks; it never depends on the number of threads. The values and indices of iterations in order may be
computed beforehand, tile by tile (`update_tiles`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from raido.algo.graph.dtypes import bool_, i64
from raido.algo.graph.expr import Axis, Const, Expr, Item, Node, Op, Reduce, Result, Var, conjunction, const
from raido.algo.graph.faults import unsigned_kind
from raido.algo.graph.reduction import components
from raido.schedule.lower.builder import Builder, closed
from raido.schedule.lower.expressions.index_checks import is_affine
from raido.schedule.lower.loop_cursor import LoopCursor, Phase, cloned, over_reduced, over_results
from raido.schedule.lower.strategies.private_bins import PrivateBins
from raido.schedule.lower.strategies.sorted_updates import SortedUpdates
from raido.schedule.lower.strategies.update_tiles import NOTHING, Made, UpdateTiles
from raido.schedule.nest.effects import reads_memory
from raido.schedule.nest.nodes import Check, If, Store
from raido.schedule.nest.values import Buffer, NestExpr
from raido.schedule.stages.stage import initial_values
from raido.schedule.stages.updates.dependence import chosen_index

if TYPE_CHECKING:
    from raido.schedule.lower.loops.loops import Loops

ElementUpdate = Callable[..., None]
"""Emits one step of an update: (cursor, values of the variables, made=its precomputed values and indices)."""


class Updates:
    """Emits updates with the loops of `Loops`."""

    def __init__(self, loops: Loops) -> None:
        self.loops = loops
        self.builder: Builder = loops.builder
        self.sorted = SortedUpdates(self)
        self.private = PrivateBins(self)
        self.tiles = UpdateTiles(self)
        self.setting = Phase(self._each_instance(self._set), over_reduced)
        self.stepping = self.in_tiles(self._in_turn)

    def update(self, cursor: LoopCursor, position: int) -> None:
        """Emits the update whose outermost loop over iterations stands at `position`."""
        name, parameters = cursor.lowered.plan.strategy or ("serial", ())
        if not cursor.lowered.in_place and name != "private":
            self.run(cursor, position, self.setting)
        if name not in ("private", "sorted"):
            self.run(cursor, position, self.stepping)
            return
        chosen: dict[str, Any] = dict(parameters)
        for k in range(len(cursor.instances)):
            single = replace(cursor, instances=[cursor.instances[k]], origin_of=[cursor.origin_of[k]])
            if name == "private":
                self.private.update(single, position, chosen["chunks"], chosen["replicas"])
            else:
                self.sorted.update(single, position, chosen["bins"], chosen["chunks"])

    def each_element(self, update: Callable[[LoopCursor, dict[Node, Node]], None]) -> Phase:
        """The phase that runs `update` at each iteration of an update, given the values of variables."""
        return Phase(self._each_instance(update), over_results)

    def in_tiles(self, take: Callable[[LoopCursor, int, Callable[[LoopCursor], Made]], None]) -> Phase:
        """The phase that runs iterations tile by tile where the schedule says so; `take` emits the loop over those of a tile."""

        def takes_over(cursor: LoopCursor, position: int) -> bool:
            if position == len(cursor.lowered.plan.loops) or not self.tiles.applies(cursor, position):
                return False
            self.tiles.emit(cursor, position, take)
            return True

        return Phase(self._each_instance(self.update_element), over_results, takes_over, cuts=True)

    def of_made(self, made: Callable[[LoopCursor], Made]) -> Phase:
        """The phase of iterations of which some values and indices, `made`, are already computed, so that producers need not run again."""

        def element(cursor: LoopCursor) -> None:
            for k, coordinates in enumerate(cursor.instances):
                one = replace(cursor, instances=[coordinates], origin_of=[cursor.origin_of[k]])
                self.update_element(one, self.loops.environment(one, 0), made(one))

        return Phase(element, over_results, reads=False)

    def _in_turn(self, cursor: LoopCursor, position: int, made: Callable[[LoopCursor], Made]) -> None:
        self.loops.loop(replace(cursor, phase=self.of_made(made)), position, "serial")

    def run(self, cursor: LoopCursor, position: int, phase: Phase) -> None:
        """Emits one phase over the loops from `position` on."""
        self.loops.placer.begin_pass()
        self.loops.level(cloned(cursor, phase=phase), position)

    def open_axes(self, cursor: LoopCursor) -> tuple[Axis, ...]:
        """The result's axes that no loop has chosen yet."""
        return tuple(axis for axis in cursor.lowered.stage.axes if cursor.instances[0].ranges[axis.name].value is None)

    def _form(self, cursor: LoopCursor, values: dict[Node, Node]) -> Reduce:
        """The fold with the axes' variables replaced."""
        return self._converted(cursor, _fold(cursor), values)

    def _operator(self, cursor: LoopCursor, values: dict[Node, Node]) -> Reduce:
        """The fold with the axes' variables replaced and the neutral elements as values, which are defined outside iterations."""
        own = _fold(cursor)
        form = Reduce(own.axes, own.left, own.right, own.combine, own.neutral, own.neutral, own.commutative, own.monoid)
        return self._converted(cursor, form, values)

    def _converted(self, cursor: LoopCursor, form: Reduce, values: dict[Node, Node]) -> Reduce:
        (item,) = self.loops.converter.convert((Item(form, 0),), values, self.builder.assumptions, cursor.identity)
        converted: Reduce = item.form
        return converted

    # One element

    def _each_instance(self, body: Callable[[LoopCursor, dict[Node, Node]], None]) -> Callable[[LoopCursor], None]:
        """The `element` function of a phase: runs `body` for each unrolled instance, given the values of variables."""

        def element(cursor: LoopCursor) -> None:
            for k in range(len(cursor.instances)):
                body(cursor, self.loops.environment(cursor, k))

        return element

    def _set(self, cursor: LoopCursor, values: dict[Node, Node]) -> None:
        lowered, loops = cursor.lowered, self.loops
        start = loops.converter.convert(
            initial_values(_fold(cursor)), values, self.builder.assumptions, cursor.identity
        )
        indices = tuple(values[axis.var] for axis in lowered.stage.axes)
        for j, value in enumerate(loops.emitter.values(start)):
            storage = loops.converter.storages[Result(lowered.form, j)]
            self.builder.add(Store(storage.buffer, storage.indices_of(indices, self.builder.assumptions), value))  # type: ignore[arg-type]

    def update_element(self, cursor: LoopCursor, values: dict[Node, Node], made: Made = NOTHING) -> None:
        """Emits one iteration of the update."""
        brought, coordinates, holds = self.read_update(cursor, values, made=made)
        self.apply_update(cursor, values, coordinates, brought, holds)

    def make(self, cursor: LoopCursor, values: dict[Node, Node], numbers: Sequence[int]) -> list[NestExpr]:
        """Emits the values and indices of an iteration at these positions of the fold's `values`; indices are checked here."""
        update, form = cursor.lowered.stage.update, self._form(cursor, values)
        assert update is not None
        named = self.loops.emitter.values([form.values[k] for k in numbers])
        for d, (axis, number) in enumerate(zip(cursor.lowered.stage.axes, update.index_values, strict=True)):
            if number in numbers:
                k = numbers.index(number)
                named[k] = self.builder.name("index", named[k])
                self._tests(cursor, form, d, axis, named[k], update.checked)
        return named

    def read_update(
        self, cursor: LoopCursor, values: dict[Node, Node], with_values: bool = True, made: Made = NOTHING
    ) -> tuple[list[NestExpr], dict[Axis, NestExpr], NestExpr | None]:
        """The values of an iteration, the index that it updates, and the condition under which it does (None: always).
        made: those already computed."""
        lowered, loops, builder = cursor.lowered, self.loops, self.builder
        update, form = lowered.stage.update, self._form(cursor, values)
        assert update is not None
        count, indices = len(form.left), sum(number is not None for number in update.index_values)
        first = 0 if with_values else count
        wanted = [k for k in range(first, count + indices) if k not in made]
        found = dict(zip(wanted, loops.emitter.values([form.values[k] for k in wanted]), strict=True))
        for k, value in found.items():
            if _reads(value) and (lowered.in_place or k >= count):  # an index is tested before it is used
                found[k] = builder.name("new" if lowered.in_place else "index", value)
        found |= made
        coordinates: dict[Axis, NestExpr] = {}
        tests: list[NestExpr] = []
        for d, (axis, number) in enumerate(zip(lowered.stage.axes, update.index_values, strict=True)):
            coordinates[axis] = values[axis.var] if number is None else found[number]  # type: ignore[assignment]
            if number is not None:
                if not update.checked and (choice := chosen_index(coordinates[axis])) is not None:
                    test, coordinates[axis] = choice
                    tests.append(test)
                tests += self._tests(cursor, form, d, axis, coordinates[axis], update.checked and number not in made)
        brought = [found[k] for k in range(first, count)]
        return brought, coordinates, conjunction(tests) if tests else None

    def _tests(
        self, cursor: LoopCursor, form: Reduce, d: int, axis: Axis, position: NestExpr, checked: bool
    ) -> list[NestExpr]:
        """The conditions under which an index of dimension `d` is in range; if `checked`, emits the check that they hold."""
        update, inside = cursor.lowered.stage.update, self._inside(position, axis.extent)
        assert update is not None
        if inside and checked:
            kind = unsigned_kind("index", form.values[update.index_values[d] or 0])
            told = cursor.lowered.origin or cursor.lowered.stage
            dimension = const(i64, d - len(cursor.lowered.stage.axes) + len(told.axes))
            site = self.loops.converter.sites.number(told.form)
            self.builder.check(Check(conjunction(inside), kind, site, (dimension, position, axis.extent)))
        return inside

    def apply_update(
        self,
        cursor: LoopCursor,
        values: dict[Node, Node],
        coordinates: dict[Axis, NestExpr],
        brought: Sequence[NestExpr],
        holds: NestExpr | None = None,
    ) -> None:
        """Emits the update of the element at `coordinates` by an iteration's values."""
        lowered, update = cursor.lowered, cursor.lowered.stage.update
        assert update is not None
        storages = [self.loops.converter.storages[Result(lowered.form, j)] for j in range(len(brought))]
        at: tuple[Expr, ...] = tuple(coordinates.values())  # type: ignore[assignment]
        elements = [(storage.buffer, storage.indices_of(at, self.builder.assumptions)) for storage in storages]
        if update.mode == "combine":
            atomic = lowered.plan.strategy is not None and lowered.plan.strategy[0] == "atomic"
            self._fold_in(self._operator(cursor, values), brought, elements, holds, atomic)
            return
        for (buffer, where), value in zip(elements, brought, strict=True):
            self.builder.add(Store(buffer, where, value, holds))

    def _inside(self, position: NestExpr, extent: Expr) -> list[NestExpr]:
        """The conditions under which an index is in range, without those provably true."""
        assumptions, affine = self.builder.assumptions, is_affine(position)
        tests: list[NestExpr] = []
        if not (affine and assumptions.nonnegative(position)):
            tests.append(Op("ge", bool_, (position, const(i64, 0))))
        if not (affine and assumptions.less(position, extent)):
            tests.append(Op("lt", bool_, (position, extent)))
        return tests

    def _fold_in(
        self,
        form: Reduce,
        values: Sequence[NestExpr],
        elements: Sequence[tuple[Buffer, tuple[Expr, ...]]],
        holds: NestExpr | None,
        atomic: bool,
    ) -> None:
        update = Reduce(form.axes, form.left, form.right, form.combine, form.neutral, tuple(values), True, form.monoid)
        buffers, where = tuple(buffer for buffer, _ in elements), elements[0][1]

        def fold() -> None:
            if atomic:
                self.loops.emitter.atomics(update, buffers, where)
            elif any(indices != where for _, indices in elements):
                parts = zip(components(update), elements, strict=True)
                self.loops.emitter.folds([(part, (buffer,), at) for part, (buffer, at) in parts], contract=False)
            else:
                self.loops.emitter.folds([(update, buffers, where)], contract=False)

        if holds is None:
            fold()
            return
        with self.builder.block(branch=True) as scope:
            fold()
        self.builder.add(If(holds, closed(scope)))


def _fold(cursor: LoopCursor) -> Reduce:
    assert cursor.lowered.reduction is not None
    return cursor.lowered.reduction


def _reads(e: NestExpr) -> bool:
    """Whether a value is read from memory, which iterations change."""
    return not isinstance(e, (Const, Var)) and reads_memory(e)
