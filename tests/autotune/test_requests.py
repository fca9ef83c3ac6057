"""Requests to tune: which of them are the same job, and the notice about made-up arrays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import raido as rd
from raido.autotune.jobs.autotune import prepare_job
from raido.autotune.jobs.job import Budget
from raido.autotune.measure.measurement import Limits
from raido.autotune.records.database import Database


@rd.algorithm
def picked(a: rd.f32["n"], at: rd.i32["m"], by: rd.u8["m"], starts: rd.i64["s + 1"], on: rd.bool_["m"]):
    sums = rd.segmented_reduce(rd.add, 0, a, starts)
    return sums, rd.where(on, a[2 * at] / by, 0)


SIZES = {"n": 40, "m": 9, "s": 3}


def digest(tmp_path: Path, sizes: Any = SIZES, **options: Any) -> str:
    with Database(tmp_path / "a.db") as database:
        return prepare_job(picked, sizes, "llvm", Budget(1), **options)(database).digest


def test_numbers_of_numpy_are_numbers(tmp_path: Path) -> None:
    sizes = {name: np.int64(value) for name, value in SIZES.items()}
    assert digest(tmp_path, sizes, seed=np.uint8(3)) == digest(tmp_path, seed=3) != digest(tmp_path)


@pytest.mark.parametrize("other", [{"limits": {"run": 9}}, {"tolerance": 0.1}, {"protocol": {"runs": 3}}])
def test_another_measure_of_failure_or_of_time_is_another_job(tmp_path: Path, other: dict[str, Any]) -> None:
    assert digest(tmp_path, **other) != digest(tmp_path)
    assert digest(tmp_path, limits={}) == digest(tmp_path, limits=Limits(), protocol={}) == digest(tmp_path)


def test_a_program_that_faults_on_made_up_arrays_says_what_they_are(tmp_path: Path) -> None:
    with pytest.raises(rd.TuningError) as caught:
        rd.autotune(picked, SIZES, trials=1, db=tmp_path / "a.db", search="random", builders=1)
    said = str(caught.value)
    assert "IndexOutOfRange" in said and "test_requests.py:" in said
    assert (
        "a float32 in [0, 1); at int32 in 1 … 100; by uint8 in 1 … 100; starts int64 growing from 0 to 40; on bool"
        in said
    )
    assert 'ranges={"at": (low, high), …}' in said


def test_a_default_schedule_that_takes_too_long_says_how_long_it_may_take(tmp_path: Path) -> None:
    @rd.algorithm(limit="i64[n]")
    def spin(limit):
        return rd.map(lambda most: rd.while_loop(lambda i: i < most, lambda i: i + 1 + i % 2, 0), limit)

    phases: list[str] = []
    with pytest.raises(rd.TuningError) as caught:
        rd.autotune(
            spin, [np.full(2, 10**15)], trials=1, db=tmp_path / "a.db", search="random", builders=1, limits={"first": 0.5},
            progress=lambda progress: phases.append(progress.phase),
        )  # fmt: skip
    assert "takes too long" in str(caught.value) and 'limits={"first": 1}, which are seconds' in str(caught.value)
    assert phases[-1] == "compiling and running the default schedule, which may take 0.5 s"
