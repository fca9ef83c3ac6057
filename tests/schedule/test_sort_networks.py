"""Sorting networks for many sorts of few elements: they sort, stably; and the sorts that become networks."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import raido as rd
from raido.algo.graph.expr import Sort
from raido.algo.interpreter.interpret import interpret
from raido.algo.passes.specialise import specialise
from raido.schedule.lower import lower
from raido.schedule.oracles.interpret import interpret_nest
from raido.schedule.schedule import Schedule
from raido.schedule.stages.form_stages import form_stages
from raido.schedule.stages.sort_networks import exchanges, ordered
from raido.schedule.stages.stage import Stage

FLOATS = [np.nan, -np.nan, np.inf, -np.inf, -0.0, 0.0, -0.0, 1.5, -2.0, 1e-40]
TYPES = {
    "?": "bool_",
    "i1": "i8",
    "u2": "u16",
    "i4": "i32",
    "u8": "u64",
    "i8": "i64",
    "f2": "f16",
    "f4": "f32",
    "f8": "f64",
}


def rows_of(code: str, shape: tuple[int, int]) -> np.ndarray:
    """Rows with ties and special values, and a few rows of different ones."""
    chance = np.random.default_rng(shape[1])
    if code[0] == "f":
        rows = chance.choice(FLOATS, shape).astype(code)
        rows[:4] = chance.standard_normal((4, shape[1]))
        return rows
    return chance.integers(0, 2 if code == "?" else 100, shape).astype(code)


def check(algorithm: rd.Algorithm, *inputs: np.ndarray) -> list[Stage]:
    """The stages of an algorithm, once its nest gives what the algorithm means, to the bit, the payload of NaNs aside."""
    program = algorithm.trace()
    graph = form_stages(program)
    found = interpret_nest(lower(graph, Schedule(graph).variants()), inputs)
    for got, wanted in zip(found, interpret(program, inputs), strict=True):
        assert got.dtype == wanted.dtype
        same = got == wanted
        if got.dtype.kind == "f":
            same = (same & (np.signbit(got) == np.signbit(wanted))) | (np.isnan(got) & np.isnan(wanted))
        assert same.all()
    return [stage for stage in graph.stages if isinstance(stage, Stage)]


@pytest.mark.parametrize("count", range(1, 11))
def test_networks_sort_whatever_they_are_given(count: int) -> None:
    for bits in product((0, 1), repeat=count):  # the zero-one principle: Knuth 3, 5.3.4, theorem Z
        assert ordered(list(bits), lambda a, b: (min(a, b), max(a, b))) == sorted(bits)


def test_networks_are_as_small_as_batchers() -> None:
    assert [sum(1 for _ in exchanges(n)) for n in (2, 3, 4, 5, 8, 16, 32, 64)] == [1, 3, 5, 9, 19, 63, 191, 543]


@pytest.mark.parametrize("code", TYPES)
def test_rows_in_order_and_their_places(code: str) -> None:
    algorithm = rd.algorithm(a=f"{TYPES[code]}[m, 5]")(lambda a: (rd.sort(a), rd.argsort(a)))
    stages = check(algorithm, rows_of(code, (20, 5)))
    assert not any(isinstance(stage.form, Sort) for stage in stages)


@pytest.mark.parametrize("keys", [("i1", "f4"), ("f8", "?"), ("f4", "f4")])
def test_tuples_are_sorted_by_all_their_keys(keys: tuple[str, str]) -> None:
    algorithm = rd.algorithm(a=f"{TYPES[keys[0]]}[m, 6]", b=f"{TYPES[keys[1]]}[m, 6]")(
        lambda a, b: (*rd.sort((a, b)), rd.argsort((a, b)))
    )
    check(algorithm, rows_of(keys[0], (20, 6)), rows_of(keys[1], (20, 6)))


def test_columns_and_what_is_computed_for_the_sort() -> None:
    check(rd.algorithm(a="f32[4, m]")(lambda a: rd.sort(a * a - 1, axis=0)), rows_of("f4", (4, 20)))
    check(
        rd.algorithm(a="f32[m, 4]")(lambda a: rd.sort(rd.map(lambda r: rd.exp(r) / rd.max(r * r), a))),
        rows_of("f4", (20, 4)),
    )


@pytest.mark.parametrize("n", [2, 5, 6, 40])
def test_a_median_of_stacked_slices_sorts_what_is_made_before(n: int) -> None:
    """The network's rows are those of the values: one axis, where choosing among five slices is made before the sort."""
    windows = lambda a: rd.stack([a[:-4], a[1:-3], a[2:-2], a[3:-1], a[4:]], axis=1)
    median = rd.algorithm(a="f32[n]")(lambda a: rd.sort(windows(a), axis=1)[:, 2])
    x = np.random.default_rng(n).random(n, "f4")
    wanted = np.sort(np.array([x[k : max(k, n - 4 + k)] for k in range(5)]), axis=0)[2]
    np.testing.assert_array_equal(median(x), wanted)


@pytest.mark.parametrize(
    "median",
    [
        lambda a: rd.tabulate(a.shape[0] - 4, lambda i: rd.sort(rd.tabulate(5, lambda k: a[i + k]))[2]),
        lambda a: rd.stencil(lambda p: rd.sort(rd.array([p[k] for k in range(9)]))[4], a, boundary="valid"),
        lambda a: rd.sort(rd.stack([a[k : a.shape[0] - 4 + k] for k in range(5)], axis=1), axis=1)[:, 2],
    ],
)
def test_a_median_of_windows_is_one_stage_that_keeps_nothing_and_has_lanes(median) -> None:
    algorithm = rd.algorithm(a="f32[n]")(median)
    assert len([stage for stage in check(algorithm, rows_of("f4", (8, 5)).ravel()) if not stage.outer]) == 1
    schedule = str(algorithm.schedule().complete())
    assert "vectorize" in schedule and "compute_at" not in schedule


@pytest.mark.parametrize(("count", "divides"), [(5, False), (6, True)])
def test_the_median_of_an_odd_number_of_elements_is_one_of_them(count: int, divides: bool) -> None:
    algorithm = rd.algorithm(a=f"f32[m, {count}]")(lambda a: rd.median(a, axis=1))
    check(algorithm, rows_of("f4", (20, count)))
    assert (" / 2.0" in algorithm.schedule().complete().nest_text()) is divides


@pytest.mark.parametrize(("code", "count"), [("f2", 9), ("f4", 32), ("f8", 33)])
def test_zeros_of_both_signs_stay_in_their_order(code: str, count: int) -> None:
    algorithm = rd.algorithm(a=f"{TYPES[code]}[m, {count}]")(lambda a: (rd.sort(a), rd.sort(a)[:, count // 2]))
    chance = np.random.default_rng(count)
    check(
        algorithm,
        np.where(
            chance.random((8, count)) < 0.2, chance.standard_normal((8, count)), chance.choice([-0.0, 0.0], (8, count))
        ).astype(code),
    )


def test_some_elements_of_the_order_and_all_of_it() -> None:
    algorithm = rd.algorithm(a="f32[m, 7]", k="i64[m]")(
        lambda a, k: (rd.sort(a)[:, :3], rd.map(lambda r, j: (rd.sort(r)[j], rd.argsort(r)[-1]), a, k))
    )
    check(algorithm, rows_of("f4", (20, 7)), np.random.default_rng(0).integers(0, 7, 20))


@pytest.mark.parametrize(
    ("shape", "sort"),
    [
        ("[m, n]", lambda a: rd.sort(a)),  # as many as there are
        ("[m, 65]", lambda a: rd.sort(a)),  # too many
        ("[m, 40]", lambda a: rd.sort((a, a * 2))),  # too many for lines of several keys
        ("[8]", lambda a: rd.sort(a)),  # nothing beside it
    ],
)
def test_other_sorts_stay(shape: str, sort) -> None:
    graph = form_stages(rd.algorithm(a="f32" + shape)(sort).trace())
    assert any(isinstance(stage, Stage) and isinstance(stage.form, Sort) for stage in graph.stages)


def test_a_schedule_of_sorts_of_any_size_holds_for_known_ones() -> None:
    algorithm = rd.algorithm(a="f32[m, n]")(lambda a: rd.sort(a, name="ordered"))
    program = specialise(algorithm.trace(), {"n": 4})
    assert not any(isinstance(stage.form, Sort) for stage in form_stages(program).stages if isinstance(stage, Stage))
    schedule = algorithm.schedule()
    schedule["ordered"].strategy("radix", bits=4)
    schedule["ordered"].when("n == 4").parallel("y")
    graph = form_stages(program, as_general=True)
    (stage,) = graph.stages
    assert isinstance(stage, Stage) and isinstance(stage.form, Sort)
    rows = rows_of("f4", (6, 4))
    (found,) = interpret_nest(lower(graph, Schedule(graph, schedule.explicit_directives).variants()), (rows,))
    np.testing.assert_array_equal(found, np.sort(rows, axis=1))


def test_loops_of_rare_elements_do_not_put_gangs_side_by_side() -> None:
    def interleaves(function) -> bool:
        return "interleave" in str(rd.algorithm(a="f32[n]")(lambda a: rd.map(function, a)).schedule().complete())

    def iterate(x):
        return rd.loop(20, lambda i, s: s * s + x, x)

    assert interleaves(iterate)
    assert not interleaves(lambda x: rd.cond(x < 0, lambda: iterate(x), lambda: x))


def test_loops_that_are_inlined_put_gangs_side_by_side_all_the_same() -> None:
    @rd.algorithm
    def as_of(times: rd.i64["n"], prices: rd.f64["n"], asked: rd.i64["m"]):
        last = rd.searchsorted(times, asked, side="right") - 1
        return rd.where(last >= 0, prices[rd.maximum(last, 0)], np.nan)

    schedule = str(as_of.schedule().complete())
    assert 's["elementwise_1"].inline()' in schedule
    assert "dynamic=True" in schedule and "interleave=4" in schedule
