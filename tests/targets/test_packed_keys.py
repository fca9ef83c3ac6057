"""Sorts by several keys are sorts by words of 64 bits, with the results of the interpreter to the bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import raido as rd

SPECIAL = np.array([np.nan, -0.0, 0.0, 1, -1, np.inf, -np.inf])


def some(dtype: Any, count: int, seed: int) -> np.ndarray:
    """Few different values, each often."""
    rng = np.random.default_rng(seed)
    if dtype.is_float:
        return rng.choice(SPECIAL, count).astype(dtype.numpy)
    return rng.integers(-2 if dtype.kind == "i" else 0, 2, count).astype(dtype.numpy)


@pytest.mark.parametrize(
    ("dtypes", "words"),
    [
        ((rd.i32, rd.i32), 1),
        ((rd.bool_, rd.i16, rd.f32), 1),
        ((rd.f32, rd.u32), 1),
        ((rd.f32, rd.u16, rd.i64), 2),
    ],
    ids=str,
)
def test_keys_of_one_word_are_one_key(dtypes, words):
    first, second, third = (dtypes * 2)[:3]

    @rd.algorithm(a=first["n"], b=second["n"], c=third["n"])
    def sorts(a, b, c):
        arrays = (a, b, c)[: len(dtypes)]
        return *rd.sort(arrays, name="sorted"), c

    schedule = sorts.schedule()
    sorting = [name for name in schedule.stages if "quicksort" in schedule[name].strategies()]
    assert len(sorting) == words
    for count in (0, 1, 300):
        arrays = [some(dtype, count, k) for k, dtype in enumerate((first, second, third))]
        for got, wanted in zip(sorts(*arrays), sorts.interpret(*arrays), strict=True):
            assert got.dtype == wanted.dtype and got.tobytes() == wanted.tobytes()


def test_keys_behind_the_own_index_are_moved_alone():
    @rd.algorithm
    def sorts(a: rd.i64["n"], b: rd.f64["n"]):
        return rd.sort((a, rd.iota(a.shape[0]), b), name="sorted")

    assert "quicksort" in sorts.schedule()["sorted"].strategies()
    a, b = some(rd.i64, 300, 0), some(rd.f64, 300, 1)
    for got, wanted in zip(sorts(a, b), sorts.interpret(a, b), strict=True):
        assert got.tobytes() == wanted.tobytes()
