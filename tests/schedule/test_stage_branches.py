"""Branches of stages: `s["sums"].when("x > 4")`."""

from __future__ import annotations

import numpy as np
import pytest

import raido as rd
from raido.schedule.lower import lower
from raido.schedule.machine import Machine
from raido.schedule.nest.printer import print_nest
from raido.schedule.oracles.interpret import interpret_nest
from raido.schedule.schedule import Schedule


@rd.algorithm
def into_bins(values: rd.i64["n"], bins: rd.i64["n"], start: rd.i64["m"]):
    return rd.reduce_by_index(start, rd.add, 0, bins, values, name="sums")


@rd.algorithm
def smoothed(a: rd.f64["h", "w"]):
    rows = rd.stencil(lambda w: w[0, -1] + w[0, 0] + w[0, 1], a, boundary="clamp", name="rows")
    sums = rd.scan(rd.add, 0.0, rd.sum(rows, axis=1), name="sums")
    return rows, sums


@rd.algorithm
def totals(a: rd.f64["h", "w"]):
    rows = rd.stencil(lambda w: w[0, -1] + w[0, 0] + w[0, 1], a, boundary="clamp", name="rows")
    return rd.map(lambda row: rd.max(row) - rd.min(row), rows, name="sums")


@rd.algorithm
def of_what_is_kept(a: rd.i64["n"]):
    return rd.scan(rd.add, 0, rd.filter(lambda v: v > 0, a), name="sums")


def nest_of(schedule):
    complete = schedule.complete(Machine())
    return lower(complete.graph, complete.variants())


def branching():
    schedule = into_bins.schedule()
    schedule["sums"].when("x > 6").strategy("serial")
    schedule["sums"].when("x > 4 and r < 20").strategy("sorted", bins=2, chunks=2)
    schedule["sums"].strategy("private", chunks=2)
    return schedule


def test_the_first_branch_whose_test_holds_runs():
    nest = nest_of(branching())
    text = print_nest(nest)
    assert text.index("m > 6") < text.index("m > 4") < text.index("ranges") < text.index("bins_2")
    for n, m in ((9, 5), (30, 5), (9, 3), (30, 9), (0, 0), (3, 0)):
        draw = np.random.default_rng(n * 31 + m)
        values, start = draw.integers(-9, 9, n), draw.integers(-9, 9, m)
        bins = draw.integers(-1, m + 1, n)
        inside = (bins >= 0) & (bins < m)
        expected = start.copy()
        np.add.at(expected, bins[inside], values[inside])
        assert (interpret_nest(nest, [values, bins, start])[0] == expected).all()


def test_branches_have_loops_of_their_own():
    schedule = smoothed.schedule()
    narrow = schedule["rows"].when("w < 8 and h % 2 == 0").unroll("y", 2)
    schedule["rows"].vectorize("x").parallel("y")
    schedule["sums"].when("x < 100").strategy("serial").vectorize("x")
    schedule["sums"].strategy("chain", block=4)
    assert narrow.axes == ("yo", "x", "yi") and schedule["rows"].axes == ("y", "x")
    nest = nest_of(schedule)
    for shape in ((4, 5), (6, 9), (3, 4), (120, 3)):
        a = np.arange(float(np.prod(shape))).reshape(shape)
        rows, sums = interpret_nest(nest, [a])
        padded = np.pad(a, ((0, 0), (1, 1)), mode="edge")
        assert (rows == padded[:, :-2] + padded[:, 1:-1] + padded[:, 2:]).all()
        assert (sums == np.cumsum(rows.sum(axis=1))).all()


def test_tests_may_be_on_sizes_that_data_decides():
    schedule = of_what_is_kept.schedule()
    schedule["sums"].when("x > 2").strategy("three_phase", block=2)
    schedule["sums"].strategy("serial")
    for n in (0, 2, 9):
        a = np.arange(n) % 3 - 1
        found = interpret_nest(nest_of(schedule), [a])[0]
        assert (found[: (a > 0).sum()] == np.cumsum(a[a > 0])).all()


def test_branches_travel_as_python_and_as_json_and_are_completed_once():
    schedule = branching()
    schedule["sums"].part("combine").vectorize("x")
    assert Schedule.from_json(schedule.to_json(), schedule) == schedule
    names = {"into_bins": into_bins}
    exec(str(schedule), names)
    assert names["s"] == schedule
    complete = schedule.complete(Machine())
    assert complete.complete(Machine()) == complete
    exec(str(complete), names)
    assert names["s"] == complete
    with_program = into_bins.schedule()
    branch = with_program.when("n > 100")
    branch["sums"].when("x > 4").strategy("serial")
    branch["sums"].strategy("sorted")
    exec(str(with_program), names)
    assert names["s"] == with_program and len(with_program.variants()) == 2
    assert [each.text for each in with_program.variants()[0].plans[-1].instead] == ["x > 4"]


def test_unknown_sizes_choose_in_the_default_schedule():
    default = str(into_bins.schedule().complete(Machine()))
    assert 'when("x > 262144 and 65536 <= r < 16 * x")' in default
    assert 'strategy("sorted", bins=65536, chunks="min(64, r // 16384)")' in default
    known = str(into_bins.schedule().complete(Machine(), sizes={"m": 100}))
    assert "when" not in known and "replicas=4" in known


def test_holes_may_stand_in_branches():
    schedule = into_bins.schedule()
    schedule["sums"].when("x > 4").strategy("sorted", bins=rd.choose("bins", [2, 8]))
    filled = schedule.with_(bins=8)
    assert ("bins", 8) in filled.variants()[0].plans[-1].instead[0].plan.strategy[1]


@rd.algorithm
def product(a: rd.f64["n", "k"], b: rd.f64["k", "m"]):
    return rd.matmul(a, b).named("c")


def test_copies_stand_in_the_branches_that_have_their_loop():
    """Other branches read the array where it is; checks on indices are made everywhere."""
    schedule = product.schedule()
    schedule["c"].when("r > 8").split("r", 2, names=("ro", "ri")).reorder("ro", "y", "x", "ri").unroll("ri")
    schedule["c"].when("r > 4").parallel("y")
    schedule["c"].split("r", 3).reorder("y", "ro", "x", "ri").cache("b", "c", "ro")
    text = print_nest(nest_of(schedule))
    first, second, general = text.split("else:", 2)
    assert "b_copy" in first and "b_copy" not in second and "b_copy" in general
    assert Schedule.from_json(schedule.to_json(), schedule) == schedule
    for n, k, m in ((3, 10, 4), (3, 6, 4), (3, 4, 5), (2, 0, 3), (0, 9, 1)):
        a, b = np.arange(float(n * k)).reshape(n, k), np.arange(float(k * m)).reshape(k, m)
        assert (interpret_nest(nest_of(schedule), [a, b])[0] == a @ b).all()


def test_copies_in_panels_stand_in_the_branches_that_have_the_panels():
    """A branch with a loop of the same name, over other blocks, reads the array where it is."""
    schedule = product.schedule()
    schedule["c"].when("y < 3").split("x", 3).reorder("xo", "y", "r", "xi")
    schedule["c"].when("y < 5").split("x", 8).split("xi", 4).reorder("xo", "y", "xio", "r", "xii").parallel("y")
    schedule["c"].split("x", 8).split("xi", 4).reorder("xo", "y", "xio", "r", "xii")
    schedule["c"].cache("b", "c", "xo", layout=("xo", "xio", "r", "xii"))
    first, second, general = print_nest(nest_of(schedule)).split("else:", 2)
    assert "b_copy" not in first and "b_copy" in second and "b_copy" in general
    for n, k, m in ((2, 3, 10), (4, 3, 10), (7, 4, 13), (7, 0, 3), (5, 2, 0)):
        a, b = np.arange(float(n * k)).reshape(n, k), np.arange(float(k * m)).reshape(k, m)
        assert (interpret_nest(nest_of(schedule), [a, b])[0] == a @ b).all()


@rd.algorithm
def twice_the_rows(a: rd.f64["n", "k"], rows: rd.i64["m"]):
    return rd.tabulate((rows.shape[0], a.shape[1]), lambda i, j: 2 * a[rows[i], j]).named("c")


def test_what_branches_read_instead_of_copies_is_checked():
    schedule = twice_the_rows.schedule()
    schedule["c"].when("n > 3").parallel("i")
    schedule["c"].cache("rows", "c", "i").cache("a", "c", None)
    for n in (3, 5):
        a = np.ones((n, 2))
        assert (interpret_nest(nest_of(schedule), [a, np.array([0, n - 1])])[0] == 2).all()
        with pytest.raises(rd.IndexOutOfRange):
            interpret_nest(nest_of(schedule), [a, np.array([0, n])])


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (lambda s: s["rows"].when("k > 4"), 'there is no size "k"'),
        (lambda s: s["rows"].when("w"), "`w` is not a test"),
        (lambda s: s["rows"].when("w > 4").when("w > 5"), "a branch has no branches of its own"),
        (lambda s: (s["rows"].when("w > 4"), s["rows"].when("w > 4")), "that test has a branch already"),
        (lambda s: s["rows"].when("w > 4").inline(), "a branch of one stage cannot contain inline"),
        (lambda s: s["rows"].when("w > 4").store(pad=3), "a branch of one stage cannot contain store"),
        (lambda s: s["rows"].when("w > 4").vectorize("z"), 'has no axis "z"'),
        (
            lambda s: (s["rows"].when("w > 4"), s["rows"].compute_at("sums", "x")),
            "so its loops differ from branch to branch",
        ),
        (lambda s: (s["sums"].when("x > 4"), s["rows"].compute_at("sums", "x")), '"sums" has branches'),
        (lambda s: (s["rows"].compute_at("sums", "x"), s["sums"].when("x > 4")), '"sums" has branches'),
    ],
)
def test_refusals(said, why):
    schedule = totals.schedule()
    with pytest.raises(rd.ScheduleError) as error:
        said(schedule)
    assert why in str(error.value)
    schedule.complete(Machine())


def test_a_refused_step_leaves_branch_and_schedule_as_they_were():
    schedule = smoothed.schedule()
    branch = schedule["rows"].when("w > 4").vectorize("x")
    before = schedule.to_json()
    with pytest.raises(rd.ScheduleError):
        branch.split("x", 4)
    assert schedule.to_json() == before and branch.axes == ("y", "x")
