"""The programs of the benchmarks: right under the default schedule and under every written one, at sizes that no vector divides."""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

sys.path.append(str(Path(__file__).resolve().parent.parent / "benchmarks"))

import compile_speed
import compositions
import neighbours
import report
from glsl import glsl_side
from host import describe, machine
from measure import DEFAULT, HAND, ITSELF, Contestant, Outcome, best_of, check, finalists, run_row, same_as_default
from nested import plain_c
from peers.contestant import Arena
from peers.glsl import INSTALL, unavailable
from peers.tools import missing
from report import cells, keep, origin
from rows import ROWS
from rows.device import DEVICE_ROWS
from rows.nested import NESTED
from rows.private import PRIVATE
from store import read_rows

import raido as rd
from raido.targets.vulkan.library import validation_messages
from raido.targets.vulkan.opened import open_device

SCALES = {1: 5000, 2: 61, 3: 23}  # by the rank of the first input
SCALE = {"nbody": 61, "ambient_occlusion": 29, "unsharp": 61, "mandelbrot": 23}


@pytest.mark.parametrize("name", ROWS)
def test_row_agrees_with_numpy(name: str) -> None:
    row = ROWS[name]
    rank = next(len(parameter.shape) for parameter in row.algorithm.trace().parameters)
    inputs = row.inputs(SCALE.get(name, SCALES[rank]))
    want = row.answers(inputs)
    for scheduler in (None, *row.hand.values()):
        exe = row.algorithm.compile(schedule=scheduler(row.algorithm) if scheduler else None)
        found = exe(*inputs)
        for got, true in zip(found if isinstance(found, tuple) else (found,), want, strict=True):
            assert got.shape == true.shape
            far = np.abs(got.astype(np.float64) - true) > row.tolerance * np.abs(true).max(initial=0)
            assert far.mean() <= row.stray


@pytest.mark.parametrize("name", DEVICE_ROWS)
def test_glsl_agrees_with_numpy(name: str) -> None:
    if lacking := unavailable():
        pytest.skip(f"{', '.join(lacking)} is not installed ({INSTALL})")
    try:
        device = open_device(validate=True)
    except rd.TargetError as error:
        pytest.skip(str(error))
    row = DEVICE_ROWS[name]
    inputs = row.inputs()
    want = np.asarray(row.answer(*inputs))
    side = glsl_side(row, inputs, want, device)
    side.start()
    np.testing.assert_array_equal(side.result(), want)
    assert validation_messages() == (0, "")


@pytest.mark.parametrize("name", NESTED)
def test_plain_c_agrees_with_numpy_and_the_program(name: str) -> None:
    row = NESTED[name]
    inputs = row.inputs(128)
    want = row.answers(inputs)
    room = row.room(inputs, want)
    if lacking := missing(None, "gcc"):
        pytest.skip(f"{', '.join(lacking)} is not installed")
    check(name, row, plain_c(Arena(name, row, inputs, room, None, ExitStack())).results(), want)
    if name in PRIVATE:  # whose thousands of iterations the interpreter takes one by one
        check(name, row, [np.asarray(row.algorithm(*inputs))], want)
    elif name != "tiles_in_loops":  # whose 2,621,440 numbers the interpreter makes one by one
        check(name, row, [np.asarray(row.algorithm.interpret(*inputs))], want)


def test_each_step_of_compiling_is_timed_apart() -> None:
    times = compile_speed.cold(compile_speed.row_sums)
    assert tuple(times) == compile_speed.PHASES and all(each >= 0 for each in times.values())


def test_a_peer_that_is_not_installed_is_said_to_be_missing(tmp_path: Path) -> None:
    outcome = run_row("rows_1e7", rounds=2, scale=5000, root=tmp_path, sides=("Futhark",), patience=0)
    assert outcome.absent == {"Futhark": "futhark, ispc, gcc"}
    assert {side for side, _ in outcome.times} == {HAND, DEFAULT, ITSELF}
    assert all(len(seconds) == 2 for seconds in outcome.times.values())
    figures = {side: list(figure) for side, figure in best_of(outcome.times).items()}
    assert "not installed" in cells("rows_1e7", {"milliseconds": figures, "absent": outcome.absent})


def test_a_row_is_kept_with_its_machine_and_noise_unless_it_was_disturbed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "KEPT", tmp_path / "results.json")
    times = {(DEFAULT, ""): [1.0, 2.0, 3.0], (ITSELF, ""): [1.0, 2.1, 9.0], (HAND, "x4"): [1.0, 1.0, 1.0]}
    keep("rows_1e7", Outcome(times, {}, 0.05, {HAND: "x4"}), 3)
    with pytest.raises(ValueError, match="rows_1e6 is not kept: other processes had up to 6% of a processor"):
        keep("rows_1e6", Outcome(times, {}, 0.06, {}), 3)
    rows = read_rows(report.KEPT)
    assert set(rows) == {"rows_1e7"} and rows["rows_1e7"]["noise"] == 0.05 and rows["rows_1e7"]["machine"] == machine()
    assert ITSELF not in rows["rows_1e7"]["milliseconds"]
    assert list(cells("rows_1e7", rows["rows_1e7"]))[1] == "= default"
    told = "\n".join(origin({**rows, "sum": {**rows["rows_1e7"], "machine": "another"}}))
    assert "another," in told and "interleaved rounds: rows_1e7." in told and "differed by 5.0% (median)" in told


def test_a_machine_is_named_by_what_its_processor_says() -> None:
    fields = {"processor": 0, "cpu family": 25, "model": 17, "model name": "AMD EPYC", "stepping": 1}
    text = "".join(f"{key}\t: {value}\n" for key, value in fields.items())
    assert describe(f"{text}\nmodel\t: 9\n", 2) == "AMD EPYC (family 25, model 17, stepping 1, 2 cores)"
    assert f"{len(os.sched_getaffinity(0))} cores" in machine()


def test_a_written_schedule_that_is_the_default_one_is_known_for_it() -> None:
    row = ROWS["rows_1e7"]

    def differently(algorithm: rd.Algorithm) -> rd.Schedule:
        schedule = algorithm.schedule()
        stage = schedule[schedule.stages[0]]
        stage.split(stage.axes[0], 3)
        return schedule

    written = replace(row, hand={"as by default": lambda algorithm: algorithm.schedule(), "other": differently})
    arena = Arena("rows_1e7", written, row.inputs(5000), [], None, ExitStack())
    assert same_as_default(arena) == {HAND: "as by default"}


def test_wrong_results_do_not_compete() -> None:
    row, right = ROWS["rows_1e7"], np.arange(9, dtype=np.float32)
    check("right", row, [right], [right])
    with pytest.raises(SystemExit, match="1 of 9 results are wrong"):
        check("wrong", row, [np.where(right == 3, np.nan, right)], [right])
    with pytest.raises(SystemExit, match="shape"):
        check("short", row, [right[1:]], [right])


def test_only_the_fast_variants_of_a_side_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    monkeypatch.setattr("measure.time", SimpleNamespace(sleep=sleep, perf_counter=lambda: now))

    def sleeper(side: str, variant: str, seconds: float) -> Contestant:
        return Contestant(side, variant, lambda: sleep(seconds), lambda: ())

    found = [sleeper("a", "fast", 0.005), sleeper("a", "slow", 0.05), sleeper("b", "only", 0.05)]
    assert [c.variant for c in finalists(found)] == ["fast", "only"]


def test_twenty_sizes_stand_around_a_row_and_the_default_of_each_is_a_candidate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    around = neighbours.sizes_around({"h": 1000, "w": 100, "c": 3}, 16)
    assert len(around) == neighbours.AROUND == len({tuple(sizes.values()) for sizes in around})
    assert all(sizes["c"] == 3 for sizes in around) and {"h": 1000, "w": 101, "c": 3} in around
    monkeypatch.setattr(neighbours, "AROUND", 3)
    row = replace(ROWS["jacobi2d_5"], inputs=lambda scale: ROWS["jacobi2d_5"].inputs(100))
    found = neighbours.run_row(row, 1)
    assert found.candidates >= 1 and len(found.behind) == 3 and min(found.behind.values()) >= 1
    assert "jacobi" in neighbours.table({"jacobi": found}, 0.0)


def test_compositions_agree_with_their_parts_and_are_timed_beside_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compositions, "ROWS", 30)
    monkeypatch.setattr(compositions, "COLUMNS", 20)
    monkeypatch.setattr(compositions, "ROUNDS", 1)
    found = list(compositions.compositions(0, 12))
    assert {"first", "second", "ratio"} <= set(dir(found[0])) and all(
        each.whole > 0 < min(each.parts) for each in found
    )
