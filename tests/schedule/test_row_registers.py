"""Rows keep their numbers in registers while their iterations run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import raido as rd


def _smoothed(x: Any) -> Any:
    def body(i: Any, state: Any) -> Any:
        level, slope, out = state
        ahead = level + slope
        level = ahead + (x[i] - ahead) // 2
        return level, slope + (level - ahead) // 3, out.at[i].set(level)

    return rd.loop(x.shape[0], body, (0, 1, rd.zeros_like(x)))


def _expected(x: np.ndarray) -> tuple[list[int], list[int], list[list[int]]]:
    ends: tuple[list[int], list[int], list[list[int]]] = ([], [], [])
    for row in x:
        level, slope, out = 0, 1, []
        for value in row:
            ahead = level + slope
            level = ahead + (int(value) - ahead) // 2
            slope += (level - ahead) // 3
            out.append(level)
        for end, value in zip(ends, (level, slope, out), strict=True):
            end.append(value)
    return ends


def test_states_of_mapped_loops_are_registers_of_the_row() -> None:
    every = rd.algorithm(x="i64[m, n]", name="every")(lambda x: rd.map(_smoothed, x)[2])
    text = every.compile().source("nest")
    inner = text[text.index("for k in ") : text.index("[xi] = ", text.index("for k in "))]
    assert text.count(": i64 register") == 4 and "[xi]" not in inner and "heap" not in inner


@pytest.mark.parametrize("shape", [(1, 1), (3, 7), (37, 5), (8, 0), (0, 4), (300, 3)])
def test_rows_of_any_number_give_what_plain_python_gives(shape: tuple[int, int]) -> None:
    every = rd.algorithm(x="i64[m, n]", name="every")(lambda x: rd.map(_smoothed, x))
    x = np.random.default_rng(sum(shape)).integers(-99, 99, shape)
    level, slope, out = every(x)
    expected = _expected(x)
    assert (level.tolist(), slope.tolist(), out.tolist()) == (expected[0], expected[1], expected[2])


def test_rows_that_end_apart_keep_what_they_end_with() -> None:
    @rd.algorithm
    def counted(x: rd.i64["m", "n"], limit: rd.i64["m"]):
        def one(row: Any, most: Any) -> Any:
            going = lambda s: (s[0] < row.shape[0]) & (s[1] < most)
            return rd.while_loop(going, lambda s: (s[0] + 1, s[1] + row[s[0]], s[2].at[s[0]].set(s[1])), (0, 0, row))

        return rd.map(one, x, limit)

    rng = np.random.default_rng(5)
    x, limit = rng.integers(0, 9, (21, 11)), rng.integers(0, 40, 21)
    place, total, kept = counted(x, limit)
    for row, most, i, t, k in zip(x, limit, place, total, kept, strict=True):
        j, s, r = 0, 0, row.copy()
        while j < 11 and s < most:
            r[j], s, j = s, s + row[j], j + 1
        assert (i, t, k.tolist()) == (j, s, r.tolist())
