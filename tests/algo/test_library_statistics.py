"""Variances, averages, and statistics without NaN against NumPy, over dtypes, axes, empty arrays and NaN."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import raido as rd

DTYPES = (np.bool_, np.int8, np.uint16, np.int64, np.float16, np.float32, np.float64)
COMPLEX = (np.complex64, np.complex128)
AXES: tuple[Any, ...] = (None, 0, 1, -1, (0, 2), (1, -1), ())


def sample(dtype: Any, shape: tuple[int, ...] = (3, 4, 5)) -> np.ndarray:
    random = np.random.default_rng(3)
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return random.integers(0, 2, shape).astype(dtype)
    if dtype.kind == "c":
        return (random.standard_normal(shape) + 1j * random.standard_normal(shape)).astype(dtype)
    if dtype.kind == "f":
        return (random.standard_normal(shape) * 10).astype(dtype)
    return random.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, shape, dtype, endpoint=True)


def near(ours: Any, expected: Any) -> None:
    """The same dtype and shape, values within a few units of the last place of f16, f32 or f64."""
    expected = np.asarray(expected)
    assert ours.dtype == expected.dtype
    assert ours.shape == expected.shape
    eps = np.finfo(expected.dtype).eps if expected.dtype.kind in "fc" else 0
    np.testing.assert_allclose(ours, expected, rtol=40 * eps, atol=40 * eps)


def quietly(function: Any, *arguments: Any, **options: Any) -> Any:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return function(*arguments, **options)


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize("dtype", [*DTYPES, *COMPLEX])
def test_deviations(dtype: type, axis: Any, keepdims: bool) -> None:
    a = sample(dtype)
    options = {"axis": axis, "keepdims": keepdims}
    var, std = rd.algorithm(lambda a: (rd.var(a, **options), rd.std(a, ddof=1, **options))).interpret(a)
    near(var, quietly(np.var, a, **options))
    near(std, quietly(np.std, a, ddof=1, **options))


def test_a_variance_far_from_zero_keeps_its_digits() -> None:
    a = 1e8 + np.array([0.0, 1.0, 2.0])
    near(rd.algorithm(lambda a: rd.var(a)).interpret(a), np.var(a))
    half = np.full(5000, 100, np.float16)
    assert rd.algorithm(lambda a: rd.std(a)).interpret(half) == 0


def test_options_of_deviations() -> None:
    a = sample(np.float32, (3, 4))
    given = rd.algorithm(lambda a: rd.var(a, 1, mean=rd.mean(a, 1, keepdims=True), correction=1)).interpret(a)
    near(given, np.var(a, 1, correction=1))
    for dtype in (rd.f64, np.float64, "float64", float):
        own = rd.algorithm(lambda a, *, dtype=dtype: (rd.var(a, dtype=dtype), rd.nanmean(a, dtype=dtype)))
        near(own.interpret(a)[0], np.var(a, dtype=np.float64))
        near(own.interpret(a)[1], np.nanmean(a, dtype=np.float64))
    with pytest.raises(rd.DTypeError, match="a float type, not i32"):
        rd.algorithm(lambda a: rd.std(a, dtype=np.int32)).interpret(a)
    for ddof in (1, 2):
        near(
            rd.algorithm(lambda a, *, d=ddof: rd.var(a, ddof=d)).interpret(a[0, :1]),
            quietly(np.var, a[0, :1], ddof=ddof),
        )
    with pytest.raises(rd.TraceError, match="one argument by two names"):
        rd.algorithm(lambda a: rd.var(a, ddof=1, correction=1)).interpret(a)


def test_of_no_elements_they_are_nan() -> None:
    empty = np.zeros((0, 2))
    assert np.isnan(rd.algorithm(lambda a: rd.var(a, axis=0)).interpret(empty)).all()
    assert np.isnan(rd.algorithm(lambda a: rd.nanmean(a, axis=0)).interpret(empty)).all()
    assert rd.algorithm(lambda a: rd.nansum(a, axis=0)).interpret(empty).tolist() == [0, 0]
    with pytest.raises(rd.SizeMismatch):
        rd.algorithm(lambda a: rd.nanmax(a, axis=0)).interpret(empty)


def test_methods_of_arrays() -> None:
    a, z = sample(np.float64), sample(np.complex128)
    ours = rd.algorithm(lambda a: (a.var(1, ddof=1), a.std(), a.mean((0, 1), keepdims=True))).interpret(a)
    for result, expected in zip(ours, (a.var(1, ddof=1), a.std(), a.mean((0, 1), keepdims=True)), strict=True):
        near(result, expected)
    near(rd.algorithm(lambda z: z.std(0)).interpret(z), z.std(0))


@pytest.mark.parametrize("axis", [None, 0, -1, (0, 1)])
@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.float16, np.float64])
def test_ptp(dtype: type, axis: Any) -> None:
    a = sample(dtype)
    ours = rd.algorithm(lambda a: rd.ptp(a, axis, keepdims=True)).interpret(a)
    expected = np.ptp(a, axis, keepdims=True)
    assert ours.dtype == expected.dtype
    np.testing.assert_array_equal(ours, expected)


@pytest.mark.parametrize("dtype", [*DTYPES, *COMPLEX])
@pytest.mark.parametrize("weights", [np.float32, np.float64, np.int64])
def test_average(dtype: type, weights: type) -> None:
    a = sample(dtype)
    w = np.abs(sample(weights, (4,)) % 7) + 1
    full = np.broadcast_to(w[:, None], a.shape).copy()
    program = rd.algorithm(lambda a, w, f: (rd.average(a, 1, w), rd.average(a, weights=f), rd.average(a, 1, f, True)))
    along, whole, (again, total) = program.interpret(a, w, full)
    near(along, np.average(a, 1, w))
    near(whole, np.average(a, weights=full))
    expected, sums = np.average(a, 1, full, returned=True)
    near(again, expected)
    near(total, sums)


def test_average_of_matrices_by_several_axes() -> None:
    a, w = sample(np.float64), np.abs(sample(np.float64, (5, 3)))
    near(rd.algorithm(lambda a, w: rd.average(a, (2, 0), w)).interpret(a, w), np.average(a, (2, 0), w))
    near(rd.algorithm(lambda a: rd.average(a, 0)).interpret(a), np.average(a, 0))
    mean, count = rd.algorithm(lambda a: rd.average(a, 0, returned=True)).interpret(a)
    near(mean, a.mean(0))
    assert (count == 3).all() and count.shape == mean.shape
    with pytest.raises(rd.ShapeError, match="needs an `axis`"):
        rd.algorithm(lambda a, w: rd.average(a, weights=w)).interpret(a, w)


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["nansum", "nanmean", "nanmin", "nanmax"])
def test_without_nan(name: str, dtype: type, axis: Any, keepdims: bool) -> None:
    a = sample(dtype)
    if a.dtype.kind == "f":
        a[0, :, 1] = np.nan
        a[2, 3] = np.nan
        a[:, 0] = np.nan
        a[1, 1, 1] = np.inf
    ours = rd.algorithm(lambda a: getattr(rd, name)(a, axis=axis, keepdims=keepdims)).interpret(a)
    near(ours, quietly(getattr(np, name), a, axis=axis, keepdims=keepdims))


@pytest.mark.parametrize("name", ["nansum", "nanmean"])
def test_complex_sums_without_nan(name: str) -> None:
    z = np.array([1 + 2j, complex(np.nan, 1), complex(2, np.nan), 3 - 1j])
    near(rd.algorithm(lambda z: getattr(rd, name)(z)).interpret(z), getattr(np, name)(z))


def test_compiled_code_agrees() -> None:
    a = sample(np.float32, (9, 33))
    a[2, 3:30] = np.nan

    def program(a: Any, w: Any) -> Any:
        return rd.var(a, 0), rd.std(a[3:]), rd.nanmax(a, 1), rd.nanmean(a, 0), rd.average(a[3:], 1, w), rd.ptp(a[3:])

    algorithm = rd.algorithm(program)
    w = np.arange(33.0, dtype=np.float32)
    for ours, reference in zip(algorithm(a, w), algorithm.interpret(a, w), strict=True):
        np.testing.assert_allclose(ours, reference, rtol=1e-6)
