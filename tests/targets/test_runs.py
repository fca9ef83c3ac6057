"""Scans whose results are runs of equal numbers are computed run by run: repeats, and expanded rows of different lengths."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import raido as rd
from raido.schedule.legal import open_strategies

COUNTS = {
    "none": lambda r, n: np.zeros(n, np.int64),
    "one or none": lambda r, n: r.integers(0, 2, n),
    "short": lambda r, n: r.integers(0, 9, n),
    "long": lambda r, n: r.integers(0, 300, n),
    "mostly none": lambda r, n: np.where(r.random(n) < 0.02, r.integers(0, 2000, n), 0),
    "the first alone": lambda r, n: np.where(np.arange(n) == 0, 5000, 0),
    "the last alone": lambda r, n: np.where(np.arange(n) == n - 1, 5000, 0),
}


def repeats(a: Any, counts: Any) -> Any:
    return rd.repeat(a, counts)


@pytest.mark.parametrize("block", [None, 1, 7, 64])
@pytest.mark.parametrize("name", COUNTS)
def test_elements_are_repeated_as_in_numpy(name: str, block: int | None):
    program = rd.algorithm(a=rd.f32["n"], counts=rd.i64["n"])(repeats)
    schedule = program.schedule()
    if block is not None:
        schedule["scan_2"].strategy("runs", block=block)
    compiled = program.compile(schedule=schedule)
    assert "reduce_by_index" not in compiled.source("nest")
    for n in (1, 2, 33, 500):
        random = np.random.default_rng(n)
        a, counts = random.random(n, "f4"), COUNTS[name](random, n)
        np.testing.assert_array_equal(compiled(a, counts), np.repeat(a, counts))


def test_rows_and_narrow_elements_are_repeated():
    @rd.algorithm
    def both(rows: rd.i16["n", 3], a: rd.u8["n"], counts: rd.u16["n"]):
        return rd.repeat(rows, counts, axis=0), rd.repeat(a, counts) + rd.u8(1)

    random = np.random.default_rng(0)
    for n in (0, 1, 200):
        rows, a = random.integers(-99, 99, (n, 3)).astype("i2"), random.integers(0, 99, n).astype("u1")
        counts = random.integers(0, 20, n).astype("u2")
        got, more = both(rows, a, counts)
        np.testing.assert_array_equal(got, np.repeat(rows, counts, axis=0))
        np.testing.assert_array_equal(more, np.repeat(a, counts) + 1)


def test_rows_of_different_lengths_are_expanded():
    @rd.algorithm
    def inside(counts: rd.i64["n"]):
        number = rd.repeat(rd.iota(counts.shape[0]), counts)
        starts = rd.scan(rd.add, 0, counts, exclusive=True)
        return number, rd.iota(number.shape[0]) - starts[number]

    counts = np.random.default_rng(1).integers(0, 50, 700)
    number, place = inside(counts)
    np.testing.assert_array_equal(number, np.repeat(np.arange(700), counts))
    np.testing.assert_array_equal(place, np.concatenate([np.arange(c) for c in counts]))


def test_states_of_loops_are_repeated():
    """Whose sizes are known in an iteration alone."""

    @rd.algorithm
    def grown(x: rd.f32["n"], more: rd.i64):
        return rd.loop(3, lambda _, s: rd.repeat(s, more + rd.iota(s.shape[0]) % 2), x)

    x = np.random.default_rng(4).random(20, "f4")
    assert "runs" in str(grown.schedule().complete())
    for more in (0, 1, 2):
        want = x
        for _ in range(3):
            want = np.repeat(want, more + np.arange(len(want)) % 2)
        np.testing.assert_array_equal(grown(x, more), want)


def test_counts_below_zero_are_an_error_still():
    program = rd.algorithm(a=rd.f32["n"], counts=rd.i64["n"])(repeats)
    with pytest.raises(rd.SizeMismatch, match="-1"):
        program(np.ones(3, "f4"), np.array([1, -1, 5]))


def test_ends_that_may_be_in_any_order_are_counted():
    @rd.algorithm
    def numbers(ends: rd.i64["n"], m: rd.size):
        return rd.scan(rd.add, 0, rd.bincount(ends, m), name="numbers")

    assert "runs" not in numbers.schedule()["numbers"].strategies()
    ends = np.array([7, 3, 9, 3])
    np.testing.assert_array_equal(numbers(ends, 10), np.cumsum(np.bincount(ends, minlength=10)))


def test_truth_values_end_runs():
    @rd.algorithm
    def numbers(flags: rd.bool_["n"], m: rd.size):
        return rd.scan(rd.add, 0, rd.bincount(rd.cumsum(flags.astype(rd.i64)), m), name="numbers")

    assert "runs" in numbers.schedule()["numbers"].strategies()
    flags = np.random.default_rng(2).random(400) < 0.3
    want = np.cumsum(np.bincount(np.cumsum(flags), minlength=900)[:900])
    np.testing.assert_array_equal(numbers(flags, 900), want)
    np.testing.assert_array_equal(numbers(flags, 20), want[:20])


def test_marks_that_others_read_are_made():
    @rd.algorithm
    def both(flags: rd.bool_["n"], m: rd.size):
        marks = rd.bincount(rd.cumsum(flags.astype(rd.i64)), m)
        return rd.scan(rd.add, 0, marks, name="numbers"), marks

    schedule = both.schedule()
    with pytest.raises(rd.ScheduleError, match="which other stages read"):
        schedule["numbers"].strategy("runs")
    flags = np.random.default_rng(3).random(100) < 0.5
    numbers, marks = both(flags, 70)
    np.testing.assert_array_equal(numbers, np.cumsum(marks))


def test_runs_have_no_loops_inside_but_lanes():
    program = rd.algorithm(a=rd.f32["n"], counts=rd.i64["n"])(repeats)
    schedule = program.schedule()
    schedule["scan_2"].strategy("runs", block=64)
    with pytest.raises(rd.ScheduleError, match="the lengths of the runs"):
        schedule["scan_2"].split("xi", 8)


def test_the_strategies_of_a_scan_of_runs_can_be_asked_for_again():
    schedule = rd.algorithm(a=rd.f32["n"], counts=rd.i64["n"])(repeats).schedule()
    before = open_strategies(schedule.state, "scan_2")
    schedule["scan_2"].strategy("runs", block=64)
    assert open_strategies(schedule.state, "scan_2").keys() == before.keys() >= {"serial", "chain", "runs"}


def test_a_branch_of_the_scan_does_not_change_what_it_reads():
    schedule = rd.algorithm(a=rd.f32["n"], counts=rd.i64["n"])(repeats).schedule()
    with pytest.raises(rd.ScheduleError, match="differ only in their loops"):
        schedule["scan_2"].when("x > 100").strategy("runs", block=64)
        schedule.complete()


def test_runs_may_end_where_sums_without_the_last_number_say():
    @rd.algorithm
    def owners(counts: rd.u8["n"], size: rd.size):
        starts = rd.scan(rd.add, 0, rd.i64(counts), exclusive=True)
        return rd.cumsum(rd.reduce_by_index(rd.zeros(size, rd.i64), rd.add, 0, starts, 1)) - 1

    counts = np.random.default_rng(2).integers(0, 30, 300).astype("u1")
    assert '"runs"' in str(owners.schedule().complete())
    np.testing.assert_array_equal(owners(counts, counts.sum()), np.repeat(np.arange(300), counts))


@pytest.mark.parametrize("ordered", [True, False])
def test_steps_that_are_in_order_are_not_sorted(ordered: bool):
    @rd.algorithm
    def totals(keys: rd.i32["n"], values: rd.f64["n"]):
        n = keys.shape[0]
        keys = rd.sort(keys) if ordered else keys
        new = rd.tabulate(n, lambda i: (i == 0) | (keys[i] != keys[rd.maximum(i - 1, 0)]))
        by_group = rd.zeros(n, rd.f64).at[rd.cumsum(new) - 1].add(values)
        return by_group, rd.reduce_by_index(rd.zeros(n, rd.f64), rd.add, 0.0, keys, values, name="by_key")

    schedule = str(totals.schedule().complete())
    assert ('strategy("sorted"' in schedule) != ordered
    random = np.random.default_rng(3)
    keys, values = random.integers(0, 200, 1000).astype("i4"), random.integers(0, 9, 1000) * 1.0
    by_group, by_key = totals(keys, values)
    np.testing.assert_array_equal(by_key, np.bincount(np.sort(keys) if ordered else keys, values, 1000))
    if ordered:
        np.testing.assert_array_equal(by_group[:150], by_key[np.unique(keys)][:150])
