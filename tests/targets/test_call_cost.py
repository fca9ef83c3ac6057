"""A call costs no more than some packed calls of TVM's, whatever the machine: both are measured in turn, in one process."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))

import numpy as np
import pytest
from call_cost import PACKED, WITH_OUT, WITHOUT, cheapest, contestants

import raido as rd
from raido.targets import _call


def test_the_helper_of_calls_was_built() -> None:
    assert _call.__file__.endswith(".so"), "install Python's header files, and raido again"


def test_a_call_costs_what_a_few_packed_calls_do() -> None:
    costs = cheapest(contestants(), turns=100, number=200)
    assert costs[WITH_OUT] < 2.5 * costs[PACKED] and costs[WITHOUT] < 6 * costs[PACKED], costs


def test_sizes_that_follow_from_a_dimension_have_a_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    """`n + 1` of offsets, or `2*m` of pairs: the name stands nowhere by itself, and the call needs no step of Python all the same."""

    @rd.algorithm
    def lengths(offsets: rd.i64["n + 1"], pairs: rd.f64["2*m - 4"]):
        return offsets[1:] - offsets[:-1], rd.sum(pairs.reshape(-1, 2), axis=1)

    exe = lengths.compile()
    complete, calls = type(exe)._complete, []

    def counted(self: rd.Executable, *arrays: Any) -> Any:
        calls.append(arrays)
        return complete(self, *arrays)

    monkeypatch.setattr(type(exe), "_complete", counted)
    long, sums = exe(np.array([0, 2, 5]), np.ones(6))
    assert long.tolist() == [2, 3] and sums.tolist() == [2, 2, 2] and not calls
    for offsets, pairs in ((np.zeros(0, "i8"), np.ones(6)), (np.zeros(3, "i8"), np.ones(5))):
        with pytest.raises(rd.SizeMismatch, match="cannot be"):
            exe(offsets, pairs)
    assert len(calls) == 2
