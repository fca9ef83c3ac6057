"""Pointwise stages in the loops of a scan: its results are forwarded in registers, and unread ones are not stored."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import raido as rd
from raido.schedule.lower import lower
from raido.schedule.machine import Machine
from raido.schedule.nest.nodes import Alloc, Nest
from raido.schedule.nest.walk import statements_within


@rd.algorithm
def drawdown(a: rd.f32["n"]):
    return rd.elementwise(lambda x, y: x - y, a, rd.scan(rd.maximum, -np.inf, a, name="highest"), name="out")


@rd.algorithm
def shares(a: rd.f64["m", "n"]):
    return rd.elementwise(lambda x, y: x / y, a, rd.scan(rd.add, 0, a, axis=0, name="sums"), name="out")


def nest_of(algorithm: Any) -> Nest:
    schedule = algorithm.schedule().complete(Machine())
    return lower(schedule.graph, schedule.variants())


def arrays_of(nest: Nest) -> list[str]:
    """The arrays that a nest takes memory for."""
    return [s.buffer.name for s in statements_within(nest.body) if isinstance(s, Alloc) and s.buffer.scope == "heap"]


@pytest.mark.parametrize("algorithm", [drawdown, shares])
def test_a_reader_shares_the_loops_of_a_scan_that_is_then_not_stored(algorithm):
    assert 's["out"].compute_with(' in str(algorithm.schedule().complete(Machine()))
    assert arrays_of(nest_of(algorithm)) == []


def test_results_that_another_stage_reads_are_stored_as_ever():
    def apart(a: rd.f32["n"]):
        highest = rd.scan(rd.maximum, -np.inf, a, name="highest")
        return a - highest, rd.flip(highest) * 2

    assert arrays_of(nest_of(rd.algorithm(apart))) == ["highest"]


@pytest.mark.parametrize("strategy", ["serial", "three_phase", "chain"])
def test_every_strategy_hands_on_what_it_makes(strategy):
    s = drawdown.schedule()
    s["highest"].strategy(strategy, **({} if strategy == "serial" else {"block": 7}))
    s["out"].compute_with("highest", s["highest"].axes[-1])
    a = np.random.default_rng(0).integers(0, 99, 100).astype("f4")
    np.testing.assert_array_equal(drawdown.compile(schedule=s)(a), a - np.maximum.accumulate(a))


def test_what_a_scan_hands_on_is_refused_elsewhere():
    s = drawdown.schedule()
    s["highest"].strategy("chain", block=64)
    with pytest.raises(rd.ScheduleError, match="decides its loops"):
        s["out"].compute_with("highest", "xo")

    def before(a: rd.f32["n"]):
        return rd.shift(rd.scan(rd.add, 0, a, name="sums"), 1).named("out") + a

    t = rd.algorithm(before).schedule()
    with pytest.raises(rd.ScheduleError):
        t["out"].compute_with("sums", "x")

    def total(a: rd.f32["n"]):
        return rd.sum(rd.scan(rd.add, 0, a, name="sums"), name="out")

    u = rd.algorithm(total).schedule()
    with pytest.raises(rd.ScheduleError, match="decides its loops"):
        u["out"].compute_with("sums", "x")


def test_a_reader_shares_the_loops_although_it_reads_one_element_for_all_of_its_own() -> None:
    """The elements of a segmented scan look where the first segment begins and the last one ends."""

    @rd.algorithm
    def in_segments(values: rd.f64["n"], offsets: rd.i64["s + 1"]):
        return rd.segmented_scan(rd.add, 0.0, values, offsets)

    assert "compute_with(" in str(in_segments.schedule().complete(Machine()))
    assert len(arrays_of(nest_of(in_segments))) == 1  # where segments begin
    values = np.arange(9.0)
    for offsets in ([0, 4, 4, 9], [2, 5, 7], [3, 3]):
        expected = np.zeros(9)
        for a, b in pairwise(offsets):
            expected[a:b] = np.cumsum(values[a:b])
        np.testing.assert_array_equal(in_segments(values, np.array(offsets)), expected)
