"""Differential tests of segments, repeats and slices: sizes that data decides, and the faults that they cause."""

from __future__ import annotations

import pytest
from size_programs import PROGRAMS
from strategy_law import hold

STRATEGIES = ("serial", "chain", "")


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_schedule_changes_a_size(name):
    for seed in range(6):
        hold(PROGRAMS, STRATEGIES, name, seed, compiled=False)


@pytest.mark.parametrize("name", PROGRAMS)
def test_compiled_sizes(name):
    for seed in range(100, 101):
        hold(PROGRAMS, STRATEGIES, name, seed, compiled=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_no_schedule_changes_a_size_at_length(name):
    for seed in range(1000, 1040):
        hold(PROGRAMS, STRATEGIES, name, seed, compiled=seed % 10 == 0)
