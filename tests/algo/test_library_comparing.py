"""Comparisons within a tolerance and of whole arrays, and the replacement of NaN and infinities, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import raido as rd

FLOATS = (np.float16, np.float32, np.float64)
VALUES = [0.0, -0.0, 1.0, 1.00001, 1.1, np.inf, -np.inf, np.nan, 1e-9, -1e-7]


@pytest.mark.parametrize("equal_nan", [False, True])
@pytest.mark.parametrize("dtype", [*FLOATS, np.complex64, np.complex128])
def test_isclose(dtype: type, equal_nan: bool) -> None:
    values = np.array(VALUES, dtype)
    a, b = np.repeat(values, len(values)), np.tile(values, len(values))
    ours = rd.algorithm(lambda a, b: rd.isclose(a, b, equal_nan=equal_nan)).interpret(a, b)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(ours, np.isclose(a, b, equal_nan=equal_nan))


@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.int32, np.uint8, np.int64])
def test_isclose_of_integers(dtype: type) -> None:
    a = np.array([0, 1, 1, 1], dtype)
    b = np.array([0, 1, 0, 1], dtype)
    ours = rd.algorithm(lambda a, b: (rd.isclose(a, b), rd.isclose(a, 1.0, 0.1, 0.5))).interpret(a, b)
    np.testing.assert_array_equal(ours[0], np.isclose(a, b))
    np.testing.assert_array_equal(ours[1], np.isclose(a, 1.0, 0.1, 0.5))


def test_allclose_broadcasts_and_holds_of_nothing() -> None:
    near = rd.algorithm(lambda a, b: rd.allclose(a, b, atol=0.5))
    assert near.interpret(np.ones((3, 4)), np.full(4, 1.4))
    assert not near.interpret(np.ones((3, 4)), np.full(4, 1.6))
    assert near.interpret(np.ones((0, 4)), np.full(4, 1.6))


@pytest.mark.parametrize("equal_nan", [False, True])
def test_array_equal_of_any_sizes(equal_nan: bool) -> None:
    arrays = [
        np.zeros((0, 3)),
        np.zeros((2, 3)),
        np.full((2, 3), np.nan),
        np.zeros((3, 2)),
        np.eye(2, 3),
        np.zeros((2, 0)),
    ]
    program = rd.algorithm(lambda a, b: rd.array_equal(a, b, equal_nan))
    for a in arrays:
        for b in arrays:
            assert program.interpret(a, b) == np.array_equal(a, b, equal_nan=equal_nan), (a, b)
    assert not program.interpret(np.zeros(3), np.zeros((1, 3)))
    assert program.interpret(np.array([1j, 2]), np.array([1j, 2]))
    assert rd.algorithm(lambda a: rd.array_equal(a, [1, 2, 3])).interpret(np.array([1, 2, 3], np.int8))
    assert not rd.algorithm(lambda a: rd.array_equal(a, [1, 2, 3])).interpret(np.array([1, 2], np.int8))


@pytest.mark.parametrize("dtype", [np.bool_, np.int16, *FLOATS, np.complex64, np.complex128])
@pytest.mark.parametrize("options", [{}, {"nan": 3.0}, {"posinf": 7.0, "neginf": -8.0}])
def test_nan_to_num(dtype: type, options: dict[str, Any]) -> None:
    floats = np.dtype(dtype).kind in "fc"
    values = np.array([0, 1, *([np.nan, np.inf, -np.inf, -0.0] if floats else [])], dtype)
    if np.dtype(dtype).kind == "c":
        values = np.concatenate([values, values.real + 2j])
    ours = rd.algorithm(lambda a: rd.nan_to_num(a, **options)).interpret(values)
    expected = np.nan_to_num(values, **options)
    assert ours.dtype == expected.dtype
    np.testing.assert_array_equal(ours, expected)


def test_compiled_code_agrees() -> None:
    a = np.array(VALUES, np.float32)
    b = a[::-1].copy()
    program = rd.algorithm(lambda a, b: (rd.isclose(a, b), rd.array_equal(a, b), rd.nan_to_num(a), rd.allclose(a, a)))
    for ours, reference in zip(program(a, b), program.interpret(a, b), strict=True):
        np.testing.assert_array_equal(ours, reference)
    unequal = rd.algorithm(lambda a, b: rd.array_equal(a, b))
    assert not unequal(a, b[:3]) and not unequal(a, b[:0]) and unequal(b[:2], b[:2])
