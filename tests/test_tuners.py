"""The comparison of tuners: its subjects, resuming a run, and the report of the results."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).resolve().parent.parent / "benchmarks"))

import search_quality
import tuning
from measure import DEFAULT, HAND
from rows import ROWS
from tuners import own
from tuners.autoschedulers import AUTOSCHEDULERS, autoschedule
from tuners.page import cells, effort, ratios, summary
from tuners.subjects import HELD, SUBJECTS, room_for
from tuners.versus import CHOICE, TUNED

from raido.autotune.model.table import read_records
from raido.autotune.space import Space
from raido.targets.target import Target


def found(tuned: float, choice: float = 3.0, **more: object) -> dict:
    times = {DEFAULT: [2.0, ""], HAND: [1.0, "x"], TUNED: [tuned, ""], CHOICE: [choice, ""], "Adams2019": [2.0, ""]}
    return {
        "tuned": {"trials": 64, "seconds": 50.0, "trials to best": 9, "seconds to best": 11.0},
        "Adams2019": {"seconds": 1.5, "compile": 1.0},
        "Li2018": {"failure": "SIGABRT: no estimate"},
        "times": {"milliseconds": times, **more},
    }


def test_a_tuned_schedule_is_held_to_the_best_known() -> None:
    assert ratios({DEFAULT: 2.0, HAND: 1.0, TUNED: 0.8, CHOICE: 3.0, "Adams2019": 2.0}) == (1.0, 0.4, 1.5, None)
    assert ratios({DEFAULT: 2.0, HAND: 1.0, TUNED: 2.0})[0] == 0.5


def test_misses_are_named_the_furthest_first() -> None:
    lines = summary({"sum": found(1.0), "dot": found(1.25, choice=1.0), "sobel": found(4.0)})
    assert "0.95 of the speed of the best known of ours on 1 of 3 rows; not on sobel (0.25), dot (0.80)." in lines[0]
    assert "of Halide on 2 of 3 rows, level within the noise on 0, behind on sobel (2.00)." in lines[1]


def test_a_schedule_beside_itself_is_no_win() -> None:
    """Half the time of the default is a gain; the default schedule itself is none, whatever its time; nor is what noise may do."""
    rows = {
        "sum": found(1.0, choice=1.0, same=[CHOICE], noise=0.01),
        "dot": found(1.0, choice=1.0, same=[TUNED], noise=0.01),
        "sobel": found(1.96, choice=1.99, same=[], noise=0.03),
    }
    lines = str(summary(rows))
    assert "the default schedule itself on 1 of 3 rows; its own choice is faster on 1, slower on 0, and within" in lines
    assert "1.27 times as fast" in lines and "more than the noise on 1 of 3 (sum 2.00), slower by more on 0." in lines
    assert "level within the noise on 1." in str(summary({"sum": found(1.96, same=[], noise=0.03)}))
    assert list(cells("dot", rows["dot"])).count("= default") == 1
    assert "= default" not in list(cells("sobel", rows["sobel"]))
    assert "was not noted for 1 rows" in str(summary({"sum": found(1.0)}))


def test_metaschedule_with_one_program_to_propose_is_not_beaten() -> None:
    rows = {name: {**found(1.0), "MetaSchedule": {"trials": trials}} for name, trials in (("sum", 200), ("dot", 1))}
    for row in rows.values():
        row["times"]["milliseconds"]["MetaSchedule"] = [2.0, ""]
    lines = str(summary(rows))
    assert "ahead of MetaSchedule, where it had a choice, on 1 of 1 rows" in lines
    assert "For dot MetaSchedule proposes one schedule in all" in lines


def test_a_comparison_that_was_disturbed_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: dict[str, dict] = {}
    monkeypatch.setattr(tuning, "keep", kept.__setitem__)
    monkeypatch.setattr(tuning, "read_results", lambda: {"sum": {"tuned": {"ended": "trials"}}})
    for others in (0.05, 0.06):
        monkeypatch.setattr(tuning, "compare", lambda name, found, rounds, others=others: {"others": others})
        tuning.compare_all(tuning.Go("sum", time.monotonic() + 1000, 20, again=True))
    assert [found["times"]["others"] for found in kept.values()] == [0.05]


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


@pytest.mark.parametrize("kind", search_quality.SEARCHES)
def test_every_search_that_is_compared_proposes_and_learns(kind: str) -> None:
    """Among them the same search with no model, and with one that has not seen the row's program."""
    row = ROWS["rows_1e7"]
    space = Space(row.algorithm.schedule(), Target().machine, row.sizes(row.inputs(5000)))
    search = search_quality.make_search(kind, space, 0)
    first = search.propose(8)
    for number, candidate in enumerate(first):
        search.tell(candidate, 1.0 + number)
    keys = [candidate.key for candidate in (*first, *search.propose(8))]
    assert len(keys) == len(set(keys)) >= 8


def test_a_model_is_trained_without_a_program_under_any_of_its_names() -> None:
    """`rows_1e7` is `row_sums`, which the corpus has at two sizes under two names."""
    schedule = ROWS["rows_1e7"].algorithm.schedule()
    left = {group.name.split("(")[0] for group in search_quality.unseen_groups(schedule.fingerprint, "row_sums")}
    assert len(left) > 20 and not left & {"row_sums", "short_row_sums"}


def test_the_programs_that_no_model_has_seen_are_in_no_measurement() -> None:
    seen = {record.program for record in read_records([search_quality.MEASUREMENTS])}
    assert HELD and all(row.algorithm.schedule().fingerprint not in seen for row in HELD.values())
