"""The programs of the benchmarks: right under the default schedule and under every written one, at sizes that no vector divides."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).resolve().parent.parent / "benchmarks"))

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
