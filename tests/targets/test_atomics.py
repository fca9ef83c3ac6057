"""Atomic updates in compiled and in exported code: one instruction where there is one, and no update is lost on any number of threads."""

from __future__ import annotations

import re

import numpy as np
import pytest
from processors import needs

import raido as rd
from raido.targets.export import load
from raido.targets.native import set_threads

CPUS = ("x86-64-v2", "x86-64-v3", "x86-64-v4")
TYPES = {"i1": rd.i8, "i2": rd.i16, "i4": rd.i32, "i8": rd.i64, "u1": rd.u8, "u2": rd.u16, "u4": rd.u32, "u8": rd.u64}


@pytest.fixture(autouse=True)
def default_threads():
    yield
    set_threads(None)


def atomic(algorithm, *stages, **numbers):
    """The schedule in which threads take the steps of these stages."""
    s = algorithm.schedule()
    for stage in stages:
        s[stage].strategy("atomic", **numbers).parallel("r")
    return s


@rd.algorithm
def counts(bins: rd.i32["n"]):
    return rd.bincount(bins, 50, name="count")


def operators(dtype):
    """Every operator of integers, those that are instructions and those that are tried again, on a few bins."""

    @rd.algorithm(bins="i32[n]", v=f"{dtype.name}[n]")
    def folded(bins, v):
        fold = lambda op, start, name: rd.reduce_by_index(rd.full(7, dtype(start)), op, start, bins, v, name=name)
        low = fold(rd.minimum, 100, "low")
        high = fold(rd.maximum, 0, "high")
        either = fold(rd.bitwise_or, 0, "either")
        odd = fold(rd.bitwise_xor, 0, "odd")
        total = fold(lambda a, b: a + b, 0, "total")
        product = fold(rd.multiply, 1, "product")
        return low, high, either, odd, total, product

    return folded, ("low", "high", "either", "odd", "total", "product")


@rd.algorithm
def seen(bins: rd.i32["n"], v: rd.bool_["n"]):
    return rd.reduce_by_index(rd.full(9, False), rd.logical_or, False, bins, v, name="any")


@rd.algorithm
def extremes(bins: rd.i32["n"], v: rd.f64["n"]):
    low = rd.reduce_by_index(rd.full(9, rd.f64(np.inf)), rd.minimum, np.inf, bins, v, name="low")
    return low, rd.reduce_by_index(rd.full(9, rd.f64(-np.inf)), rd.maximum, -np.inf, bins, v, name="high")


@rd.algorithm
def pairs(bins: rd.i32["n"], v: rd.f32["n"]):
    start = (rd.full(9, rd.f32(0)), rd.full(9, rd.i64(0)))
    add = lambda p, q: (p[0] + q[0], p[1] + q[1])
    return rd.reduce_by_index(start, add, (0, 0), bins, v, rd.replicate(bins.shape[0], rd.i64(1)), name="bins")


def bins_of(n, most):
    return np.random.default_rng(n).integers(-1, most + 1, n).astype("i4")


def same_on_threads(executable, arguments, expected):
    for threads in (1, 2, 8):
        set_threads(threads)
        got = executable(*arguments)
        got = got if isinstance(got, tuple) else (got,)
        for part, want in zip(got, expected, strict=True):
            np.testing.assert_array_equal(part, want)


@pytest.mark.parametrize("cpu", [needs(cpu) for cpu in CPUS])
def test_a_count_is_one_instruction(cpu):
    schedule = atomic(counts, "count")
    executable = counts.compile(target=f"llvm:{cpu}", schedule=schedule)
    assembly = executable.source("asm")
    assert re.search(r"lock\s+(inc|add)q", assembly) and "cmpxchg" not in assembly
    bins = bins_of(100_003, 50)
    same_on_threads(executable, (bins,), (counts.interpret(bins),))


@pytest.mark.parametrize("name", TYPES)
def test_integers(name):
    algorithm, stages = operators(TYPES[name])
    executable = algorithm.compile(schedule=atomic(algorithm, *stages))
    arguments = bins_of(20_011, 7), np.random.default_rng(1).integers(0, 100, 20_011).astype(name)
    same_on_threads(executable, arguments, algorithm.interpret(*arguments))


def test_booleans():
    executable = seen.compile(schedule=atomic(seen, "any"))
    arguments = bins_of(5000, 9), np.arange(5000) % 977 == 3
    same_on_threads(executable, arguments, (seen.interpret(*arguments),))


def test_the_sign_of_zero_does_not_depend_on_the_order():
    """Zeros of both signs meet in every element; NaN stays."""
    executable = extremes.compile(schedule=atomic(extremes, "low", "high"))
    bins = bins_of(30_000, 9)
    v = np.random.default_rng(2).choice([0.0, -0.0], len(bins))
    v[np.flatnonzero(bins == 4)[10]] = np.nan
    for threads in (1, 2, 8):
        set_threads(threads)
        low, high = executable(bins, v)
        assert np.isnan(low[4]) and np.isnan(high[4])
        rest = np.arange(9) != 4
        assert (low[rest] == 0).all() and np.signbit(low[rest]).all()
        assert (high[rest] == 0).all() and not np.signbit(high[rest]).any()


def test_sums_of_floats_where_they_are_permitted():
    """Values that do not depend on one another are steps of their own."""
    executable = pairs.compile(schedule=atomic(pairs, "bins", reproducible=False))
    bins = bins_of(100_000, 9)
    v = np.random.default_rng(3).random(len(bins), dtype="f4")
    totals, numbers = pairs.interpret(bins, v)
    for threads in (1, 2, 8):
        set_threads(threads)
        got, counted = executable(bins, v)
        np.testing.assert_allclose(got, totals, rtol=1e-4)
        np.testing.assert_array_equal(counted, numbers)


def test_exported_code(tmp_path):
    schedule = atomic(counts, "count")
    library = load(counts.compile(schedule=schedule).export(tmp_path / "lib.so"))
    for n in (0, 1, 50_000):
        bins = bins_of(n, 50)
        same_on_threads(library, (bins,), (counts.interpret(bins),))


def test_lanes_take_their_steps_one_by_one():
    schedule = counts.schedule()
    schedule["count"].strategy("atomic").split("r", 64).parallel("ro").vectorize("ri")
    executable = counts.compile(schedule=schedule)
    bins = bins_of(10_007, 50)
    same_on_threads(executable, (bins,), (counts.interpret(bins),))
