"""Real programs give NumPy's results: interpreted, and as machine code."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from real import finance, graphs, grids, sequences, spaces  # noqa: F401
from real.registry import PROGRAMS, RealProgram

CASES = [(program, k) for program in PROGRAMS for k in range(len(program.arguments))]
NAMES = [f"{program.name}_{k}" for program, k in CASES]


def check(actual: Any, expected: Any, tolerance: float) -> None:
    if isinstance(expected, tuple):
        assert len(actual) == len(expected)
        for one, other in zip(actual, expected, strict=True):
            check(one, other, tolerance)
        return
    assert np.asarray(actual).dtype == np.asarray(expected).dtype
    assert np.shape(actual) == np.shape(expected)
    if tolerance and np.asarray(expected).dtype.kind in "fc":
        np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance)
    else:
        np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize(("program", "k"), CASES, ids=NAMES)
def test_the_interpreter_agrees_with_the_oracle(program: RealProgram, k: int) -> None:
    with np.errstate(all="ignore"):
        expected = program.oracle(*program.arguments[k])
    check(program.algorithm.interpret(*program.arguments[k]), expected, program.tolerance)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_machine_code_agrees_with_the_oracle(program: RealProgram) -> None:
    for arguments in program.arguments:
        with np.errstate(all="ignore"):
            expected = program.oracle(*arguments)
        check(program.algorithm(*arguments), expected, program.tolerance)
