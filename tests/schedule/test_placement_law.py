"""Schedules that once changed a result by where stages stand or what they share; each holds the law for one rule."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import raido as rd
from raido.algo.interpret import interpret
from raido.schedule.gang.vectorise import form_gangs
from raido.schedule.lower import lower
from raido.schedule.nest.checker import check_nest
from raido.schedule.nest.interpret import interpret_nest
from raido.schedule.nest.nodes import Nest
from raido.schedule.schedule import Schedule
from raido.schedule.stages.form_stages import form_stages
from raido.targets.target import Target

F32 = np.float32
CPU = Target.parse("llvm:x86-64-v3")


def hold(algorithm: Any, arguments: Sequence[Any], say: Callable[[Schedule], Any]) -> Nest:
    """The completed schedule gives the graph interpreter's bits, on both nests; returns the scalar nest."""
    program = algorithm.trace(*arguments)
    inputs = algorithm.flatten(arguments)
    schedule = Schedule(form_stages(program))
    say(schedule)
    complete = schedule.complete(CPU.machine)
    nest = check_nest(lower(complete.graph, complete.variants()), "scalar")
    wanted = interpret(program, *inputs)
    for each in (nest, check_nest(form_gangs(nest, CPU.machine.vector_bits), "gang")):
        for got, want in zip(interpret_nest(each, *inputs, seed=1), wanted, strict=True):
            np.testing.assert_array_equal(np.asarray(got), np.asarray(want))
    return nest


def ramp(*shape: int, dtype: Any = F32) -> np.ndarray:
    """Small whole numbers, so that sums of them are exact."""
    return (np.arange(int(np.prod(shape))) % 11).reshape(shape).astype(dtype)


def test_a_copy_of_a_scalar_and_a_copy_of_the_copy_are_two_stages() -> None:
    @rd.algorithm
    def scaled(a: rd.f32["n"], s: rd.f32):
        return rd.elementwise(lambda x: x * s, a).named("out")

    def say(s: Schedule) -> None:
        s["out"].cache("s", "out", "x")
        s["s_copy"].cache("s", "s_copy", None)

    hold(scaled, [ramp(9), F32(3)], say)


def test_a_clone_of_a_scalar_stage_is_not_the_stage() -> None:
    @rd.algorithm
    def twice(s: rd.f32, a: rd.f32["n"]):
        t = rd.exp(rd.array([s]))[0]
        root = rd.tabulate((), lambda: t + 1).named("root")
        left = rd.elementwise(lambda x: x * root, a).named("left")
        right = rd.elementwise(lambda x: x + root, a).named("right")
        return left, right

    def say(s: Schedule) -> None:
        s["root"].clone("right", name="copy")
        s["root"].compute_at("left", "x")
        s["copy"].root()

    hold(twice, [F32(0), ramp(9)], say)
