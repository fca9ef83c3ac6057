"""Differential test of devices: a random program under a random schedule gives on a device the graph interpreter's results.

Every fourth program runs under the default schedule too, under that for a machine whose tasks are so small that short arrays take the
chunks, blocks and branches meant for long ones, and with arguments of other sizes. Faults must be of the same kind. Where a
device ends the loops of a thread (lavapipe), a schedule that leaves a long loop to a thread may be answered by the error that says so.
"""

from __future__ import annotations

import os
import random
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from calls import resized
from law import Broken, Completed, Shape, difference, leaves, outcome, random_schedule, shape_of
from random_programs import RandomProgram, random_program

from raido.algo.errors import RaidoError, TargetError
from raido.algo.interpreter.interpret import interpret
from raido.schedule.schedule import Schedule
from raido.targets.compile import executable_of
from raido.targets.target import Target
from raido.targets.vulkan.compile import VulkanCompilation
from raido.targets.vulkan.library import validation_messages

DEFAULTS = 4
SMALL_TASK = 8  # operations; those of GPUs are 1,024


STOPPED = "a loop was stopped after [0-9]+ iterations of one thread"


class Stopped(TargetError):
    """The answer of a device that ends the loops of a thread."""


class CompletedForDevice(Completed, VulkanCompilation):
    """A compilation for a device under a schedule that is complete."""


def check(seed: int, shape: Shape | None = None, target: str = "vulkan") -> int:
    """Checks program number `seed`; returns how many runs were compared. Raises `Broken`."""
    shape = shape or shape_of(seed)
    program = random_program(seed, shape.statements, shape.grammar)
    traced = program.algorithm.trace(*program.arguments)
    want = outcome(lambda: interpret(traced, *program.algorithm.flatten(program.arguments)))
    chosen, runs = Target.parse(target), 0
    machine = chosen.machine
    whole = ((0, machine), (0, replace(machine, task=SMALL_TASK))) if seed % DEFAULTS == 0 else ()
    for steps, suits in (*whole, (shape.steps, machine)):
        schedule = random_schedule(traced, 1000 * seed, steps, chosen).complete(suits)
        runs += hold(program, schedule, chosen, want)
    return runs


def check_validated(seed: int, compiled: bool = True) -> int:
    """`check`, where a message of the validation layer is a fault too."""
    os.environ["RAIDO_VULKAN_VALIDATE"] = "1"
    before = validation_messages()[0]
    runs = check(seed)
    if validation_messages()[0] != before:
        raise AssertionError(validation_messages()[1])
    return runs


def hold(program: RandomProgram, schedule: Schedule, target: Target, want: Any) -> int:
    """Runs a program on a device under a complete schedule; returns how many answers were compared. Raises `Broken`."""

    def compare(way: str, want: Any, got: Any, exact: Sequence[bool]) -> None:
        if fault := difference(want, leaves(got), exact):
            raise Broken(repr(program), f"# {target}\n{schedule}", way, fault)

    work = CompletedForDevice(schedule.graph.program, target, schedule, {})
    executable = executable_of(work)

    def run(arguments: Sequence[Any]) -> Any:
        try:
            return executable(*arguments)
        except TargetError as error:
            return Stopped if work.iterations and re.search(STOPPED, str(error)) else type(error)
        except RaidoError as error:
            return type(error)

    first = run(program.arguments)
    if first is not Stopped:
        compare("on the device", want, first, program.exact)
    compare("on the device again", leaves(first), run(program.arguments), (True,) * 99)
    if program.seed % DEFAULTS or "f16" in program.source:
        return 2
    arguments = resized(program, random.Random(program.seed))
    traced = program.algorithm.trace(*arguments)
    other = outcome(lambda: interpret(traced, *program.algorithm.flatten(arguments)))
    if not isinstance(other, type):
        got = run(arguments)
        if got is not Stopped:
            compare(f"arguments of the sizes {[getattr(a, 'shape', a) for a in arguments]}", other, got, program.exact)
    return 3
