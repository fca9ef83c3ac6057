"""The differential test for one program under a given schedule, by which former counter-examples are checked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from law import CPUS, hold, outcome
from random_programs import RandomProgram

from raido.algo.interpreter.interpret import interpret
from raido.schedule.schedule import Schedule
from raido.schedule.stages.form_stages import form_stages
from raido.targets.target import Target


def agrees(
    algorithm: Any, *arguments: Any, said: Callable[[Schedule], object] = lambda s: None, cpus: Sequence[str] = CPUS
) -> None:
    """The law for one program under what is said of its schedule, on these instruction sets."""
    program = RandomProgram(0, 0, f"{algorithm}", algorithm, list(arguments), (True,) * 8)
    traced = algorithm.trace(*arguments)
    want = outcome(lambda: interpret(traced, *algorithm.flatten(arguments)))
    for cpu in cpus:
        schedule = Schedule(form_stages(traced))
        said(schedule)
        hold(program, schedule.complete(Target.parse(f"llvm:{cpu}").machine), want, cpu)
