"""fma against exact rational arithmetic: random operands, cancellation, every kind of special value, denormals, overflow."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

from raido.algo.graph.fma import fma

FLOATS = [np.float16, np.float32, np.float64]


def nearest(value: Fraction, dtype: type) -> float:
    """`value` rounded to nearest even in `dtype`, as a Python float."""
    info = np.finfo(dtype)
    size, sign = abs(value), -1 if value < 0 else 1
    if size == 0:
        return 0.0
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    if Fraction(2) ** exponent > size:
        exponent -= 1
    place = Fraction(2) ** (max(exponent, info.minexp) - info.nmant)
    rounded = round(size / place) * place  # Fraction rounds ties to even
    return sign * (float("inf") if rounded > Fraction(float(info.max)) else float(rounded))


def check(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> None:
    results = fma(a, b, c)
    assert results.dtype == a.dtype
    for x, y, z, got in zip(a.tolist(), b.tolist(), c.tolist(), results.tolist(), strict=True):
        want = nearest(Fraction(x) * Fraction(y) + Fraction(z), a.dtype.type)
        assert got == want, (x, y, z)


def random_bits(random: np.random.Generator, dtype: type, count: int) -> np.ndarray:
    bits = np.dtype(f"u{np.dtype(dtype).itemsize}")
    values = random.integers(0, np.iinfo(bits).max, count, bits, endpoint=True).view(dtype)
    return np.where(np.isfinite(values), values, dtype(1.5))


@pytest.mark.parametrize("dtype", FLOATS)
def test_random_bits_are_rounded_once(dtype):
    random = np.random.default_rng(1)
    check(*(random_bits(random, dtype, 1000) for _ in range(3)))


@pytest.mark.parametrize("dtype", FLOATS)
def test_cancellation_leaves_the_rounding_error_of_the_product(dtype):
    random = np.random.default_rng(2)
    a, b = (random.uniform(-4, 4, 1000).astype(dtype) for _ in range(2))
    product = a * b
    check(a, b, -product)
    check(a, b, -np.nextafter(product, dtype(0)))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("seed", range(4))
def test_results_near_the_smallest_and_largest_numbers(dtype, seed):
    random = np.random.default_rng(seed)
    info = np.finfo(dtype)

    def numbers(low: int, high: int) -> np.ndarray:
        mantissas = random.integers(1, 2 ** int(random.integers(1, info.nmant + 1)), 500)
        values = np.ldexp(mantissas.astype(np.float64), random.integers(low, high, 500)) * random.choice([-1, 1], 500)
        return np.clip(values, -float(info.max), float(info.max)).astype(dtype)

    half, digits = -info.minexp // 2, info.nmant
    spread = min(20, half // 2)
    a, b = numbers(-half - digits - spread, -half - digits + spread), numbers(-half - digits - spread, -half + spread)
    check(a, b, numbers(info.minexp - digits, info.minexp - digits + spread))
    check(a, b, np.zeros_like(a))
    top = info.maxexp - digits
    check(numbers(half - digits - 4, half - digits + 4), numbers(half - 4, half + 4), numbers(top - 4, top))


@pytest.mark.parametrize("dtype", FLOATS)
def test_double_rounding_traps(dtype):
    epsilon = float(np.finfo(dtype).eps)
    one = 1.0
    tails = [epsilon / 2, -epsilon / 2, epsilon / 4, epsilon**2, -(epsilon**2), epsilon / 2 - epsilon**2]
    triples = [(x, y, z) for x in (one, one + epsilon, 1.5) for y in (1.0, one + epsilon, one - epsilon) for z in tails]
    check(*(np.array(column, dtype) for column in zip(*triples, strict=True)))


@pytest.mark.parametrize("dtype", FLOATS)
def test_zeros_infinities_and_nan_follow_ieee(dtype):
    specials = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, float(np.finfo(dtype).max), float(np.finfo(dtype).tiny)]
    for x, y, z in itertools.product(specials, repeat=3):
        got = float(fma(dtype(x), dtype(y), dtype(z)))
        if np.isnan(got):
            invalid = (np.isinf(x) and y == 0) or (x == 0 and np.isinf(y))
            opposite = (np.isinf(x) or np.isinf(y)) and np.isinf(z) and (np.sign(x) * np.sign(y) != np.sign(z))
            assert np.isnan([x, y, z]).any() or invalid or opposite, (x, y, z)
        elif np.isinf([x, y, z]).any():
            assert got == (z if np.isinf(z) else np.sign(x) * np.sign(y) * np.inf), (x, y, z)
        elif x * y == 0 and z == 0:
            assert np.signbit(got) == (np.signbit(x) ^ np.signbit(y) and np.signbit(z)), (x, y, z)
        else:
            assert got == nearest(Fraction(x) * Fraction(y) + Fraction(z), dtype), (x, y, z)


def test_broadcasts_and_refuses_mixed_types():
    assert fma(np.float32(2), np.ones((3, 1), np.float32), np.ones(4, np.float32)).shape == (3, 4)
    with pytest.raises(TypeError, match="one dtype"):
        fma(np.float32(1), np.float64(1), np.float32(1))
