"""Random placements of random programs, scans, updates, filters and their producers among them: none changes a result.

Some are under a test on sizes. Every schedule is also written as JSON and read back as the same.
"""

from __future__ import annotations

import sys
from pathlib import Path
from random import Random

import pytest
from law import CPUS, hold, outcome
from random_programs import random_program

from raido.algo.interpreter.interpret import interpret
from raido.schedule.schedule import Schedule
from raido.schedule.stages.form_stages import form_stages
from raido.targets.target import Target

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "schedule"))
from random_chains import random_placement


def check(seed: int) -> None:
    """The law for both nests of program number `seed`, under steps that are mostly about where stages stand and what they share."""
    chance = Random(f"place {seed}")
    program = random_program(seed, 1 + seed % 4, "whole")
    traced = program.algorithm.trace(*program.arguments)
    want = outcome(lambda: interpret(traced, *program.algorithm.flatten(program.arguments)))
    schedule = Schedule(form_stages(traced))
    random_placement(schedule, chance)
    if traced.sizes and chance.random() < 0.4:
        test = chance.choice(("{} >= 5", "{} % 2 == 0", "{} == 0", "{} > 3 and {} % 8 != 0"))
        random_placement(schedule.when(test.replace("{}", chance.choice(traced.sizes).name)), chance)
    assert Schedule.from_json(schedule.to_json(), schedule.graph).directives == schedule.directives
    cpu = CPUS[seed % len(CPUS)]
    hold(program, schedule.complete(Target.parse(f"llvm:{cpu}").machine), want, cpu, compiled=False)


@pytest.mark.parametrize("group", range(4))
def test_no_random_placement_changes_a_program(group: int) -> None:
    for seed in range(group, 100, 4):
        check(seed)
