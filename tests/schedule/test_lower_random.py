"""Programs under random legal schedules: no schedule changes a result (the nest interpreters against the graph interpreter)."""

from __future__ import annotations

import random

import pytest
from programs import PROGRAMS
from random_schedules import check_random, check_same, random_arguments, scheduled


@pytest.mark.parametrize("name", PROGRAMS)
def test_plain_loops_give_the_programs_results(name: str) -> None:
    program = PROGRAMS[name]()
    nest = scheduled(program, [])
    for seed in range(3):
        check_same(nest, program, *random_arguments(program, random.Random(seed)))


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_random_schedule_changes_a_result(name: str) -> None:
    for seed in range(8):
        check_random(name, seed)


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_no_random_schedule_changes_a_result_at_length(name: str) -> None:
    for seed in range(100, 180):
        check_random(name, seed)
