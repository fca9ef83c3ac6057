"""Five hundred random programs under random schedules: every way to run them agrees."""

from __future__ import annotations

import pytest
from law import CPUS, check, drawn_cpu
from processors import needs

PROGRAMS, GROUPS, FEW = 500, 20, 6


@pytest.mark.parametrize("group", range(GROUPS))
def test_every_way_to_run_a_random_program_gives_the_same(group: int) -> None:
    for seed in range(group, PROGRAMS, GROUPS):
        check(seed)


@pytest.mark.parametrize("cpu", [needs(cpu) for cpu in CPUS])
def test_the_law_is_run_on(cpu: str) -> None:
    """A few programs for each instruction set: one that this machine lacks is missing here by name, and from the law above."""
    for seed in [seed for seed in range(PROGRAMS, 2 * PROGRAMS) if drawn_cpu(seed + 1) == cpu][:FEW]:
        check(seed)
