"""Convolutions and correlations against NumPy; soft maxima against their definition in higher precision."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import raido as rd

DTYPES = (np.bool_, np.int8, np.uint16, np.int64, np.float16, np.float32, np.float64, np.complex64, np.complex128)
LENGTHS = [(1, 1), (5, 1), (1, 4), (5, 3), (3, 5), (4, 4), (6, 4), (4, 7)]


def line(dtype: Any, n: int) -> np.ndarray:
    random = np.random.default_rng(n)
    dtype = np.dtype(dtype)
    if dtype.kind in "biu":
        return random.integers(0, 2 if dtype.kind == "b" else 100, n).astype(dtype)
    values = random.standard_normal(n)
    return (values + 1j * random.standard_normal(n)).astype(dtype) if dtype.kind == "c" else values.astype(dtype)


def near(ours: Any, expected: Any) -> None:
    assert ours.dtype == expected.dtype
    assert ours.shape == expected.shape
    eps = np.finfo(expected.dtype).eps if expected.dtype.kind in "fc" else 0
    np.testing.assert_allclose(ours, expected, rtol=20 * eps, atol=20 * eps)


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_lines_of_any_lengths(dtype: type, mode: Any) -> None:
    program = rd.algorithm(lambda a, v: (rd.convolve(a, v, mode), rd.correlate(a, v, mode)))
    for n, m in LENGTHS:
        a, v = line(dtype, n), line(dtype, m)
        convolved, correlated = program.interpret(a, v)
        near(convolved, np.convolve(a, v, mode))
        near(correlated, np.correlate(a, v, mode))


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
def test_known_lengths_and_mixed_types(mode: Any) -> None:
    a, v = line(np.float32, 3), line(np.int8, 7)
    near(rd.algorithm(lambda a: rd.convolve(a, v, mode)).interpret(a), np.convolve(a, v, mode))
    near(rd.algorithm(lambda a: rd.correlate(a, v, mode)).interpret(a), np.correlate(a, v, mode))
    fixed = rd.algorithm(a="f32[3]")(lambda a: rd.convolve(a, v, mode))
    near(fixed.interpret(a), np.convolve(a, v, mode))


def test_infinities_stay_where_they_are() -> None:
    a, v = np.array([1.0, 2, 3]), np.array([np.inf, 1.0])
    near(rd.algorithm(lambda a, v: rd.convolve(a, v)).interpret(a, v), np.convolve(a, v))


def test_refused_lines() -> None:
    with pytest.raises(rd.SizeMismatch, match="empty"):
        rd.algorithm(lambda a: rd.convolve(a, a)).interpret(np.zeros(0))
    with pytest.raises(rd.ShapeError, match="2 dimensions"):
        rd.algorithm(lambda a: rd.convolve(a, [1.0])).interpret(np.zeros((2, 2)))
    with pytest.raises(rd.TraceError, match="mode 'half'"):
        rd.algorithm(lambda a: rd.correlate(a, a, "half")).interpret(np.zeros(2))


@pytest.mark.parametrize("axis", [None, 0, -1, (0, 1)])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int32])
def test_softmax_and_logsumexp(dtype: type, axis: Any) -> None:
    x = (np.random.default_rng(0).standard_normal((3, 4)) * 20).astype(dtype)
    soft, total, kept = rd.algorithm(
        lambda x: (rd.softmax(x, axis), rd.logsumexp(x, axis), rd.logsumexp(x, axis, keepdims=True))
    ).interpret(x)
    wide = np.exp(x.astype(np.longdouble))
    result = x.dtype if x.dtype.kind == "f" else np.dtype(np.float64)
    near(soft, (wide / wide.sum(axis, keepdims=True)).astype(result))
    near(total, np.asarray(np.log(wide.sum(axis))).astype(result))
    near(kept, np.log(wide.sum(axis, keepdims=True)).astype(result))


def test_logsumexp_of_signed_terms_and_of_nothing() -> None:
    a, b = np.array([1.0, 800.0, 799.0]), np.array([2.0, -1.0, 0.5])
    size, sign = rd.algorithm(lambda a, b: rd.logsumexp(a, b=b, return_sign=True)).interpret(a, b)
    assert sign == -1
    np.testing.assert_allclose(size, 800 + np.log1p(-0.5 * np.exp(-1)), rtol=1e-14)
    nothing = rd.algorithm(lambda a: rd.logsumexp(a))
    assert nothing.interpret(np.array([-np.inf, -np.inf])) == -np.inf
    assert nothing.interpret(np.zeros(0)) == -np.inf
    assert nothing.interpret(np.array([np.inf, 1.0])) == np.inf


def test_fori_loop_counts_from_its_lower_bound() -> None:
    summed = rd.algorithm(lambda lo, hi, x: rd.fori_loop(lo, hi, lambda i, s: s + i, x))
    for low, high in ((2, 6), (-3, 2), (4, 4), (5, 1)):
        assert summed.interpret(np.int64(low), np.int64(high), np.int64(1)) == 1 + sum(range(low, high))
    sizes = rd.algorithm(lambda x: rd.fori_loop(1, x.shape[0], lambda i, s: s.at[i].add(s[i - 1]), x))
    assert sizes.interpret(np.arange(5)).tolist() == [0, 1, 3, 6, 10]


def test_compiled_code_agrees() -> None:
    a = line(np.float32, 50)
    program = rd.algorithm(lambda a: (rd.convolve(a, [0.25, 0.5, 0.25], "same"), rd.correlate(a, a[:7]), rd.softmax(a)))
    for ours, reference in zip(program(a), program.interpret(a), strict=True):
        np.testing.assert_allclose(ours, reference, rtol=1e-6, atol=1e-7)
