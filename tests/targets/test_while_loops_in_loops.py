"""A while loop inside a loop updates the loop's array in place, though its condition, or a later statement, reads an old element."""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
import pytest

import raido as rd

rng = np.random.default_rng(7)


def insertion(s: Any) -> Any:
    """An insertion sort: each element goes before those that stand in front of it and are greater."""

    def step(i: Any, s: Any) -> Any:
        value = s[i + 1]
        goes_on = lambda st: (st[0] >= 0) & (st[1][rd.maximum(st[0], 0)] > value)
        j, s = rd.while_loop(goes_on, lambda st: (st[0] - 1, st[1].at[st[0] + 1].set(st[1][st[0]])), (i, s))
        return s.at[j + 1].set(value)

    return rd.loop(s.shape[0] - 1, step, s)


def rotation(s: Any) -> Any:
    """Thrice: the last element goes to the front, when all others have moved on."""

    def step(_: Any, s: Any) -> Any:
        n = s.shape[0]
        last = s[n - 1]
        _, s = rd.while_loop(
            lambda st: st[0] > 0, lambda st: (st[0] - 1, st[1].at[st[0]].set(st[1][st[0] - 1])), (n - 1, s)
        )
        return s.at[0].set(last)

    return rd.loop(3, step, s)


PROGRAMS = {"insertion": (insertion, np.sort), "rotation": (rotation, lambda a: np.roll(a, 3, -1))}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("rank", [1, 2])
def test_nothing_is_copied_in_an_iteration(name: str, rank: int) -> None:
    make, expected = PROGRAMS[name]
    heads = {1: rd.i64["m"], 2: rd.i64["n", "m"]}
    program = rd.algorithm(a=heads[rank])((lambda a: make(a)) if rank == 1 else lambda a: rd.map(make, a))
    with warnings.catch_warnings():
        warnings.simplefilter("error", rd.CopyWarning)
        executable = program.compile()
    nest = executable.source("nest")
    assert "_next: i64[n, m]" not in nest and "_next: i64[m]" not in nest and nest.count("= copy ") <= 2, nest
    for shape in ((1,), (2,), (30,), (200,)):
        a = rng.integers(-20, 20, shape if rank == 1 else (5, *shape))
        np.testing.assert_array_equal(executable(a), expected(a))
        np.testing.assert_array_equal(program.interpret(a), expected(a))


def test_an_insertion_sort_of_what_is_nearly_sorted_takes_linear_time() -> None:
    program = rd.algorithm(s=rd.i64["m"])(insertion)

    def seconds(n: int) -> float:
        a = np.arange(n).reshape(-1, 2)[:, ::-1].ravel().copy()
        program(a)
        best = 1.0
        for _ in range(9):
            start = time.thread_time()
            program(a)
            best = min(best, time.thread_time() - start)
        return best

    assert seconds(60_000) < 25 * seconds(6_000)
