"""The host level of a program: root stages one after the other, whole-array loops and branches around theirs, outputs.

It emits memory for arrays, `Produce` blocks (each a kernel), loops and tests that read scalars, swaps and copies.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from raido.algo.errors import CompileError
from raido.algo.graph import index as ix
from raido.algo.graph.dtypes import DType, i64
from raido.algo.graph.expr import (
    Array,
    ArrayCond,
    ArrayLoop,
    ArrayWhile,
    Const,
    Constant,
    Count,
    Expr,
    Generate,
    Load,
    Node,
    Parameter,
    Result,
    SizeVar,
    fresh,
)
from raido.algo.graph.limits import DECIDED_BY_DATA, sized_arrays
from raido.algo.graph.node import with_fields
from raido.algo.graph.program import Site
from raido.algo.graph.rewrite import loads_in, scalar_nodes, transform
from raido.algo.graph.size_numbers import SizeNumber, numbers_of, size_numbers
from raido.schedule.lower.builder import Builder, closed
from raido.schedule.lower.expressions.convert import Converter, Sites, Storage
from raido.schedule.lower.host.control import Control
from raido.schedule.lower.host.in_place import Body, Copied, InPlaceReuse, starts_of
from raido.schedule.lower.host.limits import Limits
from raido.schedule.lower.host.offsets_of_zero_segments import ZeroSegmentChecks
from raido.schedule.lower.loops import mirror
from raido.schedule.lower.loops.loops import Loops
from raido.schedule.lower.lowered_stage import LoweredStage, flat, laid_out_shape, lower_stages, parts_of_layout
from raido.schedule.lower.regions.placement import padded
from raido.schedule.lower.regions.sharing import outermost
from raido.schedule.nest.nodes import Block, Copy, For, Let, Produce, Statement, Store, View
from raido.schedule.nest.values import Buffer, NestExpr, Read, buffer_for, new_serial
from raido.schedule.plan import At, Branch, StagePlan
from raido.schedule.stages.counts import by_name
from raido.schedule.stages.stage import AnyStage, ControlStage, CountedSize, Stage, StageGraph
from raido.schedule.stages.tables import Tables
from raido.schedule.stages.updates.repeated_copies import NOT_ITS_OWN, REMEDIES, RepeatedCopy


class Host:
    """Lowers one stage graph under one set of plans."""

    def __init__(
        self,
        graph: StageGraph,
        plans: dict[str, StagePlan],
        sites: Sites,
        outputs: Sequence[Buffer],
        counts: Mapping[SizeVar, Buffer],
    ) -> None:
        self.graph = graph
        self.counts = counts
        self.builder = Builder()
        self.converter = Converter({}, sites, graph.counts, graph.program.parameters)
        self.storages: dict[Array, Storage] = self.converter.storages  # type: ignore[assignment]
        tables = Tables(graph.program)
        tables.sites = dict(graph.sites)
        self.lowered_stages = lower_stages(graph.stages, plans, tables)
        self.sharers: dict[str, list[LoweredStage]] = {}  # by leader's name: the stages fused with it
        for lowered in self.lowered_stages.values():
            if lowered.plan.compute_with is not None:
                self.sharers.setdefault(lowered.plan.compute_with.stage, []).append(lowered)
        sites.known = {**sites.known, **tables.sites}
        names: dict[Node, str] = {lowered.form: lowered.stage.name for lowered in self.lowered_stages.values()}
        names |= {parameter: parameter.name for parameter in graph.program.parameters}
        names |= {stage.form: stage.name for stage in flat(graph.stages) if isinstance(stage, ControlStage)}
        self.loops = Loops(self.builder, self.converter, graph.program.contract, self.lowered_stages, names)
        self.placement = self.loops.placer
        self.offsets_of_zero_segments = ZeroSegmentChecks(self.loops, self.placement, graph.stages)
        self.outputs = [
            with_fields(buffer, shape=graph.results[k].shape, serial=new_serial()) if k in graph.regrouped else buffer
            for k, buffer in enumerate(outputs)
        ]
        self.views = [View(*pair) for pair in zip(self.outputs, outputs, strict=True) if pair[0] is not pair[1]]
        self.direct: dict[Array, Buffer] = {}
        self.hands = InPlaceReuse()
        self.decided: set[SizeVar] = set()
        self.numbers: list[SizeNumber] = []  # of the current level, not checked yet: their sizes are undecided
        self.iterations = 0  # the number of array loops around the current statement
        self.copies: list[RepeatedCopy] = []
        self.control = Control(self)
        held = [*graph.program.parameters, *(b for b in outputs if b.scope == "parameter")]
        self.limits = Limits([(a.dtype.itemsize, a.shape) for a in held], lambda s: self.builder.add(s))
        for array, buffer in zip(graph.results, self.outputs, strict=True):
            if isinstance(array, Result) and not isinstance(array.form, ArrayCond) and buffer.scope == "parameter":
                self.direct.setdefault(array, buffer)
        controls = [stage for stage in flat(graph.stages) if isinstance(stage, ControlStage)]
        self.whole = {a for c in controls for a in (*c.init, *c.results, *c.orelse_results)}
        for parameter in graph.program.parameters:
            self.storages[parameter] = Storage(buffer_for(parameter))

    def lower(self) -> Block:
        """Emits the whole program and returns its statements."""
        for array in sized_arrays(self.graph.program):
            self._require(array.dtype, array.shape, array.site)
        self._constants()
        ordered = self.plan_memory(self.graph.stages, self.graph.results)
        self.run(ordered, (*size_numbers(self.graph.program), *self.divisions(self.graph.results)))
        kept = [buffer for buffer in self.outputs if buffer.scope == "result"]
        for array, buffer in zip(self.graph.results, self.outputs, strict=True):
            if buffer not in kept:
                self.copy(array, buffer)
        self.control.hand_over(
            [array for array, buffer in zip(self.graph.results, self.outputs, strict=True) if buffer in kept],
            kept,
            self.graph.stages,
        )
        for counted in self.graph.counts:
            if counted.value is not None:
                self._leave(counted, counted.value)
        views = (View(view, source) for (source, _), view in self.converter.views.items())
        return Block((*self.views, *views, *self.builder.scope.statements))

    def copy(self, array: Array, destination: Buffer) -> bool:
        """Copies a whole array into a buffer and returns True, or False if it is there already; element by element
        where the two layouts differ."""
        source = self.buffer(array)
        if source is destination:
            return False
        storage = self.storages[array]
        same = source.shape == destination.shape and source.strides == destination.strides
        if same and not (storage.layout or storage.fold or storage.origin):
            self.builder.add(Copy(source, destination))
            return True
        shape = self.converter.shape_of(array)
        indices = tuple(fresh(f"d{k}") for k in range(len(shape)))
        value = Read(source, storage.indices_of(indices, self.builder.assumptions), None)
        statement: Statement = Store(destination, indices, value)
        for k, (index, extent) in reversed(tuple(enumerate(zip(indices, shape, strict=True)))):
            kind = "vector" if k == len(indices) - 1 else "serial"
            statement = For(index, ix.as_index(0), extent, 1, Block((statement,)), kind, tail="default")
        self.builder.add(Produce("copy", Block((statement,))))
        return True

    def _constants(self) -> None:
        for lowered in self.lowered_stages.values():
            for load in loads_in(*lowered.bodies):
                if isinstance(load.array, Constant):
                    self.buffer(load.array)

    def buffer(self, array: Array) -> Buffer:
        """The buffer of a whole array; a constant gets one when it is first used."""
        if isinstance(array, Constant) and array not in self.storages:
            data = array.data
            buffer = Buffer("table", array.dtype, array.shape, "constant", new_serial(), (), 1, data)
            self.storages[array] = Storage(buffer)
        return self.storages[array].buffer

    def stages(self, stages: Iterable[AnyStage], numbers: Iterable[SizeNumber] = ()) -> None:
        """Emits the stages of one level whose results nothing needs afterwards; `numbers`: the arithmetic on
        sizes that the level computes."""
        self.run(self.plan_memory(stages, ()), numbers)

    def divisions(self, results: Iterable[Node]) -> list[SizeNumber]:
        """The divisions in extents and trip counts that these results (of a loop or branch) evaluate whatever the data."""
        return numbers_of(results, self.converter.sites.known)

    def plan_memory(self, stages: Iterable[AnyStage], needed: Iterable[Array]) -> list[AnyStage]:
        """Decides which buffers are reused in place on one level and inside it, and returns the stages in execution order."""
        ordered = self.ordered(stages)
        Body(ordered, needed, (), self).decide(self.hands)
        for array, buffer in list(self.direct.items()):
            origin = self._made_for(array, buffer)
            if origin is not array:
                del self.direct[array]
                self.direct.setdefault(origin, buffer)
        return ordered

    def changing(self, stages: Iterable[AnyStage]) -> set[Array]:
        """The results of loops and branches whose shape depends on a scalar among the same results."""
        return self.control.changing_results(stages)

    def lasting(self, loop: ControlStage) -> list[Array]:
        """The states of a loop whose shapes depend on none of its states."""
        return self.control.lasting_states(loop)

    def note_copy(self, stage: AnyStage, array: Array, why: str = "") -> None:
        """Records a whole-array copy to warn of, if it runs in every iteration of a loop; none of an array that is computed without reading
        others, because computing it again would cost as much."""
        if self.iterations and array.shape and not _reads_nothing(array):
            made_before = isinstance(array, Result) and not why and isinstance(stage, ControlStage)
            if made_before and self.hands.why(stage.name, array).why == NOT_ITS_OWN:
                return  # an initial value, computed once for all iterations around it rather than anew in each
            name = self.loops.names.get(array.form if isinstance(array, Result) else array, "a constant")  # type: ignore[call-overload]
            name = array.name if isinstance(array, Parameter) else name
            copied = Copied(stage.name, array, why) if why else self.hands.why(stage.name, array)
            named = self.graph.sites.get(array) if isinstance(array, Parameter) else None
            line = next((each.site for each in flat(self.graph.stages) if each.name == copied.reader), None)
            said = f'"{copied.reader}" {copied.why}' if copied.reader else copied.why
            remedy = REMEDIES[copied.why]
            self.copies.append(RepeatedCopy(stage.name, name, said, remedy, stage.site, named, line))

    def _made_for(self, array: Array, buffer: Buffer) -> Array:
        """The array that is computed directly into the buffer of `array`, by following in-place reuse back; never across a loop that swaps
        its states if the buffer is the caller's."""
        origin = made = array
        lowered_stages = {lowered.form for lowered in self.lowered_stages.values()}
        while isinstance(origin, Result):
            if isinstance(origin.form, (ArrayLoop, ArrayWhile)):
                if buffer.scope == "parameter" and not self.control.keeps(origin):
                    return made
                made = origin
            elif origin.form in lowered_stages:
                made = origin
            if origin not in self.hands.taken:
                break
            origin = self.hands.taken[origin]
        return made

    def run(self, ordered: Sequence[AnyStage], numbers: Iterable[SizeNumber]) -> None:
        """Emits stages in order; `numbers`: the arithmetic on sizes that this level computes whatever the data,
        checked once the sizes are known."""
        known, divisors, outside = list(self.limits.known), list(self.limits.divisors), self.numbers
        self.numbers = list(numbers)
        self._require_decided()
        for stage in ordered:
            with self.builder.at(self.converter.sites, stage.site):
                self._stage(stage)
            self._require_decided()
        # assumptions made inside a loop or branch do not hold outside
        self.limits.known, self.limits.divisors, self.numbers = known, divisors, outside

    def _stage(self, stage: AnyStage) -> None:
        if isinstance(stage, ControlStage):
            self.control.stage(stage)
            return
        lowered = self.lowered_stages.get(stage.name)
        if lowered is not None and not isinstance(lowered.plan.compute, At) and lowered.plan.compute_with is None:
            self._root(lowered)

    def _require(self, dtype: DType, shape: tuple[Expr, ...], site: Site | None, itemsize: int = 0) -> None:
        self.limits.require(dtype, shape, lambda: self.converter.sites.of_array(site, dtype, shape), itemsize)

    def _within_limits(self, lowered: LoweredStage) -> None:
        """Checks that the element count of a stage's results and its trip counts fit their limits; a fused loop's trip count is
        the product of its extents."""
        stage = lowered.stage
        itemsize = max((body.dtype.itemsize for body in lowered.bodies), default=1)
        widest = next(body.dtype for body in lowered.bodies if body.dtype.itemsize == itemsize)
        self._require(widest, tuple(axis.extent for axis in stage.axes), stage.site)
        extents = {axis.name: axis.extent for axis in stage.all_axes}
        for names in lowered.axis_of.values():
            if len(names) > 1 or stage.reduction_axes:
                self._require(i64, tuple(extents[name] for name in names if name in extents), stage.site, itemsize=1)

    def _require_decided(self) -> None:
        """Emits the range checks of this level's arithmetic on sizes as soon as all the data-dependent sizes in it are known."""
        arrays = {counted.array for counted in self.graph.counts}
        names = {counted.size for counted in self.graph.counts}
        for number in list(self.numbers):
            if any(isinstance(node, Count) and node.array not in arrays for node in scalar_nodes(number.value)):
                continue
            value = by_name(number.value, self.graph.counts)
            if names.intersection(scalar_nodes(value)) <= self.decided:
                self.numbers.remove(number)
                by_data = DECIDED_BY_DATA if names.intersection(scalar_nodes(value)) else ""
                self.limits.require_number(value, functools.partial(self._of_number, number.site, by_data))

    def _of_number(self, site: Site | None, by_data: str, wrong: str) -> int:
        """The index of the fault site for arithmetic on sizes, with the message that names the size in error."""
        return self.converter.sites.of_line(site, (by_data or wrong) if wrong else "")

    def ordered(self, stages: Iterable[AnyStage]) -> list[AnyStage]:
        """The stages in a legal execution order when some are fused into the loops of others; CompileError if there is none."""
        stages = list(stages)
        own = [s for s in stages if isinstance(s, Stage) and s.name in self.lowered_stages]
        if not any(self.lowered_stages[s.name].plan.compute_with for s in own):
            return stages
        root = {s.name: outermost(self.lowered_stages[s.name], self.lowered_stages).stage.name for s in own}
        root |= {s.name: s.name for s in stages if isinstance(s, ControlStage)}
        makes = {s.form: root[s.name] for s in (*own, *(s for s in stages if isinstance(s, ControlStage)))}
        needs: dict[str, set[str]] = {name: set() for name in root.values()}
        for stage in stages:
            if stage.name in root:
                found = {makes[f] for f in self._forms_read(stage) if f in makes}
                needs[root[stage.name]] |= found - {root[stage.name]}
        done: list[AnyStage] = []
        placed: set[str] = set()
        while len(done) < len(needs):
            ready = [s for s in stages if s.name in needs and s.name not in placed and needs[s.name] <= placed]
            if not ready:
                raise CompileError("stages that share loops need each other's whole results")
            done.append(ready[0])
            placed.add(ready[0].name)
        return done

    def _forms_read(self, stage: AnyStage) -> set[Any]:
        if isinstance(stage, Stage):
            if stage.name not in self.lowered_stages:
                return set()
            lowered = self.lowered_stages[stage.name]
            nodes = scalar_nodes(*lowered.bodies, *(axis.extent for axis in stage.all_axes))
            deciding = {c.size: getattr(c.array, "form", None) for c in self.graph.counts}
            return set(lowered.reads.loads) | {deciding[node] for node in nodes if node in deciding}  # type: ignore[index]
        found = {getattr(a, "form", None) for a in (*stage.init, *stage.results, *stage.orelse_results)}
        found |= {getattr(load.array, "form", None) for load in loads_in(*_host_scalars(stage))}
        for inner in (*stage.setup, *stage.body, *stage.orelse):
            found |= self._forms_read(inner)
        return found

    def _root(self, lowered: LoweredStage) -> None:
        """Emits a stage computed at root, with the stages fused into its loops."""
        together = [lowered, *self.sharers.get(lowered.stage.name, ())]
        for each in together:
            self._within_limits(each)
            self._memory(each)
        self._branches(lowered, lowered.plan.instead)
        for each in together:
            self.learn(each.form)

    def _branches(self, lowered: LoweredStage, branches: Sequence[Branch]) -> None:
        """Emits the loops of the first branch on sizes whose test holds, else those of the stage's own plan."""
        if not branches:
            self._produce(lowered)
            return
        (branch, *rest), own = branches, lowered.plan
        kept = replace(branch.plan, layout=own.layout, pad=own.pad, scope=own.scope)
        bodies, reduction = lowered.branches[-len(branches)]
        other = LoweredStage(
            lowered.stage, kept, bodies, reduction, lowered.position, lowered.blocked, lowered.in_place
        )
        with self.builder.block(branch=True) as chosen:
            self._produce(other)
        with self.builder.block(branch=True) as otherwise:
            self._branches(lowered, rest)
        self.builder.branch(by_name(branch.test, self.graph.counts), chosen, otherwise)

    def _produce(self, lowered: LoweredStage) -> None:
        """Emits the loops of a root stage over all its elements, as one `Produce` block; then the upper triangle of a symmetric result."""
        with self.builder.block() as scope:
            self.loops.emitter.floor = scope.level
            self.offsets_of_zero_segments.before(lowered, self.lowered_stages)
            box = tuple((ix.as_index(0), ix.sub(axis.extent, 1)) for axis in lowered.stage.axes)
            self.loops.nest(lowered, box)
        self.builder.add(Produce(lowered.stage.name, closed(scope), self.builder.site_of_loop()))
        if mirror.is_triangle(lowered):
            with self.builder.block() as scope:
                mirror.copy_triangle(
                    self.builder, lowered, [self.storages[Result(lowered.form, k)] for k in range(len(lowered.bodies))]
                )
            self.builder.add(Produce(lowered.stage.name, closed(scope), self.builder.site_of_loop()))

    def learn(self, form: Node) -> None:
        """Reads back the data-dependent sizes that a stage has decided, and stores them for the caller."""
        for counted in self.graph.counts:
            if isinstance(counted.array, Result) and counted.array.form is form:
                self._leave(counted, Read(self.buffer(counted.array), (), None))

    def _leave(self, counted: CountedSize, value: NestExpr) -> None:
        if counted.value is not None:
            self._require(i64, (counted.value,), None, itemsize=1)
        self.builder.add(Let(counted.size, value))
        self.decided.add(counted.size)
        if counted.size in self.counts:
            self.builder.add(Store(self.counts[counted.size], (), counted.size))

    def _memory(self, lowered: LoweredStage) -> None:
        stage = lowered.stage
        taken = [self.hands.taken.get(Result(lowered.form, k)) for k in range(len(lowered.bodies))]  # type: ignore[arg-type]
        if taken[0] is not None:
            lowered.in_place = stage.update is not None
            lowered.plan = replace(lowered.plan, stream_stores=None)  # elements were just read: they are cached
            for k, array in enumerate(taken):
                self.storages[Result(lowered.form, k)] = self.storages[array]  # type: ignore[index]
            return
        changed, why = self.graph.copies.get(stage.form, (None, ""))
        for array in (starts_of(lowered) or ()) if stage.update is not None else (changed,):
            if array is not None:
                self.note_copy(stage, array, "" if self.hands.why(stage.name, array).reader else why)
        shape = tuple(axis.extent for axis in stage.axes)
        for k, body in enumerate(lowered.bodies):
            array = Result(stage.form, k)
            buffer = self.direct.get(array)
            if buffer is None:
                label = stage.name.rsplit("/", 1)[-1]
                if array in self.whole:
                    lowered.plan = replace(lowered.plan, layout=(), pad=0)
                kept = () if lowered.stage.filter and k == len(lowered.bodies) - 1 else laid_out_shape(lowered, shape)
                buffer = self.builder.alloc(label, body.dtype, kept, "heap", padded(lowered, kept))
                self.storages[array] = Storage(buffer, layout=parts_of_layout(lowered) if kept else ())
            else:
                self.storages[array] = Storage(buffer)
            self.builder.level_of[buffer] = 0

    def scalar(self, e: Expr) -> NestExpr:
        """The expression of a count or condition that the host evaluates, its loads replaced by reads of buffers."""

        def read(node: Any) -> Any:
            if isinstance(node, Load):
                return Read(self.buffer(node.array), (), None)
            return node

        if isinstance(e, Const | SizeVar):
            return e
        if isinstance(e, Load):
            return Read(self.buffer(e.array), (), None)
        return transform(e, read)


def _host_scalars(stage: ControlStage) -> list[Expr]:
    form = stage.form
    if isinstance(form, ArrayLoop):
        return [form.count, stage.first]
    return [form.condition] if isinstance(form, ArrayWhile) else [form.predicate]


def _reads_nothing(array: Array) -> bool:
    """Whether an array is computed without reading another one, as `rd.zeros` is; a copy of it costs no more than computing it again."""
    if not isinstance(array, Result) or not isinstance(array.form, Generate):
        return False
    return all(_reads_nothing(load.array) for load in loads_in(array.form.bodies[array.index]))
