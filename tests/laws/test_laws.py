"""Sixteen hundred random programs under random schedules: every way to run them agrees."""

from __future__ import annotations

import pytest
from law import check

PROGRAMS, GROUPS = 1600, 40


@pytest.mark.parametrize("group", range(GROUPS))
def test_every_way_to_run_a_random_program_gives_the_same(group: int) -> None:
    for seed in range(group, PROGRAMS, GROUPS):
        check(seed)
