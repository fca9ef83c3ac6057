"""Differential tests of sorts: every dtype and axis, equal keys and special values, with digits of any size and any number of chunks."""

from __future__ import annotations

import pytest
from sort_programs import PROGRAMS
from strategy_law import hold

STRATEGIES = ("", "radix", "quicksort", "quickselect")


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_schedule_changes_a_sort(name):
    for seed in range(5):
        hold(PROGRAMS, STRATEGIES, name, seed, compiled=False)


@pytest.mark.parametrize("name", PROGRAMS)
def test_compiled_sorts(name):
    for seed in range(101, 102):
        hold(PROGRAMS, STRATEGIES, name, seed, compiled=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_no_schedule_changes_a_sort_at_length(name):
    for seed in range(1000, 1040):
        hold(PROGRAMS, STRATEGIES, name, seed, compiled=seed % 10 == 0)
