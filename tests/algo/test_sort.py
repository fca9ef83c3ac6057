"""`rd.sort`, `rd.argsort` and `rd.unique` against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import raido as rd

SIZES = (0, 1, 2, 17, 500)
DTYPES = (np.bool_, np.int8, np.uint16, np.int64, np.float16, np.float64)


def random_values(n: int, dtype: type) -> np.ndarray:
    """Few distinct values; floats have NaN, infinities and zeros of both signs."""
    random = np.random.default_rng(n)
    if np.issubdtype(dtype, np.floating):
        return random.choice(np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1.5, -2.0], dtype), n)
    return random.integers(0, 2 if dtype is np.bool_ else 9, n).astype(dtype)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_orders_are_numpys_stable_ones(n: int, dtype: type) -> None:
    values = random_values(n, dtype)
    ordered, places, distinct = rd.algorithm(lambda a: (rd.sort(a), rd.argsort(a), rd.unique(a))).interpret(values)
    np.testing.assert_array_equal(places, np.argsort(values, kind="stable"))
    assert ordered.dtype == values.dtype
    assert ordered.tobytes() == values[places].tobytes()
    np.testing.assert_array_equal(distinct, np.unique(values))


@pytest.mark.parametrize("axis", [0, 1, -1, None])
@pytest.mark.parametrize("shape", [(4, 5), (0, 3), (3, 0), (1, 1)])
def test_every_axis(axis: int | None, shape: tuple[int, int]) -> None:
    a = np.random.default_rng(0).integers(0, 5, shape)
    ordered, places = rd.algorithm(lambda a: (rd.sort(a, axis), rd.argsort(a, axis))).interpret(a)
    np.testing.assert_array_equal(ordered, np.sort(a, axis))
    np.testing.assert_array_equal(places, np.argsort(a, axis, kind="stable"))


@pytest.mark.parametrize("n", SIZES)
def test_tuples_are_ordered_by_their_first_then_their_second(n: int) -> None:
    random = np.random.default_rng(n)
    a, b, c = random.integers(0, 4, n), random.choice([0.5, np.nan, -1.0], n), random.integers(0, 3, n).astype(np.uint8)
    *ordered, places = rd.algorithm(lambda a, b, c: (*rd.sort((a, b, c)), rd.argsort((a, b, c)))).interpret(a, b, c)
    order = np.lexsort((c, b, a))
    np.testing.assert_array_equal(places, order)
    for result, array in zip(ordered, (a, b, c), strict=True):
        np.testing.assert_array_equal(result, array[order])


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("dtype", [np.int32, np.float32])
def test_unique_says_where_which_and_how_often(n: int, dtype: type) -> None:
    values = random_values(n, dtype).reshape(-1, 1)
    results = rd.algorithm(lambda a: rd.unique(a, True, True, True)).interpret(values)
    expected = np.unique(values, return_index=True, return_inverse=True, return_counts=True)
    for result, array in zip(results, expected, strict=True):
        np.testing.assert_array_equal(result, array.reshape(result.shape))
    assert results[2].shape == values.shape


def test_inside_maps_loops_and_branches() -> None:
    @rd.algorithm
    def nested(a: rd.i64["n", "m"]):
        medians = rd.map(lambda row: rd.sort(row)[row.shape[0] // 2], a)
        counts = rd.map(lambda row: rd.unique(row).shape[0], a)
        return (
            medians,
            counts,
            rd.loop(2, lambda t, s: rd.sort(-s), a[0]),
            rd.cond(a[0, 0] > 9, lambda: a, lambda: rd.sort(a)),
        )

    a = np.random.default_rng(3).integers(0, 6, (5, 7))
    medians, counts, final, ordered = nested.interpret(a)
    np.testing.assert_array_equal(medians, np.median(a, axis=1))
    np.testing.assert_array_equal(counts, [len(np.unique(row)) for row in a])
    np.testing.assert_array_equal(final, np.sort(a[0]))
    np.testing.assert_array_equal(ordered, np.sort(a, axis=-1))


def test_errors_name_what_is_wrong() -> None:
    with pytest.raises(rd.ShapeError, match="axis 2 of an array of rank 1"):
        rd.algorithm(lambda a: rd.sort(a, 2)).trace(rd.f32["n"])
    with pytest.raises(rd.TraceError, match=r"rd\.argsort needs an array"):
        rd.algorithm(lambda a: rd.argsort(a)).trace(rd.f32)
