"""The law for scans: every strategy, under random schedules, gives what the graph interpreter gives, threads and lanes aside."""

from __future__ import annotations

import random
import zlib

import numpy as np
import pytest
from law import CPUS, _as_list
from scan_programs import EXTENTS, PROGRAMS

from raido.algo.errors import ScheduleError
from raido.algo.interpret import interpret
from raido.schedule.gang.vectorise import form_gangs
from raido.schedule.lower import lower
from raido.schedule.nest.checker import check_nest
from raido.schedule.nest.interpret import interpret_nest
from raido.schedule.schedule import Schedule
from raido.schedule.stages.form_stages import form_stages
from raido.targets.compile import compile_program
from raido.targets.native import set_threads
from raido.targets.target import Target

STRATEGIES = ("serial", "three_phase", "chain", "")


def drawn_schedule(traced, draw, strategy):
    """A schedule with that strategy for the scans that take it, and some random legal steps."""
    schedule = Schedule(form_stages(traced))
    for stage in schedule.stages:
        if strategy and strategy in schedule[stage].strategies():
            numbers = schedule[stage].strategies()[strategy].numbers
            try:
                schedule[stage].strategy(strategy, **{name: draw.choice((1, 3, 8, 16, 40)) for name in numbers})
            except ScheduleError:
                continue
    for _ in range(draw.randint(0, 6)):
        legal = schedule[draw.choice(schedule.stages)].legal()
        kinds = sorted({step.directive for step in legal} - {"strategy"})
        if kinds:
            kind = draw.choice(kinds)
            schedule.accept(draw.choice([step for step in legal if step.directive == kind]))
    return schedule


def hold(name, seed, compiled):
    """One program under one schedule, on random sizes."""
    draw = random.Random(f"{name} {seed}")
    algorithm, inputs = PROGRAMS[name]
    chance = np.random.default_rng(zlib.crc32(f"{name} {seed}".encode()))
    arguments = inputs(chance, draw.choice(EXTENTS), draw.choice((0, 1, 2, 5, 9)))
    traced = algorithm.trace(*arguments)
    flat, sizes = algorithm.flatten(arguments)
    want = interpret(traced, flat, sizes)
    schedule = drawn_schedule(traced, draw, STRATEGIES[seed % len(STRATEGIES)])
    target = Target.parse(f"llvm:{CPUS[seed % len(CPUS)]}")
    complete = schedule.complete(target.machine)
    nest = check_nest(lower(complete.graph, complete.variants()), "scalar")
    gang = check_nest(form_gangs(nest, target.machine.vector_bits), "gang")
    try:
        for each in (nest, gang):
            same(want, interpret_nest(each, flat, sizes, seed=seed))
        if compiled:
            executable = compile_program(traced, target, schedule, use_cache=False)
            for threads in (1, 2, 8):
                set_threads(threads)
                same(want, _as_list(executable(*arguments)))
    except AssertionError as error:
        raise AssertionError(f"{name}, seed {seed}, sizes {sizes}:\n{complete}\n{error}") from error
    finally:
        set_threads(None)


def same(want, got):
    """Equal: every value here is a whole number that all types hold exactly."""
    for a, b in zip(want, got, strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_schedule_changes_a_scan(name):
    for seed in range(8):
        hold(name, seed, compiled=False)


@pytest.mark.parametrize("name", PROGRAMS)
def test_compiled_scans(name):
    for seed in range(100, 102):
        hold(name, seed, compiled=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_no_schedule_changes_a_scan_at_length(name):
    for seed in range(1000, 1150):
        hold(name, seed, compiled=seed % 10 == 0)
