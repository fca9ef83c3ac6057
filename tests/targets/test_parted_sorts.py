"""Long quicksorts move their elements to parts in one pass, whatever the keys and the number of chunks."""

from __future__ import annotations

import numpy as np
import pytest

import raido as rd


def keys(kind: str, count: int) -> np.ndarray:
    rng = np.random.default_rng(count)
    found = {
        "random": rng.random(count),
        "equal": np.ones(count),
        "few": rng.integers(0, 3, count),
        "falling": -np.arange(count),
        "special": rng.choice([np.nan, -0.0, 0.0, np.inf, 1], count),
        "mostly one": np.where(rng.random(count) < 0.9, 5, rng.random(count)),
    }
    return np.asarray(found[kind], np.float64)


@pytest.mark.parametrize("chunks", [2, 300])
def test_parts_of_any_keys_are_sorted(chunks):
    @rd.algorithm(a=rd.f64["n"])
    def sorts(a):
        return rd.sort(a, name="alone"), rd.argsort(a * 2, name="order")

    s = sorts.schedule()
    for name in ("alone", "order"):
        s[name].strategy("quicksort", chunks=chunks).vectorize("x")
    compiled = sorts.compile(schedule=s)
    for kind in ("random", "equal", "few", "falling", "special", "mostly one"):
        for count in (1, 5, 700, 9000):
            a = keys(kind, count)
            got, order = compiled(a)
            np.testing.assert_array_equal(order, np.argsort(a, kind="stable"))
            assert got.tobytes() == a[order].tobytes()


def test_elements_are_moved_to_parts_once():
    s = (algorithm := rd.algorithm(a=rd.u64["n"])(lambda a: rd.sort(a, name="sorted"))).schedule()
    s["sorted"].strategy("quicksort", chunks=64)
    assert algorithm.compile(schedule=s).source("nest").count("moved[place]") == 1
