"""No random placement of a random chain of stages changes its results."""

from __future__ import annotations

from random import Random

import pytest
from random_chains import random_chain, random_placement
from test_placement_law import hold


def check(seed: int) -> None:
    chance = Random(f"chain {seed}")
    algorithm, arguments, source = random_chain(chance)
    said = []

    def say(schedule) -> None:
        random_placement(schedule, chance)
        said.append(str(schedule))

    try:
        for _ in range(3):
            hold(algorithm, arguments, say)
    except Exception as error:
        raise AssertionError(f"seed {seed}\n{source}\n{said[-1] if said else ''}") from error


@pytest.mark.parametrize("group", range(4))
def test_no_random_placement_changes_a_result(group: int) -> None:
    for seed in range(group * 4, group * 4 + 4):
        check(seed)


@pytest.mark.slow
def test_no_random_placement_changes_a_result_at_length() -> None:
    for seed in range(1000, 1040):
        check(seed)
