"""The law: however a program is run, it gives the same answer.

`check(seed)` draws a random program and random legal schedules, and holds against the graph interpreter: the scalar nest, the gang nest
and the compiled code, on every instruction set this machine has. Answers are equal bit for bit, except float results whose reductions
may be grouped (`RandomProgram.exact` says which), where they are close. A program that faults must raise the same kind of
fault everywhere.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import numpy as np
from random_programs import RandomProgram, random_program

from raido.algo.errors import RaidoError, ScheduleError
from raido.algo.interpret import interpret
from raido.algo.program import Program
from raido.schedule.gang.vectorise import form_gangs
from raido.schedule.lower import lower
from raido.schedule.nest.interpret import interpret_nest
from raido.schedule.schedule import Schedule
from raido.schedule.stages.form_stages import form_stages
from raido.targets.compile import Compilation, compile_program
from raido.targets.target import Target

CPUS = ("x86-64-v2", "x86-64-v3", "x86-64-v4")


@dataclass
class Broken(AssertionError):
    """A counter-example: which program, under which schedule, run in which way, and what was wrong."""

    program: RandomProgram
    schedule: str
    way: str
    what: str

    def __str__(self) -> str:
        return f"{self.way}: {self.what}\n{self.program}\nschedule:\n{self.schedule}"


def random_schedule(program: Program, seed: int, steps: int) -> Schedule:
    """A schedule with up to that many random legal directives."""
    draw = random.Random(f"schedule {seed}")
    schedule = Schedule(form_stages(program))
    for _ in range(steps):
        stage = draw.choice(schedule.stages)
        legal = schedule[stage].legal()
        kinds = sorted({step.directive for step in legal})
        if kinds:
            kind = draw.choice(kinds)
            schedule.accept(draw.choice([step for step in legal if step.directive == kind]))
    return schedule


def check(seed: int, *, statements: int = 4, schedules: int = 2, steps: int = 6, compiled: bool = True) -> int:
    """Checks program number `seed`; returns how many runs were compared. Raises `Broken`."""
    program = random_program(seed, statements)
    traced = program.algorithm.trace(*program.arguments)
    inputs = program.algorithm.flatten(program.arguments)
    want = _outcome(lambda: interpret(traced, *inputs))
    runs = 0
    for k in range(schedules):
        schedule = random_schedule(traced, 1000 * seed + k, steps * min(k, 1))
        runs += _check_schedule(program, traced, inputs, schedule, want, CPUS[(seed + k) % len(CPUS)], compiled)
    return runs


def _check_schedule(
    program: RandomProgram, traced: Program, inputs: Any, schedule: Schedule, want: Any, cpu: str, compiled: bool
) -> int:
    target = Target.parse(f"llvm:{cpu}")
    text = f"# {cpu}\n{schedule}"

    def hold(way: str, got: Any) -> None:
        fault = _difference(want, got, program.exact)
        if fault:
            raise Broken(program, text, way, fault)

    complete = schedule.complete(target.machine)
    nest = lower(complete.graph, complete.variants())
    hold("scalar nest", _outcome(lambda: interpret_nest(nest, *inputs, seed=1)))
    gang = form_gangs(nest, target.machine.vector_bits)
    hold("gang nest", _outcome(lambda: interpret_nest(gang, *inputs, seed=2)))
    if not compiled:
        return 2
    executable = compile_program(traced, target, schedule, use_cache=False)
    hold("compiled", _outcome(lambda: _as_list(executable(*program.arguments))))
    return 3


def _outcome(run: Any) -> Any:
    """The results, or the kind of fault."""
    try:
        return list(run())
    except ScheduleError:
        raise
    except RaidoError as error:
        return type(error)


def _as_list(result: Any) -> list[Any]:
    if isinstance(result, dict):
        result = tuple(result.values())
    if isinstance(result, tuple):
        return [leaf for part in result for leaf in _as_list(part)]
    return [result]


def _difference(want: Any, got: Any, exact: tuple[bool, ...]) -> str:
    if isinstance(want, type) or isinstance(got, type):
        return "" if want is got else f"expected {_name(want)}, got {_name(got)}"
    for k, (a, b) in enumerate(zip(want, got, strict=True)):
        a, b = np.asarray(a), np.asarray(b)
        if a.dtype != b.dtype or a.shape != b.shape:
            return f"result {k}: expected {a.dtype}{a.shape}, got {b.dtype}{b.shape}"
        same = _same_bits(a, b) if exact[k] else _close(a, b)
        if not same.all():
            where = tuple(int(i[0]) for i in np.nonzero(~same)) if a.ndim else ()
            return f"result {k}: {int((~same).sum())} of {a.size} differ, first at {where}: expected {a[where]!r}, got {b[where]!r}"
    return ""


def _same_bits(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Equal to the bit, the payload of NaNs aside."""
    if a.dtype.kind != "f":
        return a == b
    return ((a == b) & (np.signbit(a) == np.signbit(b))) | (np.isnan(a) & np.isnan(b))


def _close(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return np.isclose(a, b, rtol=1e-2 if a.dtype == np.float16 else 1e-4, atol=1e-3, equal_nan=True)


def _name(outcome: Any) -> str:
    return outcome.__name__ if isinstance(outcome, type) else "results"


def why_compiled(program: Program, schedule: Schedule, cpu: str) -> str:
    """The gang nest, for looking at a counter-example."""
    return Compilation(program, Target.parse(f"llvm:{cpu}"), schedule, {}).source("gang")
