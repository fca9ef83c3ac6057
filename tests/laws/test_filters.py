"""Differential tests of filters and partitions, and of stages of the sizes that they decide: every strategy, under random schedules."""

from __future__ import annotations

import pytest
from filter_programs import PROGRAMS
from strategy_law import hold

STRATEGIES = ("serial", "count_write", "chain", "")


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_schedule_changes_a_filter(name):
    for seed in range(6):
        hold(PROGRAMS, STRATEGIES, name, seed, compiled=False)


@pytest.mark.parametrize("name", PROGRAMS)
def test_compiled_filters(name):
    for seed in range(100, 101):
        hold(PROGRAMS, STRATEGIES, name, seed, compiled=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_no_schedule_changes_a_filter_at_length(name):
    for seed in range(1000, 1040):
        hold(PROGRAMS, STRATEGIES, name, seed, compiled=seed % 10 == 0)
