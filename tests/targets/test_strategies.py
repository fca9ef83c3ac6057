"""Strategies in compiled and in exported code: one result, bit for bit, on one thread, on two, and on more than there are processors."""

from __future__ import annotations

import numpy as np
import pytest

import raido as rd
from raido.targets.export import load
from raido.targets.native import set_threads

THREADS = (1, 2, 8)


@rd.algorithm
def prefixes(a: rd.f32["n"]):
    return rd.scan(rd.add, 0, a, name="sums")


@rd.algorithm
def large_ones(a: rd.f32["n"]):
    return rd.filter(lambda x: x > 0.5, a, name="kept")


@rd.algorithm
def weights(bins: rd.i32["n"], w: rd.f32["n"]):
    return rd.reduce_by_index(rd.full(100, rd.f32(0)), rd.add, 0, bins, w, name="bins")


@rd.algorithm
def last_values(bins: rd.i32["n"], w: rd.f32["n"]):
    return rd.scatter(rd.full((3, 40), rd.f32(0)), (bins // 35, bins % 35), w, name="put")


@rd.algorithm
def segment_sums(v: rd.f32["n"], offsets: rd.i64["k"]):
    return rd.segmented_reduce(rd.add, 0.5, v, offsets, name="sums")


def skewed(n):
    """A segment that holds half of all values, many that hold none, and some of a few."""
    few = np.minimum(np.arange(0, n // 2 + 1, 7), n // 2)
    return np.concatenate([np.zeros(50, "i8"), few, [n], np.full(50, n)]).astype("i8")


@rd.algorithm
def halves(a: rd.f32["n"]):
    return rd.partition(lambda x: x > 0.5, a, name="parts")


@rd.algorithm
def in_order(a: rd.f32["n"]):
    return rd.argsort(a, name="order")


def numbers(n):
    return np.random.default_rng(n).random(n, dtype="f4")


CASES = {
    "chained scan": (prefixes, "sums", "chain", {"block": 512}, lambda n: (numbers(n),)),
    "scan in three phases": (prefixes, "sums", "three_phase", {"block": 512}, lambda n: (numbers(n),)),
    "chained filter": (large_ones, "kept", "chain", {"block": 512}, lambda n: (numbers(n),)),
    "counted filter": (large_ones, "kept", "count_write", {"block": 512}, lambda n: (numbers(n),)),
    "partition": (halves, "parts", "count_write", {"block": 512}, lambda n: (numbers(n),)),
    "private bins": (
        weights,
        "bins",
        "private",
        {"copies": 2},
        lambda n: (np.arange(n, dtype="i4") * 7 % 103 - 1, numbers(n)),
    ),
    "segments in blocks": (segment_sums, "sums", "flat", {"block": 512}, lambda n: (numbers(n), skewed(n))),
    "sorted steps": (
        weights,
        "bins",
        "sorted",
        {"bins": 8},
        lambda n: (np.arange(n, dtype="i4") * 7 % 103 - 1, numbers(n)),
    ),
    "sorted steps of many chunks, whose counts threads share": (
        weights,
        "bins",
        "sorted",
        {"bins": 8, "chunks": 100},
        lambda n: (np.arange(n, dtype="i4") * 7 % 103 - 1, numbers(n)),
    ),
    "sort of many chunks": (in_order, "order", "radix", {"chunks": 100}, lambda n: (numbers(n),)),
    "sort of many chunks by pivots": (in_order, "order", "quicksort", {"chunks": 100}, lambda n: (numbers(n),)),
    "sorted writes": (
        last_values,
        "put",
        "sorted",
        {"bins": 300},
        lambda n: (np.arange(n, dtype="i4") * 7 % 103, numbers(n)),
    ),
}


@pytest.fixture(autouse=True)
def default_threads():
    yield
    set_threads(None)


def compiled(name):
    algorithm, stage, strategy, choice, inputs = CASES[name]
    schedule = algorithm.schedule()
    schedule[stage].strategy(strategy, **choice)
    return algorithm, algorithm.compile(schedule=schedule), inputs


def bits(result):
    parts = result if isinstance(result, tuple) else (result,)
    return [(part.shape, part.tobytes()) for part in parts]


@pytest.mark.parametrize("name", CASES)
def test_threads_change_no_bit(name):
    algorithm, executable, inputs = compiled(name)
    for n in (0, 1, 511, 512, 513, 100_003):
        arguments = inputs(n)
        results = []
        for threads in (*THREADS, 8):
            set_threads(threads)
            results.append(executable(*arguments))
        assert all(bits(each) == bits(results[0]) for each in results)
        expected = algorithm.interpret(*arguments)
        for part, want in zip(*((r if isinstance(r, tuple) else (r,)) for r in (results[0], expected)), strict=True):
            np.testing.assert_allclose(part, want, rtol=1e-4)


@pytest.mark.parametrize(
    "name", ["chained scan", "chained filter", "partition", "private bins", "sorted writes", "segments in blocks"]
)
def test_exported_code_gives_the_same_bits(name, tmp_path):
    _, executable, inputs = compiled(name)
    library = load(executable.export(tmp_path / "lib.so"))
    for n in (0, 1, 513, 100_003):
        arguments = inputs(n)
        for threads in THREADS:
            set_threads(threads)
            assert bits(library(*arguments)) == bits(executable(*arguments))


def test_rounds_are_handed_out_as_threads_become_free():
    """Iterations of very different length: each runs once, whoever takes it."""

    @rd.algorithm
    def triangle(a: rd.i64["n"]):
        return rd.map(lambda k: rd.loop(k, lambda i, s: s + i * i, rd.i64(0)), a)

    schedule = triangle.schedule()
    schedule["map_1"].parallel("x", dynamic=True, grain=3)
    executable = triangle.compile(schedule=schedule)
    a = np.arange(2000)
    for threads in THREADS:
        set_threads(threads)
        np.testing.assert_array_equal(executable(a), [sum(i * i for i in range(k)) for k in a])


def test_sorted_steps_give_the_bits_of_steps_in_order():
    """Every element takes its steps in the order in which they stand: sums of floats are those of one thread, to the bit."""
    results = []
    for strategy in ("serial", "sorted"):
        schedule = weights.schedule()
        schedule["bins"].strategy(strategy)
        results.append(weights.compile(schedule=schedule)(np.arange(70_000, dtype="i4") * 7 % 100, numbers(70_000)))
    assert bits(results[0]) == bits(results[1])


def test_steps_are_sorted_where_bins_are_far_apart():
    """The version that the default takes where steps are many, but few for each bin."""
    size = 1_500_000

    @rd.algorithm
    def spread(d: rd.i32["m"], bins: rd.i32["n"]):
        return rd.reduce_by_index(d, rd.add, 0, bins, rd.replicate(bins.shape[0], rd.i32(1)))

    bins = np.random.default_rng(1).integers(-5, size + 5, 90_000).astype("i4")
    inside = bins[(bins >= 0) & (bins < size)]
    expected = np.bincount(inside, minlength=size)
    for threads in THREADS:
        set_threads(threads)
        np.testing.assert_array_equal(spread(np.zeros(size, "i4"), bins), expected)


def test_known_bins_beyond_the_caches_are_sorted():
    @rd.algorithm
    def spread(bins: rd.i32["n"]):
        return rd.bincount(bins, 1 << 26, name="count")

    assert 's["count"].root().strategy("sorted"' in str(spread.schedule().complete())


def test_long_segments_are_shared_by_threads_unless_asked_otherwise():
    assert 's["sums"].root().strategy("flat"' in str(segment_sums.schedule().complete())
    assert "flat" not in str(segment_sums.schedule().complete(sizes={"n": 1000, "k": 10}))
    rows = segment_sums.schedule()
    rows["sums"].strategy("rows")
    assert 'parallel("s"' in str(rows.complete())


def test_offsets_in_no_order_are_told_of_and_nothing_else_is_read():
    schedule = segment_sums.schedule()
    schedule["sums"].strategy("flat", block=64)
    executable = segment_sums.compile(schedule=schedule)
    chance = np.random.default_rng(5)
    for _ in range(50):
        with pytest.raises(rd.IndexOutOfRange):
            executable(numbers(900), np.append(chance.integers(-1000, 2000, 40), [5, 4]))


def test_the_loops_that_combine_private_bins_are_a_part():
    """They take loop directives, which print, travel as JSON, and show in the nest; the bits are those of the usual loops."""
    schedule = weights.schedule()
    assert schedule["bins"].strategies()["private"].parts == ("values", "combine")
    part = schedule["bins"].strategy("private", replicas=2).part("combine")
    part.split("x", 10).parallel("xo").vectorize("xi", lanes=4)
    assert part.axes == ("xo", "xi")
    assert 's["bins"].part("combine").split("x", 10).parallel("xo").vectorize("xi", 4)' in str(schedule)
    assert rd.Schedule.from_json(schedule.to_json(), weights) == schedule
    executable = weights.compile(schedule=schedule)
    assert "parallel xo in 0..100 step 10:" in executable.source("nest")
    _, usual, inputs = compiled("private bins")
    assert bits(executable(*inputs(100_003))) == bits(usual(*inputs(100_003)))
