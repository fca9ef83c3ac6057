"""Branches of the program whose tests fix sizes: `s.when("h == 4 and w == 8")` is lowered for those sizes, and decided by known ones."""

from __future__ import annotations

import numpy as np
import pytest

import raido as rd
from raido.algo.graph.dtypes import i64
from raido.algo.graph.expr import SizeVar, const
from raido.schedule.lower import lower
from raido.schedule.nest.printer import print_nest
from raido.schedule.oracles.checker import check_nest
from raido.schedule.oracles.interpret import interpret_nest
from raido.schedule.text.sizes import decided, fixed_sizes, parse_test


@rd.algorithm
def smooth(a: rd.f32["h", "w"], n: rd.size) -> rd.f32["h", "w"]:
    """Three sums of neighbours in a row."""
    padded = rd.pad(a, 1, mode="edge")
    sums = rd.map(lambda row: row[:-2] + row[1:-1] + row[2:], padded[1:-1], name="sums")
    return rd.loop(n, lambda t, b: b * 0.5 + sums, a)


@rd.algorithm
def large(a: rd.f32["n"]):
    """The elements above 1, and their sum."""
    kept = rd.filter(lambda x: x > 1, a, name="kept")
    return kept, rd.sum(kept)


def nest_of(schedule):
    complete = schedule.complete("llvm:haswell")
    return check_nest(lower(complete.graph, complete.variants()), "scalar")


@pytest.mark.parametrize("shape", [(5, 7), (4, 8), (4, 9)])
def test_both_sides_compute_the_same(shape):
    schedule = smooth.schedule()
    schedule.when("h == 4 and w == 8")
    nest = nest_of(schedule)
    a = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    (found,) = interpret_nest(nest, [a], {"n": 3})
    np.testing.assert_array_equal(found, smooth(a, 3))
    np.testing.assert_array_equal(smooth.compile(schedule=schedule)(a, 3), smooth(a, 3))


def test_loops_of_the_branch_have_its_sizes():
    schedule = smooth.schedule()
    schedule.when("w == 8 and h == 4 and n > 1")
    special, general = print_nest(nest_of(schedule)).split("  else:\n")
    assert "..h" not in special and "..w" not in special and "f32[4, 8]" in special
    assert "..h" in general and "f32[4, 8]" not in general


@pytest.mark.parametrize("n", [6, 9])
def test_sizes_that_data_decide_stay_open(n):
    schedule = large.schedule()
    schedule.when("n == 6")["kept"].strategy("chain", block=4)
    a = np.linspace(0, 3, n, dtype=np.float32)
    kept, total = large.compile(schedule=schedule)(a)
    np.testing.assert_array_equal(kept, a[a > 1])
    np.testing.assert_allclose(total, a[a > 1].sum(), rtol=1e-6)


@pytest.mark.parametrize(("sizes", "taken"), [({"h": 4, "w": 8}, True), ({"h": 4, "w": 9}, False), ({"h": 4}, None)])
def test_known_sizes_decide_branches(sizes, taken):
    schedule = smooth.schedule()
    schedule.when("h == 4 and w == 8")["sums"].unroll("x", 2)
    exe = smooth.compile(schedule=schedule, sizes=sizes)
    said = exe.source("schedule")
    assert ('.unroll("x"' in said) is (taken is not False)
    assert (".when(" in said) is (taken is None)
    shape = (sizes["h"], sizes.get("w", 8))
    a = np.ones(shape, np.float32)
    np.testing.assert_array_equal(exe(a, 2), smooth(a, 2))


def test_stage_branches_and_parameters_mention_known_sizes():
    @rd.algorithm
    def bins(i: rd.i64["n"]) -> rd.i64[16]:
        return rd.bincount(i, length=16, name="counts")

    schedule = bins.schedule()
    schedule["counts"].when("n > 7").strategy("private", chunks="min(4, n // 2)")
    i = np.arange(9) % 16
    np.testing.assert_array_equal(bins.compile(schedule=schedule, sizes={"n": 9})(i), np.bincount(i, minlength=16))


def test_a_complete_schedule_with_such_a_branch_survives_json():
    schedule = smooth.schedule()
    schedule.when("h == 4 and w == 8")
    complete = schedule.complete("llvm:haswell")
    again = rd.Schedule.from_json(complete.to_json(), smooth)
    assert again == complete and again.complete("llvm:haswell") == complete


@pytest.mark.parametrize(
    ("text", "fixed"),
    [("n == 3", {"n": 3}), ("3 == n and m < 4", {"n": 3}), ("n == m", {}), ("n == 3 or m == 4", {}), ("n == -1", {})],
)
def test_fixed_sizes(text, fixed):
    sizes = {name: SizeVar(name) for name in "nm"}
    assert fixed_sizes(parse_test(text, sizes)) == fixed


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("n == 3", True),
        ("n > 3", False),
        ("n == 3 and m > 1", None),
        ("n != 3 and m > 1", False),
        ("n == 3 or m > 1", True),
        ("not n == 3", False),
        ("not m > 1", None),
    ],
)
def test_decided(text, value):
    names = {"n": const(i64, 3), "m": SizeVar("m")}
    assert decided(parse_test(text, names)) is value
