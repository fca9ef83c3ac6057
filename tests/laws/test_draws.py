"""The random generators cover the language: schedules with directives of every kind, programs that mostly do not fault, every strategy.

A differential test whose draws were refused, or whose programs all faulted, would pass silently.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import filter_programs
import numpy as np
import pytest
import scan_programs
import segment_programs
import test_filters
import test_scans
import test_segment_laws
import test_update_laws
import update_programs
from law import CPUS, drawn_cpu, outcome, random_schedule, shape_of
from random_programs import random_program
from strategy_law import drawn_schedule

from raido.algo.interpreter.interpret import interpret

DRAWS = range(5000, 5300)


def test_random_schedules_say_something_and_programs_mostly_end_well() -> None:
    directives: Counter[str] = Counter()
    said = asked = silent = faults = exact = 0
    for seed in DRAWS:
        shape = shape_of(seed)
        program = random_program(seed, shape.statements, shape.grammar)
        traced = program.algorithm.trace(*program.arguments)
        arguments = program.algorithm.flatten(program.arguments)
        faults += isinstance(outcome(lambda traced=traced, arguments=arguments: interpret(traced, *arguments)), type)
        exact += all(program.exact)
        schedule = random_schedule(traced, 1000 * seed + 1, shape.steps)
        directives.update(directive.name for directive in schedule.directives)
        said, asked, silent = said + len(schedule.directives), asked + shape.steps, silent + (not schedule.directives)
    assert said > 0.9 * asked and silent < 0.1 * len(DRAWS)
    assert faults < 0.1 * len(DRAWS) and exact > 0.5 * len(DRAWS)
    assert {drawn_cpu(seed) for seed in DRAWS} == set(CPUS)
    wanted = (
        "align cache clone compute_at compute_with fuse inline parallel partition_boundaries prefetch reorder root split store store_at \
strategy stream_stores tail tile unroll vectorize when"
    )
    assert set(wanted.split()) <= set(directives)


@pytest.mark.parametrize(
    "programs, strategies",
    [
        (filter_programs.PROGRAMS, test_filters.STRATEGIES),
        (scan_programs.PROGRAMS, test_scans.STRATEGIES),
        (segment_programs.PROGRAMS, test_segment_laws.STRATEGIES),
        (update_programs.PROGRAMS, test_update_laws.STRATEGIES),
    ],
    ids=["filters", "scans", "segments", "updates"],
)
def test_every_strategy_is_drawn(programs: dict[str, Any], strategies: tuple[str, ...]) -> None:
    drawn: Counter[str] = Counter()
    for name, (algorithm, inputs) in programs.items():
        traced = algorithm.trace(*inputs(np.random.default_rng(0), 16, 5))
        for seed, strategy in enumerate(dict.fromkeys(strategies)):
            schedule = drawn_schedule(traced, random.Random(f"{name} {seed}"), strategy)
            drawn.update(
                str(directive.argument("name")) for directive in schedule.directives if directive.name == "strategy"
            )
    assert set(drawn) == set(strategies) - {""}
    assert min(drawn.values()) >= 3
