"""The whole program: root stages one after the other, whole-array loops around theirs, outputs, variants on sizes.

This is the host's level: memory for arrays, `Produce` blocks (each a kernel), loops and tests that read scalars, swaps and copies.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from raido.algo.errors import CompileError
from raido.algo.graph import index as ix
from raido.algo.graph.expr import (
    Array,
    ArrayCond,
    ArrayLoop,
    ArrayWhile,
    Const,
    Constant,
    Expr,
    Load,
    Node,
    Result,
    SizeVar,
    fresh,
)
from raido.algo.graph.rewrite import loads_in, scalar_nodes, transform
from raido.schedule.lower.builder import Builder, closed, new_serial
from raido.schedule.lower.control import Control
from raido.schedule.lower.convert import Converter, Sites, Storage
from raido.schedule.lower.filters import Filters
from raido.schedule.lower.flat_segments import FlatSegments
from raido.schedule.lower.jobs import Job, flat, laid_out_shape, make_jobs, parts_of_layout
from raido.schedule.lower.lane_blocks import LaneBlocks
from raido.schedule.lower.lone_offsets import LoneOffsets
from raido.schedule.lower.loops import Loops
from raido.schedule.lower.placement import Placement, padded
from raido.schedule.lower.reductions import Reductions
from raido.schedule.lower.scans import Scans
from raido.schedule.lower.sharing import Sharing, guests_by_host, outermost
from raido.schedule.lower.sorts import Sorts
from raido.schedule.lower.updates import Updates
from raido.schedule.nest.nodes import Block, Copy, For, Let, Produce, Statement, Store
from raido.schedule.nest.values import Buffer, NestExpr, Read, buffer_for
from raido.schedule.plan import At, StagePlan
from raido.schedule.stages.stage import AnyStage, ControlStage, CountedSize, Stage, StageGraph
from raido.schedule.stages.tables import Tables


class Host:
    """Lowers one graph under one set of plans."""

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
        self.converter = Converter({}, sites)
        self.converter.counts = graph.counts
        self.storages: dict[Array, Storage] = self.converter.storages  # type: ignore[assignment]
        tables = Tables(graph.program)
        tables.sites = dict(graph.sites)
        self.jobs = make_jobs(graph.stages, plans, tables)
        sites.known = {**sites.known, **tables.sites}
        self.loops = Loops(self.builder, self.converter, graph.program.contract)
        self.loops.names = {job.form: job.stage.name for job in self.jobs.values()}
        self.loops.names |= {parameter: parameter.name for parameter in graph.program.parameters}
        reductions = Reductions(self.loops)
        LaneBlocks(self.loops, reductions)
        Scans(self.loops, reductions)
        Updates(self.loops)
        Filters(self.loops)
        Sorts(self.loops)
        FlatSegments(self.loops)
        guests = guests_by_host(self.jobs)
        Sharing(self.loops, reductions, guests)
        self.placement = Placement(self.loops, self.jobs, guests)
        self.lone_offsets = LoneOffsets(self.loops, self.placement, graph.stages)
        self.outputs = list(outputs)
        self.direct: dict[Array, Buffer] = {}
        self.control = Control(self)
        for array, buffer in zip(graph.results, outputs, strict=True):
            if isinstance(array, Result) and not isinstance(array.form, ArrayCond) and buffer.scope == "parameter":
                self.direct.setdefault(array, buffer)
        controls = [stage for stage in flat(graph.stages) if isinstance(stage, ControlStage)]
        self.whole = {a for c in controls for a in (*c.init, *c.results, *c.orelse_results)}
        for parameter in graph.program.parameters:
            self.storages[parameter] = Storage(buffer_for(parameter))

    def lower(self) -> Block:
        """The statements of the program."""
        self._constants(self.graph.stages)
        self.stages(self.graph.stages)
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
        return Block(tuple(self.builder.scope.statements))

    def copy(self, array: Array, destination: Buffer) -> None:
        """An array into a buffer; element by element where its memory is laid out differently."""
        source = self.buffer(array)
        if source is destination:
            return
        storage = self.storages[array]
        same = source.shape == destination.shape and source.strides == destination.strides
        if same and not (storage.layout or storage.fold or storage.origin):
            self.builder.add(Copy(source, destination))
            return
        shape = self.converter.shape_of(array)
        places = tuple(fresh(f"d{k}") for k in range(len(shape)))
        value = Read(source, storage.place(places, self.builder.facts), None)
        statement: Statement = Store(destination, places, value)
        for k, (place, extent) in reversed(tuple(enumerate(zip(places, shape, strict=True)))):
            kind = "vector" if k == len(places) - 1 else "serial"
            statement = For(place, ix.as_index(0), extent, 1, Block((statement,)), kind, tail="default")
        self.builder.add(Produce("copy", Block((statement,))))

    def _constants(self, stages: Iterable[AnyStage]) -> None:
        for job in self.jobs.values():
            for load in loads_in(*job.bodies):
                if isinstance(load.array, Constant):
                    self.buffer(load.array)

    def buffer(self, array: Array) -> Buffer:
        """Where a whole array is kept."""
        if isinstance(array, Constant) and array not in self.storages:
            data = array.data
            buffer = Buffer("table", array.dtype, array.shape, "constant", new_serial(), (), 1, data)
            self.storages[array] = Storage(buffer)
        return self.storages[array].buffer

    def stages(self, stages: Iterable[AnyStage]) -> None:
        """The stages of one level, in order."""
        for stage in self._ordered(stages):
            if isinstance(stage, ControlStage):
                self.control.stage(stage)
                continue
            job = self.jobs.get(stage.name)
            if job is not None and not isinstance(job.plan.compute, At) and job.plan.compute_with is None:
                self._root(job)

    def _ordered(self, stages: Iterable[AnyStage]) -> list[AnyStage]:
        """The stages in an order in which they can run when some share the loops of others."""
        stages = list(stages)
        own = [s for s in stages if isinstance(s, Stage) and s.name in self.jobs]
        if not any(self.jobs[s.name].plan.compute_with for s in own):
            return stages
        root = {s.name: outermost(self.jobs[s.name], self.jobs).stage.name for s in own}
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
            if stage.name not in self.jobs:
                return set()
            job = self.jobs[stage.name]
            nodes = scalar_nodes(*job.bodies, *(axis.extent for axis in stage.all_axes))
            deciding = {c.size: getattr(c.array, "form", None) for c in self.graph.counts}
            return set(job.reads.loads) | {deciding[node] for node in nodes if node in deciding}  # type: ignore[index]
        found = {getattr(a, "form", None) for a in (*stage.init, *stage.results, *stage.orelse_results)}
        found |= {getattr(load.array, "form", None) for load in loads_in(*_host_scalars(stage))}
        for inner in (*stage.setup, *stage.body, *stage.orelse):
            found |= self._forms_read(inner)
        return found

    def _root(self, job: Job) -> None:
        """A stage computed whole, and those that share its loops."""
        hosts = ((each, each.plan.compute_with) for each in self.jobs.values())
        together = [job, *(each for each, host in hosts if host and host.stage == job.stage.name)]
        for each in together:
            self._memory(each)
        with self.builder.block() as scope:
            self.loops.emitter.floor = scope.level
            self.lone_offsets.before(job, self.jobs)
            box = tuple((ix.as_index(0), ix.sub(axis.extent, 1)) for axis in job.stage.axes)
            self.loops.nest(job, box)
        self.builder.add(Produce(job.stage.name, closed(scope)))
        for each in together:
            self.learn(each.form)

    def learn(self, form: Node) -> None:
        """The host reads the sizes that a stage has decided, and leaves them for the caller."""
        for counted in self.graph.counts:
            if isinstance(counted.array, Result) and counted.array.form is form:
                self._leave(counted, Read(self.buffer(counted.array), (), None))

    def _leave(self, counted: CountedSize, value: NestExpr) -> None:
        self.builder.add(Let(counted.size, value))
        if counted.size in self.counts:
            self.builder.add(Store(self.counts[counted.size], (), counted.size))

    def _memory(self, job: Job) -> None:
        if job.in_place:
            return
        stage = job.stage
        shape = tuple(axis.extent for axis in stage.axes)
        for k, body in enumerate(job.bodies):
            array = Result(stage.form, k)
            buffer = self.direct.get(array)
            if buffer is None:
                label = stage.name.rsplit("/", 1)[-1]
                if array in self.whole:
                    job.plan = replace(job.plan, layout=(), pad=0)
                kept = () if job.stage.filter and k == len(job.bodies) - 1 else laid_out_shape(job, shape)
                buffer = self.builder.alloc(label, body.dtype, kept, "heap", padded(job, kept))
                self.storages[array] = Storage(buffer, layout=parts_of_layout(job) if kept else ())
            else:
                self.storages[array] = Storage(buffer)
            self.builder.level_of[buffer] = 0

    def scalar(self, e: Expr) -> NestExpr:
        """A count or a condition, which the host reads."""

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
        return [form.count]
    return [form.condition] if isinstance(form, ArrayWhile) else [form.predicate]
