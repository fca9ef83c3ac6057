"""Medians, quantiles and `lexsort` against NumPy, over methods, dtypes, axes and NaN."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import raido as rd
from raido.algo.library.order_statistics import AT, BETWEEN

DTYPES = (np.int8, np.uint16, np.int64, np.float16, np.float32, np.float64)
AXES: tuple[Any, ...] = (None, 0, -1, (0, 2))
SHARES = [0.0, 0.1, 0.25, 0.3, 0.5, 0.77, 1.0]


def sample(dtype: Any, shape: tuple[int, ...] = (3, 4, 5)) -> np.ndarray:
    random = np.random.default_rng(5)
    if np.dtype(dtype).kind == "f":
        return (random.standard_normal(shape) * 10).astype(dtype)
    return random.integers(0, 50, shape).astype(dtype)


def near(ours: Any, expected: Any) -> None:
    expected = np.asarray(expected)
    assert ours.dtype == expected.dtype
    assert ours.shape == expected.shape
    eps = np.finfo(expected.dtype).eps if expected.dtype.kind == "f" else 0
    np.testing.assert_allclose(ours, expected, rtol=8 * eps, atol=160 * eps)  # of elements up to 20


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize("dtype", [np.bool_, *DTYPES])
def test_median(dtype: type, axis: Any, keepdims: bool) -> None:
    a = sample(dtype)
    ours = rd.algorithm(lambda a: rd.median(a, axis, keepdims=keepdims)).interpret(a)
    near(ours, np.median(a, axis, keepdims=keepdims))


def test_medians_of_few_and_of_infinite_elements() -> None:
    for row in ([7.0], [1.0, np.inf], [np.inf, np.inf], [np.inf, -np.inf, 2.0], [np.nan, 1.0]):
        with np.errstate(all="ignore"):
            near(rd.algorithm(lambda a: rd.median(a)).interpret(np.array(row)), np.median(row))
    with pytest.raises(rd.SizeMismatch):
        rd.algorithm(lambda a: rd.median(a)).interpret(np.zeros(0))


@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize("method", sorted({*BETWEEN, *AT}))
def test_methods_of_quantiles(method: Any, axis: Any) -> None:
    a = sample(np.float64)
    ours = rd.algorithm(lambda a: tuple(rd.quantile(a, q, axis, method=method) for q in SHARES)).interpret(a)
    for result, q in zip(ours, SHARES, strict=True):
        near(result, np.quantile(a, q, axis, method=method))


@pytest.mark.parametrize("method", ["linear", "lower", "higher", "midpoint", "nearest"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_types_of_quantiles(dtype: type, method: Any) -> None:
    a = sample(dtype)
    for q in (0.3, np.float32(0.3), np.array([0.25, 0.5]), np.array([[0.25], [1.0]], np.float32)):
        ours = rd.algorithm(lambda a, *, q=q: rd.quantile(a, q, 1, method=method, keepdims=True)).interpret(a)
        near(ours, np.quantile(a, q, 1, method=method, keepdims=True))


def test_quantiles_that_data_decides() -> None:
    a, q = sample(np.float64), np.array([0.0, 0.4, 1.0])
    near(rd.algorithm(lambda a, q: rd.quantile(a, q, (0, 1))).interpret(a, q), np.quantile(a, q, (0, 1)))
    near(rd.algorithm(lambda a, q: rd.percentile(a, q, -1)).interpret(a, 100 * q), np.percentile(a, 100 * q, -1))
    near(rd.algorithm(lambda a: rd.percentile(a, 30)).interpret(a), np.percentile(a, 30))


@pytest.mark.parametrize("axis", AXES)
def test_nan_takes_over(axis: Any) -> None:
    a = sample(np.float32)
    a[1, 2, 3] = np.nan
    ours = rd.algorithm(
        lambda a: (rd.median(a, axis), rd.quantile(a, 0.2, axis), rd.quantile(a, 0.2, axis, method="lower"))
    )
    results = ours.interpret(a)
    near(results[0], np.median(a, axis))
    near(results[1], np.quantile(a, 0.2, axis))
    near(results[2], np.quantile(a, 0.2, axis, method="lower"))


def test_refusals() -> None:
    a = np.zeros(3)
    with pytest.raises(rd.TraceError, match="no method 'mode'"):
        rd.algorithm(lambda a: rd.quantile(a, 0.5, method="mode")).interpret(a)
    with pytest.raises(rd.TraceError, match=r"0 … 1, not at 50"):
        rd.algorithm(lambda a: rd.quantile(a, 50)).interpret(a)
    with pytest.raises(rd.DTypeError, match="complex numbers"):
        rd.algorithm(lambda a: rd.median(a)).interpret(a + 1j)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_lexsort(axis: int) -> None:
    keys = np.random.default_rng(0).integers(0, 3, (3, 6, 7))
    near(
        rd.algorithm(lambda k: rd.lexsort(tuple(k[i] for i in range(3)), axis)).interpret(keys), np.lexsort(keys, axis)
    )
    near(rd.algorithm(k="i64[3, n, m]")(lambda k: rd.lexsort(k, axis)).interpret(keys), np.lexsort(keys, axis))
    a, b = keys[0, 0], np.array([0.5, np.nan, 1, np.nan, -1, 0.5, 2])
    near(rd.algorithm(lambda a, b: rd.lexsort([b, a])).interpret(a, b), np.lexsort([b, a]))


def test_compiled_code_agrees() -> None:
    a = sample(np.float32, (7, 21))
    program = rd.algorithm(lambda a: (rd.median(a, 1), rd.quantile(a, [0.1, 0.9], 0), rd.lexsort((a[0], a[1]))))
    for ours, reference in zip(program(a), program.interpret(a), strict=True):
        np.testing.assert_array_equal(ours, reference)
