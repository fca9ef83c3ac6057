"""Identical jobs at once: one measures, the others wait for it and answer from the measurements it has kept."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from fake_jobs import Dice, MadeUpTime, made_up_job

import raido as rd
from raido.autotune.jobs.job import Progress
from raido.autotune.jobs.turn import job_lock
from raido.autotune.records.database import Database


def test_the_same_job_begun_twice_is_measured_once(tmp_path: Path) -> None:
    path, dice, begun = tmp_path / "tuning.db", [Dice(0.02), Dice(0.02)], threading.Event()
    phases: list[list[tuple[str, int]]] = [[], []]
    tunings: dict[int, rd.Tuning] = {}

    def work(number: int) -> None:
        def watch(progress: Progress) -> None:
            phases[number].append((progress.phase, len(progress.records)))
            if len(progress.records) > 1:
                begun.set()

        with Database(path) as database:
            tunings[number] = made_up_job(database, 20, measurer=dice[number]).run(watch)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
    threads[0].start()
    assert begun.wait(20)
    threads[1].start()
    for thread in threads:
        thread.join()
    assert len(dice[0].measured) == 21 and not dice[1].measured
    assert tunings[0].records == tunings[1].records
    waited = [records for phase, records in phases[1] if phase.startswith("waiting for another process")]
    assert waited == sorted(waited) and waited[0] > 0 and phases[1][-1][0] == "done"


def test_whoever_stands_still_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps, clock = iter([1, 2, 3]), MadeUpTime()
    monkeypatch.setattr("raido.autotune.jobs.turn.time", clock)
    with job_lock(str(tmp_path), lambda: 0, 60):
        begun = clock.now
        with job_lock(str(tmp_path), lambda: next(steps, 3), 50):
            assert 50.4 < clock.now - begun < 51.1  # three looks, 0.2 s apart, and then so many seconds
        with job_lock(str(tmp_path) + " another", lambda: pytest.fail("it waits for another job"), 60):
            pass
    with job_lock(str(tmp_path), lambda: pytest.fail("nobody holds it"), 60):
        pass
