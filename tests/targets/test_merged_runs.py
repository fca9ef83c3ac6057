"""Two concatenated sorted runs are merged: with the same results, also for arrays that move with the keys."""

from __future__ import annotations

import math

import numpy as np
import pytest

import raido as rd

KINDS = (rd.f32, rd.f64, rd.i64, rd.u32, rd.i16, rd.bool_)
LENGTHS = ((1, 1), (40, 40), (1, 99), (99, 1), (50, 47), (3, 700), (701, 4), (1000, 1003), (5000, 20))


def run_of(dtype, count: int, values: int, seed: int) -> np.ndarray:
    """So many elements in order, of so many values; of floats zeros of both signs, infinities and NaN."""
    random = np.random.default_rng(seed)
    if not dtype.is_float:
        return np.sort(random.integers(0, 2 if dtype is rd.bool_ else values, count).astype(dtype.numpy))
    special = np.array([0.0, -0.0, math.inf, -math.inf, math.nan])
    numbers = np.where(random.random(count) < 0.2, random.choice(special, count), random.integers(-3, values, count))
    return np.sort(numbers.astype(dtype.numpy), kind="stable")


@pytest.mark.parametrize("chunks", [1, 5])
@pytest.mark.parametrize("dtype", KINDS, ids=str)
def test_two_runs_are_sorted_as_all_else(dtype, chunks):
    @rd.algorithm(a=dtype["n"])
    def sorts(a):
        return rd.sort(a, name="sorted"), rd.argsort(a, name="order")

    s = sorts.schedule()
    for name in ("sorted", "order"):
        s[name].strategy("quicksort", chunks=chunks)
    compiled = sorts.compile(schedule=s)
    for values in (2, 30, 10_000):
        for seed, (m, n) in enumerate(LENGTHS):
            a = np.concatenate([run_of(dtype, m, values, seed), run_of(dtype, n, values, seed + 100)])
            got, order = compiled(a)
            want = np.argsort(a, kind="stable")
            np.testing.assert_array_equal(order, want)
            np.testing.assert_array_equal(got.view(f"u{a.itemsize}"), a[want].view(f"u{a.itemsize}"))


def test_values_move_with_the_keys():
    """Sorted keys put together and reduced: as a sum of sparse vectors is."""

    @rd.algorithm
    def summed(a: rd.i64["n"], x: rd.f64["n"], b: rd.i64["m"], y: rd.f64["m"]):
        return rd.reduce_by_key(rd.add, 0.0, rd.concatenate([a, b]), rd.concatenate([x, y]))

    random = np.random.default_rng(0)
    for n, m in ((5, 60), (900, 300), (3000, 4000)):
        a, b = (np.unique(random.integers(0, 5 * n, k)) for k in (n, m))
        x, y = random.random(len(a)), random.random(len(b))
        keys, sums = summed(a, x, b, y)
        dense = np.bincount(a, x, 5 * n) + np.bincount(b, y, 5 * n)
        np.testing.assert_array_equal(keys, np.union1d(a, b))
        np.testing.assert_array_equal(sums, dense[keys])


def test_short_sorts_and_selections_are_left_to_others():
    @rd.algorithm
    def least(a: rd.f32["n"]):
        return rd.sort(a, name="sorted")[:3]

    assert "quickselect" in str(least.schedule().complete())
    assert "starts" not in least.compile().source("nest")
