"""Searches in sorted arrays, histograms and interpolation against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import raido as rd

DTYPES = (np.bool_, np.int8, np.uint32, np.int64, np.float16, np.float32, np.float64)


def values_of(dtype: Any, n: int, seed: int = 0) -> np.ndarray:
    """Few distinct values; floats have NaN, infinities and zeros of both signs."""
    random = np.random.default_rng(seed)
    if np.dtype(dtype).kind == "f":
        return random.choice(np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1.5, -2.0, 3.25, 7.0], dtype), n)
    return random.integers(0, 2 if dtype is np.bool_ else 9, n).astype(dtype)


def near(ours: Any, expected: Any) -> None:
    assert ours.dtype == expected.dtype
    assert ours.shape == expected.shape
    eps = np.finfo(expected.dtype).eps if expected.dtype.kind == "f" else 0
    np.testing.assert_allclose(ours, expected, rtol=8 * eps, atol=8 * eps)


@pytest.mark.parametrize("n", [0, 1, 2, 17, 100])
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_searchsorted(dtype: type, side: Any, n: int) -> None:
    a, v = np.sort(values_of(dtype, n)), values_of(dtype, 12, 1).reshape(3, 4)
    program = rd.algorithm(lambda a, v: (rd.searchsorted(a, v, side), rd.searchsorted(a, v[0, 0], side)))
    many, one = program.interpret(a, v)
    near(many, np.searchsorted(a, v, side))
    near(one, np.searchsorted(a, v[0, 0], side))


def test_searchsorted_of_other_types_and_orders() -> None:
    a, v = np.array([5, 1, 3], np.int8), np.array([0.5, 3, 3.5, 9])
    order = np.argsort(a)
    ours = rd.algorithm(lambda a, v, o: rd.searchsorted(a, v, "right", o)).interpret(a, v, order)
    near(ours, np.searchsorted(a, v, "right", order))
    with pytest.raises(rd.ShapeError, match="one dimension"):
        rd.algorithm(lambda a: rd.searchsorted(a, 1)).interpret(np.zeros((2, 2)))
    with pytest.raises(rd.TraceError, match="'left' or 'right'"):
        rd.algorithm(lambda a: rd.searchsorted(a, 1, "middle")).interpret(np.zeros(2))
    with pytest.raises(rd.DTypeError, match="complex"):
        rd.algorithm(lambda a: rd.searchsorted(a, 1)).interpret(np.zeros(2, complex))


@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("bins", [[], [1.0], [0.0, 1.5, 1.5, 3.0], [3.0, 1.5, 0.0, -2.0], [2, 4, 6]])
def test_digitize(bins: list[float], right: bool) -> None:
    x = np.array([[-3.0, 0.0, 1.5], [2.0, 3.0, np.inf]])
    edges = np.array(bins, np.float64)
    near(rd.algorithm(lambda x, b: rd.digitize(x, b, right)).interpret(x, edges), np.digitize(x, edges, right))


def test_digitize_by_literal_bins() -> None:
    x = np.array([1, 5, 3], np.int32)
    near(rd.algorithm(lambda x: rd.digitize(x, [2, 4])).interpret(x), np.digitize(x, [2, 4]))


@pytest.mark.parametrize("invert", [False, True])
@pytest.mark.parametrize("n", [0, 1, 30])
@pytest.mark.parametrize("dtype", DTYPES)
def test_isin(dtype: type, n: int, invert: bool) -> None:
    a, b = values_of(dtype, 12, 1).reshape(4, 3), values_of(dtype, n, 5)
    near(rd.algorithm(lambda a, b: rd.isin(a, b, invert=invert)).interpret(a, b), np.isin(a, b, invert=invert))


def test_isin_of_matrices_and_scalars() -> None:
    a, b = np.arange(6), np.array([[4, 0], [9, 1]], np.int8)
    near(rd.algorithm(lambda a, b: rd.isin(a, b)).interpret(a, b), np.isin(a, b))
    near(rd.algorithm(lambda a: rd.isin(a, 3)).interpret(a), np.isin(a, 3))
    near(rd.algorithm(lambda a: rd.isin(a, [1.0, 2.5])).interpret(a), np.isin(a, [1.0, 2.5]))


@pytest.mark.parametrize("ends", [{}, {"left": -1.0}, {"right": 9, "left": np.nan}])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
def test_interp(dtype: type, ends: dict[str, Any]) -> None:
    xp, fp = np.array([0, 1, 3, 3, 7], dtype), np.array([2, -1, 5, 6, 0], dtype)
    x = np.array([[-1, 0, 0.5, 1], [2, 3, 5, 7], [8, np.nan, np.inf, -np.inf]])
    with np.errstate(all="ignore"):
        near(
            rd.algorithm(lambda x, xp, fp: rd.interp(x, xp, fp, **ends)).interpret(x, xp, fp),
            np.interp(x, xp, fp, **ends),
        )


def test_interp_through_infinities_and_one_point() -> None:
    xp, fp = np.array([0.0, 1, 2, 3, np.inf]), np.array([np.inf, 1, np.inf, np.inf, 4])
    x = np.linspace(-1, 4, 21)
    with np.errstate(all="ignore"):
        near(rd.algorithm(lambda x, xp, fp: rd.interp(x, xp, fp)).interpret(x, xp, fp), np.interp(x, xp, fp))
    one = np.array([2.0])
    near(rd.algorithm(lambda x, xp, fp: rd.interp(x, xp, fp)).interpret(x, one, one), np.interp(x, one, one))


def test_interp_over_a_period() -> None:
    x, xp, fp = np.linspace(-400, 800, 60), np.array([190.0, -190, 350, -350]), np.array([5.0, 10, 3, 4])
    ours = rd.algorithm(lambda x, xp, fp: rd.interp(x, xp, fp, period=360)).interpret(x, xp, fp)
    near(ours, np.interp(x, xp, fp, period=360))


@pytest.mark.parametrize("density", [False, True])
@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.float32, np.float64])
def test_histogram(dtype: type, density: bool) -> None:
    a = (np.random.default_rng(0).standard_normal((20, 20)) * 20 + 60).astype(dtype)
    for options in ({}, {"bins": 7}, {"bins": 5, "range": (40, 80)}, {"bins": [0, 50, 55, 80]}):
        ours = rd.algorithm(lambda a, *, o=options: rd.histogram(a, density=density, **o)).interpret(a)
        expected = np.histogram(a, density=density, **options)
        np.testing.assert_allclose(ours[0], expected[0], rtol=1e-5 if dtype is np.float32 else 1e-12)
        np.testing.assert_allclose(ours[1], expected[1], rtol=1e-6)
        assert ours[0].dtype == expected[0].dtype


@pytest.mark.parametrize("weights", [np.float32, np.float64, np.int32])
def test_weighted_histograms(weights: type) -> None:
    a = np.random.default_rng(0).random(50)
    w = np.arange(50).astype(weights)
    ours = rd.algorithm(lambda a, w: rd.histogram(a, 5, (0, 1), weights=w)).interpret(a, w)
    expected = np.histogram(a, 5, (0, 1), weights=w)
    near(ours[0], expected[0])
    near(ours[1], expected[1])


def test_histograms_of_special_arrays() -> None:
    for a in (np.zeros(0), np.full(3, 2.0), np.array([5, 5], np.int64), np.array([True, False])):
        ours = rd.algorithm(lambda a: rd.histogram(a, 4)).interpret(a)
        for result, expected in zip(ours, np.histogram(a.astype(np.uint8) if a.dtype == bool else a, 4), strict=True):
            near(result, expected)
    with_nan = np.array([1.0, np.nan, 3.0, np.inf])
    ours = rd.algorithm(lambda a: rd.histogram(a, 2, (0, 4))).interpret(with_nan)
    assert ours[0].tolist() == [1, 1]


def test_numbers_of_bins_that_are_sizes_or_refused() -> None:
    a, like = np.array([0.0, 1.0, 2.5, 4.0]), np.zeros(3)
    ours = rd.algorithm(lambda a, b: rd.histogram(a, b.shape[0])).interpret(a, like)
    for result, expected in zip(ours, np.histogram(a, 3), strict=True):
        near(result, expected)
    with pytest.raises(rd.TraceError, match="bins 'auto'"):
        rd.algorithm(lambda a: rd.histogram(a, "auto")).interpret(a)
    with pytest.raises(rd.ShapeError, match="of 0 bins"):
        rd.algorithm(lambda a: rd.histogram(a, 0)).interpret(a)


def test_compiled_code_agrees() -> None:
    a, v = np.sort(values_of(np.float32, 50)[:40]), values_of(np.float32, 30, 1)

    def program(a: Any, v: Any) -> Any:
        counts, edges = rd.histogram(v, 6, (-4, 9))
        return (
            rd.searchsorted(a, v),
            rd.isin(v, a),
            rd.digitize(v, [5.0, 1.0]),
            counts,
            edges,
            rd.interp(v, [0, 2], [1, 9]),
        )

    algorithm = rd.algorithm(program)
    for ours, reference in zip(algorithm(a, v), algorithm.interpret(a, v), strict=True):
        np.testing.assert_array_equal(ours, reference)


@pytest.mark.parametrize("order", ["sorted", "falling", "random", "mostly sorted", "with NaN"])
@pytest.mark.parametrize("side", ["left", "right"])
def test_many_values_in_any_order(order: str, side: Any) -> None:
    """The first values of blocks say where the others are searched, wherever they are in order."""
    program = rd.algorithm(a="f64[n]", v="f64[m]")(lambda a, v: rd.searchsorted(a, v, side))
    compiled, random = program.compile(), np.random.default_rng(5)
    for n, m in ((0, 600), (1, 600), (500, 1), (500, 255), (500, 256), (500, 257), (40, 1300), (3000, 1000)):
        a, v = np.sort(random.integers(0, 300, n) / 2), random.integers(-9, 309, m) / 2
        if order != "random":
            v.sort()
        if order == "falling":
            v = v[::-1].copy()
        if order == "mostly sorted":
            v[:: 1 + m // 5] = 77
        if order == "with NaN":
            v[:: 1 + m // 3], a[n - n // 10 :] = np.nan, np.nan
        expected = np.searchsorted(a, v, side)
        np.testing.assert_array_equal(compiled(a, v), expected)
        np.testing.assert_array_equal(program.interpret(a, v), expected)


def test_values_in_order_are_searched_between_the_first_ones_of_blocks() -> None:
    searched = rd.algorithm(a="f32[n]", v="f32[m]")(lambda a, v: rd.searchsorted(a, v))
    source = searched.compile().source("nest")
    assert "tabulate_1[row + 1]" in source and "check" not in source.split("produce tabulate_1")[1]
    few = rd.algorithm(a="f32[n]", v="f32[300]")(lambda a, v: rd.searchsorted(a, v))
    assert few.schedule().stages == ("elementwise_1",)


@pytest.mark.parametrize("side", ("left", "right"))
@pytest.mark.parametrize("dtype", ("f64", "i32", "u8"))
def test_queries_are_none_or_around_the_ends_of_blocks(dtype: str, side: str) -> None:
    """Numbers of queries of which none or the last one only begins a block; sorted, reversed and shuffled ones; tables of none and of a few."""
    found = rd.algorithm(lambda a, v: rd.searchsorted(a, v, side=side), a=f"{dtype}[n]", v=f"{dtype}[m]").compile()
    rng = np.random.default_rng(3)
    numbers = lambda count: rng.integers(0, 100, count).astype(getattr(rd, dtype).numpy)
    for n, m in ((0, 0), (9, 0), (0, 9), (7, 600), (9, 256), (40, 257), (3000, 513)):
        a = np.sort(numbers(n))
        queries = numbers(m)
        for v in (queries, np.sort(queries), np.sort(queries)[::-1].copy()):
            np.testing.assert_array_equal(found(a, v), np.searchsorted(a, v, side=side))


def test_a_table_of_one_point_gives_its_value_to_nan_too() -> None:
    line = rd.algorithm(lambda x, a, b: rd.interp(x, a, b), x="f64[m]", a="f64[n]", b="f64[n]").compile()
    for n in (1, 2):
        x, a, b = np.array([np.nan, np.inf, -np.inf, 0.5]), np.arange(n) + 0.0, np.arange(n) + 5.0
        np.testing.assert_array_equal(line(x, a, b), np.interp(x, a, b))
