"""Producers computed and stored at random loops of their consumers: windows slide, restart and fold where that is legal, and only there."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from programs import PROGRAMS
from random_schedules import check_same, random_arguments

import raido as rd
from raido.algo.errors import ScheduleError
from raido.schedule.lower import lower
from raido.schedule.oracles.interpret import interpret_nest
from raido.schedule.recorded import Directive
from raido.schedule.replay import apply_directive, variant_of
from raido.schedule.stages.form_stages import form_stages
from raido.schedule.state import State, initial_state


def attempt(state: State, which: str, directive: str, **arguments: Any) -> State:
    try:
        return apply_directive(state, Directive(which, directive, tuple(arguments.items())))
    except ScheduleError:
        return state


def loops_of(state: State, stage: str) -> list[str]:
    return [loop.name for loop in state.plans[stage].loops]


def place_somewhere(state: State, stage: str, chance: random.Random) -> State:
    hosts = [host for host in state.plans if host != stage]
    for host in chance.sample(hosts, min(4, len(hosts))):
        placed = attempt(state, stage, "compute_at", stage=host, axis=chance.choice(loops_of(state, host)))
        if placed is state:
            continue
        for _ in range(3):
            outer = chance.choice(hosts)
            axis = chance.choice([*loops_of(state, outer), None])
            kept = attempt(placed, stage, "store_at", stage=outer, axis=axis)
            if kept is not placed:
                return kept
        return placed
    return state


def with_random_loops(state: State, stage: str, chance: random.Random) -> State:
    for _ in range(chance.randint(0, 3)):
        loops = loops_of(state, stage)
        kind = chance.choice(("split", "split", "reorder", "vectorize", "parallel", "unroll", "partition_boundaries"))
        if kind == "split":
            state = attempt(state, stage, kind, axis=chance.choice(loops), factor=chance.choice((2, 3, 4)))
        elif kind == "reorder":
            state = attempt(state, stage, kind, axes=tuple(chance.sample(loops, len(loops))))
        elif kind == "partition_boundaries":
            state = attempt(state, stage, kind, axes=())
        else:
            state = attempt(state, stage, kind, axis=chance.choice(loops))
    return state


def check(name: str, seed: int) -> None:
    chance = random.Random(f"{name} slides {seed}")
    program = PROGRAMS[name]()
    state = initial_state(form_stages(program))
    for stage in reversed(list(state.plans)):
        state = with_random_loops(place_somewhere(state, stage, chance), stage, chance)
    try:
        check_same(lower(state.graph, (variant_of(state),)), program, *random_arguments(program, chance))
    except Exception as error:
        raise AssertionError(f"{name}, seed {seed}: {state.plans}") from error


@pytest.mark.parametrize("name", ["gauss", "blur", "harris", "reversed_rows", "two_consumers"])
def test_no_placement_changes_a_result(name: str) -> None:
    for seed in range(12):
        check(name, seed)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gauss", "blur", "harris", "reversed_rows", "two_consumers"])
def test_no_placement_changes_a_result_at_length(name: str) -> None:
    for seed in range(100, 200):
        check(name, seed)


def test_windows_start_anew_where_a_partition_runs_its_loop_again() -> None:
    pairs = lambda x: rd.stencil(lambda p: p[-1] + p[1], x, boundary="clamp", name="pairs")
    schedule = rd.algorithm(lambda x: rd.partition(lambda v: v > 1, pairs(x)), x="f32[n]").schedule()
    schedule["partition_1"].cache("pairs", "partition_1", "x")
    schedule["pairs_copy"].store_at("partition_1")
    complete, program = schedule.complete(), schedule.graph.program
    array = np.random.default_rng(0).random(37, np.float32)
    check_same(lower(complete.graph, complete.variants()), program, [array], {program.sizes[0].name: 37})


def test_a_copy_of_every_unrolled_iteration_is_read_from_where_it_begins() -> None:
    """The distance of an index from where a copy begins may be an index that is read, too."""
    pairs = rd.algorithm(b=rd.i64[3])(lambda b: rd.stencil(lambda p: p[1] * 10 + p[0], b, boundary="wrap", name="s"))
    schedule = pairs.schedule()
    schedule["s"].unroll("x", 4).cache("b", "s", "xi")
    nest = lower(schedule.graph, schedule.complete().variants())
    (got,) = interpret_nest(nest, [np.array([1, 2, 3])], {})
    np.testing.assert_array_equal(got, [21, 32, 13])
