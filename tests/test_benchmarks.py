"""The programs of the benchmarks: right under the default schedule and under every written one, at sizes that no vector divides."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).resolve().parent.parent / "benchmarks"))

from measure import DEFAULT, HAND, Contestant, best_of, check, finalists, run_row
from report import cells
from rows import ROWS

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


def test_a_peer_that_is_not_installed_is_said_to_be_missing(tmp_path: Path) -> None:
    outcome = run_row("rows_1e7", rounds=2, scale=5000, root=tmp_path, sides=("Futhark",))
    assert outcome.absent == {"Futhark": "futhark, ispc, gcc"}
    assert {side for side, _ in outcome.times} == {HAND, DEFAULT}
    assert all(len(seconds) == 2 for seconds in outcome.times.values())
    figures = {side: list(figure) for side, figure in best_of(outcome.times).items()}
    assert "not installed" in cells("rows_1e7", {"milliseconds": figures, "absent": outcome.absent})


def test_wrong_results_do_not_compete() -> None:
    row, right = ROWS["rows_1e7"], np.arange(9, dtype=np.float32)
    check("right", row, [right], [right])
    with pytest.raises(SystemExit, match="1 of 9 results are wrong"):
        check("wrong", row, [np.where(right == 3, np.nan, right)], [right])
    with pytest.raises(SystemExit, match="shape"):
        check("short", row, [right[1:]], [right])


def test_only_the_fast_variants_of_a_side_stay() -> None:
    def sleeper(side: str, variant: str, seconds: float) -> Contestant:
        return Contestant(side, variant, lambda: time.sleep(seconds), lambda: ())

    found = [sleeper("a", "fast", 0.005), sleeper("a", "slow", 0.05), sleeper("b", "only", 0.05)]
    assert [c.variant for c in finalists(found)] == ["fast", "only"]
