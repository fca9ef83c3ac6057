"""Every directive that `legal()` and `strategies()` list is accepted, lowers, and leaves the result unchanged.

Every program of the corpus: a sample of the listed directives of each stage, each alone and in random sequences, through the nest
interpreter. `python tests/laws/test_listed_steps.py` tries all of them.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parent.parent)]

from corpus import CASES  # noqa: E402
from law import CPUS, Completed, difference, outcome, random_schedule  # noqa: E402

from raido.algo.graph.program import Program  # noqa: E402
from raido.algo.interpreter.interpret import interpret  # noqa: E402
from raido.schedule.oracles.checker import check_nest  # noqa: E402
from raido.schedule.oracles.interpret import interpret_nest  # noqa: E402
from raido.schedule.recorded import Directive  # noqa: E402
from raido.schedule.schedule import Schedule  # noqa: E402
from raido.schedule.stages.form_stages import form_stages  # noqa: E402
from raido.schedule.stages.stage import Stage  # noqa: E402
from raido.targets.target import Target  # noqa: E402

SAMPLE, SEQUENCES, LONGEST = 2, 1, 6


def check(schedule: Schedule, inputs: Any, want: Any, said: object) -> None:
    """The nests of a completed schedule are well formed and give the answer."""
    target = Target.parse(f"llvm:{CPUS[1]}")
    try:
        work = Completed(schedule.graph.program, target, schedule.complete(target.machine), {})
        for level, nest in (("scalar", work.nest), ("gang", work.gang)):
            check_nest(nest, level)
            fault = difference(want, outcome(lambda nest=nest: interpret_nest(nest, *inputs, seed=1)), (False,) * 9)
            assert not fault, fault
    except Exception as error:
        raise AssertionError(f"after {said}: {type(error).__name__}: {error}") from error


def listed(program: Program, stage: str) -> list[Directive]:
    """The steps that are listed for a stage, its strategies among them as anybody would say them."""
    view = Schedule(form_stages(program))[stage]
    directives = list(view.legal())
    for name, strategy in view.strategies().items():
        directives.append(Directive(stage, "strategy", (("name", name), *strategy.numbers.items())))
    return directives


def try_directives(case: Any, sample: int | None, draw: random.Random) -> int:
    """Tries steps of every stage, that many of each directive (None: all); returns how many."""
    program = case.algorithm.trace(*case.arguments)
    inputs = case.algorithm.flatten(case.arguments)
    want = outcome(lambda: interpret(program, *inputs))
    tried = 0
    for name, stage in Schedule(form_stages(program)).state.uses.stages.items():
        if not isinstance(stage, Stage):
            continue
        by_directive: dict[str, list[Directive]] = {}
        for directive in listed(program, name):
            by_directive.setdefault(directive.name, []).append(directive)
        chosen = list(by_directive.values())
        if sample is not None:
            chosen = [draw.sample(directives, 1) for directives in draw.sample(chosen, min(sample, len(chosen)))]
        for directive in (directive for directives in chosen for directive in directives):
            schedule = Schedule(form_stages(program))
            schedule.accept(directive)
            check(schedule, inputs, want, directive)
            tried += 1
    return tried


@pytest.mark.parametrize("case", CASES[::3], ids=lambda case: case.name)
def test_listed_steps_are_accepted_and_change_no_result(case: Any) -> None:
    draw = random.Random(f"listed {case.name}")
    with np.errstate(all="ignore"):
        assert try_directives(case, SAMPLE, draw) > 0
        program = case.algorithm.trace(*case.arguments)
        inputs = case.algorithm.flatten(case.arguments)
        want = outcome(lambda: interpret(program, *inputs))
        for _ in range(SEQUENCES):
            schedule = random_schedule(program, draw.randrange(1 << 30), draw.randint(2, LONGEST))
            check(schedule, inputs, want, schedule)


def faults_of(case: Any) -> str:
    """The first line of what goes wrong with a program of the corpus under one of its listed steps; "" where nothing does."""
    try:
        try_directives(case, None, random.Random(0))
    except Exception as error:
        return f"{case.name}: {str(error).splitlines()[0]}"
    return ""


if __name__ == "__main__":
    faults = [fault for fault in map(faults_of, CASES) if fault]
    print("\n".join(faults) or "all of them hold")
