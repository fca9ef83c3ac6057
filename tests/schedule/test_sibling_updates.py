"""Updates at equal indices are one update, whose private bins are an array of structures."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import raido as rd
from raido.algo.graph.index import constant_value
from raido.schedule.lower import lower
from raido.schedule.nest.nodes import Alloc, Fold
from raido.schedule.nest.walk import statements_within
from raido.schedule.stages.stage import Stage

rng = np.random.default_rng(0)
BINS, VALUES = rng.integers(0, 5, 300).astype("i4"), rng.integers(-9, 9, 300).astype("f8")


@rd.algorithm
def moments(bins: rd.i32["n"], x: rd.f64["n"]):
    """A sum, a sum of squares and a maximum, each from other initial values, beside a count."""
    total, squares = rd.zeros(5).at[bins].add(x), rd.ones(5).at[bins].add(x * x)
    return total, squares, rd.full(5, -3.0).at[bins].max(x), rd.bincount(bins, 5)


@rd.algorithm
def one_after_the_other(bins: rd.i32["n"], x: rd.f64["n"]):
    """The second update reads what the first one made."""
    total = rd.zeros(5).at[bins].add(x)
    return total, rd.zeros(5).at[bins].add(total[0] + x)


@rd.algorithm
def named(bins: rd.i32["n"], x: rd.f64["n"]):
    return rd.zeros(5).at[bins].add(x, name="total"), rd.zeros(5).at[bins].max(x)


@rd.algorithm
def checked_and_not(bins: rd.i32["n"], x: rd.f64["n"]):
    return rd.reduce_by_index(rd.zeros(5), rd.add, 0.0, bins, x), rd.zeros(5).at[bins].max(x)


@rd.algorithm
def in_a_loop(bins: rd.i32["n"], x: rd.f64["n"]):
    """New arrays in every iteration are joined; states, each of which changes in place, are not."""

    def body(t: Any, states: Any) -> Any:
        own, (total, most) = x * (t + 1), states
        new = rd.zeros(5).at[bins].add(own) + rd.zeros(5).at[bins].max(own)
        return total.at[bins].add(new[0] + x), most.at[bins].max(own)

    return rd.loop(3, body, (rd.zeros(5), rd.full(5, -1e9)))


def counts_of_results(algorithm: Any) -> list[int]:
    """The number of results of each update, in increasing order."""
    stages = algorithm.schedule().state.uses.stages.values()
    return sorted(len(stage.bodies) for stage in stages if isinstance(stage, Stage) and stage.update is not None)


def test_updates_of_one_type_at_equal_indices_are_joined() -> None:
    assert counts_of_results(moments) == [1, 3]  # the count is an integer
    assert counts_of_results(checked_and_not) == [2]
    assert counts_of_results(in_a_loop) == [1, 1, 2]


def test_updates_that_are_named_or_depend_on_each_other_stay_apart() -> None:
    assert counts_of_results(one_after_the_other) == [1, 1]
    assert counts_of_results(named) == [1, 1]


def test_bins_of_one_type_are_an_array_of_structures() -> None:
    complete = moments.schedule().complete()
    statements = list(statements_within(lower(complete.graph, complete.variants()).body))
    bins = [
        s.buffer for s in statements if isinstance(s, Alloc) and s.buffer.name == "bins" and len(s.buffer.shape) == 4
    ]
    (buffer,) = set(bins)
    assert constant_value(buffer.shape[-1]) == 3
    assert {constant_value(s.indices[-1]) for s in statements if isinstance(s, Fold) and s.buffers == (buffer,)} == {
        0,
        1,
        2,
    }


def test_an_index_is_checked_where_one_of_the_updates_checks_it() -> None:
    with pytest.raises(rd.IndexOutOfRange):
        checked_and_not(np.array([0, 7], "i4"), np.ones(2))


@pytest.mark.parametrize("algorithm", [moments, one_after_the_other, in_a_loop])
@pytest.mark.parametrize("strategy", ["", "private", "sorted"])
def test_results_are_those_of_apart_updates(algorithm: Any, strategy: str) -> None:
    schedule = algorithm.schedule()
    for name in schedule.stages:
        if strategy in schedule[name].strategies():
            schedule[name].strategy(strategy, **({"chunks": 3, "replicas": 2} if strategy == "private" else {}))
    for n in (0, 1, 300):
        found = algorithm.compile(schedule=schedule)(BINS[:n], VALUES[:n])
        for a, b in zip(found, algorithm.interpret(BINS[:n], VALUES[:n]), strict=True):
            np.testing.assert_array_equal(a, b)
