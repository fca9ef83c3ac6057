"""Measuring on a dask.distributed cluster: some workers compile, others run, one candidate at a time on each machine.

Workers say what they are for by dask's resources: `dask worker tcp://… --resources build=1` compiles, `--resources measure=1` runs.
A worker keeps a process of raido's own for each job (as on one machine), so candidates cannot harm the worker itself; what it is
told is data (JSON and bytes), and dask's own messages carry no code but the name of a function of this file. The task (program and
inputs) reaches a worker once. Work of a worker that dies goes to another. Two runners on one machine exclude each other by a lock.
Needs the extra raido[distributed].
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from raido.algo.errors import TuningError
from raido.autotune.measure.inputs import Inputs
from raido.autotune.measure.local import BuilderProcess, Built, Request, RunnerProcess, Task
from raido.autotune.measure.measurement import Limits, Measurement, Protocol
from raido.autotune.measure.programs import pack_program, unpack_program
from raido.targets.target import Target

_PATIENCE = 30  # seconds to wait for the scheduler, and for its first worker
_LOSSES = 5  # how often the work of a worker that died goes to another


class ClusterMeasurer:
    """A `Measurer` whose workers are those of a dask scheduler at `address` (tcp://host:8786)."""

    def __init__(self, task: Task, address: str) -> None:
        distributed = _distributed()
        self._task = task
        self._job = uuid.uuid4().hex
        try:
            self._client = distributed.Client(address, timeout=_PATIENCE, set_as_default=False)
        except (OSError, ValueError, TimeoutError) as error:
            raise TuningError(f"there is no dask scheduler at {address}: {error}") from None
        try:
            self._wait_for_workers(address)
            self._about = self._client.scatter(packed_task(task), broadcast=True, hash=False)
            self._reference = self._submit(_build, self._about, Request("", task.reference), resources={"build": 1})
            reference = self._result(self._reference)
            if reference.failure is not None:
                raise TuningError(f"{task.program.name} cannot be compiled: {reference.detail}")
        except BaseException:
            self._client.close()
            raise

    def measure(self, requests: Sequence[Request], best: float | None = None) -> Iterator[Measurement]:
        """Builds and runs all requests wherever there is room, and yields measurements as they come."""
        pending: dict[Any, Request] = {}
        kept: list[Any] = []  # a result whose worker dies is made again only while its future is held

        def submit(request: Request) -> Any:
            built = self._submit(_build, self._about, request, resources={"build": 1})
            run = self._submit(_measure, self._about, self._reference, built, best, resources={"measure": 1})
            pending[run] = request
            kept.append(built)
            return run

        again = {submit(request) for request in requests}
        completed = _distributed().as_completed(pending, loop=self._client.loop, raise_errors=False)
        try:
            for future in completed:
                if future.cancelled() and future in again:
                    completed.add(submit(pending[future]))
                    continue
                yield self._outcome(future, pending[future])
        finally:
            self._client.cancel(list(pending), force=True)

    def compare(self, requests: Sequence[Request]) -> list[Measurement]:
        """Builds the requests and runs them in turns, on one worker."""
        built = [self._submit(_build, self._about, request, resources={"build": 1}) for request in requests]
        run = self._submit(_compare, self._about, self._reference, built, resources={"measure": 1})
        try:
            return self._result(run)
        except TuningError:
            return []

    def close(self) -> None:
        """Ends the job's processes on all workers, and leaves the cluster as it was."""
        try:
            self._client.run(_end, self._job, on_error="ignore")
        finally:
            self._client.close()

    def _submit(self, function: Any, *arguments: Any, resources: dict[str, float]) -> Any:
        return self._client.submit(function, self._job, *arguments, resources=resources, pure=False, retries=_LOSSES)

    def _outcome(self, future: Any, request: Request) -> Measurement:
        try:
            return self._result(future)
        except TuningError as error:
            return Measurement(request.key, failure="crash", detail=str(error))

    def _result(self, future: Any) -> Any:
        distributed = _distributed()
        try:
            return future.result()
        except distributed.KilledWorker as error:
            raise TuningError(f"the workers that took it died, one after another: {error}") from None
        except (distributed.CancelledError, OSError, RuntimeError) as error:
            raise TuningError(f"the cluster did not do it: {error}") from None

    def _wait_for_workers(self, address: str) -> None:
        """TuningError when nobody compiles or nobody measures."""
        self._client.wait_for_workers(1, timeout=_PATIENCE)
        workers = self._client.scheduler_info(n_workers=-1)["workers"].values()
        for kind in ("build", "measure"):
            if not any(worker.get("resources", {}).get(kind) for worker in workers):
                raise TuningError(
                    f"no worker of {address} has the resource {kind!r}: start some with `dask worker {address} --resources {kind}=1`"
                )


def packed_task(task: Task) -> dict[str, Any]:
    """The task as plain data."""
    data, blobs = pack_program(task.program)
    return {
        "program": data,
        "constants": blobs,
        "cpu": task.target.cpu,
        "threads": task.target.threads,
        "specs": task.inputs.specs,
        "sizes": task.inputs.sizes,
        "inputs": [bytes(blob) for blob in task.inputs.blobs],
        "reference": task.reference,
        "limits": asdict(task.limits),
        "protocol": asdict(task.protocol),
        "tolerance": task.tolerance,
    }


def unpacked_task(data: dict[str, Any]) -> Task:
    """The task that `packed_task` packed."""
    inputs = Inputs(tuple(data["specs"]), data["sizes"], tuple(memoryview(blob) for blob in data["inputs"]))
    program, target = unpack_program(data["program"], data["constants"]), Target("llvm", data["cpu"], data["threads"])
    limits, protocol = Limits(**data["limits"]), Protocol(**data["protocol"])
    return Task(program, target, inputs, data["reference"], limits, protocol, data["tolerance"])


# --- what workers do


class _Workers:
    """The processes that this worker keeps, by job."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.builders: dict[str, list[BuilderProcess]] = {}
        self.runners: dict[str, RunnerProcess] = {}


_workers = _Workers()


def _build(job: str, about: dict[str, Any], request: Request) -> Built:
    """Compiles one candidate, in an idle process of the job."""
    with _workers.lock:
        idle = _workers.builders.setdefault(job, [])
        builder = idle.pop() if idle else None
    builder = builder or BuilderProcess(unpacked_task(about))
    try:
        return builder.build(request)
    finally:
        with _workers.lock:
            _workers.builders.setdefault(job, []).append(builder)


def _measure(job: str, about: dict[str, Any], reference: Built, built: Built, best: float | None) -> Measurement:
    """Runs one candidate, when nobody else on this machine measures."""
    return _runner(job, about, reference).measure(built, best)


def _compare(job: str, about: dict[str, Any], reference: Built, built: list[Built]) -> list[Measurement]:
    return _runner(job, about, reference).compare([each for each in built if each.failure is None])


def _runner(job: str, about: dict[str, Any], reference: Built) -> RunnerProcess:
    with _workers.lock:
        if job not in _workers.runners:
            _workers.runners[job] = RunnerProcess(unpacked_task(about), reference)
        return _workers.runners[job]


def _end(job: str) -> None:
    with _workers.lock:
        processes = [*_workers.builders.pop(job, []), *filter(None, [_workers.runners.pop(job, None)])]
    for process in processes:
        process.close()


def _distributed() -> Any:
    try:
        import distributed
    except ImportError:
        raise TuningError("a cluster needs dask.distributed: pip install 'raido[distributed]'") from None
    return distributed
