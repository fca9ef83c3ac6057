"""Differential test of strategies: one program whose stages have strategies, under random schedules, in every way that it runs."""

from __future__ import annotations

import random
import zlib
from collections.abc import Mapping

import numpy as np
from law import CPUS, HERE, outcome
from random_programs import leaves_of

from raido.algo.errors import ScheduleError
from raido.algo.interpreter.interpret import interpret
from raido.schedule.gang.vectorise import form_gangs
from raido.schedule.legal import candidates
from raido.schedule.lower import lower
from raido.schedule.oracles.checker import check_nest
from raido.schedule.oracles.interpret import interpret_nest
from raido.schedule.recorded import Directive
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
        decide_a_step(schedule, draw, {"strategy": 0})
    return schedule


def decide_a_step(schedule: Schedule, draw: random.Random, weights: Mapping[str, int]) -> bool:
    """Says a random legal step of a random stage, if there is one: first its directive is drawn, of weight 1 where none is given, then it.

    All that are legal are as likely as if they were listed, but those behind the first one that is found are not asked whether they are.
    """
    kinds: dict[str, list[Directive]] = {}
    for directive in candidates(schedule.state, draw.choice(schedule.stages)):
        kinds.setdefault(directive.name, []).append(directive)
    chances = [kind for kind in sorted(kinds) for _ in range(weights.get(kind, 1))]
    for kind in dict.fromkeys(draw.sample(chances, len(chances))):
        for directive in draw.sample(kinds[kind], len(kinds[kind])):
            try:
                schedule.accept(directive)
            except ScheduleError:
                continue
            return True
    return False


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
