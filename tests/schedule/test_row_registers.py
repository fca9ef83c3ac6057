"""Rows stay in registers while their iterations run."""

from __future__ import annotations

import re
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


def _swings(shape: str) -> rd.Algorithm:
    def swing(x: Any, v: Any) -> Any:
        def step(t: Any, state: Any) -> Any:
            x, v = state
            v = v - (x >> 2) + t
            return x + (v >> 1), v

        return rd.loop(7, step, (x, v))

    return rd.algorithm(x=f"i64[{shape}]", v=f"i64[{shape}]", name="swing")(swing)


@pytest.mark.parametrize("shape", ["n", "m, n", "n, 3", "m, n, 2"])
def test_whole_arrays_that_change_element_by_element_are_registers(shape: str) -> None:
    """Iterations wait for one another, so several gangs run side by side, and none of them waits for memory."""
    executable = _swings(shape).compile()
    text = executable.source("nest")
    iterations = re.findall(r"\n( *)for t in 0\.\.7:\n((?:\1  .*\n)*)", text)
    assert len(iterations) == 1 and "[" not in iterations[0][1], text
    assert "by vector, interleave" in text and "parallel" not in iterations[0][1], text


@pytest.mark.parametrize("shape", ["n", "m, n", "n, 3", "m, n, 2"])
@pytest.mark.parametrize(("m", "n"), [(1, 1), (3, 17), (5, 300), (0, 4), (4, 0)])
def test_whole_arrays_that_change_element_by_element_are_right(shape: str, m: int, n: int) -> None:
    extents = [{"m": m, "n": n}.get(part) or (0 if part.isalpha() else int(part)) for part in shape.split(", ")]
    x, v = np.random.default_rng(m + n).integers(-99, 99, (2, *extents))
    made = _swings(shape)(x, v)
    for t in range(7):
        v = v - (x >> 2) + t
        x = x + (v >> 1)
    np.testing.assert_array_equal(made[0], x)
    np.testing.assert_array_equal(made[1], v)
