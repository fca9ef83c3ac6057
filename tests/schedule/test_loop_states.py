"""Bounds of the integers that loops carry: indices within these bounds are not checked, all others are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import raido as rd
from raido.schedule.gang.vectorise import form_gangs
from raido.schedule.lower import lower
from raido.schedule.nest.nodes import Check, Nest
from raido.schedule.nest.printer import print_nest
from raido.schedule.nest.walk import statements_within
from raido.schedule.oracles.interpret import interpret_nest

SIZE = 9


def of_rows(one: Callable[[Any, Any, Any], Any]) -> Any:
    """A program that gives a function each number x, its row of nine, and an array that all share."""

    @rd.algorithm
    def program(xs: rd.i64["n"], rows: rd.i32["n", SIZE], shared: rd.i32["m"]):
        return rd.map(lambda x, row: one(x, row, shared), xs, rows)

    return program


def halved(x: Any, row: Any, shared: Any, low: Any = 0, high: Any = None) -> Any:
    """A binary search: the middle lies between the ends."""

    def step(s: Any) -> Any:
        middle = (s[0] + s[1]) // 2
        below = shared[middle] < x
        return rd.where(below, middle + 1, s[0]), rd.where(below, s[1], middle)

    return rd.while_loop(lambda s: s[0] < s[1], step, (low, shared.shape[0] if high is None else high))[0]


def halved_in_part(x: Any, row: Any, shared: Any) -> Any:
    """The same from ends that a choice gives: all numbers that it chooses among lie within the array."""
    size = shared.shape[0]
    low, high = rd.where(x > 2, rd.clip(x, 0, size), 0), rd.where(x > 2, size, rd.clip(x + 9, 0, size))
    return halved(x, row, shared, low, high)


def inserted(x: Any, row: Any, shared: Any) -> Any:
    """A condition that ends the loop at 0, and an index that is read when it is over."""

    def insert(k: Any, a: Any) -> Any:
        goes_on = lambda s: (s[0] > 0) & (s[1][rd.maximum(s[0] - 1, 0)] > a[k])
        at, b = rd.while_loop(goes_on, lambda s: (s[0] - 1, s[1].at[s[0]].set(s[1][s[0] - 1])), (k, a))
        return b.at[at].set(a[k])

    return rd.loop(SIZE, insert, row)[4]


def divided(x: Any, row: Any, shared: Any) -> Any:
    """Parts of a quicksort: the inner loop counts as many as it looks at, at most, and the outer one goes on from there."""

    def step(s: Any) -> Any:
        low, high, a = s

        def move(i: Any, t: Any) -> Any:
            below = t[1][low + i] < a[(low + high) // 2]
            swapped = t[1].at[low + i].set(t[1][t[0]]).at[t[0]].set(t[1][low + i])
            return rd.where(below, t[0] + 1, t[0]), rd.where(below, swapped, t[1])

        j, b = rd.loop(high - low, move, (low, a))
        return rd.where(j <= 4, rd.maximum(j, low + 1), low), rd.where(j <= 4, high, j), b

    return rd.while_loop(lambda s: s[0] + 1 < s[1], step, (0, SIZE, row))[2][4]


def gathered(x: Any, row: Any, shared: Any) -> Any:
    """As many elements as a count of truths: none adds more than one."""
    put = lambda i, s: (s[0] + (row[i] > x).astype(rd.i64), s[1].at[s[0]].set(row[i]))
    over = rd.while_loop(lambda s: s[1][0] < 1, lambda s: (0, s[1].at[0].set(2)), (0, row))[1]
    return rd.loop(SIZE, put, (0, over))[1][3]


def counted(start: Any, goes_on: Any, step: Any, index: Any = lambda k: k) -> Any:
    """A number that a loop changes, by which it reads a row."""

    def one(x: Any, row: Any, shared: Any) -> Any:
        following = lambda s: (step(s[0], x), s[1] + row[index(s[0])])
        return rd.while_loop(lambda s: goes_on(s[0], x) & (s[1] < 99), following, (start(x), 0))[1]

    return one


BOUNDED = {
    "halved": halved,
    "halved in part": halved_in_part,
    "inserted": inserted,
    "divided": divided,
    "gathered": gathered,
    "up to a size": counted(lambda x: 0, lambda k, x: k < SIZE, lambda k, x: k + 1),
    "down, and at 0 as well": counted(lambda x: SIZE - 1, lambda k, x: k >= 0, lambda k, x: k - 1),
    "by two": counted(lambda x: 0, lambda k, x: k < SIZE, lambda k, x: k + 2),
    "from data, clipped": counted(lambda x: rd.clip(x, 0, 3), lambda k, x: k < 8, lambda k, x: k + 1, lambda k: k + 1),
    "one of two ways": counted(lambda x: 4, lambda k, x: (k > 0) & (k < 8), lambda k, x: rd.where(x > 2, k - 1, k + 1)),
}
OPEN = {
    "starts too high": counted(lambda x: SIZE, lambda k, x: k > -1, lambda k, x: k - 1),
    "starts where data says": counted(lambda x: x, lambda k, x: k < SIZE, lambda k, x: k + 1),
    "goes one too far": counted(lambda x: 0, lambda k, x: k <= SIZE, lambda k, x: k + 1),
    "goes below 0": counted(lambda x: 3, lambda k, x: k >= -1, lambda k, x: k - 1),
    "read before it is compared": counted(lambda x: 0, lambda k, x: k < SIZE, lambda k, x: k + 1, lambda k: k + 1),
    "a step from data": counted(lambda x: 0, lambda k, x: k < SIZE, lambda k, x: k + x),
    "no end": counted(lambda x: 0, lambda k, x: k != SIZE + 2, lambda k, x: k + 1),
    "two ways, one of them open": counted(lambda x: 4, lambda k, x: k > 0, lambda k, x: rd.where(x > 2, k - 1, k + 1)),
}


def nest_of(program: Any) -> Nest:
    complete = program.schedule().complete()
    return lower(complete.graph, complete.variants())


def arguments(*numbers: int) -> list[np.ndarray]:
    rng = np.random.default_rng(len(numbers))
    rows = rng.integers(0, 30, (len(numbers), SIZE)).astype(np.int32)
    return [np.array(numbers, np.int64), rows, np.sort(rng.integers(-5, 20, 23)).astype(np.int32)]


def outcome(run: Callable[..., Any], *given: np.ndarray) -> Any:
    try:
        return tuple(run(*given).tolist())
    except rd.IndexOutOfRange:
        return "out of range"


def checks(nest: Nest) -> list[Check]:
    return [s for s in statements_within(nest.body) if isinstance(s, Check) and s.kind == "index"]


@pytest.mark.parametrize("name", BOUNDED)
def test_bounded_indices_are_not_checked(name: str) -> None:
    program, given = of_rows(BOUNDED[name]), arguments(0, 3, 7, -8, 19, 4)
    nest = nest_of(program)
    assert not checks(nest), print_nest(nest)
    want = program.interpret(*given)
    for level in (nest, form_gangs(nest, 512)):
        assert np.array_equal(interpret_nest(level, given, seed=3)[0], want)


@pytest.mark.parametrize("name", OPEN)
def test_other_indices_are(name: str) -> None:
    """A number finds the fault that the check is for, in the interpreter of programs and in that of nests."""
    program = of_rows(OPEN[name])
    nest = nest_of(program)
    assert checks(nest)
    found = set()
    for x in (1, -3, 30):
        given = arguments(x)
        given[1][:] = 0
        want = outcome(program.interpret, *given)
        assert outcome(lambda *arrays: interpret_nest(nest, arrays, seed=1)[0], *given) == want
        found.add(want)
    assert "out of range" in found


def test_a_condition_that_reads_beyond_its_bound_is_checked() -> None:
    """The condition itself is evaluated before it is known to hold."""
    one = lambda x, row, shared: rd.while_loop(lambda k: (k < SIZE) & (row[k] < 99), lambda k: k + 1, rd.i64(0))
    program = of_rows(one)
    nest = nest_of(program)
    assert checks(nest)
    with pytest.raises(rd.IndexOutOfRange):
        interpret_nest(nest, arguments(1, 2), seed=1)
