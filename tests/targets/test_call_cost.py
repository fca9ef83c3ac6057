"""A call costs no more than some packed calls of TVM's, whatever the machine: both are measured in turn, in one process."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))

from call_cost import PACKED, WITH_OUT, WITHOUT, cheapest, contestants

from raido.targets import _call


def test_the_helper_of_calls_was_built() -> None:
    assert _call.__file__.endswith(".so"), "install Python's header files, and raido again"


def test_a_call_costs_what_a_few_packed_calls_do() -> None:
    costs = cheapest(contestants(), turns=100, number=200)
    assert costs[WITH_OUT] < 2.5 * costs[PACKED] and costs[WITHOUT] < 6 * costs[PACKED], costs
