"""Programs of sizes that data decides that once gave wrong results, as small as they could be made; each says what was wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from counter_examples import agrees
from law import CPUS

import raido as rd


def test_operators_on_rows_know_their_rows_by_any_size() -> None:
    """Writing an operator out at an element rewrites no size: its operands, which have that size, would no longer be met."""

    @rd.algorithm
    def scanned(a: rd.f32["n"], b: rd.f32["p", "q", 3]):
        return rd.scan(rd.add, 1.0, rd.unique(a) / b, axis=1), rd.reduce(rd.maximum, 0.0, rd.unique(a) * b, axis=1)

    agrees(scanned, np.arange(3, dtype=np.float32), np.ones((4, 5, 3), np.float32))
    agrees(scanned, np.arange(4, dtype=np.float32), np.ones((4, 5, 3), np.float32))


def test_the_bound_of_a_private_size_follows_the_loop_that_decides_it() -> None:
    """An array that shrinks in a loop inside a function is as long as the longest, which is a state of the loop as it then is."""

    @rd.algorithm
    def last(a: rd.f32["n", "m"]):
        shrunk = lambda row: rd.while_loop(lambda x: x.shape[0] > 1, lambda x: x[1:], row)
        return rd.map(lambda row: shrunk(row)[0], a), rd.map(lambda row: rd.sum(rd.sort(shrunk(row) + row[:1])), a)

    agrees(last, np.arange(12, dtype=np.float32).reshape(3, 4))


STEPS: dict[str, Callable[[Any, Any], Any]] = {
    "pointwise": lambda row, v: rd.loop(3, lambda i, s: s + i, row),
    "as often as its size": lambda row, v: rd.loop(v, lambda i, s: s.at[i].add(s[0]), row),
    "until it is large": lambda row, v: rd.while_loop(lambda s: rd.sum(s) < 9, lambda s: s + 1, row),
}


@pytest.mark.parametrize("what", STEPS)
def test_loops_over_arrays_of_private_size_end(what: str) -> None:
    """A size that stays, and differs from element to element, is no part of the loop over all elements: that is as long as the longest."""

    @rd.algorithm
    def looped(a: rd.i64["n"], b: rd.i64["m"]):
        return rd.map(lambda v: rd.sum(STEPS[what](a[:v], v)), b)

    agrees(looped, np.arange(1, 6), np.array([1, 4, 2]), cpus=CPUS[1:2])


def test_a_loop_in_functions_of_rows_of_private_size_is_refused() -> None:
    @rd.algorithm
    def looped(a: rd.i64["n"], b: rd.i64["m"]):
        step = lambda i, s: s.at[i].add(s[0])
        return rd.map(lambda v: rd.sum(rd.map(lambda e: rd.sum(rd.loop(2, step, a + e)), rd.sort(a[:v]))), b)

    assert looped.interpret(np.arange(5), np.array([1, 4, 2])).shape == (3,)
    with pytest.raises(rd.CompileError, match=r"rows of different sizes[\s\S]*test_size_counter_examples"):
        looped.compile()


def test_the_states_of_loops_are_renamed_in_the_sizes_of_others() -> None:
    """Three loops name their states alike; the second's has a size that the first decides, which stays one loop."""

    @rd.algorithm
    def chained(b: rd.f32["n", "m"]):
        halved = rd.while_loop(lambda s: s.shape[0] > 3, lambda s: s[:-1], b)
        added = rd.map(lambda row: rd.loop(row.shape[0], lambda i, s: s.at[i].add(s[0]), row)[0], halved)
        return rd.loop(2, lambda i, s: rd.filter(lambda e: e > 0, s), added)

    agrees(chained, np.arange(15, dtype=np.float32).reshape(5, 3) % 4 - 1, cpus=CPUS[1:2])


def test_a_loop_that_stands_in_two_functions_counts_in_each() -> None:
    """Each becomes a loop over all rows of its function; what both compute from their counter is computed in both."""

    def step(k, m):
        solve = lambda j, r: r.at[j].set(r[j] - rd.sum(rd.where(rd.iota(17) < j, r, 0)))
        left = rd.map(lambda b: rd.map(lambda row: rd.loop(17, solve, row), b), m[k + 1 :])
        inner = rd.map(lambda solution, row: rd.map(lambda b: b - rd.sum(solution), row), left, m[k + 1 :])
        return m.at[k + 1 :].set(left).at[k + 1 :].set(inner)

    @rd.algorithm
    def solved(m: rd.i64["n", 2, 17]):
        return rd.loop(2, step, m)

    agrees(solved, np.arange(102).reshape(3, 2, 17) % 5, cpus=CPUS[1:2])
