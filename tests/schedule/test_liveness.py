"""While loops whose lanes end at different times: the values kept for ended lanes, and the decisions common to all lanes."""

import numpy as np
import pytest

import raido as rd
from raido.schedule.gang.vectorise import form_gangs
from raido.schedule.lower import lower
from raido.schedule.nest.printer import print_nest
from raido.schedule.oracles.interpret import interpret_nest

rng = np.random.default_rng(4)


@rd.algorithm
def orbit(c: rd.f32["n"]):
    def inside(state):
        z, steps = state
        return (z * z <= 4) & (steps < 20)

    return rd.map(lambda c: rd.while_loop(inside, lambda s: (s[0] * s[0] + c, s[1] + 1), (rd.f32(0), rd.i32(0)))[1], c)


@rd.algorithm
def orbit_with_its_end(c: rd.f32["n"]):
    def inside(state):
        z, steps = state
        return (z * z <= 4) & (steps < 20)

    return rd.map(lambda c: rd.while_loop(inside, lambda s: (s[0] * s[0] + c, s[1] + 1), (rd.f32(0), rd.i32(0))), c)


@rd.algorithm
def chase(follow: rd.i32["n"], start: rd.i32["m"]):
    """Steps along `follow` until an element stays where it is; every index is checked."""

    def steps(first):
        def go(state):
            return follow[state[0]] != state[0]

        return rd.while_loop(go, lambda state: (follow[state[0]], state[1] + 2), (first, rd.i32(5)))[1]

    return rd.map(steps, start)


@rd.algorithm
def two_limits(a: rd.i32["n"], most: rd.i32):
    """A counter that starts at an argument, one that starts differently in every lane, and one that takes steps of two sizes."""

    def count(first):
        def go(state):
            i, j, k = state
            return (i < most) & (j < 40) & (k < 60)

        def step(state):
            i, j, k = state
            return i + 3, j + 1, rd.where(j > 20, k + 5, k + 1)

        return rd.while_loop(go, step, (most - 50, first, rd.i32(0)))

    return rd.map(count, a)


def gangs(algorithm, interleave, bits):
    s = algorithm.schedule()
    (stage,) = s.stages
    s[stage].vectorize(s[stage].axes[0], interleave=interleave)
    complete = s.complete()
    return form_gangs(lower(complete.graph, complete.variants()), bits)


CASES = [
    (orbit, lambda n: (rng.uniform(-2, 1, n).astype("f4"),)),
    (orbit_with_its_end, lambda n: (rng.uniform(-2, 1, n).astype("f4"),)),
    (chase, lambda n: (np.maximum(np.arange(n + 1, dtype="i4") - 1, 0), rng.integers(0, n + 1, n).astype("i4"))),
    (two_limits, lambda n: (rng.integers(-30, 45, n).astype("i4"), np.int32(17))),
]


@pytest.mark.parametrize("interleave", [1, 2])
@pytest.mark.parametrize("bits", [128, 512])
@pytest.mark.parametrize("algorithm, make", CASES, ids=[str(case[0]) for case in CASES])
def test_results_are_those_of_the_elements(algorithm, make, bits, interleave):
    nest = gangs(algorithm, interleave, bits)
    for n in (1, 7, 16, 45):
        arguments = make(n)
        inputs = algorithm.flatten(arguments)
        wanted = algorithm.interpret(*arguments)
        for seed, want in zip((1, 2), [wanted if isinstance(wanted, tuple) else (wanted,)] * 2, strict=True):
            for got, expected in zip(interpret_nest(nest, *inputs, seed=seed), want, strict=True):
                np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("algorithm, make", CASES, ids=[str(case[0]) for case in CASES])
def test_compiled_code_agrees(algorithm, make):
    arguments = make(45)
    wanted, got = algorithm.interpret(*arguments), algorithm(*arguments)
    for a, b in zip(*(r if isinstance(r, tuple) else (r,) for r in (wanted, got)), strict=True):
        np.testing.assert_array_equal(a, b)


def full_gangs(algorithm):
    """The loop over whole gangs, as text."""
    text = print_nest(gangs(algorithm, 1, 512))
    return text[text.index("step 16") :]


def test_state_that_nobody_reads_is_computed_in_all_lanes():
    text = full_gangs(orbit)
    assert "running" in text
    assert text.count(" if on else ") == text.count("+ 1 if on else ")


def test_state_that_is_read_later_is_kept():
    text = full_gangs(orbit_with_its_end)
    assert "running" not in text
    assert text.count(" if on") > text.count("+ 1 if on")


def test_a_limit_on_the_rounds_is_tested_once():
    text = full_gangs(orbit)
    limit = [line for line in text.splitlines() if "20" in line]
    assert all("break unless" in line and "any_lanes" in line for line in limit) and limit
