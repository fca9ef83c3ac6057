"""Updates of a loop's state: changed where it is when nobody needs the old contents, copied when somebody does."""

from __future__ import annotations

import numpy as np
import pytest

import raido as rd
from raido.schedule.gang.vectorise import form_gangs
from raido.schedule.lower import lower
from raido.schedule.nest.checker import check_nest
from raido.schedule.nest.interpret import interpret_nest
from raido.schedule.nest.printer import print_nest


@rd.algorithm
def collected(a: rd.i64["n"]):
    return rd.loop(3, lambda t, bins: rd.reduce_by_index(bins, rd.add, 0, (a + t) % 5, a), rd.full(5, rd.i64(0)))


@rd.algorithm
def two_states(a: rd.i64["n"]):
    def body(t, state):
        bins, marks = state
        return rd.reduce_by_index(bins, rd.add, 0, a % 5, a), rd.scatter(marks, (a + t) % 5, a)

    return rd.loop(3, body, (rd.full(5, rd.i64(0)), rd.full(5, rd.i64(0))))


@rd.algorithm
def read_before(a: rd.i64["n"]):
    """The values come from another stage, which has read the state by then."""

    def body(t, bins):
        values = rd.map(lambda k: bins[k % 5] + 1, a)
        return rd.reduce_by_index(bins, rd.add, 0, (a + t) % 5, rd.scan(rd.add, 0, values, name="values"))

    return rd.loop(3, body, rd.full(5, rd.i64(1)))


@rd.algorithm
def read_by_later_steps(a: rd.i64["n"]):
    def body(t, bins):
        neighbour = rd.stencil(lambda p: p[1], bins, boundary="wrap", name="neighbour")
        return rd.reduce_by_index(bins, rd.add, 0, rd.iota(5, rd.i64), neighbour * 2)

    return rd.loop(3, body, rd.full(5, rd.i64(1)))


@rd.algorithm
def read_by_a_later_stage(a: rd.i64["n"]):
    def body(t, state):
        bins, total = state
        changed = rd.reduce_by_index(bins, rd.add, 0, a % 5, a)
        return changed, rd.scan(rd.add, 0, changed) + bins + total

    return rd.loop(3, body, (rd.full(5, rd.i64(1)), rd.full(5, rd.i64(0))))


@rd.algorithm
def kept_by_another_state(a: rd.i64["n"]):
    def body(t, state):
        bins, _ = state
        return rd.reduce_by_index(bins, rd.add, 0, a % 5, a), bins

    return rd.loop(3, body, (rd.full(5, rd.i64(1)), rd.full(5, rd.i64(0))))


@pytest.mark.parametrize(
    ("algorithm", "swaps"),
    [
        (collected, 0),
        (two_states, 0),
        (read_before, 0),
        (read_by_later_steps, 1),
        (read_by_a_later_stage, 2),
        (kept_by_another_state, 2),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_state_changes_in_place_when_nobody_looks(algorithm, swaps):
    a = np.arange(23) * 7 % 11
    expected = algorithm.interpret(a)
    expected = expected if isinstance(expected, tuple) else (expected,)
    schedule = algorithm.schedule()
    if algorithm is read_by_later_steps:
        schedule["neighbour"].inline()
    complete = schedule.complete()
    nest = check_nest(lower(complete.graph, complete.variants()), "scalar")
    assert print_nest(nest).count("swap ") == swaps
    for each in (nest, check_nest(form_gangs(nest, 256), "gang")):
        for result, want in zip(interpret_nest(each, [a]), expected, strict=True):
            np.testing.assert_array_equal(result, want)
    compiled = algorithm.compile(schedule=schedule)(a)
    for result, want in zip(compiled if isinstance(compiled, tuple) else (compiled,), expected, strict=True):
        np.testing.assert_array_equal(result, want)
