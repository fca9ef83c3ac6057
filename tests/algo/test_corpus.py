"""The interpreter on the corpus gives NumPy's results."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from corpus import CASES, Case


def check(actual: Any, expected: Any, close: bool) -> None:
    if isinstance(expected, (tuple, list)):
        assert len(actual) == len(expected)
        for one, other in zip(actual, expected, strict=True):
            check(one, other, close)
        return
    assert np.shape(actual) == np.shape(expected)
    if close:
        np.testing.assert_allclose(actual, expected, rtol=1e-14)
    else:
        np.testing.assert_array_equal(actual, expected)
        assert np.asarray(actual).dtype == np.asarray(expected).dtype


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_interpreter_agrees_with_numpy(case: Case) -> None:
    check(case.algorithm.interpret(*case.arguments), case.expected, case.close)
