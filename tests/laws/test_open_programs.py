"""Programs drawn without regard to sizes (`random_open`): raido refuses them in its own words, or every way to run them agrees.

Arrays of sizes that data decides, empty ones and those of rank 3 to 5 go through every operation of the language, under default schedules
and random ones; one program in `COMPILED` is compiled as well.
"""

from __future__ import annotations

import random

import pytest
from law import CPUS, hold, outcome, random_schedule
from random_programs import random_program

from raido.algo.interpreter.interpret import interpret
from raido.targets.target import Target

PROGRAMS, GROUPS, COMPILED, LONGEST = 160, 16, 8, 6


def check(seed: int, *, compiled: bool) -> None:
    """Holds program number `seed` under its default schedule, and every second one under a random schedule."""
    draw = random.Random(f"open {seed}")
    program = random_program(seed, draw.choice((1, 1, 2, 2, 3)), "open")
    traced = program.algorithm.trace(*program.arguments)
    want = outcome(lambda: interpret(traced, *program.algorithm.flatten(program.arguments)))
    cpu = CPUS[seed % len(CPUS)]
    for steps in (0, draw.randint(1, LONGEST)) if seed % 2 else (0,):
        schedule = random_schedule(traced, seed, steps).complete(Target.parse(f"llvm:{cpu}").machine)
        hold(program, schedule, want, cpu, compiled and not steps)


@pytest.mark.parametrize("group", range(GROUPS))
def test_open_programs_agree(group: int) -> None:
    for seed in range(group, PROGRAMS, GROUPS):
        check(seed, compiled=seed % COMPILED == 0)
