"""Updates of a loop's state, and maps of its elements: in place when the old contents are not needed, else copied or computed anew."""

from __future__ import annotations

import numpy as np
import pytest

import raido as rd
from raido.schedule.gang.vectorise import form_gangs
from raido.schedule.lower import lower
from raido.schedule.nest.printer import print_nest
from raido.schedule.oracles.checker import check_nest
from raido.schedule.oracles.interpret import interpret_nest


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
        return rd.reduce_by_index(bins, rd.add, 0, rd.iota(50, rd.i64), neighbour * 2)

    return rd.loop(3, body, rd.full(50, rd.i64(1)))


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


@rd.algorithm
def halved(a: rd.i64["n"]):
    return rd.loop(3, lambda t, s: s // 2 + a + t, a)


@rd.algorithm
def leapfrog(a: rd.i64["n"]):
    """The next state takes the memory of the one before the last, of which each element reads its own."""

    def body(t, state):
        before, now = state
        return now, rd.stencil(lambda p: p[-1] + p[1], now, boundary="wrap") - before

    return rd.loop(3, body, (a, a + 1))


@rd.algorithm
def read_beside(a: rd.i64["n"]):
    """The neighbours, too, are read in the map's own loops."""

    def body(t, s):
        beside = rd.stencil(lambda p: p[-1] * p[1], s, boundary="wrap", name="beside")
        return s - beside

    return rd.loop(3, body, a)


@rd.algorithm
def halved_in_a_branch(a: rd.i64["n"]):
    return rd.loop(3, lambda t, s: rd.cond(t == 1, lambda: s // 2 + a, lambda: s), a)


@rd.algorithm
def changed_before_a_branch(a: rd.i64["n"]):
    """An array that the branch passes through or changes again is the state already changed."""

    def body(t, state):
        k, s = state
        s = s.at[k].set(a[t])
        return rd.cond(a[t] > 4, lambda: (k + 2, s.at[k + 1].set(t)), lambda: (k + 1, s))

    return rd.loop(a.shape[0] // 2, body, (0, a))


@pytest.mark.parametrize(
    ("algorithm", "swaps"),
    [
        (halved, 0),
        (leapfrog, 1),
        (read_beside, 1),
        (halved_in_a_branch, 0),
        (changed_before_a_branch, 0),
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
    if algorithm is read_beside:
        schedule["beside"].compute_at("loop_1/elementwise_1", "x")
    complete = schedule.complete()
    nest = check_nest(lower(complete.graph, complete.variants()), "scalar")
    assert print_nest(nest).count("swap ") == swaps
    for each in (nest, check_nest(form_gangs(nest, 256), "gang")):
        for result, want in zip(interpret_nest(each, [a]), expected, strict=True):
            np.testing.assert_array_equal(result, want)
    compiled = algorithm.compile(schedule=schedule)(a)
    for result, want in zip(compiled if isinstance(compiled, tuple) else (compiled,), expected, strict=True):
        np.testing.assert_array_equal(result, want)


def test_a_state_that_is_read_before_its_next_is_made_changes_in_its_own_memory():
    @rd.algorithm
    def biquads(x: rd.f32["t", "c"]):
        def step(i, state):
            first, second, out = state
            y = 0.25 * x[i] + first
            return 0.5 * x[i] + 0.25 * y + second, 0.5 * x[i] - 0.25 * y, out.at[i].set(y)

        zero = rd.zeros(x.shape[1], rd.f32)
        return rd.loop(x.shape[0], step, (zero, zero, rd.zeros_like(x)))[2]

    text = biquads.compile().source("nest")
    assert "swap" not in text and "_next" not in text
    x = np.random.default_rng(0).integers(-8, 8, (7, 37)).astype(np.float32)
    first, second, expected = np.zeros(37, np.float32), np.zeros(37, np.float32), []
    for row in x:
        expected.append(np.float32(0.25) * row + first)
        first, second = (
            np.float32(0.5) * row + np.float32(0.25) * expected[-1] + second,
            np.float32(0.5) * row - np.float32(0.25) * expected[-1],
        )
    assert np.allclose(biquads(x), expected)
    assert np.array_equal(biquads(x), biquads.interpret(x))


@rd.algorithm
def shortest_paths(d: rd.i64["n", "n"]):
    return rd.loop(d.shape[0], lambda k, d: rd.minimum(d, d[:, k][:, None] + d[k][None, :]), d)


@rd.algorithm
def pivots(m: rd.f64["n", "n"]):
    def step(k, m):
        row = m[k] / m[k, k]
        return (m - m[:, k][:, None] * row[None, :]).at[k].set(row)

    return rd.loop(m.shape[0], step, m)


@rd.algorithm
def neighbours_of_rows(m: rd.i64["n", "n"]):
    """Every element reads one that is not its own, of as many as there are: the next state needs memory of its own."""
    return rd.loop(3, lambda k, m: m + rd.roll(m, 1, axis=0) + m[k][None, :], m)


@pytest.mark.parametrize(("algorithm", "stays"), [(shortest_paths, True), (pivots, True), (neighbours_of_rows, False)])
def test_a_state_of_which_few_old_elements_are_read_elsewhere_changes_where_it_is(algorithm, stays):
    executable = algorithm.compile()
    assert ("swap" not in executable.source("nest")) == stays, executable.source("nest")
    for n in (3, 17, 40):
        m = np.random.default_rng(n).integers(1, 99, (n, n)) + n * 99 * np.eye(n, dtype=np.int64)
        m = m.astype(np.float64) if algorithm is pivots else m
        np.testing.assert_allclose(executable(m), algorithm.interpret(m), rtol=1e-9)
