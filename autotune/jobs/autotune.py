"""The implementation of `rd.autotune`: from an algorithm to its best known schedule."""

from __future__ import annotations

import hashlib
import importlib.metadata
import inspect
import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from raido.algo.errors import ArgumentError, ScheduleError, explain
from raido.algo.trace.remedies import near_names
from raido.autotune import autotune
from raido.autotune.jobs import checks
from raido.autotune.jobs.guides import make_guide
from raido.autotune.jobs.job import Budget, Job, Progress
from raido.autotune.jobs.tuning import Tuning
from raido.autotune.measure.inputs import Inputs, given_inputs, made_up_inputs
from raido.autotune.measure.local import LocalMeasurer, Measurer, Task
from raido.autotune.measure.machine import this_machine
from raido.autotune.measure.measurement import Limits, Protocol
from raido.autotune.records.choose import size_text
from raido.autotune.records.database import Database
from raido.autotune.space import Space
from raido.schedule.fingerprint import fingerprint
from raido.schedule.schedule import Schedule
from raido.targets.child import Child
from raido.targets.compile import compilation_for, versions
from raido.targets.target import Target


def tune(
    algorithm: Any, inputs_or_sizes: Any, target: Target | str, trials: int, db: str | os.PathLike[str], seed: int,
    *, minutes: float | None, progress: bool | Callable[[Progress], None] | None, static: Mapping[str, Any], **options: Any
) -> Tuning:  # fmt: skip
    """`rd.autotune` (`raido.autotune`), with its static parameters as `static`."""
    _check_names(algorithm, static)
    begin = prepare_job(algorithm, inputs_or_sizes, target, Budget(trials, minutes), seed, static=static, **options)
    with open_database(db, trials) as database:
        return watched(begin(database), progress)


@contextmanager
def open_database(db: str | os.PathLike[str], trials: int) -> Iterator[Database]:
    """The database of a job. A job without trials, which stores nothing, gets a temporary empty one where the file does not exist."""
    if trials or os.path.lexists(db):
        with Database(db) as database:
            yield database
        return
    with tempfile.TemporaryDirectory() as folder, Database(os.path.join(folder, "tuning.db")) as database:
        yield database


def _refuse_others(algorithm: Any) -> None:
    if not hasattr(algorithm, "schedule"):
        raise ArgumentError(f"rd.autotune takes an algorithm, made by @rd.algorithm, not {algorithm!r}")


def _check_names(algorithm: Any, given: Mapping[str, Any]) -> None:
    """Refuses a keyword that is neither an option of `autotune` nor a static parameter, and one that is both, unless the parameter is
    fixed: the intended one cannot be known (`ArgumentError`)."""
    _refuse_others(algorithm)
    static = {*algorithm.signature.defaults, *algorithm.signature.required}
    options = {*inspect.signature(autotune).parameters} - {"static"}
    unknown = next((name for name in given if name not in static), None)
    if unknown is not None:
        near = ", ".join(f"{word}=" for word in near_names(unknown, {*options, *static}))
        if unknown in ("sizes", "inputs"):
            near = f"rd.autotune({algorithm.name}, {'{...}' if unknown == 'sizes' else '(x, ...)'}), with {unknown} as the second argument"
        head = f"rd.autotune has no option {unknown!r}, and {algorithm.name} no static parameter of that name"
        raise ArgumentError(explain(head, **{"try": near or None, "options": ", ".join(sorted(options))}))
    free = static - set(algorithm.fixed)
    shared = sorted(free & options)
    if shared:
        name = shared[0]
        raise ArgumentError(
            explain(
                f"{name!r} is a static parameter of {algorithm.name} and an option of rd.autotune",
                **{"try": f"rd.autotune(rd.capture({algorithm.name}, {name}=…), …)"},
            )
        )


def watched(job: Job, progress: bool | Callable[[Progress], None] | None) -> Tuning:
    """Runs a job with a live view, if wanted, or with a function that is called at each step."""
    if callable(progress):
        return job.run(progress)
    from raido.autotune.jobs.live import live_view

    with live_view(progress) as watch:
        return job.run(watch)


def prepare_job(
    algorithm: Any,
    inputs_or_sizes: Any,
    target: Target | str,
    budget: Budget,
    seed: int = 0,
    *,
    space: Schedule | None = None,
    search: str = "model",
    ranges: Mapping[str, Sequence[Any]] | None = None,
    tolerance: float | None = None,
    limits: Limits | Mapping[str, float] | None = None,
    protocol: Protocol | Mapping[str, float] | None = None,
    workers: str | None = None,
    tls: Mapping[str, str | os.PathLike[str]] | None = None,
    builders: int = 0,
    like: Sequence[Any] = (),
    static: Mapping[str, Any] | None = None,
    ahead: Child | None = None,
) -> Callable[[Database], Job]:
    """Validates a request, and returns a function from the database to the job, so that errors come before a database is created.

    `ahead` is a builder's process that was launched already (`raido.autotune.measure.ahead`).
    """
    sizes, arguments = _split(inputs_or_sizes)
    _refuse_others(algorithm)
    budget = Budget(checks.whole_number(budget.trials, "trials"), budget.minutes)
    seed, builders = checks.whole_number(seed, "seed"), checks.whole_number(builders, "builders")
    checks.check_minutes(budget.minutes)
    checks.check_search(search)
    checks.check_tolerance(tolerance)
    checks.check_workers(workers, tls)
    bounds = checks.settings_of(Limits, limits, "limits")
    timing = checks.settings_of(Protocol, protocol, "protocol")
    if not isinstance(like, (tuple, list)):
        raise ArgumentError(f"like is a sequence of arguments, as for compile, not {like!r}")
    chosen = Target.parse(target)
    if workers is None and budget.trials:
        checks.check_runs_here(chosen)
    start = algorithm.schedule(*(arguments if arguments is not None else like), target=chosen, **(static or {}))
    schedule = start if space is None else _belonging(space, start)
    program = schedule.graph.program
    signature = compilation_for(program, chosen, None, {}).signature
    if arguments is not None and ranges:
        raise ArgumentError(
            "`ranges` describes generated arrays, and the arrays are given: leave `ranges` out, or give sizes"
        )
    inputs = (
        made_up_inputs(program, signature, sizes, ranges, seed)
        if arguments is None
        else given_inputs(signature, arguments)
    )
    default = Space(Schedule(schedule.graph, (), chosen), chosen.machine, inputs.sizes).default()
    task = Task(program, chosen, inputs, default.schedule.to_json(), bounds, timing, tolerance)
    candidates = Space(schedule, chosen.machine, inputs.sizes)
    where = this_machine(chosen).digest if workers is None else "cluster"
    settings = {
        "program": fingerprint(program),
        "name": program.name,
        "sizes": dict(inputs.sizes),
        "inputs": _inputs_digest(inputs),
        "target": str(chosen),
        "threads": chosen.threads,
        "machine": where,
        "space": json.loads(space.to_json()) if space is not None else None,
        "search": search,
        "seed": seed,
        "versions": _versions(),
        "source": versions()[-1],
        **_unusual(bounds, timing, tolerance),
    }
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()

    def begin(database: Database) -> Job:
        job = Job(
            task,
            candidates,
            default,
            digest,
            settings,
            database,
            budget,
            lambda: make_guide(search, candidates, seed),
            lambda: _measurer(task, workers, tls, builders, ahead),
            _versions(),
        )
        job.progress.title = " ".join(filter(None, (program.name, size_text(inputs.sizes), f"for {chosen}")))
        return job

    return begin


def _measurer(
    task: Task,
    workers: str | None,
    tls: Mapping[str, str | os.PathLike[str]] | None,
    builders: int,
    ahead: Child | None,
) -> Measurer:
    if workers is None:
        return LocalMeasurer(task, builders, ahead)
    from raido.autotune.measure.cluster import ClusterMeasurer

    return ClusterMeasurer(task, workers, None if tls is None else {name: os.fspath(tls[name]) for name in tls})


def _unusual(limits: Limits, protocol: Protocol, tolerance: float | None) -> dict[str, Any]:
    """Settings that differ from the defaults; they make a different job, because other candidates fail."""
    said: dict[str, Any] = {} if tolerance is None else {"tolerance": tolerance}
    if limits != Limits():
        said["limits"] = asdict(limits)
    if protocol != Protocol():
        said["protocol"] = asdict(protocol)
    return said


def _split(inputs_or_sizes: Any) -> tuple[Mapping[str, int], Sequence[Any] | None]:
    """Sizes by name, and arguments (None where sizes are given)."""
    if isinstance(inputs_or_sizes, Mapping):
        return inputs_or_sizes, None
    if isinstance(inputs_or_sizes, str):
        raise ArgumentError(f'sizes are written {{"h": 480, "w": 640}}, not {inputs_or_sizes!r}')
    if not isinstance(inputs_or_sizes, (tuple, list)):
        return {}, (inputs_or_sizes,)
    return ({}, inputs_or_sizes) if inputs_or_sizes else ({}, None)


def _belonging(space: Schedule, start: Schedule) -> Schedule:
    if not isinstance(space, Schedule):
        raise ArgumentError(f"`space` is a schedule, with holes or without, not {type(space).__name__}")
    if space.fingerprint != start.fingerprint:
        name = start.graph.program.name
        text = explain("the space belongs to another program", **{"try": f"build it from {name}.schedule()"})
        raise ScheduleError(text)
    return space


def _inputs_digest(inputs: Inputs) -> str:
    digest = hashlib.blake2b(json.dumps(inputs.specs, sort_keys=True).encode(), digest_size=16)
    for blob in inputs.blobs:
        digest.update(blob)
    return digest.hexdigest()


def _versions() -> dict[str, str]:
    """Versions of raido and TVM: measurements of other versions do not count for this job."""
    return {name: importlib.metadata.version(name) for name in ("raido", "apache-tvm")}
