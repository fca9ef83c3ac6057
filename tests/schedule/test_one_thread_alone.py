"""Chains in which one thread goes through each block, whole or in parts, or several threads total it first; results are the same."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import raido as rd
from raido.algo.graph.dtypes import i64
from raido.algo.graph.expr import fresh
from raido.schedule.gang.vectorise import form_gangs
from raido.schedule.lower import lower
from raido.schedule.machine import Machine
from raido.schedule.nest.nodes import Block, For, Nest
from raido.schedule.nest.printer import print_nest
from raido.schedule.nest.walk import statements_within
from raido.schedule.oracles.checker import NestError, check_nest
from raido.schedule.oracles.interpret import interpret_nest
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


def sums_of_roots(a: rd.f32["n"]) -> Any:
    return rd.scan(rd.add, 0, rd.sqrt(a).named("roots"), name="chained")


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


def in_parts(function: Any, part: int = 512) -> rd.Schedule:
    """Blocks of 1024 elements, which one thread alone goes through part by part."""
    schedule = rd.algorithm(function).schedule()
    schedule["chained"].strategy("chain", block=1024).split("xi", part).vectorize("xii", interleave=2)
    if function is sums_of_roots:
        schedule["roots"].compute_at("chained", "xo")
    return schedule.complete(Machine())


@pytest.mark.parametrize("bits", [128, 256, 512])
@pytest.mark.parametrize("function", [sums, sums_of_roots])
def test_sums_have_the_same_bits_whoever_runs_a_block(function, bits):
    schedule = in_parts(function)
    nest = form_gangs(check_nest(lower(schedule.graph, schedule.variants()), "scalar"), bits)
    row = np.random.default_rng(0).random(3001).astype("f4")
    wanted = interpret_nest(nest, [row])[0]
    for seed in range(4):
        np.testing.assert_array_equal(interpret_nest(nest, [row], seed=seed)[0], wanted)


@pytest.mark.parametrize("function", [sums, sums_of_roots])
def test_compiled_sums_have_the_same_bits_on_any_number_of_threads(function):
    exe = rd.algorithm(function).compile(schedule=in_parts(function))
    row, found = np.random.default_rng(0).random(30001).astype("f4"), []
    try:
        for threads in (1, 2, 8):
            set_threads(threads)
            found.append(exe(row))
    finally:
        set_threads(None)
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])
    np.testing.assert_allclose(found[0], rd.algorithm(function).interpret(row), rtol=1e-4)


def test_sums_are_taken_in_parts_that_all_lanes_divide():
    for function, part, may in ((sums, 512, True), (sums, 500, False), (counts, 500, True), (products, 512, False)):
        schedule = in_parts(function, part)
        assert bool(loops_of(lower(schedule.graph, schedule.variants()))) == may


def test_what_a_part_reads_is_made_for_it_alone():
    schedule = in_parts(sums_of_roots)
    text = print_nest(lower(schedule.graph, schedule.variants()))
    assert "roots: f32[512]" in text and "roots: f32[1024]" in text
