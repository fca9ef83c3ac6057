"""`rd.reduce_by_index`, `rd.bincount` and `rd.scatter` against plain loops."""

from __future__ import annotations

import numpy as np
import pytest

import raido as rd

SIZES = (0, 1, 5, 17, 200)


def binned(op, neutral):
    return rd.algorithm(lambda dest, index, values: rd.reduce_by_index(dest, op, neutral, index, values))


def combined(dest, op, index, values):
    """A reduction by index written out."""
    result = dest.copy()
    for i, v in zip(index, values, strict=True):
        if 0 <= i < len(dest):
            result[i] = op(result[i], v)
    return result


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("bins", [0, 1, 7])
def test_sums_wrap_and_ignore_what_is_out_of_range(n: int, bins: int) -> None:
    random = np.random.default_rng(n)
    dest, index = np.full(bins, 100, np.int8), random.integers(-2, 9, n).astype(np.int16)
    values = random.integers(-100, 100, n).astype(np.int8)
    with np.errstate(over="ignore"):
        expected = combined(dest, np.add, index, values)
    np.testing.assert_array_equal(binned(rd.add, 0).interpret(dest, index, values), expected)


@pytest.mark.parametrize(
    ("op", "neutral", "reference"),
    [(rd.minimum, np.inf, np.minimum), (rd.maximum, -np.inf, np.maximum), (rd.multiply, 1, np.multiply)],
)
def test_floats_with_nan_and_infinities(op, neutral, reference) -> None:
    values = np.array([1.5, -0.0, np.nan, np.inf, -2.0, 0.5])
    index = np.array([0, 1, 2, 2, 0, 3], np.uint8)
    dest = np.array([0.25, 1.0, 2.0, -np.inf])
    np.testing.assert_array_equal(
        binned(op, neutral).interpret(dest, index, values), combined(dest, reference, index, values)
    )


@pytest.mark.parametrize("n", SIZES)
def test_tuples_under_an_operator_without_a_primitive(n: int) -> None:
    """The place of the largest value in each bin; of equal ones the first."""

    def larger(a, b):
        first = (a[0] > b[0]) | ((a[0] == b[0]) & (a[1] < b[1]))
        return rd.where(first, a[0], b[0]), rd.where(first, a[1], b[1])

    @rd.algorithm
    def places(bins: rd.i64["n"], values: rd.i64["n"]):
        dest = rd.full(5, rd.i64(-100)), rd.full(5, rd.i64(1 << 40))
        return rd.reduce_by_index(dest, larger, (-100, 1 << 40), bins, values, rd.iota(values.shape[0]))

    random = np.random.default_rng(n)
    bins, values = random.integers(0, 6, n), random.integers(-9, 9, n)
    highest, where = places.interpret(bins, values)
    for b in range(5):
        own = np.flatnonzero(bins == b)
        best = own[np.argmax(values[own])] if len(own) else 1 << 40
        assert where[b] == best
        assert highest[b] == (values[best] if len(own) else -100)


def test_rows_and_bins_of_several_dimensions() -> None:
    @rd.algorithm
    def both(dest: rd.f64["a", "b", "c"], i: rd.i32["n"], j: rd.i32["n"], rows: rd.f64["n", "c"]):
        return rd.reduce_by_index(dest, lambda x, y: x + y, 0, (i, j), rows), rd.scatter(dest, (i, j), rows)

    random = np.random.default_rng(8)
    dest, rows = random.integers(0, 9, (2, 3, 4)) * 1.0, random.integers(0, 9, (30, 4)) * 1.0
    i, j = random.integers(-1, 3, (2, 30)).astype(np.int32)
    sums, last = dest.copy(), dest.copy()
    for p, q, row in zip(i, j, rows, strict=True):
        if 0 <= p < 2 and 0 <= q < 3:
            sums[p, q] += row
            last[p, q] = row
    for result, expected in zip(both.interpret(dest, i, j, rows), (sums, last), strict=True):
        np.testing.assert_array_equal(result, expected)


def test_bins_count() -> None:
    @rd.algorithm
    def counts(a: rd.u8["h", "w"], weights: rd.f32["h", "w"]):
        return rd.bincount(a, 6), rd.bincount(a, 6, weights), rd.map(lambda row: rd.bincount(row, 3), a)

    a = np.random.default_rng(2).integers(0, 9, (4, 10)).astype(np.uint8)
    weights = np.arange(40, dtype=np.float32).reshape(4, 10)
    plain, weighted, rows = counts.interpret(a, weights)
    assert plain.dtype == np.int64
    np.testing.assert_array_equal(plain, np.bincount(a.ravel(), minlength=9)[:6])
    np.testing.assert_array_equal(weighted, np.bincount(a.ravel(), weights.ravel(), minlength=9)[:6])
    np.testing.assert_array_equal(rows, [np.bincount(row, minlength=9)[:3] for row in a])


@pytest.mark.parametrize("n", SIZES)
def test_of_values_for_one_place_the_last_wins(n: int) -> None:
    random = np.random.default_rng(n)
    index, values = random.integers(-3, 8, n), random.random(n)
    expected = np.zeros(5)
    for i, v in zip(index, values, strict=True):
        if 0 <= i < 5:
            expected[i] = v
    put = rd.algorithm(lambda index, values: rd.scatter(rd.full(5, 0.0), index, values))
    np.testing.assert_array_equal(put.interpret(index, values), expected)


def test_a_permutation_is_undone() -> None:
    undo = rd.algorithm(lambda p, a: rd.scatter(rd.full(a.shape[0], rd.i64(0)), p, a, unique_indices=True))
    p, a = np.random.default_rng(0).permutation(50), np.arange(50)
    np.testing.assert_array_equal(undo.interpret(p, a[p]), a)


def test_in_maps_loops_and_branches() -> None:
    @rd.algorithm
    def nested(a: rd.i64["n", "m"]):
        rows = rd.map(lambda row: rd.reduce_by_index(rd.full(4, row[0]), rd.add, 0, row, row * row), a)
        again = rd.loop(3, lambda t, d: rd.reduce_by_index(d, rd.maximum, -9, a[t], a[t] * t), rd.full(4, rd.i64(-9)))
        return rows, rd.cond(again[0] > 0, lambda: rd.scatter(again, a[0], 5), lambda: again)

    a = np.random.default_rng(3).integers(0, 6, (5, 9))
    rows, final = nested.interpret(a)
    np.testing.assert_array_equal(rows, [combined(np.full(4, r[0]), np.add, r, r * r) for r in a])
    expected = np.full(4, -9)
    for t in range(3):
        expected = combined(expected, np.maximum, a[t], a[t] * t)
    if expected[0] > 0:
        expected[a[0][a[0] < 4]] = 5
    np.testing.assert_array_equal(final, expected)


def test_errors_name_what_is_wrong() -> None:
    dest, index = rd.f32["n"], rd.i64["k"]
    with pytest.raises(rd.DTypeError, match=r"rd\.reduce_by_index of f64 into an array of f32"):
        binned(rd.add, 0).trace(dest, index, rd.f64["k"])
    with pytest.raises(rd.DTypeError, match=r"an index of rd\.reduce_by_index is an integer"):
        binned(rd.add, 0).trace(dest, rd.f32["k"], rd.f32["k"])
    with pytest.raises(rd.ShapeError, match="2 indices into"):
        rd.algorithm(lambda d, i: rd.scatter(d, (i, i), 1.0)).trace(dest, index)
    with pytest.raises(rd.ShapeError, match="sizes differ"):
        rd.algorithm(lambda d, i, v: rd.scatter(d, i, v)).trace(dest, rd.i64[4], rd.f32[3])
    with pytest.raises(rd.TraceError, match="into a scalar"):
        rd.algorithm(lambda d, i: rd.scatter(d, i, 1.0)).trace(rd.f32, index)
