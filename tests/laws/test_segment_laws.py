"""Differential tests of segmented reductions: segment by segment, or in equal blocks, under random schedules."""

from __future__ import annotations

import pytest
from segment_programs import PROGRAMS
from strategy_law import hold

STRATEGIES = ("flat", "rows", "flat", "")


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_schedule_changes_a_segment(name):
    for seed in range(4):
        hold(PROGRAMS, STRATEGIES, name, seed, compiled=False)


@pytest.mark.parametrize(("seed", "name"), list(enumerate(PROGRAMS)))
def test_compiled_segments(seed, name):
    hold(PROGRAMS, STRATEGIES, name, 100 + 2 * seed, compiled=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_no_schedule_changes_a_segment_at_length(name):
    for seed in range(1000, 1040):
        hold(PROGRAMS, STRATEGIES, name, seed, compiled=seed % 10 == 0)
