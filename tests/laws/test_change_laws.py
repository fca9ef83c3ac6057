"""Differential tests of arrays that change in loops: results do not depend on the reuse of memory or on the schedule."""

from __future__ import annotations

import random

import pytest
from law import CPUS, HERE, outcome
from random_changes import random_change
from random_programs import leaves_of
from strategy_law import drawn_schedule, same

from raido.algo.interpreter.interpret import interpret
from raido.schedule.gang.vectorise import form_gangs
from raido.schedule.lower import lower
from raido.schedule.oracles.checker import check_nest
from raido.schedule.oracles.interpret import interpret_nest
from raido.schedule.schedule import Schedule
from raido.schedule.stages.form_stages import form_stages
from raido.targets.compile import compile_program
from raido.targets.native import set_threads
from raido.targets.target import Target

STRATEGIES = ("", "serial", "private", "sorted", "gather")


def hold(seed: int, compiled: bool) -> None:
    """One program, under its default schedule and under a random one."""
    change = random_change(seed)
    traced = change.algorithm.trace(*change.arguments)
    flat, sizes = change.algorithm.flatten(change.arguments)
    want = outcome(lambda: interpret(traced, flat, sizes))
    cpu = CPUS[seed % len(CPUS)]
    target, here = Target.parse(f"llvm:{cpu}"), Target.parse(f"llvm:{HERE[cpu]}")
    drawn = drawn_schedule(traced, random.Random(seed), STRATEGIES[seed % len(STRATEGIES)])
    for schedule in (Schedule(form_stages(traced)), drawn):
        complete = schedule.complete(target.machine)
        nest = check_nest(lower(complete.graph, complete.variants()), "scalar")
        gang = check_nest(form_gangs(nest, target.machine.vector_bits), "gang")
        try:
            for each in (nest, gang):
                same(want, outcome(lambda each=each: interpret_nest(each, flat, sizes, seed=seed)))
            if compiled:
                executable = compile_program(traced, here, schedule, use_cache=False)
                for threads in (1, 2):
                    set_threads(threads)
                    same(want, outcome(lambda made=executable: leaves_of(made(*change.arguments))))
        except AssertionError as error:
            raise AssertionError(f"seed {seed}\n{change.source}\n{complete}\n{error}") from error
        finally:
            set_threads(None)


@pytest.mark.parametrize("first", range(0, 40, 8))
def test_no_schedule_changes_a_change(first):
    for seed in range(first, first + 8):
        hold(seed, compiled=seed % 8 == 0)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1000, 1160, 20))
def test_no_schedule_changes_a_change_at_length(first):
    for seed in range(first, first + 20):
        hold(seed, compiled=seed % 10 == 0)
