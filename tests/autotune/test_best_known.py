"""`compile(db=…)`: the best known schedule, and a sentence that says which and why."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import raido as rd
from raido.autotune.measure.machine import this_machine
from raido.autotune.records.database import Database
from raido.autotune.records.record import Record


@rd.algorithm
def smooth(a: rd.f32["n"]):
    return rd.stencil(lambda p: p[-1] + p[1], a, boundary="clamp", name="out")


def recorded(lanes: int, seconds: float, n: int = 1000, **fields: Any) -> Record:
    """A measurement of `smooth` by gangs of so many lanes."""
    schedule = smooth.schedule()
    schedule["out"].vectorize("x", lanes)
    target = rd.Target()
    base = Record(
        program=schedule.fingerprint,
        name="smooth",
        sizes={"n": n},
        dtypes=("f32",),
        target=str(target),
        machine=this_machine(target).digest,
        host={},
        job="job",
        number=1,
        kind="trial",
        key=f"key {lanes}",
        schedule=schedule.complete(target, {"n": n}).to_json(),
        seconds=(seconds,),
    )
    return replace(base, **fields)


def test_the_fastest_schedule_for_the_nearest_sizes_is_compiled(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    db = tmp_path / "tuning.db"
    with Database(db) as database:
        database.add_all([recorded(4, 0.3), recorded(8, 0.1), recorded(16, 0.2), recorded(2, 0.01, n=10)])
    x = np.arange(1000, dtype=np.float32)
    with caplog.at_level(logging.INFO, "raido"):
        near = smooth.compile(db=db, like=[x])
    assert 'vectorize("x", 8)' in near.source("schedule")
    assert near.source("record").endswith(
        "100 ms, the fastest of 3 that were tried, measured as compiled for these sizes (n=1000)"
    )
    assert near.source("record") in caplog.text
    np.testing.assert_array_equal(near(x), smooth.interpret(x))
    assert 'vectorize("x", 2)' in smooth.compile(db=db, sizes={"n": 12}).source("schedule")
    assert 'vectorize("x", 8)' in smooth.compile(db=db).source("schedule")


Vec = rd.record(x=rd.f32, y=rd.f32)


@rd.algorithm
def scaled(v: Vec["n"], by: rd.f32, m: rd.size):
    return ((v.x + v.y) * by).named("out"), rd.iota(m)


@pytest.mark.parametrize("by", [2.0, np.float32(2), np.ones((), np.float32)])
def test_sizes_are_those_of_the_arguments_whatever_their_kind(tmp_path: Path, by: Any) -> None:
    schedule = scaled.schedule()
    common = {"program": schedule.fingerprint, "name": "scaled", "schedule": schedule.complete("llvm").to_json()}
    with Database(tmp_path / "a.db") as database:
        sizes = [{"n": 10, "m": 10}, {"n": 10, "m": 9000}, {"n": 9000, "m": 9000}]
        database.add_all([recorded(4, 0.1, sizes=each, **common) for each in sizes])
    x = np.ones(12, np.float32)
    near = scaled.compile(db=tmp_path / "a.db", like=[{"x": x, "y": x}, by, 8000])
    assert "for the nearest sizes (m=9000,n=10)" in near.source("record")
    typed = scaled.compile(db=tmp_path / "a.db", like=[Vec["n"], rd.f32, rd.size])
    assert "measured as compiled for m=9000,n=9000" in typed.source("record")


def test_a_record_that_this_version_refuses_is_passed_over(tmp_path: Path) -> None:
    bad = recorded(4, 0.001, key="bad")
    bad = replace(bad, schedule=bad.schedule.replace("vectorize", "levitate"))
    with Database(tmp_path / "a.db") as database:
        database.add_all([bad, recorded(8, 0.1)])
    said = smooth.compile(db=tmp_path / "a.db").source("record")
    assert "100 ms" in said and said.endswith("1 faster ones are refused by this version")


def test_without_a_record_the_default_is_compiled_and_said(tmp_path: Path) -> None:
    with Database(tmp_path / "a.db") as database:
        database.add(recorded(8, 0.1, program="of another program"))
    exe = smooth.compile(db=tmp_path / "a.db")
    assert (
        exe.source("record")
        == f"smooth: the default schedule: {tmp_path / 'a.db'} has no measurement of it for {rd.Target()}"
    )
    with pytest.raises(rd.ArgumentError, match="`schedule` and `db`"):
        smooth.compile(db=tmp_path / "a.db", schedule=smooth.schedule())
