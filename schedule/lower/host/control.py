"""Whole-array loops and branches on the host level.

Each state of a loop has two buffers, swapped at the end of an iteration, unless it changes in place. A state whose size changes
has one buffer: it takes over the memory that the iteration produced, and is read through a view with the iteration's size.
Results of branches whose sizes differ, and results of programs whose size nothing bounds, are allocated where they are computed
and handed over in the same way.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from raido.algo.graph import index as ix
from raido.algo.graph.expr import (
    Array,
    ArrayCond,
    ArrayLoop,
    ArrayWhile,
    Expr,
    Generate,
    Load,
    Node,
    Reduce,
    Result,
)
from raido.algo.graph.rewrite import scalar_nodes
from raido.schedule.lower.builder import Scope, closed
from raido.schedule.lower.expressions.convert import Storage
from raido.schedule.lower.lowered_stage import flat
from raido.schedule.nest.nodes import For, If, Let, Swap, View, While
from raido.schedule.nest.values import Buffer, Read, new_serial
from raido.schedule.stages.stage import AnyStage, ControlStage
from raido.schedule.stages.updates.repeated_copies import NOT_MADE_HERE, SEVERAL_STATES

if TYPE_CHECKING:
    from raido.schedule.lower.host.program import Host


class Control:
    """Lowers the loops and branches of one program."""

    def __init__(self, host: Host) -> None:
        self.host, self.builder = host, host.builder
        self.memory_of: dict[Buffer, Buffer] = {}  # the buffer under each view
        controls = (stage for stage in flat(host.graph.stages) if isinstance(stage, ControlStage))
        self.loop_stages: dict[Node, ControlStage] = {
            stage.form: stage for stage in controls if not isinstance(stage.form, ArrayCond)
        }

    def stage(self, stage: ControlStage) -> None:
        """Emits one whole-array loop or branch."""
        if isinstance(stage.form, ArrayCond):
            self._branches(stage, stage.form)
        else:
            self._iterations(stage, stage.form)

    # Memory that changes hands

    def hand_over(self, arrays: Sequence[Array], takers: Sequence[Buffer], stages: Iterable[AnyStage]) -> None:
        """Swaps the memory of arrays into the `takers`; an array that these stages do not own, or whose layout
        is not dense, is copied first."""
        made = {stage.form for stage in stages}
        given: list[Buffer] = []
        for array in arrays:
            storage = self.host.storages.get(array)
            buffer = self.memory_of.get(storage.buffer, storage.buffer) if storage is not None else None
            own = isinstance(array, Result) and array.form in made and buffer not in given
            plain = storage is not None and not (storage.layout or storage.fold or storage.origin)
            if not (own and plain and buffer is not None and buffer.scope == "heap" and not buffer.strides):
                buffer = self._new("copy", array, self.host.converter.shape_of(array))
                self.host.copy(array, buffer)
            given.append(buffer)
        for buffer, taker in zip(given, takers, strict=True):
            self.builder.add(Swap(taker, buffer))

    def _new(self, name: str, array: Array, shape: tuple[Expr, ...]) -> Buffer:
        return self.builder.alloc(name, array.dtype, shape, "heap")

    def _view(self, array: Array, memory: Buffer, scope: Scope) -> None:
        """Declares a view of `memory` with the array's current shape, and reads the array through it from here on."""
        shape = self.host.converter.shape_of(array)
        buffer = Buffer(memory.name, memory.dtype, shape, "heap", new_serial(), (), 1, None)
        self.builder.level_of[buffer] = scope.level
        self.memory_of[buffer] = memory
        self.builder.add(View(buffer, memory))
        self.host.storages[array] = Storage(buffer)

    def _changing(self, arrays: Sequence[Array]) -> list[int]:
        """The positions of the arrays whose shape depends on a size that another of these arrays holds."""
        sizes = {counted.size for counted in self.host.graph.counts if counted.array in arrays}
        shapes = [self.host.converter.shape_of(array) for array in arrays]
        return [k for k, shape in enumerate(shapes) if any(node in sizes for node in scalar_nodes(*shape))]

    # Loops

    def changing_results(self, stages: Iterable[AnyStage]) -> set[Array]:
        """The results of loops and branches whose shape depends on a size among the same results."""
        found: set[Array] = set()
        for stage in stages:
            if isinstance(stage, ControlStage):
                after: list[Array] = [Result(stage.form, k) for k in range(len(stage.results))]
                found |= {after[k] for k in self._changing(after)}
        return found

    def lasting_states(self, stage: ControlStage) -> list[Array]:
        """The states of a loop whose shapes depend on none of its states."""
        changing = self._changing(stage.state)
        return [state for m, state in enumerate(stage.state) if m not in changing]

    def _iterations(self, stage: ControlStage, form: ArrayLoop | ArrayWhile) -> None:
        host, builder = self.host, self.builder
        changing = self._changing(stage.state)
        direct, host.direct = host.direct, {}
        body_stages = host.ordered(stage.body)
        current: list[Buffer] = []
        for m, (parameter, init) in enumerate(zip(stage.state, stage.init, strict=True)):
            if Result(form, m) in host.hands.taken:
                buffer = host.buffer(init)
            else:
                shape = host.converter.shape_of(init if m in changing else parameter)
                output = direct.get(Result(form, m))
                if output is not None and m not in changing and output.shape == shape and self.keeps(Result(form, m)):
                    buffer = output
                    builder.level_of[buffer] = 0
                else:
                    buffer = self._new(parameter.name, parameter, shape)
                host.copy(init, buffer)
                host.note_copy(stage, init)
            host.storages[parameter] = Storage(buffer)
            current.append(buffer)
        given = self._given(stage, changing)
        following = self._following(stage, current, (*changing, *given))
        host.iterations += 1
        with builder.block() as setup:
            if isinstance(form, ArrayWhile):
                self._begin_iteration(stage, current, changing, setup)
                host.stages(stage.setup, host.divisions((form.condition,)))
            condition = host.scalar(form.condition) if isinstance(form, ArrayWhile) else None
            with builder.block(loop=True) as body:
                if isinstance(form, ArrayLoop):
                    builder.level_of[form.index] = 0
                    body.assumptions = body.assumptions.with_range(form.index, stage.first, ix.sub(form.count, 1))
                    self._begin_iteration(stage, current, changing, body)
                host.run(body_stages, host.divisions(stage.results))
                for m, buffer in following.items():
                    if buffer not in current and host.copy(stage.results[m], buffer):
                        several = stage.results.count(stage.results[m]) > 1
                        why = SEVERAL_STATES if several else NOT_MADE_HERE
                        host.note_copy(stage, stage.results[m], why)
                self.hand_over([stage.results[m] for m in changing], [current[m] for m in changing], stage.body)
                self._exchange(current, following)
                self.hand_over([stage.results[m] for m in given], [current[m] for m in given], stage.body)
        host.direct = direct
        host.iterations -= 1
        if isinstance(form, ArrayLoop):
            count = host.scalar(form.count)
            how = {"stage": stage.name, "loop": "t"}
            builder.add(For(form.index, host.scalar(stage.first), count, 1, closed(body), "serial", **how))  # type: ignore[arg-type]
        else:
            assert condition is not None
            site, each = builder.site_of_loop(), self._of_each_row(form)
            builder.add(While(closed(setup), condition, closed(body), site, each, stage.name))
        self._end(form, current, changing)

    def _of_each_row(self, form: ArrayWhile) -> Buffer | None:
        """The buffer of booleans that a loop's condition reduces by logical or, one for each row; None if the condition is anything else or
        they are not stored densely."""
        test = form.condition
        made = test.array if isinstance(test, Load) and not test.indices else None
        if not isinstance(made, Result) or not isinstance(made.form, Generate):
            return None
        fold = getattr(made.form.bodies[made.index], "form", None)
        if not isinstance(fold, Reduce) or fold.monoid != "logical_or" or len(fold.values) != 1:
            return None
        (each,), indices = fold.values, tuple(axis.var for axis in fold.axes)
        if (
            not isinstance(each, Load)
            or each.indices != indices
            or each.array.shape != tuple(a.extent for a in fold.axes)
        ):
            return None
        storage = self.host.storages.get(each.array)
        plain = storage is not None and not (storage.layout or storage.fold or storage.origin)
        return storage.buffer if storage is not None and plain else None

    def keeps(self, result: Result) -> bool:
        """Whether a loop state changes in place in every iteration, through inner loops as well; False through
        branches, which may swap memory."""
        stage, taken = self.loop_stages[result.form], self.host.hands.taken
        array = stage.results[result.index]
        while array in taken:
            assert isinstance(array, Result)
            if isinstance(array.form, ArrayCond) or (array.form in self.loop_stages and not self.keeps(array)):
                return False
            array = taken[array]
        return array is stage.state[result.index]

    def _given(self, stage: ControlStage, changing: Sequence[int]) -> list[int]:
        """The positions of states that take over the memory in which a loop or branch of the body leaves its result."""
        made = {inner.form for inner in stage.body if isinstance(inner, ControlStage)}
        origins = {m: self.host.hands.origin(a) for m, a in enumerate(stage.results) if m not in changing}
        return [
            m
            for m, origin in origins.items()
            if isinstance(origin, Result) and origin.form in made and origin is stage.results[m]
        ]

    def _following(self, stage: ControlStage, current: Sequence[Buffer], others: Sequence[int]) -> dict[int, Buffer]:
        """For each state, the buffer in which an iteration leaves its next value: the buffer of a state, or a new one."""
        host, hands = self.host, self.host.hands
        following: dict[int, Buffer] = {}
        origins = {m: hands.origin(array) for m, array in enumerate(stage.results) if m not in others}
        own_first = sorted(origins, key=lambda m: origins[m] is not stage.state[m])
        for m in own_first:
            origin = origins[m]
            k = stage.state.index(origin) if origin in stage.state else None  # type: ignore[arg-type]
            if k is None or k in others or current[k] in following.values() or not _alike(current[k], current[m]):
                following[m] = self._new(f"{current[m].name}_next", stage.state[m], current[m].shape)
                if isinstance(origin, Result) and not isinstance(origin.form, (ArrayLoop, ArrayWhile, ArrayCond)):
                    host.direct.setdefault(origin, following[m])
            else:
                following[m] = current[k]
        return dict(sorted(following.items()))

    def _exchange(self, current: Sequence[Buffer], following: dict[int, Buffer]) -> None:
        """Emits swaps after which each state's buffer holds the memory of its next value."""
        held = {buffer: buffer for buffer in (*current, *following.values())}  # where the memory of each buffer is now
        for m, wanted in following.items():
            taker, holder = current[m], held[wanted]
            if holder is taker:
                continue
            moved = next(buffer for buffer, at in held.items() if at is taker)
            self.builder.add(Swap(taker, holder, needed=moved in following.values()))
            held[wanted], held[moved] = taker, holder

    def _begin_iteration(self, stage: ControlStage, current: list[Buffer], changing: list[int], scope: Scope) -> None:
        """Emits reads of the sizes of the iteration, and views of the states whose size changes."""
        for counted in self.host.graph.counts:
            if counted.array in stage.state:
                k = stage.state.index(counted.array)
                self.builder.add(Let(counted.size, Read(current[k], (), None)))
                self.host.decided.add(counted.size)
        for m in changing:
            self._view(stage.state[m], current[m], scope)

    def _end(self, form: ArrayLoop | ArrayWhile | ArrayCond, buffers: list[Buffer], changing: list[int]) -> None:
        """Declares that the results of a loop or branch are in `buffers`; results number `changing` are read through views."""
        for k, buffer in enumerate(buffers):
            self.host.storages[Result(form, k)] = Storage(buffer)
        self.host.learn(form)
        for k in changing:
            self._view(Result(form, k), buffers[k], self.builder.scope)

    # Branches

    def _branches(self, stage: ControlStage, form: ArrayCond) -> None:
        """Emits an `If` of which only the branch taken runs; both branches leave their results in the same buffers."""
        host, builder = self.host, self.builder
        after = [Result(form, k) for k in range(len(form.then))]
        changing = self._changing(after)
        branches = ((stage.body, stage.results), (stage.orelse, stage.orelse_results))
        outside = dict(host.storages)
        results = []
        for k, array in enumerate(after):
            shape = host.converter.shape_of(array)
            shape = tuple(ix.as_index(0) for _ in shape) if k in changing else shape
            taken = host.hands.taken.get(array)
            results.append(self._new(stage.name, array, shape) if taken is None else host.buffer(taken))
        fixed = [k for k in range(len(after)) if k not in changing]
        blocks = []
        for stages, arrays in branches:
            with builder.block() as scope:
                host.run(host.ordered(stages), host.divisions(arrays))
                for k in fixed:
                    host.copy(arrays[k], results[k])
                self.hand_over([arrays[k] for k in changing], [results[k] for k in changing], stages)
            blocks.append(closed(scope))
            host.storages.clear()
            host.storages.update(outside)
        builder.add(If(host.scalar(form.predicate), *blocks))
        self._end(form, results, changing)


def _alike(one: Buffer, other: Buffer) -> bool:
    """Whether two buffers may be swapped for good: they have the same dtype, shape and strides."""
    return one.dtype is other.dtype and one.shape == other.shape and one.strides == other.strides
