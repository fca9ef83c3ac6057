"""Jobs: the order of measurements, budgets, and no measurement is ever lost or made twice."""

from __future__ import annotations

import math
import os
import random
import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from fake_jobs import Dice, Drawn, MadeUpTime, drawn, made_up_job
from tuning_programs import BODIES, any_size, double, object_of, task

import raido as rd
from raido.autotune.jobs.job import Budget, Guide, Job, Progress
from raido.autotune.measure.local import Built, LocalMeasurer, Request
from raido.autotune.measure.measurement import Limits, Measurement
from raido.autotune.records.database import Database
from raido.autotune.space import Space
from raido.targets.target import Target


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with Database(tmp_path / "tuning.db") as found:
        yield found


def test_a_job_measures_the_default_then_what_is_proposed_then_finalists(database: Database) -> None:
    dice = Dice()
    tuning = made_up_job(database, 20, measurer=dice).run()
    assert dice.closed and len(set(dice.measured)) == len(dice.measured) == 21
    assert [record.number for record in tuning.history] == list(range(21))
    assert tuning.history[0].kind == "default" and {r.kind for r in tuning.history[1:]} == {"trial"}
    fastest = sorted((r.best, r.key) for r in tuning.history if r.best is not None)
    assert [r.key for r in tuning.finals[1:]] == [key for _, key in fastest if key != tuning.finals[0].key][:5]
    assert tuning.record.key == fastest[0][1] and tuning.ended == "trials"
    assert tuning.tuned == rd.Schedule.from_json(tuning.record.schedule, double)
    assert sum(tuning.failures.values()) == sum(r.failure is not None for r in tuning.history)
    assert {(r.features, r.features_version) for r in tuning.records} == {((1.0, 2.0), 7)}
    assert [r.predicted is None for r in tuning.history] == [True, *[False] * 20]
    assert database.records(job="digest") == list(tuning.records)


def test_a_finished_job_answers_at_once_and_a_larger_budget_goes_on(database: Database) -> None:
    first = made_up_job(database, 10).run()

    def refuse() -> Guide:
        raise AssertionError("a finished job searches again")

    again = made_up_job(database, 10, measurer="none is needed", guide=refuse).run()
    assert again.records == first.records and again.best == first.best and again.seconds == first.seconds
    dice = Dice()
    longer = made_up_job(database, 16, measurer=dice).run()
    assert len(dice.measured) == 6 and longer.history[:11] == first.history and len(longer.history) == 17


def test_a_space_that_is_exhausted_ends_the_job_for_good(database: Database) -> None:
    assert made_up_job(database, 50, most=5).run().ended == "exhausted"
    assert len(made_up_job(database, 1000, measurer="none is needed").run().history) == 6


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> MadeUpTime:
    """The time that jobs see: only measurements take any."""
    made = MadeUpTime()
    monkeypatch.setattr("raido.autotune.jobs.job.time", made)
    return made


def test_minutes_end_a_job_and_more_minutes_go_on(database: Database, clock: MadeUpTime) -> None:
    """Of 3 s, at 0.2 s a measurement, a tenth is kept for the finalists: thirteen are within 2.7 s, and the fourteenth ends it."""
    tuning = made_up_job(database, 10**6, minutes=3 / 60, measurer=Dice(0.2, clock)).run()
    assert tuning.ended == "minutes" and len(tuning.history) == 14
    assert made_up_job(database, 10**6, minutes=3 / 60, measurer="none is needed").run().records == tuning.records
    longer = made_up_job(database, 10**6, minutes=6 / 60, measurer=Dice(0.2, clock)).run()
    assert longer.history[:14] == tuning.history and len(longer.history) > 20 and 4.5 < longer.seconds <= 6


def test_time_is_kept_for_the_finalists_and_no_round_begins_that_would_end_too_late(
    database: Database, clock: MadeUpTime
) -> None:
    """At 0.4 s, the default and a round of eight take 3.6 s of ten, and another round 6.8: less than half of a third would be left."""
    tuning = made_up_job(database, 10**6, minutes=10 / 60, measurer=Dice(0.4, clock)).run()
    assert tuning.ended == "minutes" and tuning.finals
    assert len(tuning.history) in (17, 23) and tuning.seconds <= 10
    assert made_up_job(database, 10**6, minutes=10 / 60, measurer="none is needed").run().records == tuning.records


def test_what_a_job_starts_from_is_settled_when_it_begins(database: Database) -> None:
    """So that it is resumed as it was, whatever other jobs have found since."""
    job = made_up_job(database, 4)
    job.run()
    state = database.job("digest")
    assert state is not None and state.settings["starts"] == []


def test_the_search_is_told_the_same_when_a_job_is_resumed(database: Database, tmp_path: Path) -> None:
    searches: list[Drawn] = []

    def guide() -> Guide:
        searches.append(Drawn(1))
        return Guide(searches[-1], lambda candidate: None, lambda candidate: (), 0)

    made_up_job(database, 8, guide=guide).run()
    made_up_job(database, 24, guide=guide).run()
    with Database(tmp_path / "other.db") as other:
        made_up_job(other, 24, guide=guide).run()
    assert searches[1].told == searches[2].told and searches[1].told[:9] == searches[0].told


def test_ctrl_c_ends_a_job_and_keeps_what_was_measured(database: Database) -> None:
    class Interrupted(Dice):
        def measure(
            self, requests: Sequence[Request], best: float | None = None, seconds: float = math.inf
        ) -> Iterator[Measurement]:
            for measurement in super().measure(requests, best):
                if len(self.measured) == 12:
                    raise KeyboardInterrupt
                yield measurement

    dice = Interrupted()
    job = made_up_job(database, 30, measurer=dice)
    with pytest.raises(KeyboardInterrupt):
        job.run()
    assert dice.closed and len(job.tuning().history) == 11 and job.tuning().ended == ""
    rest = Dice()
    assert len(made_up_job(database, 30, measurer=rest).run().history) == 31 and len(rest.measured) == 20


def test_a_job_killed_twenty_times_at_random_loses_nothing(tmp_path: Path) -> None:
    """Each child goes on with the job until it is killed, at a random moment after up to five more trials. What it has reported as
    kept is in the database, and the end is as if nothing had happened."""
    path, rng, kept = tmp_path / "tuning.db", random.Random(7), 0
    assert len(drawn()) > 150
    for _ in range(20):
        read, write = os.pipe()
        child = os.fork()
        if not child:
            _run_until_killed(path, write)
        os.close(write)
        enough, reported = kept + rng.randrange(6), b"\0"
        while max(reported) < enough:
            part = os.read(read, 4096)
            assert part, "the job ended before it was killed"
            reported += part
        time.sleep(rng.uniform(0, 0.03))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        while part := os.read(read, 4096):
            reported += part
        os.close(read)
        with Database(path) as database:
            found = len(database.records(job="digest"))
        assert found >= max(kept, *reported)
        kept = found
    with Database(path) as database, Database(tmp_path / "undisturbed.db") as other:
        resumed, straight = made_up_job(database, 150).run(), made_up_job(other, 150).run()
    assert 30 < kept < 150 and [r.key for r in resumed.history] == [r.key for r in straight.history]
    assert [r.seconds for r in resumed.finals] == [r.seconds for r in straight.finals]


def _run_until_killed(path: Path, write: int) -> None:
    try:
        with Database(path) as database:

            def report(progress: Progress) -> None:
                os.write(write, bytes([min(255, len(progress.records))]))

            made_up_job(database, 150, measurer=Dice(0.01)).run(report)
    finally:
        os._exit(0)


class Sabotaged(LocalMeasurer):
    """Candidates are by turns what was compiled, and objects that crash, hang, ask for all memory, fault or are wrong."""

    spoiled: dict[str, str]
    folder: Path

    def _build(self, requests: Sequence[Request], until: float = math.inf) -> list[Built]:
        return [self._spoil(built) for built in super()._build(requests, until)]

    def _spoil(self, built: Built) -> Built:
        what = self.spoiled.get(built.key)
        if what is None:
            return built
        return replace(built, code=object_of(BODIES[what], self.folder), signature=any_size().to_json())


def test_a_job_over_candidates_that_crash_and_hang_ends_well(database: Database, tmp_path: Path) -> None:
    open_ = double.schedule()
    open_["out"].split("x", rd.choose("factor", [16, 32, 48, 64, 80, 96])).vectorize("xi", rd.choose("lanes", [8, 16]))
    space = Space(open_, Target().machine, {"n": 1000})
    default = Space(double.schedule(), Target().machine, {"n": 1000}).default()
    candidates = list(space.grid())
    measurer = Sabotaged(task(limits=Limits(run=0.7)), builders=1)
    measurer.folder = tmp_path
    measurer.spoiled = {c.key: what for c, what in zip(candidates[::2], BODIES, strict=False)}
    search = Drawn(0)
    search.waiting = candidates
    guide = Guide(search, lambda candidate: None, lambda candidate: (), 0)
    job = Job(
        task(),
        space,
        default,
        "digest",
        {},
        database,
        Budget(50),
        lambda: guide,
        lambda: measurer,
        {"raido": rd.__version__},
    )
    tuning = job.run()
    failures = {record.key: record.failure for record in tuning.history if record.failure is not None}
    assert failures == {key: {"exit": "crash"}.get(what, what) for key, what in measurer.spoiled.items()}
    assert (
        tuning.ended == "exhausted" and len(tuning.history) == 13 and len(tuning.finals) == 6 and tuning.record.number
    )
    assert not {record.key for record in tuning.finals} & set(failures)
    x = np.arange(1000, dtype=np.float32)
    np.testing.assert_array_equal(double.compile(schedule=tuning.best)(x), 2 * x)


def test_the_best_schedule_is_the_tuned_one_at_its_sizes_and_the_default_elsewhere(database: Database) -> None:
    tuning = made_up_job(database, 8).run()
    exe = tuning.compile()
    for n in (*tuning.sizes.values(), 7):
        np.testing.assert_array_equal(exe(np.arange(n, dtype=np.float32)), 2 * np.arange(n, dtype=np.float32))
    variants = tuning.best.complete("llvm").variants()
    assert [v.test is None for v in variants] == [False, True]
    assert variants[0].plans == tuning.tuned.variants()[0].plans
    assert variants[1].plans == double.schedule().complete("llvm").variants()[0].plans
    assert rd.Schedule.from_json(tuning.best.to_json(), double) == tuning.best
