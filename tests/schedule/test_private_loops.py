"""Loops over small private arrays in functions of elements, which are updated in place."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import raido as rd
from raido.schedule.gang.vectorise import form_gangs
from raido.schedule.lower import lower
from raido.schedule.machine import USUAL, Machine
from raido.schedule.nest.nodes import Alloc, For, Nest, While
from raido.schedule.nest.printer import print_nest
from raido.schedule.nest.walk import statements_within
from raido.schedule.oracles.checker import check_nest
from raido.schedule.oracles.count import count_work
from raido.schedule.oracles.interpret import interpret_nest

FULL = 31  # five columns


@rd.algorithm
def queens(xs: rd.i32["n"], rows: rd.i32["n", 18]):
    """The ways to put five queens on a board, the first in column x mod 5: a search with stacks."""

    def one(x):
        first = 1 << (x % 5)
        stack = rd.zeros(9, rd.i32)
        free = FULL & ~(first | first << 1 | first >> 1)
        start = (rd.i64(0), *(stack.at[0].set(e) for e in (free, first, first << 1, first >> 1)), rd.i32(0))

        def step(state):
            top, free, columns, left, right, count = state
            f = free[top]
            bit = f & -f
            c, a, b = columns[top] | bit, (left[top] | bit) << 1, (right[top] | bit) >> 1
            push, after = (f != 0) & (c != FULL), rd.minimum(top + 1, 4)
            popped = free.at[top].set(f & ~bit)
            return (
                rd.where(f == 0, top - 1, rd.where(push, after, top)),
                rd.where(push, popped.at[after].set(FULL & ~(c | a | b)), popped),
                rd.where(push, columns.at[after].set(c), columns),
                rd.where(push, left.at[after].set(a), left),
                rd.where(push, right.at[after].set(b), right),
                count + ((f != 0) & (c == FULL)).astype(rd.i32),
            )

        return rd.while_loop(lambda state: state[0] >= 0, step, start)[-1]

    return rd.map(one, xs)


@rd.algorithm
def sorted_by_insertion(xs: rd.i32["n"], rows: rd.i32["n", 18]):
    """A loop in a loop, on the same array, which is the result."""

    def one(row):
        def insert(k, a):
            goes_on = lambda s: (s[0] > 0) & (s[1][rd.maximum(s[0] - 1, 0)] > a[k])
            j, b = rd.while_loop(goes_on, lambda s: (s[0] - 1, s[1].at[s[0]].set(s[1][s[0] - 1])), (k, a))
            return b.at[j].set(a[k])

        return rd.loop(18, insert, row)

    return rd.map(one, rows)


@rd.algorithm
def old_contents_are_read_in_the_inner_loop(xs: rd.i32["n"], rows: rd.i32["n", 18]):
    def one(x, row):
        def outer(t, a):
            inner = lambda s: (s[0] + 1, s[1].at[s[0]].set(a[17 - s[0]] + s[1][0]))
            return rd.while_loop(lambda s: s[0] < t + 5, inner, (t, a))[1] - a[t]

        return rd.loop(rd.i64(x % 4), outer, row)

    return rd.map(one, xs, rows)


def of_states(step: Any, results: Any = lambda s: s[1]) -> Any:
    """A program whose elements change a number and two arrays of 18 until the number reaches 40."""

    @rd.algorithm
    def program(xs: rd.i32["n"], rows: rd.i32["n", 18]):
        def one(x, row):
            return results(rd.while_loop(lambda s: s[0] < 40, step, (x % 50, row, row[::-1])))

        return rd.map(one, xs, rows)

    return program


STATES = {
    "arrays change places": of_states(lambda s: (s[0] + 3, s[2], s[1])),
    "each is made of the other": of_states(lambda s: (s[0] + 3, s[1] + s[2], s[1] - s[2])),
    "elements move": of_states(lambda s: (s[0] + 3, rd.roll(s[1], 1, 0), s[2].at[3].set(s[1][2]))),
    "elements are made and one changes": of_states(lambda s: (s[0] + 3, (s[1] + 1).at[s[0] % 9].set(s[2][1]), s[2])),
    "two changes, of which the last counts": of_states(
        lambda s: (s[0] + 3, s[1].at[2].set(7).at[s[0] % 3].add(s[1][2]), s[2])
    ),
    "what was changed is read": of_states(
        lambda s: (s[0] + 3, s[1].at[s[0] % 9].set(5), s[2].at[1].set(s[1].at[s[0] % 9].set(5)[4]))
    ),
    "branches change other elements": of_states(
        lambda s: (s[0] + 3, rd.where(s[0] % 2 == 0, s[1].at[1].set(s[2][0]), s[1].at[2].set(s[2][1])), s[2])
    ),
    "branches are arrays": of_states(lambda s: (s[0] + 3, rd.where(s[0] % 2 == 0, s[1].at[1].set(0), s[2]), s[1])),
    "a branch on arrays": of_states(
        lambda s: (s[0] + 3, *rd.cond(s[0] % 2 == 0, lambda: (s[1].at[0].set(3), s[2]), lambda: (s[2], s[1] + 1)))
    ),
    "sums are kept for their readers": of_states(
        lambda s: (s[0] + 3, rd.map(lambda e: (rd.sum(s[1] * e) % 1000).astype(rd.i32), s[2]), s[1] + s[2][::-1])
    ),
    "the number counts": of_states(
        lambda s: (s[0] + 1 + s[1][s[0] % 9] % 5, s[1].at[s[0] % 9].add(1), s[2]), lambda s: s[0]
    ),
    "a sum of the last state": of_states(
        lambda s: (s[0] + 3, s[1].at[s[0] % 9].add(s[2][4]), s[2]), lambda s: rd.sum(s[1]) + rd.max(s[2])
    ),
    "indices are out of range": of_states(lambda s: (s[0] + 3, s[1].at[s[0] - 30].set(1), s[2])),
    "masks": of_states(
        lambda s: (s[0] + 3, s[1] + rd.any((s[1] > 3) & (s[2] < 50)).astype(rd.i32), s[2].at[2].set(s[1][s[0] % 2])),
    ),
}
PROGRAMS = {
    "queens": queens,
    "insertion": sorted_by_insertion,
    "old contents": old_contents_are_read_in_the_inner_loop,
    **STATES,
}


def arguments(name: str, n: int = 13) -> list[np.ndarray]:
    """Numbers, and rows of 18."""
    rng = np.random.default_rng(len(name))
    return [rng.integers(0, 50, n).astype(np.int32), rng.integers(0, 100, (n, 18)).astype(np.int32)]


def nest_of(algorithm: Any, say: Any = lambda s: None, machine: Machine = USUAL) -> Nest:
    schedule = algorithm.schedule()
    say(schedule)
    complete = schedule.complete(machine)
    return check_nest(lower(complete.graph, complete.variants()), "scalar")


def outcome(run: Any) -> Any:
    """The result, or the kind of fault."""
    try:
        return run()
    except rd.RaidoError as error:
        return type(error)


def has_lanes(nest: Nest) -> bool:
    """Whether a loop that data ends runs in lanes."""
    loops = [s for s in statements_within(nest.body) if isinstance(s, For) and s.kind == "vector"]
    return any(isinstance(s, While) for loop in loops for s in statements_within(loop.body))


@pytest.mark.parametrize("name", PROGRAMS)
def test_elements_keep_their_arrays(name: str) -> None:
    """All interpreters agree; there is one loop, inside the loop over elements, and no array of states of all elements."""
    algorithm, given = PROGRAMS[name], arguments(name)
    want = outcome(lambda: algorithm.interpret(*given))
    nest = nest_of(algorithm)
    for level in (nest, check_nest(form_gangs(nest, 256), "gang")):
        got = outcome(lambda level=level: interpret_nest(level, given, seed=1)[0])
        assert got is want if isinstance(want, type) else np.array_equal(got, want), print_nest(level)
    assert not any(isinstance(s, Alloc) and s.buffer.scope == "heap" for s in statements_within(nest.body))


@pytest.mark.parametrize("name", ["queens", "the number counts", "a sum of the last state"])
def test_private_arrays_in_lanes(name: str) -> None:
    algorithm, given = PROGRAMS[name], arguments(name)
    nest = nest_of(algorithm, lambda s: s["map_1"].split("x", 16).parallel("xo").vectorize("xi", interleave=2))
    assert has_lanes(nest)
    gangs = check_nest(form_gangs(nest, 256), "gang")
    assert np.array_equal(interpret_nest(gangs, given, seed=2)[0], algorithm.interpret(*given))


def test_lanes_scatter_where_that_is_an_instruction() -> None:
    """The stacks of a search are changed at an index of each lane's own: five cycles a lane where lanes store by themselves."""
    assert not has_lanes(nest_of(queens))
    assert has_lanes(nest_of(queens, machine=replace(USUAL, vector_bits=512, registers=32)))


def test_lanes_need_not_scatter_at_indices_that_they_agree_on() -> None:
    @rd.algorithm
    def agreed(xs: rd.i32["n"], rows: rd.i32["n", 18]):
        step = lambda t, s: (s[0].at[t].set(s[0][t] * 3 + s[1]), s[1] + s[0][t])
        first = lambda x: rd.while_loop(
            lambda s: s[1] < 99, lambda s: rd.loop(18, step, s), (rd.iota(18, rd.i32), x + 1)
        )
        return rd.map(lambda x: first(x)[1], xs)

    nest = nest_of(agreed)
    assert has_lanes(nest)
    given = arguments("agreed")
    assert np.array_equal(interpret_nest(form_gangs(nest, 256), given, seed=0)[0], agreed.interpret(*given))


def test_a_result_that_is_an_array_is_made_once() -> None:
    """The loop stands in front of the loop over the elements of its result, and does the work of one loop."""
    given = arguments("insertion")
    nest = nest_of(sorted_by_insertion)
    (along,) = [s for s in statements_within(nest.body) if isinstance(s, For) and s.kind == "vector"]
    assert not any(isinstance(s, While) for s in statements_within(along.body))
    iterations = sum(int(np.sum(row[:k] > row[k])) for row in given[1] for k in range(18))
    assert count_work(nest, given, {})[0].total < 60 * (iterations + 18 * len(given[0]))


@pytest.mark.parametrize("size", [2048, 18])
def test_other_loops_are_stages(size: int) -> None:
    """Those with large states, and those in whose iterations somebody has named an array."""

    @rd.algorithm
    def program(xs: rd.i32["n"]):
        def step(s):
            changed = s[1].at[s[0] % 9].add(s[0])
            return s[0] + 1, changed if size > 18 else changed.named("moved")

        return rd.map(lambda x: rd.while_loop(lambda s: s[0] < 9, step, (x, rd.zeros(size, rd.i32)))[1][3], xs)

    assert any("while_1" in stage.name for stage in program.schedule().graph.stages)
