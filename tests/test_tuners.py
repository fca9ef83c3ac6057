"""The comparison of tuners: what is tuned, how a go is continued, and how what was found is told."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).resolve().parent.parent / "benchmarks"))

from measure import DEFAULT, HAND
from rows import ROWS
from tuners import own
from tuners.autoschedulers import AUTOSCHEDULERS, autoschedule
from tuners.page import cells, effort, ratios, summary
from tuners.subjects import SUBJECTS, room_for
from tuners.versus import CHOICE, TUNED


def found(tuned: float, choice: float = 3.0) -> dict:
    times = {DEFAULT: [2.0, ""], HAND: [1.0, "x"], TUNED: [tuned, ""], CHOICE: [choice, ""], "Adams2019": [2.0, ""]}
    return {
        "tuned": {"trials": 64, "seconds": 50.0, "trials to best": 9, "seconds to best": 11.0},
        "Adams2019": {"seconds": 1.5, "compile": 1.0},
        "Li2018": {"failure": "SIGABRT: no estimate"},
        "times": {"milliseconds": times},
    }


def test_a_tuned_schedule_is_held_to_the_best_known() -> None:
    assert ratios({DEFAULT: 2.0, HAND: 1.0, TUNED: 0.8, CHOICE: 3.0, "Adams2019": 2.0}) == (1.0, 0.4, 1.5, None)
    assert ratios({DEFAULT: 2.0, HAND: 1.0, TUNED: 2.0})[0] == 0.5


def test_misses_are_named_the_furthest_first() -> None:
    lines = summary({"sum": found(1.0), "dot": found(1.25, choice=1.0), "sobel": found(4.0)})
    assert "0.95 of the speed of the best known of ours on 1 of 3 rows; not on sobel (0.25), dot (0.80)." in lines[0]
    assert "ahead of every autoscheduler of Halide on 2 of 3 rows; not on sobel (2.00)." in lines[1]
    assert "on 1 of 3 rows; not on sum (1.50), sobel (1.50)." in lines[3]


def test_a_tuner_that_failed_is_said_to_have() -> None:
    line = list(cells("sum", found(0.5)))
    assert line[line.index("**0.50**") :][1:4] == ["–", "2.00", "failed"]
    assert list(effort("sum", found(0.5)))[1:] == ["64", "50", "9", "11", "–", "1.50", "SIGABRT", "–"]


def test_an_autoscheduler_that_cannot_run_ends_no_go(tmp_path: Path) -> None:
    assert autoschedule("filter", AUTOSCHEDULERS[0], tmp_path, ([], []))["failure"].startswith("exit 1: ")


def test_unseen_programs_take_the_place_of_rows() -> None:
    row = SUBJECTS["black_scholes, unseen"]
    inputs = row.inputs(1)
    assert all(array.ctypes.data % 64 == 0 for array in inputs)
    assert [array.shape for array in room_for(row, inputs)] == [want.shape for want in row.answers(inputs)]


def test_tuning_goes_on_in_another_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own, "TRIALS", 2)
    row = ROWS["rows_1e7"]
    inputs = row.inputs(5000)
    first = own.tune(row, inputs, tmp_path, {}, 1e-3)
    assert first["ended"] == "" and "schedule" not in first
    last = own.tune(row, inputs, tmp_path, first, 100)
    assert last["ended"] == "trials" and last["trials"] == 2 and last["seconds"] > first["seconds"]
    exe = row.algorithm.compile(schedule=own.scheduled(row, last["schedule"]))
    np.testing.assert_array_equal(exe(*inputs), row.answers(inputs)[0])
