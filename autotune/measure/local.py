"""Measurement on this machine: builders in parallel, then one runner, pinned, with no other process of the job beside it.

While candidates run no builder works, so that on a machine whose cores the program uses all, times are those of the program alone.
Processes are kept from candidate to candidate; one that dies or is late is replaced, and its candidate gets a failure.
"""

from __future__ import annotations

import math
import queue
import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass, field, replace
from typing import Protocol as Interface
from typing import TypeVar

from raido.algo.errors import TuningError, explain
from raido.algo.graph.program import Program
from raido.autotune.measure.agreement import bounds_of
from raido.autotune.measure.ahead import BUILDER
from raido.autotune.measure.inputs import Inputs, describe_made_up
from raido.autotune.measure.machine import cpus_for, free_memory, measuring_alone, this_machine
from raido.autotune.measure.measurement import Limits, Measurement, Protocol
from raido.autotune.measure.programs import pack_program, pack_target
from raido.targets.child import Child, ChildFailed
from raido.targets.target import Target, count_cpus

RUNNER = "raido.autotune.measure.run:Runner"
_Work = TypeVar("_Work")


@dataclass(frozen=True, slots=True)
class Request:
    """A candidate to be measured: its key, and its complete schedule as JSON."""

    key: str
    schedule: str


@dataclass(frozen=True, slots=True)
class Task:
    """Data shared by all candidates of a job. `reference` is the default schedule, complete, as JSON.

    `tolerance` replaces the error bound for results of float folds.
    """

    program: Program
    target: Target
    inputs: Inputs
    reference: str
    limits: Limits = field(default_factory=Limits)
    protocol: Protocol = field(default_factory=Protocol)
    tolerance: float | None = None


class Measurer(Interface):
    """Interface of measurers: this machine, or a cluster."""

    def measure(
        self, requests: Sequence[Request], best: float | None = None, seconds: float = math.inf
    ) -> Iterator[Measurement]:
        """A measurement of every request, as they arrive. `best`: the least time so far, relative to the default schedule's. `seconds`: the
        time limit for all together; requests beyond it are left out."""
        ...

    def compare(self, requests: Sequence[Request]) -> list[Measurement]:
        """Measures the requests by turns, in one process, to decide between them."""
        ...

    def features(self, requests: Sequence[Request]) -> Mapping[str, Sequence[float]]:
        """Features of requests by key, as far as they are computed outside this process."""
        ...

    def close(self) -> None:
        """Ends all processes."""
        ...


@dataclass(frozen=True, slots=True)
class Built:
    """A candidate's code, with its signature as JSON; or its failure."""

    key: str
    signature: str = ""
    code: bytes | bytearray = b""
    seconds: float = 0.0
    failure: str | None = None
    detail: str = ""


class BuilderProcess:
    """A process that compiles the schedules of a task; `ahead` was launched before, else it launches its own."""

    def __init__(self, task: Task, ahead: Child | None = None) -> None:
        self._limit = task.limits.compile
        data, blobs = pack_program(task.program)
        about = {"do": "program", "program": data, "target": pack_target(task.target), "sizes": task.inputs.sizes}
        about["memory"] = task.limits.compile_memory
        self._child = ahead or Child(BUILDER)
        self._child.prepare = lambda child: child.request(about, blobs, self._limit) and None

    @property
    def pid(self) -> int | None:
        """Process id, or None while no process runs."""
        return self._child.pid

    def start(self) -> None:
        """Starts the process ahead of the first request."""
        self._child.start()

    def build(self, request: Request, until: float = math.inf) -> Built | None:
        """Compiles one candidate; a failure is returned, too. None where `until`, a time of `time.monotonic`, has passed before."""
        left = until - time.monotonic()
        if left <= 0:
            return None
        try:
            limit = min(self._limit, left)
            answer, (code,) = self._child.request({"do": "build", "schedule": request.schedule}, (), limit)
        except ChildFailed as failed:
            if failed.kind == "hang" and left < self._limit:
                return None
            return Built(request.key, failure=failed.kind, detail=f"while compiling: {failed.detail}")
        return Built(request.key, answer["signature"], code, answer["seconds"])

    def features(self, request: Request) -> Sequence[float]:
        """The features of one candidate; empty if they cannot be computed."""
        try:
            answer, _ = self._child.request({"do": "features", "schedule": request.schedule}, (), self._limit)
        except ChildFailed:
            return ()
        return answer["features"]

    def close(self) -> None:
        """Ends the process."""
        self._child.close()


class RunnerProcess:
    """A process that runs and times candidates, one at a time, and checks each against the reference."""

    def __init__(self, task: Task, reference: Built, ahead: Child | None = None) -> None:
        self._task = task
        self._reference = reference
        self._machine = this_machine(task.target)
        self._first_seconds = 0.0
        self._child = ahead or self.child_of(task)
        self._child.prepare = self._prepare

    @staticmethod
    def child_of(task: Task) -> Child:
        """The child process of a runner, which may be launched before the reference is compiled."""
        memory = task.limits.memory or free_memory() * 3 // 4
        return Child(RUNNER, {"cpus": cpus_for(task.target), "memory": memory})

    @property
    def pid(self) -> int | None:
        """Process id, or None while no process runs."""
        return self._child.pid

    def start(self) -> None:
        """Starts the process with its inputs and the reference's results. Raises `TuningError` when the default schedule fails on them."""
        try:
            self._child.start()
        except ChildFailed as failed:
            name = self._task.program.name
            what = {"hang": "takes too long", "fault": "faults", "memory": "needs too much memory"}
            made_up = describe_made_up(self._task.program, self._task.inputs)
            likely = next((part for part in made_up.split("; ") if "int" in part), made_up).partition(" ")[0]
            ranges = f'ranges={{"{likely}": (low, high), …}}, ' if failed.kind != "memory" else ""
            first = self._task.limits.first
            longer = f'limits={{"first": {2 * first:g}}}, which are seconds; ' if failed.kind == "hang" else ""
            raise TuningError(
                explain(
                    f"{name} {what.get(failed.kind, 'fails')} under its default schedule on these inputs",
                    why=" ".join(failed.detail.split()),
                    inputs=f"made up: {made_up}" if made_up else None,
                    **{"try": longer + (f"{ranges}inputs of your own, or other sizes" if made_up else "other inputs")},
                )
            ) from None

    def measure(self, built: Built, best: float | None = None, until: float = math.inf) -> Measurement | None:
        """Runs, checks and times one candidate; None where `until`, a time of `time.monotonic`, has passed before."""
        if built.failure is not None:
            return self._measurement(built, (), built.failure, built.detail)
        message = {"do": "measure", "signature": built.signature, "protocol": asdict(self._task.protocol), "best": best}
        seconds: tuple[float, ...] = ()
        relative: float | None = None
        failure, detail = None, ""
        with measuring_alone():
            left = until - time.monotonic()
            if left <= 0:
                return None
            try:
                self.start()
                answer, _ = self._child.request(message, (built.code,), min(self._limit(), left))
                seconds, relative = tuple(answer["seconds"]), answer["relative"]
            except ChildFailed as failed:
                failure, detail = failed.kind, failed.detail
                if failure == "hang" and left < self._limit():
                    return None
        return replace(self._measurement(built, seconds, failure, detail), relative=relative)

    def compare(self, candidates: Sequence[Built]) -> list[Measurement]:
        """Measures candidates by turns, to decide between them; all were measured before. Empty when one of them fails now."""
        protocol = self._task.protocol
        message = {"do": "compare", "signatures": [c.signature for c in candidates], "protocol": asdict(protocol)}
        with measuring_alone():
            try:
                self.start()
                limit = protocol.final_seconds + len(candidates) * 4 * self._limit()
                answer, _ = self._child.request(message, [c.code for c in candidates], limit)
            except ChildFailed:
                return []
        return [
            self._measurement(built, tuple(seconds))
            for built, seconds in zip(candidates, answer["seconds"], strict=True)
        ]

    def close(self) -> None:
        """Ends the process."""
        self._child.close()

    def _measurement(
        self, built: Built, seconds: tuple[float, ...], failure: str | None = None, detail: str = ""
    ) -> Measurement:
        where = self._machine
        return Measurement(built.key, seconds, failure, detail, where.digest, built.seconds, where.description)

    def _limit(self) -> float:
        limits = self._task.limits
        return max(limits.run, limits.slower * self._first_seconds) + self._task.protocol.seconds

    def _prepare(self, child: Child) -> None:
        """Sends the inputs to a new process, and has it compute the reference."""
        task, first = self._task, self._task.limits.first
        inputs = task.inputs
        about = {"do": "inputs", "specs": inputs.specs, "sizes": inputs.sizes, "places": inputs.places}
        about["target"] = pack_target(task.target)
        child.request(about, inputs.blobs, first)
        bounds = bounds_of(task.program, inputs.sizes, task.tolerance)
        message = {"do": "reference", "signature": self._reference.signature, "bounds": bounds}
        answer, _ = child.request(message, (self._reference.code,), first)
        self._first_seconds = answer["seconds"]


class LocalMeasurer:
    """A `Measurer` on this machine with `builders` compiling processes (0: one per processor), the first of them the process `ahead`.
    Others start when there is work for more than one; no candidate runs before they have started."""

    def __init__(self, task: Task, builders: int = 0, ahead: Child | None = None) -> None:
        count = builders or count_cpus()
        self._task = task
        self.builders = [BuilderProcess(task, None if k else ahead) for k in range(count)]
        self._idle: queue.SimpleQueue[BuilderProcess] = queue.SimpleQueue()
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="raido-build")
        self._runner: RunnerProcess | None = None
        self._runner_child = RunnerProcess.child_of(task)
        self._runner_child.launch()
        self._built: dict[str, Built] = {}
        self._starts = [self._threads.submit(self._start, self.builders[0])]

    def measure(
        self, requests: Sequence[Request], best: float | None = None, seconds: float = math.inf
    ) -> Iterator[Measurement]:
        """Builds all requests, then runs them one after another, for at most `seconds`."""
        until = time.monotonic() + seconds
        runner = self._ready_runner()
        built_ones = self._build(requests, until)
        wait(self._starts)
        for built in built_ones:
            measurement = runner.measure(built, best, until)
            if measurement is None:
                return
            if measurement.relative is not None and (best is None or measurement.relative < best):
                best = measurement.relative
            yield measurement

    def compare(self, requests: Sequence[Request]) -> list[Measurement]:
        """Measures the requests by turns; those that cannot be compiled are left out."""
        built = [each for each in self._build(requests) if each.failure is None]
        return self._ready_runner().compare(built) if built else []

    def features(self, requests: Sequence[Request]) -> Mapping[str, Sequence[float]]:
        """Features of requests, computed by the builders while nothing is measured; failures are left out."""
        self._start_for(requests)
        found = self._threads.map(lambda request: self._with_builder(lambda b: b.features(request)), requests)
        return {request.key: row for request, row in zip(requests, found, strict=True) if row}

    def close(self) -> None:
        """Ends all processes, busy ones too."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        for _ in range(2):  # the first ends what threads wait for; the second what they have started meanwhile
            for builder in self.builders:
                builder.close()
            self._threads.shutdown(wait=True)
        self._runner_child.close()

    def _build(self, requests: Sequence[Request], until: float = math.inf) -> list[Built]:
        """Compiled candidates in the order of the requests, without those not ready in time; each is compiled once."""
        new = {request.key: request for request in requests if request.key not in self._built}
        self._start_for(new)
        work = self._threads.map(lambda request: self._with_builder(lambda b: b.build(request, until)), new.values())
        self._built |= {built.key: built for built in work if built is not None}
        return [self._built[request.key] for request in requests if request.key in self._built]

    def _start_for(self, work: Sized) -> None:
        """Starts as many builders as there are items of work."""
        for builder in self.builders[len(self._starts) : len(work)]:
            self._starts.append(self._threads.submit(self._start, builder))

    def _start(self, builder: BuilderProcess) -> None:
        try:
            builder.start()
        finally:
            self._idle.put(builder)

    def _with_builder(self, work: Callable[[BuilderProcess], _Work]) -> _Work:
        builder = self._idle.get()
        try:
            return work(builder)
        finally:
            self._idle.put(builder)

    def _ready_runner(self) -> RunnerProcess:
        if self._runner is None:
            (reference,) = self._build([Request("", self._task.reference)])
            if reference.failure is not None:
                raise TuningError(f"{self._task.program.name} cannot be compiled: {reference.detail}")
            runner = RunnerProcess(self._task, reference, self._runner_child)
            runner.start()
            self._runner = runner
        return self._runner
