"""Differential tests of updates: histograms, scatters and `.at`, by every strategy and under random schedules."""

from __future__ import annotations

import pytest
from strategy_law import hold
from update_programs import PROGRAMS

STRATEGIES = ("serial", "private", "atomic", "sorted", "")


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_schedule_changes_an_update(name):
    for seed in range(6):
        hold(PROGRAMS, STRATEGIES, name, seed, compiled=False)


@pytest.mark.parametrize(("seed", "name"), list(enumerate(PROGRAMS)))
def test_compiled_updates(seed, name):
    hold(PROGRAMS, STRATEGIES, name, 101 + seed, compiled=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_no_schedule_changes_an_update_at_length(name):
    for seed in range(1000, 1040):
        hold(PROGRAMS, STRATEGIES, name, seed, compiled=seed % 10 == 0)
