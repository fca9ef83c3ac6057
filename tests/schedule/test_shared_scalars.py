"""A scalar loop that several forms of one iteration evaluate runs once; a loop that some iterations skip is unchanged."""

from __future__ import annotations

import numpy as np
import pytest

import raido as rd
from raido.schedule.lower import lower
from raido.schedule.nest.nodes import While
from raido.schedule.nest.walk import statements_within


def place(x: rd.Array, end: rd.Array, key: rd.Array) -> rd.Array:
    """The first of the elements before `end`, which are in order, that is not below a key."""

    def half(s):
        middle = (s[0] + s[1]) // 2
        less = x[middle] < key
        return rd.where(less, middle + 1, s[0]), rd.where(less, s[1], middle)

    return rd.while_loop(lambda s: s[0] < s[1], half, (0, end))[0]


@rd.algorithm
def increasing(x: rd.i64["n"]):
    def step(i, s):
        length, ends = s
        at = place(ends, length, x[i])
        return rd.where(at == length, length + 1, length), ends.at[at].set(x[i])

    return rd.loop(x.shape[0], step, (0, rd.zeros_like(x)))


@rd.algorithm
def chosen(x: rd.i64["n"], keys: rd.i64["m"]):
    def step(i, s):
        count, out = s
        known = keys[i] >= 0
        at = rd.cond(known, lambda: place(x, x.shape[0] + keys[i] // 100, keys[i]), lambda: 0)
        return rd.where(at > 2, count + 1, count), out.at[i].set(at)

    return rd.loop(keys.shape[0], step, (0, rd.zeros_like(keys)))


def loops_of(algorithm) -> int:
    complete = algorithm.schedule().complete()
    nest = lower(complete.graph, complete.variants())
    return sum(isinstance(s, While) for s in statements_within(nest.body))


def test_a_search_is_made_once():
    assert loops_of(increasing) == 1


@pytest.mark.parametrize("n", (0, 1, 2, 13, 200))
def test_results_are_the_same(n):
    for seed in range(4):
        x = np.random.default_rng(seed).integers(0, 2 * n + 1, n)
        for got, want in zip(increasing(x), increasing.interpret(x), strict=True):
            assert (got == want).all()
        x = np.sort(x)
        keys = np.random.default_rng(seed).integers(-20, 90, n + 3)
        for got, want in zip(chosen(x, keys), chosen.interpret(x, keys), strict=True):
            assert (got == want).all()


def test_what_no_iteration_evaluates_does_not_fail():
    x = np.arange(5)
    assert chosen(x, np.array([-7, -300]))[0] == 0
    with pytest.raises(rd.IndexOutOfRange):
        chosen(x, np.array([-7, 900]))
