"""Sorts of integers in a narrow range are counting sorts, whatever the dtype of their keys."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

import raido as rd

KINDS = (rd.i8, rd.u16, rd.i32, rd.u32, rd.i64, rd.u64)
ENDS = ("least", "middle", "greatest")


def close_together(dtype: Any, end: str, count: int, values: int) -> np.ndarray:
    """So many integers of so many values at one end of a type's range, or around the middle of it."""
    info = np.iinfo(dtype.numpy)
    first = {
        "least": info.min,
        "middle": (int(info.min) + int(info.max)) // 2 - values // 2,
        "greatest": info.max - values + 1,
    }
    numbers = np.random.default_rng(count + values).integers(0, values, count)
    return (numbers.astype(object) + int(first[end])).astype(dtype.numpy)


@pytest.mark.parametrize("chunks", [1, 5])
@pytest.mark.parametrize("dtype", KINDS, ids=str)
def test_close_integers_are_sorted_as_all_others(dtype, chunks):
    @rd.algorithm(a=dtype["n"])
    def sorts(a):
        return rd.sort(a, name="sorted"), rd.argsort(a, name="order"), rd.sort(a * dtype(1), name="made")

    s = sorts.schedule()
    for name in ("sorted", "order", "made"):
        s[name].strategy("quicksort", chunks=chunks, counted=100)
    compiled = sorts.compile(schedule=s)
    for end in ENDS:
        for count, values in ((1, 1), (2, 2), (600, 99), (600, 100), (600, 101), (99, 99), (495, 99), (3000, 7)):
            a = close_together(dtype, end, count, values)
            got, order, made = compiled(a)
            np.testing.assert_array_equal(got, np.sort(a))
            np.testing.assert_array_equal(order, np.argsort(a, kind="stable"))
            np.testing.assert_array_equal(made, got)


def nest_of(function: Any, dtype: Any) -> str:
    """The nest of a sort of such elements, by quicksort."""
    algorithm = rd.algorithm(a=dtype["n"])(function)
    s = algorithm.schedule()
    s["sorted"].strategy("quicksort")
    return algorithm.compile(schedule=s).source("nest")


def test_elements_that_are_there_are_not_copied_before_they_are_counted():
    there = nest_of(lambda a: rd.argsort(a, name="sorted"), rd.i32).split("these")[0]
    assert "counts" in there and "by minimum" in there
    made = nest_of(lambda a: rd.argsort(a * a, name="sorted"), rd.i32)
    assert made.index("these") < made.index("by minimum")
    assert "by minimum" not in nest_of(lambda a: rd.argsort(a, name="sorted"), rd.f32)


@pytest.mark.parametrize("dtype", [rd.i8, rd.u8, rd.i16, rd.u16], ids=str)
def test_narrow_integers_are_counted_where_there_are_as_many_as_values(dtype):
    @rd.algorithm(a=dtype["n"])
    def sorts(a):
        return rd.sort(a, name="sorted"), rd.argsort(a, name="order")

    values = 1 << dtype.bits
    text = str(sorts.schedule().complete())
    assert text.count(f">= {values}") == 2 and text.count('"quicksort"') == 2 and text.count('"radix"') == 2
    info = np.iinfo(dtype.numpy)
    for count in (0, 1, 90, values - 1, values, values + 1, 3 * values):
        a = np.random.default_rng(count).integers(info.min, info.max + 1, count).astype(dtype.numpy)
        got, order = sorts(a)
        np.testing.assert_array_equal(got, np.sort(a))
        np.testing.assert_array_equal(order, np.argsort(a, kind="stable"))


def test_counting_beats_comparing_where_there_are_few_values():
    @rd.algorithm
    def order(a: rd.i64["n"]):
        return rd.argsort(a, name="order")

    def by(**numbers: int) -> Any:
        s = order.schedule()
        s["order"].strategy("quicksort", chunks=1, **numbers)
        return order.compile(schedule=s)

    a = np.random.default_rng(0).integers(-500, 500, 300_000)
    best = {}
    for name, run in (("counted", by()), ("compared", by(counted=1))):
        run(a)
        times = []
        for _ in range(7):
            start = time.thread_time()
            run(a)
            times.append(time.thread_time() - start)
        best[name] = min(times)
    assert best["counted"] < 0.7 * best["compared"]
