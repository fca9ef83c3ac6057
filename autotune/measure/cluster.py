"""Measurement on a dask.distributed cluster: some workers compile, others run, one candidate at a time on each machine.

Dask's resources assign roles to workers: `dask worker tcp://… --resources build=1` compiles, `--resources measure=1` runs. A worker keeps a
process of raido's own for each job (as on one machine), so candidates cannot harm the worker itself; messages to it are data (JSON and
bytes), and dask's own carry no code but the name of a function of this file. The task (program and inputs) is sent to a worker once, in
pieces; one that joins later reports that it lacks it. No call depends on another's result inside the cluster: compiled code is returned
here first, so a worker that dies loses only its current calls, which go to another. Two runners on one machine exclude each other by a
lock. Needs the extra raido[distributed].

Whoever reaches a scheduler or a worker of dask can have it run any code, and answers are unpickled here: `tls` admits only those who have a
certificate of the cluster's own authority.
"""

from __future__ import annotations

import contextlib
import math
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from raido.algo.errors import TuningError, explain
from raido.autotune.measure.inputs import Inputs
from raido.autotune.measure.local import BuilderProcess, Built, Request, RunnerProcess, Task
from raido.autotune.measure.measurement import Limits, Measurement, Protocol
from raido.autotune.measure.programs import pack_program, pack_target, unpack_program
from raido.targets.target import Target

_PATIENCE = 30  # seconds to wait for the scheduler, and for its first worker
_LOSSES = 5  # how often the work of a worker that died goes to another
_PIECE = 32 << 20  # bytes of inputs in one message


class _WithoutTask(Exception):
    """A worker, named by its address, lacks the task: it joined the cluster later, or was restarted."""


class _Lost(Exception):
    """The workers that executed a call are gone."""


@dataclass(slots=True)
class _Call:
    """A call of a function of this file on a worker with a resource; `losses`: how often a worker has died during it."""

    request: Request
    resource: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    losses: int = 0


class ClusterMeasurer:
    """A `Measurer` with the workers of a dask scheduler at `address` (tcp://host:8786, or tls://host:8786 with `tls`: the paths of the
    authority's certificate, "ca", and of this side's, "cert", with its "key")."""

    def __init__(self, task: Task, address: str, tls: Mapping[str, str] | None = None) -> None:
        distributed = _distributed()
        self._task = task
        self._address = address
        self._job = uuid.uuid4().hex
        try:
            self._client = distributed.Client(
                address, timeout=_PATIENCE, set_as_default=False, security=_security(address, tls)
            )
        except (
            OSError,
            ValueError,
            TimeoutError,
            TypeError,
        ) as error:  # TypeError: an address of tls without certificates
            why = str(error).strip() or type(error).__name__
            raise TuningError(
                explain(f"there is no dask scheduler at {address}", why=why, **{"try": _remedy(address, tls)})
            ) from None
        try:
            self._wait_for_workers(address)
            self._send_task()
            ((_, reference),) = self._answers(_builds([Request("", task.reference)]))
            if isinstance(reference, _Lost):
                raise TuningError(f"{task.program.name} cannot be compiled: {reference}")
            if reference.failure is not None:
                raise TuningError(f"{task.program.name} cannot be compiled: {reference.detail}")
            self._reference: Built = reference
        except BaseException:
            self._client.close()
            raise

    def measure(
        self, requests: Sequence[Request], best: float | None = None, seconds: float = math.inf
    ) -> Iterator[Measurement]:
        """Builds and runs all requests on free workers, and yields measurements as they arrive. Workers apply their own limits; `seconds`
        is ignored."""

        def after(call: _Call, answer: Any) -> _Call | None:
            if not isinstance(answer, Built):
                return None
            return _Call(call.request, "measure", _measure, (self._reference, answer, best))

        for call, answer in self._answers(_builds(requests), after):
            lost = isinstance(answer, _Lost)
            yield Measurement(call.request.key, failure="crash", detail=str(answer)) if lost else answer

    def compare(self, requests: Sequence[Request]) -> list[Measurement]:
        """Builds the requests, and runs them by turns on one worker."""
        answers = [answer for _, answer in self._answers(_builds(requests))]
        built = {each.key: each for each in answers if isinstance(each, Built) and each.failure is None}
        order = [built[each.key] for each in requests if each.key in built]
        if not order:
            return []
        ((_, answer),) = self._answers([_Call(requests[0], "measure", _compare, (self._reference, order))])
        return [] if isinstance(answer, _Lost) else answer

    def features(self, requests: Sequence[Request]) -> Mapping[str, Sequence[float]]:
        """No features: workers only compile and measure."""
        return {}

    def close(self) -> None:
        """Ends the job's processes on all workers, and disconnects."""
        try:
            with contextlib.suppress(TuningError):  # the scheduler is gone, and the workers with it
                self._on_workers(_end)
        finally:
            self._client.close()

    def _answers(
        self, calls: Sequence[_Call], after: Callable[[_Call, Any], _Call | None] = lambda call, answer: None
    ) -> Iterator[tuple[_Call, Any]]:
        """Yields each call with its answer, or with `_Lost`, as they arrive. `after`: the call that follows an answer, instead of yielding
        it."""
        pending = {self._submit(call): call for call in calls}
        completed = _distributed().as_completed(list(pending), loop=self._client.loop, raise_errors=False)

        def add(call: _Call) -> None:
            future = self._submit(call)
            pending[future] = call
            completed.add(future)

        try:
            for future in completed:
                call = pending.pop(future)
                answer = self._answer(future)
                if isinstance(answer, _WithoutTask):
                    self._send_task([str(answer)])
                    add(call)
                elif isinstance(answer, _Lost) and call.losses < _LOSSES:
                    call.losses += 1
                    add(call)
                elif following := after(call, answer):
                    add(following)
                else:
                    yield call, answer
        finally:
            with contextlib.suppress(
                _distributed().client.ClosedClientError
            ):  # the scheduler is gone, and so are its calls
                self._client.cancel(list(pending), force=True)

    def _submit(self, call: _Call) -> Any:
        resources = {call.resource: 1}
        return self._client.submit(call.function, self._job, *call.arguments, resources=resources, pure=False)

    def _answer(self, future: Any) -> Any:
        distributed = _distributed()
        try:
            return future.result()
        except _WithoutTask as error:
            return error
        except distributed.KilledWorker as error:
            return _Lost(f"the workers that took the candidate died, one after another: {error}")
        except (distributed.CancelledError, OSError, RuntimeError) as error:
            if self._client.status != "running":
                raise self._gone(error) from None
            return _Lost(f"the cluster did not measure the candidate: {error}")

    def _send_task(self, workers: list[str] | None = None) -> None:
        """Sends the task to workers, by their addresses, or to all; ignores workers that have gone."""
        about, blobs = packed_task(self._task), self._task.inputs.blobs
        self._on_workers(_begin, about, workers=workers)
        for k, blob in enumerate(blobs):
            for at in range(0, len(blob), _PIECE):
                self._on_workers(_append, k, at, bytes(blob[at : at + _PIECE]), workers=workers)

    def _on_workers(self, function: Callable[..., Any], *arguments: Any, workers: list[str] | None = None) -> None:
        """Calls a function of this file on workers, by their addresses, or on all; raises `TuningError` when the scheduler is gone."""
        try:
            self._client.run(function, self._job, *arguments, workers=workers, on_error="ignore")
        except Exception as error:
            if self._client.status == "running" and self._client.scheduler is not None:
                raise
            raise self._gone(error) from None

    def _gone(self, error: BaseException) -> TuningError:
        lines = {
            "why": str(error) or type(error).__name__,
            "try": "the same command, once the scheduler runs again: the job continues",
        }
        return TuningError(explain(f"the dask scheduler at {self._address} is gone", **lines))

    def _wait_for_workers(self, address: str) -> None:
        """Raises `TuningError` when no worker compiles or none measures."""
        with contextlib.suppress(TimeoutError):
            self._client.wait_for_workers(1, timeout=_PATIENCE)
        workers = self._client.scheduler_info(n_workers=-1)["workers"].values()
        for kind in ("build", "measure"):
            if not any(worker.get("resources", {}).get(kind) for worker in workers):
                raise TuningError(
                    f"no worker of {address} has the resource {kind!r}: start some with `dask worker {address} --resources {kind}=1`"
                )


def _builds(requests: Sequence[Request]) -> list[_Call]:
    return [_Call(request, "build", _build, (request,)) for request in requests]


def packed_task(task: Task) -> dict[str, Any]:
    """The task as plain data, with the lengths of its inputs instead of their bytes."""
    data, blobs = pack_program(task.program)
    return {
        "program": data,
        "constants": blobs,
        "target": pack_target(task.target),
        "specs": task.inputs.specs,
        "sizes": task.inputs.sizes,
        "inputs": [len(blob) for blob in task.inputs.blobs],
        "places": task.inputs.places,
        "reference": task.reference,
        "limits": asdict(task.limits),
        "protocol": asdict(task.protocol),
        "tolerance": task.tolerance,
    }


def unpacked_task(data: dict[str, Any], blobs: Sequence[bytearray]) -> Task:
    """The task of `packed_task`, given the bytes of its inputs."""
    views = tuple(memoryview(blob) for blob in blobs)
    inputs = Inputs(tuple(data["specs"]), data["sizes"], views, tuple(data["places"]))
    program, target = unpack_program(data["program"], data["constants"]), Target(**data["target"])
    limits, protocol = Limits(**data["limits"]), Protocol(**data["protocol"])
    return Task(program, target, inputs, data["reference"], limits, protocol, data["tolerance"])


# --- what workers do


class _Kept:
    """A job's state on this worker: the task, whose inputs arrive in pieces, and the job's processes."""

    def __init__(self, about: dict[str, Any]) -> None:
        self.about = about
        self.blobs = [bytearray(length) for length in about["inputs"]]
        self.missing = sum(about["inputs"])
        self.lock = threading.Lock()
        self.idle: list[BuilderProcess] = []
        self.runner: RunnerProcess | None = None

    def task(self) -> Task:
        return unpacked_task(self.about, self.blobs)


_jobs: dict[str, _Kept] = {}


def _begin(job: str, about: dict[str, Any]) -> None:
    _jobs.setdefault(job, _Kept(about))


def _append(job: str, blob: int, at: int, piece: bytes) -> None:
    kept = _jobs[job]
    kept.blobs[blob][at : at + len(piece)] = piece
    kept.missing -= len(piece)


def _kept(job: str) -> _Kept:
    kept = _jobs.get(job)
    if kept is None or kept.missing > 0:
        raise _WithoutTask(_distributed().get_worker().address)
    return kept


def _build(job: str, request: Request) -> Built:
    """Compiles one candidate in an idle process of the job."""
    kept = _kept(job)
    with kept.lock:
        builder = kept.idle.pop() if kept.idle else BuilderProcess(kept.task())
    try:
        built = builder.build(request)
        assert built is not None  # nothing cuts it off
        return built
    finally:
        with kept.lock:
            kept.idle.append(builder)


def _measure(job: str, reference: Built, built: Built, best: float | None) -> Measurement:
    """Runs one candidate, while no other is measured on this machine."""
    measured = _runner(job, reference).measure(built, best)
    assert measured is not None  # nothing cuts it off
    return measured


def _compare(job: str, reference: Built, built: list[Built]) -> list[Measurement]:
    return _runner(job, reference).compare(built)


def _runner(job: str, reference: Built) -> RunnerProcess:
    kept = _kept(job)
    with kept.lock:
        kept.runner = kept.runner or RunnerProcess(kept.task(), reference)
        return kept.runner


def _end(job: str) -> None:
    kept = _jobs.pop(job, None)
    for process in [*kept.idle, *filter(None, [kept.runner])] if kept else []:
        process.close()


def _security(address: str, tls: Mapping[str, str] | None) -> Any:
    """Dask's TLS configuration for the given files; None leaves dask's own."""
    if tls is None:
        return None
    from distributed.security import Security

    return Security(
        tls_ca_file=tls["ca"], tls_client_cert=tls["cert"], tls_client_key=tls["key"], require_encryption=True
    )


def _remedy(address: str, tls: Mapping[str, str] | None) -> str:
    if address.startswith("tls://") and tls is None:
        return (
            "--tls-ca, --tls-cert and --tls-key (`tls=`), the files of certificates that the scheduler was started with"
        )
    return (
        "`dask scheduler`, which prints its address" if tls is None else "the files that the scheduler was started with"
    )


def _distributed() -> Any:
    try:
        import distributed
    except ImportError:
        raise TuningError("a cluster needs dask.distributed: pip install 'raido[distributed]'") from None
    return distributed
