"""A tuning job: measures the default schedule, then the best of other jobs, then the search's proposals, then the finalists by turns; every
measurement is stored at once.

The search is deterministic given the measurements, so a job is resumed by running it again: proposals that the database knows are answered
from there, and the rest measured. A job is identified by a digest of everything that determines it (program, sizes, inputs, target,
machine, space, search and seed), but not by its budget, which may grow.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import uuid4

from raido.algo.errors import TuningError
from raido.autotune.jobs.starts import known_schedules, starts
from raido.autotune.jobs.tuning import Tuning
from raido.autotune.jobs.turn import job_lock
from raido.autotune.measure.local import Measurer, Request, Task
from raido.autotune.measure.measurement import Measurement
from raido.autotune.records.choose import best_record
from raido.autotune.records.database import Database, JobState
from raido.autotune.records.record import Record
from raido.autotune.search import Search
from raido.autotune.space import Candidate, Space

BATCH = 8
FINALISTS = 5
LAST_ROUND = 0.5  # of the time of the last one must be left for another round
FINAL_PART = 0.1  # of a job's minutes, at most, are kept for the finalists
PATIENCE = 120.0  # seconds, beside its limits, after which a job that has measured nothing new is taken for stopped


FeatureMaker = Callable[[Sequence[Request]], Mapping[str, Sequence[float]]]


@dataclass(frozen=True)
class Guide:
    """A search, with its model's view of a candidate: a score (None without a model) and its features. `assist` delegates the features of
    many candidates at a time."""

    search: Search
    score: Callable[[Candidate], float | None]
    features: Callable[[Candidate], tuple[float, ...]]
    features_version: int
    assist: Callable[[FeatureMaker], None] = lambda maker: None


@dataclass
class Progress:
    """The state of a job, for its watcher. `phase` describes the current work, "done" at the end. `spent`: seconds, at the time `told` of
    `time.monotonic()`."""

    title: str
    trials: int
    minutes: float | None
    phase: str = "starting"
    spent: float = 0.0
    told: float = field(default_factory=time.monotonic)
    records: list[Record] = field(default_factory=list)


Watcher = Callable[[Progress], None]


@dataclass(frozen=True)
class Budget:
    """The limits of a job: the number of candidates to try, and the minutes over all its runs."""

    trials: int
    minutes: float | None = None


class Job:
    """A tuning job: one program at certain sizes on one target. `default` is the default schedule, the baseline, whether the space contains
    it or not. `measurer` and `guide` are created on demand: a finished job needs none."""

    def __init__(
        self,
        task: Task,
        space: Space,
        default: Candidate,
        digest: str,
        settings: Mapping[str, Any],
        database: Database,
        budget: Budget,
        guide: Callable[[], Guide],
        measurer: Callable[[], Measurer],
        versions: Mapping[str, str],
        batch: int = BATCH,
    ) -> None:
        self.task = task
        self.space = space
        self.default = default
        self.digest = digest
        self.database = database
        self.budget = budget
        self._settings = settings
        self._make_guide = guide
        self._make_measurer = measurer
        self._versions = dict(versions)
        self._batch = batch
        self._known: dict[str, Record] = {}
        self.progress = Progress(task.program.name, budget.trials, budget.minutes)
        self._watch: Watcher = lambda progress: None
        self._begun = time.monotonic()
        self._spent_before = 0.0
        self._round = 0.0  # seconds that the last one took

    def run(self, watch: Watcher | None = None) -> Tuning:
        """Does the remaining work, and returns the outcome. KeyboardInterrupt ends it at once; measurements are kept. Waits for another
        process that works on the same job."""
        self._watch = watch or self._watch
        if self.budget.trials == 0:
            return self._run()
        name, limits = f"{self.database.path.resolve()} {self.digest}", self.task.limits
        with job_lock(name, self._wait, PATIENCE + limits.first + limits.compile):
            return self._run()

    def _run(self) -> Tuning:
        self._begun = time.monotonic()
        state = self._read()
        if self.budget.trials == 0 and not state.ended:
            return self._unmeasured()
        if not state.ended:
            guide = (
                self._make_guide() if self._trials_left() > 0 else None
            )  # none: killed before finalists were compared
            with closing(self._make_measurer()) as measurer:
                if guide is not None:
                    guide.assist(measurer.features)
                self._measure_default(measurer, guide)
                ended = self._search(measurer, guide)
                self._compare(measurer)
            self._keep_state(ended)
        self._tell("done")
        return self.tuning()

    def tuning(self) -> Tuning:
        """The outcome so far."""
        state = self.database.job(self.digest)
        return Tuning(
            self.task.program.name,
            self.space.schedule.graph,
            self.task.inputs.sizes,
            str(self.task.target),
            tuple(self.progress.records),
            state.ended if state else "",
            self.progress.spent,
            self._in_space(),
        )

    # The parts of a job

    def _wait(self) -> int:
        """Shows the progress of another process at the same job; returns the number of its measurements."""
        state = self.database.job(self.digest)
        self._begun, self._spent_before = time.monotonic(), 0.0 if state is None else state.spent
        self.progress.records = self.database.records(job=self.digest)
        self._tell("waiting for another process that runs the same job")
        return len(self.progress.records)

    def _read(self) -> JobState:
        """The job's state in the database; `ended` is "" if this budget leaves trials to run."""
        state = self.database.job(self.digest)
        if state is None:
            state = JobState({**self._settings, "starts": self._known_schedules()})
        self._settings = state.settings
        records = self.database.records(job=self.digest)
        self._known = {record.key: record for record in records if record.kind != "final"}
        if not any(record.kind == "default" for record in records):  # whoever took it away has taken the end along
            state = replace(state, ended="")
        self._spent_before = self.progress.spent = state.spent
        if state.ended == "exhausted" or (state.ended and (self._trials_left() <= 0 or self._time_left() <= 0)):
            self.progress.records = records
            return state
        if self.budget.trials:
            self.database.set_job(self.digest, replace(state, ended=""))
        self.progress.records = [record for record in records if record.kind == "final"]
        return replace(state, ended="")

    def _measure_default(self, measurer: Measurer, guide: Guide | None) -> None:
        default = self.default
        if default.key in self._known:
            self.progress.records.append(self._known[default.key])
            return
        self._tell(f"compiling and running the default schedule, which may take {self.task.limits.first:g} s")
        for measurement in measurer.measure([Request(default.key, default.schedule.to_json())]):
            if measurement.best is None:
                why = f"({measurement.failure}): {measurement.detail}"
                raise TuningError(f"{self.task.program.name}: the initial schedule fails {why}")
            self._keep(self._record(default, measurement, "default", 0, guide))

    def _search(self, measurer: Measurer, guide: Guide | None) -> str:
        """Proposes and measures until the budget is used up; returns the reason for the end."""
        number = 1
        if guide is None:
            self.progress.records += [record for record in self._known.values() if record.kind == "trial"]
            return "trials"
        if self._in_space():
            guide.search.tell(self.default, self._known[self.default.key].cost)
        while number <= self.budget.trials:
            if self._search_time_left() <= LAST_ROUND * self._round:
                return "minutes"
            begun = time.monotonic()
            self._tell("searching")
            count = min(self._batch, self.budget.trials + 1 - number)
            candidates = (self._starts()[:count] if number == 1 else []) or guide.search.propose(count)
            if not candidates:
                return "exhausted"
            self._measure_batch(measurer, guide, candidates, number)
            number += len(candidates)
            for candidate in candidates:
                if candidate.key in self._known:
                    guide.search.tell(candidate, self._known[candidate.key].cost)
            self._round = time.monotonic() - begun
        return "trials"

    def _measure_batch(self, measurer: Measurer, guide: Guide, candidates: Sequence[Candidate], number: int) -> None:
        numbers = {candidate.key: number + k for k, candidate in enumerate(candidates)}
        by_key = {candidate.key: candidate for candidate in candidates}
        self.progress.records += [self._known[key] for key in by_key if key in self._known]
        new = [candidate for candidate in candidates if candidate.key not in self._known]
        scores = {candidate.key: guide.score(candidate) for candidate in new}
        self._tell("compiling and measuring")
        if not new:
            return
        best = min((r.relative for r in self._known.values() if r.relative is not None), default=None)
        requests = [Request(candidate.key, candidate.schedule.to_json()) for candidate in new]
        for measurement in measurer.measure(requests, best, max(0.0, self._search_time_left())):
            candidate = by_key[measurement.key]
            record = self._record(candidate, measurement, "trial", numbers[measurement.key], guide)
            self._keep(replace(record, predicted=scores[candidate.key]))
            if self._search_time_left() <= 0:
                break

    def _compare(self, measurer: Measurer) -> None:
        """Measures the default and the fastest candidates by turns, with the best of other jobs for the same program and sizes."""
        self._tell("comparing")
        default = self._known[self.default.key]
        tried = [record for record in self._known.values() if record.best is not None and record is not default]
        tried.sort(key=lambda record: record.cost or 0.0)
        finalists = [default, *tried[:FINALISTS], *self._incumbents({default.key, *(r.key for r in tried[:FINALISTS])})]
        measured = {m.key: m for m in measurer.compare([Request(r.key, r.schedule) for r in finalists])}
        now, new = time.time(), []
        for number, record in enumerate(finalists):
            measurement = measured.get(record.key)
            if measurement is not None and measurement.best is not None:
                new.append(
                    replace(
                        record,
                        id=uuid4().hex,
                        number=number,
                        kind="final",
                        job=self.digest,
                        seconds=measurement.seconds,
                        relative=None,
                        machine=measurement.machine,
                        host=measurement.host,
                        versions=self._versions,
                        at=now,
                    )
                )
        self.database.add_all(new)
        self.progress.records += new

    def _incumbents(self, taken: set[str]) -> list[Record]:
        """The best record of other jobs for the same program, sizes, target and machine."""
        machine = next(iter(self._known.values())).machine
        records = self.database.records(
            program=self.space.schedule.fingerprint, target=str(self.task.target), machine=machine
        )
        others = [
            r for r in records if r.job != self.digest and r.sizes == self.task.inputs.sizes and r.best is not None
        ]
        others = [record for record in others if record.key not in taken]
        choice = best_record(others, machine, self.task.inputs.sizes)
        return [choice.record] if choice is not None else []

    # What is known beforehand

    def _known_schedules(self) -> list[str]:
        """The best schedules of other jobs; none if the space is restricted."""
        if self.space.schedule.directives:
            return []
        records = self.database.records(program=self.space.schedule.fingerprint, target=str(self.task.target))
        return known_schedules(records, str(self._settings.get("machine", "")), self.task.inputs.sizes)

    def _starts(self) -> list[Candidate]:
        known = self._settings.get("starts")
        return starts(self.space, known if isinstance(known, list) else ())

    def _unmeasured(self) -> Tuning:
        """The outcome without measurements: the default schedule of the space."""
        self._tell("done")
        chosen = self.space.default().schedule, self.default.schedule
        return replace(self.tuning(), records=(), ended="trials", unmeasured=chosen)

    # Keeping what has been found

    def _record(
        self, candidate: Candidate, measurement: Measurement, kind: str, number: int, guide: Guide | None
    ) -> Record:
        program = self.task.program
        return Record(
            program=self.space.schedule.fingerprint,
            name=program.name,
            sizes=self.task.inputs.sizes,
            dtypes=tuple(parameter.dtype.name for parameter in program.parameters),
            target=str(self.task.target),
            machine=measurement.machine,
            host=measurement.host,
            job=self.digest,
            number=number,
            kind=kind,
            key=candidate.key,
            schedule=candidate.schedule.to_json(),
            seconds=measurement.seconds,
            failure=measurement.failure,
            detail=measurement.detail,
            features=() if guide is None else guide.features(candidate),
            features_version=0 if guide is None else guide.features_version,
            compile_seconds=measurement.compile_seconds,
            relative=measurement.relative,
            versions=self._versions,
            at=time.time(),
        )

    def _keep(self, record: Record) -> None:
        self.database.add(record)
        self._known[record.key] = record
        self.progress.records.append(record)
        self._keep_state("")
        self._tell(self.progress.phase)

    def _keep_state(self, ended: str) -> None:
        self.progress.spent = spent = self._spent()
        if ended == "minutes":  # they are used up, though the last of them was too short for another round
            spent = max(spent, 60 * (self.budget.minutes or 0))
        self.database.set_job(self.digest, JobState(self._settings, spent, ended))

    def _spent(self) -> float:
        return self._spent_before + time.monotonic() - self._begun

    def _search_time_left(self) -> float:
        """Seconds left for the search, without those reserved for the finalists."""
        if self.budget.minutes is None:
            return float("inf")
        return self._time_left() - min(self.task.protocol.final_seconds, FINAL_PART * self.budget.minutes * 60)

    def _in_space(self) -> bool:
        """Whether the default schedule is the default of the space."""
        return self.space.default().key == self.default.key

    def _trials_left(self) -> int:
        return self.budget.trials - sum(record.kind == "trial" for record in self._known.values())

    def _time_left(self) -> float:
        return float("inf") if self.budget.minutes is None else self.budget.minutes * 60 - self._spent()

    def _tell(self, phase: str) -> None:
        self.progress.phase = phase
        if phase != "done":
            self.progress.spent, self.progress.told = self._spent(), time.monotonic()
        self._watch(self.progress)
