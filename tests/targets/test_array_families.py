"""Random programs of families whose default loops differ by shape, against NumPy: narrow products, arg folds, sums of columns."""

from __future__ import annotations

import numpy as np
import pytest
from processors import needs

import raido as rd

TYPES = ("u8", "i32", "f32", "f64")


def numbers(rng: np.random.Generator, dtype: str, *shape: int, most: int = 4) -> np.ndarray:
    """Small integers, so that sums are exact in any order."""
    return rng.integers(0, most, shape).astype(getattr(rd, dtype).numpy)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("width", (1, 2, 5, 8, 10, 13, 16, 17, 26, 40))
def test_products_with_results_as_narrow_as_a_register_or_less(dtype, width):
    rng = np.random.default_rng(width)
    product = rd.algorithm(lambda a, b: a @ b, a=f"{dtype}[n, k]", b=f"{dtype}[k, {width}]")
    for n, k in ((1, 3), (12, 20), (37, 21), (0, 5), (5, 0), (50, 100)):
        a, b = numbers(rng, dtype, n, k), numbers(rng, dtype, k, width)
        np.testing.assert_array_equal(product(a, b), a @ b)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("sizes", ((1, 1), (8, 8), (9, 13), (30, 33), (70, 5)))
def test_products_along_a_long_axis(dtype, sizes):
    """Chunks of the reduction are tasks: several tiles in each, and a last chunk that is short."""
    rng = np.random.default_rng(sizes[0])
    product = rd.algorithm(lambda a, b: a.T @ b, a=f"{dtype}[n, {sizes[0]}]", b=f"{dtype}[n, {sizes[1]}]")
    for n in (0, 1, 63, 1000, 5003):
        a, b = (numbers(rng, dtype, n, size) for size in sizes)
        np.testing.assert_array_equal(product(a, b), a.T @ b)


@pytest.mark.parametrize("dtype", TYPES)
def test_products_of_rows(dtype):
    rng = np.random.default_rng(2)
    product = rd.algorithm(lambda a, b: a @ b.T, a=f"{dtype}[n, k]", b=f"{dtype}[m, k]")
    stacked = rd.algorithm(lambda a, b: a @ rd.transpose(b, (0, 2, 1)), a=f"{dtype}[d, n, k]", b=f"{dtype}[d, m, k]")
    for n, m, k in ((1, 1, 1), (12, 32, 64), (50, 37, 17), (3, 100, 5), (0, 3, 4), (3, 0, 4), (3, 4, 0)):
        a, b = numbers(rng, dtype, n, k), numbers(rng, dtype, m, k)
        np.testing.assert_array_equal(product(a, b), a @ b.T)
        a, b = numbers(rng, dtype, 3, n, k), numbers(rng, dtype, 3, m, k)
        np.testing.assert_array_equal(stacked(a, b), a @ b.transpose(0, 2, 1))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("side", (2, 3, 4, 5, 7))
def test_products_of_many_small_matrices(dtype, side):
    rng = np.random.default_rng(side)
    many = f"{dtype}[n, {side}, {side}]"
    product = rd.algorithm(lambda a, b: a @ b, a=many, b=many)
    for n in (0, 1, 3, 300):
        a, b = numbers(rng, dtype, n, side, side), numbers(rng, dtype, n, side, side)
        np.testing.assert_array_equal(product(a, b), a @ b)


@pytest.mark.parametrize("dtype", TYPES)
def test_sums_down_columns_of_every_width(dtype):
    """Rows of a group of lanes, rows that the first-level cache holds, and longer ones have loops of their own."""
    rng = np.random.default_rng(3)
    sums = rd.algorithm(lambda a: rd.sum(a, axis=0), a=f"{dtype}[n, m]")
    middle = rd.algorithm(lambda a: rd.sum(a, axis=1), a=f"{dtype}[d, n, m]")
    weighted = rd.algorithm(lambda v, a: v @ a, v=f"{dtype}[n]", a=f"{dtype}[n, m]")
    for n, m in ((1, 1), (20, 5), (600, 20), (33, 33), (300, 70), (17, 513), (9, 2050), (40, 9001), (0, 50), (50, 0)):
        a, v = numbers(rng, dtype, n, m, most=3), numbers(rng, dtype, n, most=3)
        np.testing.assert_array_equal(sums(a), a.sum(axis=0))
        np.testing.assert_array_equal(weighted(v, a), v @ a)
        a = numbers(rng, dtype, 3, n, m)
        np.testing.assert_array_equal(middle(a), a.sum(axis=1))


@pytest.mark.parametrize("dtype", ("i8", "u8", "i32", "u64", "f16", "f32", "f64"))
@pytest.mark.parametrize("which", ("argmax", "argmin"))
def test_first_extremes(dtype, which):
    """Of equal elements, of NaN, of zeros of both signs, and of arrays of neutral elements alone the first counts, whatever the block."""
    rng, of_numpy = np.random.default_rng(4), getattr(np, which)
    line = rd.algorithm(lambda a: getattr(rd, which)(a), a=f"{dtype}[n]")
    rows = rd.algorithm(lambda a: (getattr(rd, which)(a, axis=1), getattr(rd, which)(a)), a=f"{dtype}[n, m]")
    columns = rd.algorithm(lambda a: getattr(rd, which)(a, axis=0), a=f"{dtype}[n, m]")
    own = np.dtype(getattr(rd, dtype).numpy)
    ends = np.array([-np.inf, np.inf]) if own.kind == "f" else np.array([np.iinfo(own).min, np.iinfo(own).max])
    for shape in ((1,), (64,), (700,), (4095,), (4097,), (9000,), (70001,), (1, 1), (40, 65), (7, 9001), (300, 3)):
        size = int(np.prod(shape))
        few, rising = rng.integers(0, 3, size), np.arange(size) % 120
        for data in (
            np.zeros(size),
            few,
            rising,
            rising[::-1],
            np.full(size, ends[int(which == "argmin")], ends.dtype),
        ):
            data = data.astype(own)
            if own.kind == "f" and rng.random() < 0.6:
                data[rng.integers(0, size, 3)] = rng.choice([np.nan, -0.0])
            data = data.reshape(shape)
            if data.ndim == 1:
                assert line(data) == of_numpy(data)
                continue
            along, whole = rows(data)
            np.testing.assert_array_equal(along, of_numpy(data, axis=1))
            np.testing.assert_array_equal(columns(data), of_numpy(data, axis=0))
            assert whole == of_numpy(data)


@pytest.mark.parametrize("dtype", ("u8", "i16"))
def test_sums_of_narrow_integers_never_overflow(dtype):
    """Along lanes, down columns and through planes, of the least and of the greatest elements, in more iterations than narrow sums take."""
    own = np.dtype(getattr(rd, dtype).numpy)
    wide = rd.algorithm(lambda a: (rd.sum(a), rd.mean(a), rd.sum(a > 0), rd.sum(a - 1)), a=f"{dtype}[n]")
    axes = rd.algorithm(lambda a: tuple(f(a, axis=k) for f in (rd.sum, rd.mean) for k in (0, 1)), a=f"{dtype}[n, m]")
    floats = rd.algorithm(lambda a: rd.sum(a.astype("f32"), axis=0), a=f"{dtype}[n, m]")
    planes = rd.algorithm(lambda a: rd.sum(a, axis=0, dtype="i32"), a=f"{dtype}[k, n, m]")
    for end in (np.iinfo(own).min, np.iinfo(own).max):
        for n in (0, 1, 70, 70_001, 131_073):
            a = np.full(n, end, own)
            found = wide(a)
            assert found[0] == a.sum() and found[2] == (a > 0).sum() and found[3] == (a - own.type(1)).sum()
            assert n == 0 or found[1] == end
        for shape in ((1, 1), (300, 70), (9, 70_001), (66_000, 3)):
            a = np.full(shape, end, own)
            for found, want in zip(axes(a), (a.sum(0), a.sum(1), a.mean(0), a.mean(1)), strict=True):
                np.testing.assert_array_equal(found, want)
        a = np.full((257, 70), end, own)
        np.testing.assert_array_equal(floats(a), a.astype("f4").sum(0))
        a = np.full((600, 3, 70), end, own)
        np.testing.assert_array_equal(planes(a), a.sum(0, dtype="i4"))


@pytest.mark.parametrize("cpu", [needs("x86-64-v4")])
def test_sums_of_bytes_have_lanes_of_16_bits_down_columns(cpu):
    mean = rd.algorithm(lambda a: rd.mean(a, axis=0), a="u8[n, m]")
    assert "few_0: u16x32 register" in mean.compile(rd.Target("llvm", cpu=cpu)).source("gang")


@pytest.mark.parametrize("cpu", [needs("znver4")])
def test_extremes_are_found_by_lanes_as_narrow_as_elements(cpu):
    place = rd.algorithm(lambda a: rd.argmax(a), a="u8[n]")
    text = place.compile(rd.Target("llvm", cpu=cpu)).source("gang")
    assert "best_lanes0: u8x64 register" in text and "i64x8" not in text


def test_bins_of_one_width_hold_what_their_edges_say():
    rng = np.random.default_rng(5)
    for dtype, bins, limits in (
        ("f32", 10, None), ("f32", 50, (0.0, 1.0)), ("f64", 7, (-2.0, 3.0)), ("f64", 1000, None), ("f32", 100_000, None),
        ("u8", 255, (0, 255)), ("i32", 1, None), ("f64", 33, (0.5, 0.5)), ("f32", 9, (1.0, 1.0000005)),
    ):  # fmt: skip
        count = rd.algorithm(lambda x: rd.histogram(x, bins, limits), x=f"{dtype}[n]")  # noqa: B023
        for scale in (1e-6, 0.5, 30.0):
            x = (rng.normal(size=2000) * scale + (scale < 1)).astype(getattr(rd, dtype).numpy)
            if dtype[0] == "f" and limits is not None:
                x[:2] = np.nan, np.inf
            counts, edges = count(x)
            inside = x[(edges[0] <= x) & (x <= edges[-1])].astype(edges.dtype)
            bins_of = np.searchsorted(edges, inside, "right") - 1
            bins_of[inside == edges[-1]] = bins - 1
            np.testing.assert_array_equal(counts, np.bincount(bins_of, minlength=bins))


@pytest.mark.parametrize("cpu", [needs("x86-64-v4")])
def test_scans_down_columns_keep_running_values_in_whole_lines(cpu):
    """Arrays in a frame that registers cannot hold begin with a line: no vector of theirs lies in two."""
    prefix = rd.algorithm(lambda a: rd.cumsum(a, axis=0), a="f32[n, m]").compile(rd.Target("llvm", cpu=cpu))
    assert "running" in prefix.source("gang") and "load <16 x float>, ptr" in prefix.source("llvm")
    loads = [line for line in prefix.source("llvm").splitlines() if "load <16 x float>" in line]
    assert any("align 64" in line for line in loads)


def test_scans_down_columns_take_some_rows_at_a_time():
    rng = np.random.default_rng(6)
    prefix = rd.algorithm(lambda a: rd.cumsum(a, axis=0), a="f64[n, m]")
    assert '"y", 4)' in str(prefix.schedule().complete()) and 'unroll("yi")' in str(prefix.schedule().complete())
    for shape in ((0, 3), (3, 0), (1, 1), (3, 40), (4, 520), (13, 1030)):
        a = numbers(rng, "f64", *shape)
        np.testing.assert_array_equal(prefix(a), np.cumsum(a, axis=0))


def test_small_recurrences_of_folds_have_gangs_side_by_side():
    """Each fold waits for itself: one gang of few sums is slower than several."""

    def scores(a, b):
        return rd.loop(b.shape[0], lambda t, d: rd.max(d[:, None] + a, axis=0) + b[t], rd.zeros(a.shape[0], "f32"))

    viterbi = rd.algorithm(scores, a="f32[s, s]", b="f32[t, s]")
    small = [line for line in str(viterbi.schedule().complete()).splitlines() if line.startswith("sw.vectorize")]
    assert small and all("interleave" in line for line in small)
    rng = np.random.default_rng(7)
    for s in (1, 15, 16, 40, 64, 100):
        a, b = numbers(rng, "f32", s, s), numbers(rng, "f32", 7, s)
        d = np.zeros(s, "f4")
        for row in b:
            d = (d[:, None] + a).max(0) + row
        np.testing.assert_array_equal(viterbi(a, b), d)


def test_stacked_elements_are_folded_without_choices():
    def spread(x):
        return rd.std(rd.stack([x[k : x.shape[0] - 9 + k] for k in range(10)], axis=0), axis=0)

    rolling = rd.algorithm(spread, x="f64[n]")
    assert 'unroll("r")' in str(rolling.schedule().complete())
    x = np.random.default_rng(9).random(100)
    np.testing.assert_allclose(rolling(x), np.lib.stride_tricks.sliding_window_view(x, 10).std(1))


def test_tests_of_the_border_are_not_made_inside():
    text = rd.algorithm(lambda a: rd.gradient(a, axis=1), a="f32[h, w]").compile().source("nest")
    inside = [line for line in text.splitlines() if "/ 2.0" in line and "clamp" not in line and "if" not in line]
    assert len(inside) == 2
