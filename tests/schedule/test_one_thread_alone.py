"""Chains whose operator rounds nothing: one thread alone goes through each block once, several total it first; results are the same."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import raido as rd
from raido.algo.graph.dtypes import i64
from raido.algo.graph.expr import fresh
from raido.schedule.lower import lower
from raido.schedule.machine import Machine
from raido.schedule.nest.checker import NestError, check_nest
from raido.schedule.nest.interpret import interpret_nest
from raido.schedule.nest.nodes import Block, For, Nest
from raido.schedule.nest.walk import statements_within
from raido.targets.native import set_threads


def highest(a: rd.f32["n"]) -> Any:
    return rd.scan(rd.maximum, -np.inf, a, name="chained")


def counts(a: rd.i32["n"]) -> Any:
    return rd.scan(rd.add, 0, a, name="chained")


def last_number(a: rd.f32["n"]) -> Any:
    return rd.scan(lambda p, q: rd.where(rd.isnan(q), p, q), np.float32(np.nan), a, name="chained")


def kept(a: rd.f32["n"]) -> Any:
    return rd.filter(lambda x: x > 2, a, name="chained")


def sums(a: rd.f32["n"]) -> Any:
    return rd.scan(rd.add, 0, a, name="chained")


def products(a: rd.f64["n"]) -> Any:
    return rd.scan(lambda p, q: (p[0] * q[0], p[1] * q[0] + q[1]), (1.0, 0.0), (a, a), name="chained")


EXACT = (highest, counts, last_number, kept)


def nest_of(function: Any, block: int = 7) -> Nest:
    schedule = rd.algorithm(function).schedule()
    schedule["chained"].strategy("chain", block=block)
    complete = schedule.complete(Machine())
    return lower(complete.graph, complete.variants())


def loops_of(nest: Nest) -> list[For]:
    return [s for s in statements_within(nest.body) if isinstance(s, For) and s.alone is not None]


@pytest.mark.parametrize("function", [*EXACT, sums, products])
def test_operators_that_round_nothing_are_applied_at_once_by_a_thread_alone(function):
    assert bool(loops_of(nest_of(function))) == (function in EXACT)


@pytest.mark.parametrize("function", EXACT)
def test_whoever_runs_a_block_the_results_are_the_same(function):
    nest, algorithm = check_nest(nest_of(function), "scalar"), rd.algorithm(function)
    row = np.random.default_rng(0).integers(-9, 9, 100).astype("i4" if function is counts else "f4")
    if function is last_number:
        row[np.random.default_rng(1).random(100) < 0.5] = np.nan
    wanted = np.asarray(algorithm.interpret(row))
    for seed in (None, *range(5)):
        found = interpret_nest(nest, [row], seed=seed)[0][: len(wanted)]
        np.testing.assert_array_equal(found, wanted)
    schedule = algorithm.schedule()
    schedule["chained"].strategy("chain", block=7)
    exe = algorithm.compile(schedule=schedule)
    try:
        for threads in (1, 2, 8):
            set_threads(threads)
            np.testing.assert_array_equal(exe(row), wanted)
    finally:
        set_threads(None)


def test_only_loops_for_threads_have_one_alone():
    nest = nest_of(highest)
    (loop,) = loops_of(nest)
    assert loop.kind == "parallel"
    wrong = replace(loop, alone=fresh("alone", i64))
    with pytest.raises(NestError, match="alone"):
        check_nest(replace(nest, body=Block((wrong,))), "scalar")
