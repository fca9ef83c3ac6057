"""A range of an array whose start and end data decides is updated in place: the work is that of the range, not of the array."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import raido as rd

rng = np.random.default_rng(3)
HEADS = {"x": rd.i64["n"], "lo": rd.i64["m"], "hi": rd.i64["m"]}


def loop_over(step: Any) -> Any:
    return lambda x, lo, hi: rd.loop(lo.shape[0], lambda i, o: step(o, lo[i], hi[i], i), x)


def numpy_loop(step: Any) -> Any:
    def run(x: np.ndarray, lo: np.ndarray, hi: np.ndarray) -> np.ndarray:
        out = x.copy()
        for i, (a, b) in enumerate(zip(lo, hi, strict=True)):
            step(out, int(a), int(b), i)
        return out

    return run


def put(out: np.ndarray, where: Any, value: Any) -> None:
    out[where] = value


def between(n: int, a: int, b: int) -> np.ndarray:
    """Which of n indices lie in a … b − 1."""
    return (np.arange(n) >= a) & (np.arange(n) < b)


CHANGES = {
    "set": (lambda o, a, b, i: o.at[a:b].set(i), lambda o, a, b, i: put(o, slice(a, b), i)),
    "added to": (lambda o, a, b, i: o.at[a:b].add(i + 1), lambda o, a, b, i: put(o, slice(a, b), o[a:b] + i + 1)),
    "from a start": (lambda o, a, b, i: o.at[a:].set(i), lambda o, a, b, i: put(o, slice(a, None), i)),
    "to an end": (lambda o, a, b, i: o.at[:b].set(i), lambda o, a, b, i: put(o, slice(b), i)),
    "made of another element": (
        lambda o, a, b, i: o.at[a:b].set(o[0] + 1),
        lambda o, a, b, i: put(o, slice(a, b), o[0] + 1),
    ),
    "a window by a choice": (
        lambda o, a, b, i: rd.where((rd.iota(o.shape[0]) >= a - 3) & (rd.iota(o.shape[0]) < a + 4), o * 2, o),
        lambda o, a, b, i: put(o, between(len(o), a - 3, a + 4), o[between(len(o), a - 3, a + 4)] * 2),
    ),
    "a window that a size bounds as well": (
        lambda o, a, b, i: rd.where(
            (rd.iota(o.shape[0]) >= a) & (rd.iota(o.shape[0]) < a + 9) & (rd.iota(o.shape[0]) > 4), i, o
        ),
        lambda o, a, b, i: put(o, between(len(o), a, a + 9) & (np.arange(len(o)) > 4), i),
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_ranges_change_as_in_numpy(name: str) -> None:
    step, expected = CHANGES[name]
    program = rd.algorithm(**HEADS)(loop_over(step))
    compiled = program.compile()
    for n, m in ((1, 1), (5, 3), (17, 20), (100, 40), (3000, 8)):
        x, lo = rng.integers(-9, 9, n), rng.integers(0, n + 1, m)
        hi = rng.integers(0, n + 1, m)
        want = numpy_loop(expected)(x, lo, hi)
        np.testing.assert_array_equal(compiled(x, lo, hi), want)
        np.testing.assert_array_equal(program.interpret(x, lo, hi), want)


@pytest.mark.parametrize("lo, hi", [(-1, 3), (2, 11), (11, 11)])
def test_ranges_beyond_the_array_are_refused(lo: int, hi: int) -> None:
    program = rd.algorithm(**HEADS)(loop_over(CHANGES["set"][0]))
    for run in (program, program.interpret):
        with pytest.raises(rd.RaidoError, match="11" if hi == 11 else "-1"):
            run(np.zeros(10, np.int64), np.array([0, lo]), np.array([10, hi]))


@pytest.mark.parametrize("name", CHANGES)
def test_work_is_that_of_the_range(name: str) -> None:
    """No loop inside the one over ranges goes through the whole array."""
    program = rd.algorithm(**HEADS)(loop_over(CHANGES[name][0]))
    if name in ("from a start", "to an end"):
        return
    nest = program.compile().source("nest")
    loop = nest[nest.index("for t in 0..m") :]
    assert "0..n" not in loop and "0..min(n" not in loop, loop
