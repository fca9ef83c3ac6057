"""Differential tests of scans: every strategy, under random schedules, gives the graph interpreter's results, on any threads and lanes."""

from __future__ import annotations

import pytest
from scan_programs import PROGRAMS
from strategy_law import hold

STRATEGIES = ("serial", "three_phase", "chain", "")


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_schedule_changes_a_scan(name):
    for seed in range(6):
        hold(PROGRAMS, STRATEGIES, name, seed, compiled=False)


@pytest.mark.parametrize("name", PROGRAMS)
def test_compiled_scans(name):
    for seed in range(100, 101):
        hold(PROGRAMS, STRATEGIES, name, seed, compiled=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_no_schedule_changes_a_scan_at_length(name):
    for seed in range(1000, 1040):
        hold(PROGRAMS, STRATEGIES, name, seed, compiled=seed % 10 == 0)
