"""The composed functions of single numbers, against NumPy: exact ones to the bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import raido as rd

FLOATS = (np.float16, np.float32, np.float64)
INTEGERS = (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64)


def special(dtype: type) -> np.ndarray:
    """Zeros, infinities, NaN, subnormal numbers, extremes, and numbers between."""
    info = np.finfo(dtype)
    tiny = [info.smallest_subnormal, 3 * info.smallest_subnormal, info.tiny, info.tiny - info.smallest_subnormal]
    plain = [0.0, np.inf, np.nan, 1.0, 0.5, 1.5, 2.0, 3.7, 1 + info.eps, info.max, 1024.0]
    values = np.array([*plain, *tiny], dtype)
    return np.concatenate([values, -values])


def pairs(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Every pair of values."""
    return np.repeat(values, len(values)), np.tile(values, len(values))


def same(result: Any, expected: Any) -> None:
    """The same dtypes, shapes and bits, any NaN being equal to any other."""
    results, answers = (v if isinstance(v, tuple) else (v,) for v in (result, expected))
    for ours, numpys in zip(results, answers, strict=True):
        assert ours.dtype == numpys.dtype
        np.testing.assert_array_equal(ours, numpys)
        if numpys.dtype.kind == "f":
            real = ~np.isnan(numpys)
            np.testing.assert_array_equal(np.signbit(ours)[real], np.signbit(numpys)[real])


def check(ours: Callable[..., Any], numpys: Callable[..., Any], *arguments: Any) -> None:
    with np.errstate(all="ignore"):
        same(rd.algorithm(lambda *a: ours(*a)).interpret(*arguments), numpys(*arguments))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ["modf", "frexp", "spacing"])
def test_parts_of_floats_are_exact(name: str, dtype: type) -> None:
    values = special(dtype)
    ours = rd.algorithm(lambda a: getattr(rd, name)(a)).interpret(values)
    with np.errstate(all="ignore"):
        same(ours, getattr(np, name)(values))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ["nextafter", "heaviside", "divmod"])
def test_functions_of_two_floats_are_exact(name: str, dtype: type) -> None:
    x, y = pairs(special(dtype))
    ours = rd.algorithm(lambda a, b: getattr(rd, name)(a, b)).interpret(x, y)
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(x, y)
    if name == "nextafter":  # of two equal zeros NumPy before 2.5 gives the first in f16 alone
        expected = np.where(x == y, y, expected)
    same(ours, expected)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("exponents", [np.int8, np.int32, np.int64])
def test_ldexp_rounds_once(dtype: type, exponents: type) -> None:
    powers = [0, 1, -1, 3, -20, -24, 100, -126]
    powers += [] if exponents is np.int8 else [1023, -1022, -1074, -1075, -1100, -2100, 2100, 2**31 - 1, -(2**31)]
    random = np.random.default_rng(0).standard_normal(9).astype(dtype)
    values = np.concatenate([special(dtype), random])
    x, e = np.repeat(values, len(powers)), np.tile(np.array(powers, exponents), len(values))
    ours = rd.algorithm(lambda a, b: rd.ldexp(a, b)).interpret(x, e)
    with np.errstate(all="ignore"):
        same(ours, np.ldexp(x, e.astype(np.int32)))


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("name", ["gcd", "lcm"])
def test_divisors_and_multiples(name: str, dtype: type) -> None:
    info = np.iinfo(dtype)
    values = np.array([0, 1, 2, 6, 12, 35, 64, 100, info.max, info.min, info.min + 1 if info.min else 7], dtype)
    x, y = pairs(values)
    ours = rd.algorithm(lambda a, b: getattr(rd, name)(a, b)).interpret(x, y)
    with np.errstate(all="ignore"):
        same(ours, getattr(np, name)(x, y))


@pytest.mark.parametrize("dtype", [np.bool_, *INTEGERS])
@pytest.mark.parametrize("name", ["modf", "frexp", "spacing"])
def test_integers_become_numpys_floats(name: str, dtype: type) -> None:
    values = np.array([0, 1, 3], dtype)
    same(rd.algorithm(lambda a: getattr(rd, name)(a)).interpret(values), getattr(np, name)(values))


def test_integers_and_literals_mix() -> None:
    a = np.array([7, -7, 12], np.int16)
    same(rd.algorithm(lambda a: rd.divmod(a, 5)).interpret(a), np.divmod(a, 5))
    same(rd.algorithm(lambda a: rd.gcd(a, 21)).interpret(a), np.gcd(a, 21))
    same(rd.algorithm(lambda a: rd.gcd(a, a.shape[0])).interpret(a), np.gcd(a, np.int64(3)))
    same(rd.algorithm(lambda a: rd.float_power(a, 2)).interpret(a), np.float_power(a, 2))
    same(rd.algorithm(lambda a: rd.heaviside(a, 1)).interpret(a), np.heaviside(a, 1))


def test_float_power_is_wide() -> None:
    z = np.array([1 + 2j, -3j], np.complex64)
    ours = rd.algorithm(lambda z: rd.float_power(z, 2)).interpret(z)
    assert ours.dtype == np.complex128
    np.testing.assert_allclose(ours, np.float_power(z, 2), rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(rd.algorithm(lambda z: rd.conjugate(z)).interpret(z), np.conjugate(z))


@pytest.mark.parametrize("dtype", FLOATS)
def test_logaddexp2(dtype: type) -> None:
    x, y = pairs(np.array([0, 1, -1, 3.5, -8, np.inf, -np.inf, np.nan, 1000], dtype))
    ours = rd.algorithm(lambda a, b: rd.logaddexp2(a, b)).interpret(x, y)
    with np.errstate(all="ignore"):
        expected = np.logaddexp2(x, y)
    assert ours.dtype == expected.dtype
    np.testing.assert_allclose(ours, expected, rtol=4 * np.finfo(dtype).eps)


@pytest.mark.parametrize("name", ["modf", "frexp", "spacing", "gcd", "lcm"])
def test_complex_numbers_are_refused(name: str) -> None:
    z = np.array([1j])
    with pytest.raises(rd.DTypeError, match=f"rd.{name} of complex numbers"):
        rd.algorithm(lambda z: getattr(rd, name)(*([z] * (1 + (name in "gcdlcm"))))).interpret(z)


def test_compiled_code_agrees() -> None:
    x, y = pairs(special(np.float32))
    k = np.arange(len(x)) % 90 - 45

    def program(a: Any, b: Any, k: Any) -> Any:
        return *rd.frexp(a), rd.ldexp(a, k), rd.nextafter(a, b), rd.spacing(a), rd.gcd(k, 12), *rd.modf(a)

    algorithm = rd.algorithm(program)
    same(algorithm(x, y, k), algorithm.interpret(x, y, k))
