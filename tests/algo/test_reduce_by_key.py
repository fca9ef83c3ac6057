"""`rd.reduce_by_key` against NumPy's `unique` and `bincount`, and against a dictionary."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import raido as rd

sums = rd.algorithm(lambda keys, values: rd.reduce_by_key(rd.add, 0, keys, values))


def drawn_keys(dtype: type, n: int) -> np.ndarray:
    """Keys of few values, some of them NaN where there is one."""
    chance = np.random.default_rng(n)
    keys = chance.integers(0, 5, n).astype(dtype)
    if keys.dtype.kind in "fc":
        keys[chance.random(n) < 0.2] = np.nan
    return keys


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.bool_, np.float32, np.complex128])
@pytest.mark.parametrize("n", [0, 1, 5, 130])
def test_sums_are_those_of_unique_and_bincount(dtype: type, n: int) -> None:
    keys, values = drawn_keys(dtype, n), np.arange(n)
    distinct, numbers = np.unique(keys, return_inverse=True)
    found, folds = sums.interpret(keys, values)
    np.testing.assert_array_equal(found, distinct)
    np.testing.assert_array_equal(folds, np.bincount(numbers.ravel(), values, len(distinct)).astype(np.int64))


def test_several_keys_and_values_are_folded_in_order() -> None:
    """The operator takes the last value, so that it shows the order."""

    @rd.algorithm
    def last_and_sum(a: rd.i32["n"], b: rd.f32["n"], v: rd.i64["n"], w: rd.f64["n"]):
        op = lambda x, y: (y[0], x[1] + y[1])
        return rd.reduce_by_key(op, (0, 0), (a, b), v, w)

    chance = np.random.default_rng(7)
    a, b = chance.integers(0, 3, 60).astype(np.int32), chance.integers(0, 3, 60).astype(np.float32)
    v, w = np.arange(60), chance.integers(0, 9, 60).astype(np.float64)
    expected: dict[Any, Any] = {}
    for x, y, p, q in zip(a, b, v, w, strict=True):
        expected[x, y] = (p, expected.get((x, y), (0, 0.0))[1] + q)
    for answer in (last_and_sum.interpret(a, b, v, w), last_and_sum(a, b, v, w)):
        (keys_a, keys_b), (lasts, totals) = answer
        assert list(zip(keys_a, keys_b, strict=True)) == sorted(expected)
        assert list(zip(lasts, totals, strict=True)) == [expected[key] for key in sorted(expected)]


def test_rows_are_folded() -> None:
    found, folds = sums.interpret(np.array([2, 1, 2]), np.arange(6.0).reshape(3, 2))
    assert found.tolist() == [1, 2] and folds.tolist() == [[2.0, 3.0], [4.0, 6.0]]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda k, v: rd.reduce_by_key(rd.add, 0, k), rd.TraceError, "has keys and no values"),
        (lambda k, v: rd.reduce_by_key(rd.add, 0, k[:, None], v), rd.ShapeError, "arrays of one dimension"),
        (lambda k, v: rd.reduce_by_key(rd.add, 0, k[1:], v), rd.SizeMismatch, "its values"),
        (lambda k, v: rd.reduce_by_key(rd.add, 0, 3, v), rd.TraceError, "needs an array"),
    ],
)
def test_wrong_keys_and_values_are_refused(call: Any, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        rd.algorithm(call).interpret(np.arange(4), np.arange(4))
