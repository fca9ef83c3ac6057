"""One program whose stages have strategies, under random schedules, in every way that it runs: the law of strategies."""

from __future__ import annotations

import random
import zlib

import numpy as np
from law import CPUS, HERE, outcome
from random_programs import leaves_of

from raido.algo.errors import ScheduleError
from raido.algo.interpreter.interpret import interpret
from raido.schedule.gang.vectorise import form_gangs
from raido.schedule.lower import lower
from raido.schedule.nest.checker import check_nest
from raido.schedule.nest.interpret import interpret_nest
from raido.schedule.schedule import Schedule
from raido.schedule.stages.form_stages import form_stages
from raido.targets.compile import compile_program
from raido.targets.native import set_threads
from raido.targets.target import Target

EXTENTS = (0, 1, 2, 3, 5, 7, 13, 15, 16, 17, 31, 33, 64, 67)


def drawn_schedule(traced, draw, strategy):
    """A schedule with that strategy for the scans that take it, and some random legal steps."""
    schedule = Schedule(form_stages(traced))
    for stage in schedule.stages:
        chosen = schedule[stage].strategies().get(strategy)
        if chosen is not None:
            numbers = {name: _drawn(draw, name, value) for name, value in chosen.numbers.items()}
            try:
                schedule[stage].strategy(strategy, **numbers)
            except ScheduleError:
                continue
            for part in chosen.parts:
                for _ in range(draw.randint(0, 3)):
                    legal = schedule[stage].part(part).legal()
                    if legal:
                        schedule.accept(draw.choice(legal))
    for _ in range(draw.randint(0, 6)):
        legal = schedule[draw.choice(schedule.stages)].legal()
        kinds = sorted({step.directive for step in legal} - {"strategy"})
        if kinds:
            kind = draw.choice(kinds)
            schedule.accept(draw.choice([step for step in legal if step.directive == kind]))
    return schedule


def _drawn(draw, number, default):
    """A number for a strategy; every value here is exact, so that nothing need be reproducible by rule."""
    small = number == "bits"  # two to the power of it are counted in every pass, by the interpreters too
    return False if isinstance(default, bool) else draw.choice((1, 3, 5) if small else (1, 3, 8, 16))


def hold(programs, strategies, name, seed, compiled):
    """One program under one schedule, on random sizes."""
    draw = random.Random(f"{name} {seed}")
    algorithm, inputs = programs[name]
    chance = np.random.default_rng(zlib.crc32(f"{name} {seed}".encode()))
    arguments = inputs(chance, draw.choice(EXTENTS), draw.choice((0, 1, 2, 5, 9)))
    traced = algorithm.trace(*arguments)
    flat, sizes = algorithm.flatten(arguments)
    want = outcome(lambda: interpret(traced, flat, sizes))
    schedule = drawn_schedule(traced, draw, strategies[seed % len(strategies)])
    target = Target.parse(f"llvm:{CPUS[seed % len(CPUS)]}")
    complete = schedule.complete(target.machine)
    nest = check_nest(lower(complete.graph, complete.variants()), "scalar")
    gang = check_nest(form_gangs(nest, target.machine.vector_bits), "gang")
    try:
        for each in (nest, gang):
            same(want, outcome(lambda each=each: interpret_nest(each, flat, sizes, seed=seed)))
        if compiled:
            here = Target.parse(f"llvm:{HERE[target.cpu]}")
            executable = compile_program(traced, here, schedule, use_cache=False)
            for threads in (1, 2, 8):
                set_threads(threads)
                same(want, outcome(lambda: leaves_of(executable(*arguments))))
    except AssertionError as error:
        raise AssertionError(f"{name}, seed {seed}, sizes {sizes}:\n{complete}\n{error}") from error
    finally:
        set_threads(None)


def same(want, got):
    """Equal: every value here is a whole number that all types hold exactly."""
    if isinstance(want, type) or isinstance(got, type):
        assert want is got
        return
    for a, b in zip(want, got, strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        np.testing.assert_array_equal(a, b)
