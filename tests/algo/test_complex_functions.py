"""Functions of complex numbers against NumPy's: special values exactly, others within a few units in the last place of their magnitude."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import raido as rd

FUNCTIONS = ["exp", "exp2", "expm1", "log", "log2", "log10", "sqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh"]
EXACT = ["conj", "isnan", "isinf", "isfinite", "logical_not", "negative", "rint", "reciprocal", "square"]
INVERSES = ["arcsin", "arccos", "arctan", "arcsinh", "arccosh", "arctanh"]
FUNCTIONS += INVERSES
OTHERS = ["absolute", "angle", "log1p", "sign"]
TYPES = [np.complex64, np.complex128]


def special(dtype: Any) -> np.ndarray:
    """Every pair of parts that has a rule of its own, of those that overflow or vanish, and of some that are plain."""
    limits = np.finfo(dtype)
    parts = [0.0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 0.5, -3, 30, -100, 800, 1e-3, np.pi / 2]
    parts += [limits.max, -limits.max / 2, limits.tiny, limits.smallest_subnormal]
    values = np.array(parts, limits.dtype)
    grid = np.empty((len(values), len(values)), dtype)
    grid.real, grid.imag = values[:, None], values[None]
    return grid.ravel()


def plain(dtype: Any) -> np.ndarray:
    """Numbers of sizes from 1e-3 to 30, and close to 1."""
    random = np.random.default_rng(0)
    part = lambda n: random.normal(size=n) * 10 ** random.uniform(-3, 1.5, n)
    near = 1 + (random.normal(size=2000) + 1j * random.normal(size=2000)) * 10 ** random.uniform(-6, -1, 2000)
    return np.concatenate([part(4000) + 1j * part(4000), near]).astype(dtype)


def same(a: Any, b: Any) -> np.ndarray:
    """Where numbers are equal, signs of zeros included; any NaN equals any."""
    equal = lambda x, y: (np.isnan(x) & np.isnan(y)) | ((x == y) & (np.signbit(x) == np.signbit(y)))
    return a == b if a.dtype.kind == "b" else equal(a.real, b.real) & equal(a.imag, b.imag)


def in_numpy(name: str, *values: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return getattr(np, name)(*values)


def function(name: str) -> rd.Algorithm:
    return rd.algorithm(lambda z: getattr(rd, name)(z))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", [*FUNCTIONS, *OTHERS])
def test_special_values_are_numpys(name: str, dtype: Any) -> None:
    z = special(dtype)
    result, expected = function(name).interpret(z), in_numpy(name, z)
    assert result.dtype == expected.dtype
    for part, other in (("real", "imag"), ("imag", "real")):
        ours, theirs = getattr(result, part), getattr(expected, part)
        # C99 (Annex G) leaves the sign of an infinity beside NaN open; NumPy's differs from version to version
        either = np.isinf(theirs) & np.isinf(ours) & np.isnan(getattr(expected, other))
        if (
            name == "arccosh"
        ):  # at ±0 + NaNi older NumPys have C99's NaN, newer ones (and we) the π/2 of its correction (DR 471)
            either |= np.isnan(theirs) & (z.real == 0) & np.isnan(z.imag)
        with np.errstate(all="ignore"):
            close = np.isfinite(theirs) & (np.abs(ours - theirs) <= 20 * np.finfo(dtype).eps * np.abs(expected))
        ordinary = (theirs != 0) | (ours != 0)
        wrong = ~(same(ours + 0j, theirs + 0j) | (close & ordinary) | either)
        assert not wrong.any(), list(zip(z[wrong], result[wrong], expected[wrong], strict=True))[:5]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", [*FUNCTIONS, *OTHERS])
def test_errors_are_a_few_units_in_the_last_place(name: str, dtype: Any) -> None:
    z = plain(dtype)
    expected = in_numpy(name, z.astype(np.clongdouble if name != "sign" else np.complex128))
    size = np.maximum(np.abs(expected), np.finfo(dtype).tiny)
    error = np.abs(function(name).interpret(z) - expected) / size / np.finfo(dtype).eps
    own = np.abs(in_numpy(name, z) - expected) / size / np.finfo(dtype).eps
    assert error.max() < 3.5 or error.max() < 1.5 * own.max()  # log1p and exp2 lose what NumPy's formula loses


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", EXACT)
def test_exact_functions_are_numpys(name: str, dtype: Any) -> None:
    for z in (special(dtype), plain(dtype)):
        result, expected = function(name).interpret(z), in_numpy(name, z)
        if name == "square":  # a product: NumPy fuses its operations only on processors that can
            result, expected = result[np.isfinite(expected)], expected[np.isfinite(expected)]
            limits = np.finfo(dtype)
            np.testing.assert_allclose(result, expected, rtol=2 * limits.eps, atol=4 * limits.tiny)
        else:
            assert same(result, expected).all()


@pytest.mark.parametrize("dtype", TYPES)
def test_quotients_have_numpys_bits(dtype: Any) -> None:
    random = np.random.default_rng(1)
    z, w = (random.normal(size=(2, 5000)) + 1j * random.normal(size=(2, 5000))).astype(dtype)
    grid = [side.ravel() for side in np.meshgrid(special(dtype), special(dtype))]
    for a, b in ((z, w), grid):
        for contract in (True, False):
            divide = rd.algorithm(contract=contract)(lambda a, b: a / b)
            assert same(divide.interpret(a, b), in_numpy("divide", a, b)).all()


@pytest.mark.parametrize("name", ["add", "subtract", "equal", "not_equal", "logical_and", "logical_or", "logical_xor"])
def test_two_complex_numbers(name: str) -> None:
    z, w = (side.ravel() for side in np.meshgrid(special(np.complex64), special(np.complex64)))
    result = rd.algorithm(lambda z, w: getattr(rd, name)(z, w)).interpret(z, w)
    assert same(result, in_numpy(name, z, w)).all()


@pytest.mark.parametrize("dtype", TYPES)
def test_products_and_powers(dtype: Any) -> None:
    random = np.random.default_rng(2)
    z, w = (random.normal(size=(2, 3000)) + 1j * random.normal(size=(2, 3000))).astype(dtype)
    eps = np.finfo(dtype).eps

    def error(result: np.ndarray, expected: np.ndarray) -> float:
        assert result.dtype == expected.dtype
        return float(np.max(np.abs(result - expected) / np.abs(expected)) / eps)

    assert error(rd.algorithm(lambda z, w: z * w).interpret(z, w), z * w) < 2
    for exponent, limit in {0: 1, 1: 1, 2: 2, 3: 4, -1: 2, -2: 4, 7: 6, 0.5: 3, 2.5: 20, 1j: 20, -0.5 + 2j: 20}.items():
        power = rd.algorithm(lambda z, *, e: z**e)
        assert error(power.interpret(z, e=exponent), z**exponent) < limit
    assert error(rd.algorithm(lambda z, w: z**w).interpret(z, w), z**w) < 60  # |w log z| units
    assert error(rd.algorithm(lambda z: 2**z).interpret(z), 2**z) < 20


def test_powers_of_and_by_nothing() -> None:
    z, w = (np.ravel(side) for side in np.meshgrid([0, 1, 2, 0.5j, -1], np.array([0, 1, 2, -1, 1j, -0.5 + 1j])))
    result, expected = rd.algorithm(lambda z, w: z**w).interpret(z, w), in_numpy("power", z, w)
    np.testing.assert_allclose(result, expected, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("dtype", TYPES)
def test_machine_code_gives_the_interpreters_bits(dtype: Any) -> None:
    names = [*FUNCTIONS, *OTHERS, "reciprocal"]
    z = np.concatenate([special(dtype), plain(dtype)[::7]])
    program = rd.algorithm(lambda z: (*(getattr(rd, name)(z) for name in names), z / z[::-1], z**1.5))
    for name, result, expected in zip([*names, "divide", "power"], program(z), program.interpret(z), strict=True):
        assert same(result, expected).all(), name


def test_functions_of_literals_stay_literals() -> None:
    z = np.ones(3, np.complex64)
    program = rd.algorithm(lambda z: (z * rd.exp(1j), z + rd.sqrt(-1 + 0j), z * (1j**2), z * rd.log(2j)))
    expected = (z * np.complex64(np.exp(1j)), z + 1j, -z, z * np.complex64(np.log(2j)))
    for result, value in zip(program.interpret(z), expected, strict=True):
        assert result.dtype == np.complex64
        np.testing.assert_allclose(result, value, rtol=1e-6, atol=1e-6)
