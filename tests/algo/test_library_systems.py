"""Systems of linear equations against NumPy, over dtypes, stacks, sizes and matrices that need pivoting."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import raido as rd


def matrices(dtype: Any, *shape: int) -> np.ndarray:
    made = np.random.default_rng(0).standard_normal(shape)
    return (10 * made).astype(dtype)


def near(ours: Any, expected: Any) -> None:
    expected = np.asarray(expected)
    assert ours.dtype == expected.dtype and ours.shape == expected.shape
    eps = np.finfo(expected.dtype).eps
    np.testing.assert_allclose(ours, expected, rtol=3000 * eps, atol=3000 * eps)


SYSTEMS = rd.algorithm(
    lambda a, b, c: (rd.linalg.solve(a, b), rd.linalg.solve(a, c), rd.linalg.inv(a), rd.linalg.det(a))
)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
@pytest.mark.parametrize("shape", [(3, 3), (2, 4, 4), (1, 1), (0, 2, 2), (0, 0)])
def test_systems_inverses_and_determinants(dtype: Any, shape: tuple[int, ...]) -> None:
    n = shape[-1]
    a, b, c = matrices(dtype, *shape), matrices(dtype, n), matrices(dtype, *shape[:-1], 2)
    found = SYSTEMS.interpret(a, b, c)
    for ours, expected in zip(
        found, (np.linalg.solve(a, b), np.linalg.solve(a, c), np.linalg.inv(a), np.linalg.det(a)), strict=True
    ):
        near(ours, expected)


def test_rows_change_places_where_a_pivot_is_zero_or_small() -> None:
    a = np.array([[0, 1, 2], [1e-20, 3, 1], [4, 0, 1.0]])
    for ours, expected in zip(SYSTEMS.interpret(a, a[0], a), (np.linalg.solve(a, a[0]), np.eye(3)), strict=False):
        near(ours, expected)
    near(rd.algorithm(lambda a: np.linalg.det(a)).interpret(a), np.linalg.det(a))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_factors_of_positive_definite_matrices(dtype: Any) -> None:
    a = matrices(dtype, 2, 5, 5)
    a = a @ a.mT + 50 * np.eye(5, dtype=dtype)
    for upper in (False, True):
        program = rd.algorithm(lambda a, *, upper: rd.linalg.cholesky(a, upper=upper))
        triangle = np.triu(a) if upper else np.tril(a)
        near(program.interpret(triangle, upper=upper), np.linalg.cholesky(a).mT if upper else np.linalg.cholesky(a))
    assert np.isnan(rd.algorithm(lambda a: rd.linalg.cholesky(a)).interpret(-a)).any()


def test_leading_axes_broadcast() -> None:
    a, b = matrices(np.float64, 2, 1, 3, 3), matrices(np.float64, 4, 3, 2)
    program = rd.algorithm(lambda a, b: rd.linalg.solve(a, b), a="f64[2, 1, n, n]")
    near(program.interpret(a, b), np.linalg.solve(a, b))


def test_a_singular_matrix_raises_nothing() -> None:
    solved, _, inverse, determinant = SYSTEMS.interpret(np.ones((2, 2)), np.array([1.0, 2.0]), np.ones((2, 2)))
    assert not np.isfinite(solved).any() and not np.isfinite(inverse).all() and determinant == 0


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
@pytest.mark.parametrize("shape", [(3, 3), (2, 4, 4), (0, 2, 2), (0, 0)])
def test_logarithms_of_determinants(dtype: Any, shape: tuple[int, ...]) -> None:
    a = matrices(dtype, *shape)
    sign, logarithm = rd.algorithm(lambda a: rd.linalg.slogdet(a)).interpret(a)
    expected = np.linalg.slogdet(a)
    near(sign, expected.sign)
    near(logarithm, expected.logabsdet)


def test_determinants_of_matrices_without_a_pivot() -> None:
    program = rd.algorithm(lambda a: (rd.linalg.det(a), *rd.linalg.slogdet(a)))
    for a in (np.zeros((3, 3)), np.diag([1.0, 0, 2]), np.ones((2, 2))):
        assert [float(value) for value in program.interpret(a)] == [0, 0, -np.inf]


def test_systems_in_functions_of_elements_copy_nothing() -> None:
    each = rd.algorithm(lambda a, b: rd.map(lambda a, b: rd.linalg.solve(a, b), a, b))
    a, b = matrices(np.float64, 3, 4, 4), matrices(np.float64, 3, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("error", rd.CopyWarning)
        near(each(a, b), np.linalg.solve(a, b[..., None])[..., 0])


STACKS = {
    "det": (rd.linalg.det, ()),
    "inv": (rd.linalg.inv, ()),
    "slogdet": (rd.linalg.slogdet, ()),
    "cholesky": (rd.linalg.cholesky, ()),
    "solve": (rd.linalg.solve, ("f64[k, {n}, 1]",)),
    "solve of one for all": (rd.linalg.solve, ("f64[{n}, 1]",)),
    "map of solve": (lambda a, b: rd.map(rd.linalg.solve, a, b), ("f64[k, {n}]",)),
}


@pytest.mark.parametrize("size", ["2", "4", "9", "n"])
@pytest.mark.parametrize("name", STACKS)
def test_stacks_of_matrices_copy_nothing(name: str, size: str) -> None:
    function, others = STACKS[name]
    types = [each.format(n=size) for each in ("f64[k, {n}, {n}]", *others)]
    program = rd.algorithm(lambda a, b: function(a, b)) if others else rd.algorithm(lambda a: function(a))
    assert "copies" not in program.schedule(*types).nest_text()


def test_compiled_code_solves_systems_of_any_size() -> None:
    program = rd.algorithm(lambda a, b: rd.linalg.solve(a, b), a="f64[n, n]", b="f64[n]")
    a, b = matrices(np.float64, 9, 9), matrices(np.float64, 9)
    near(program(a, b), np.linalg.solve(a, b))


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        (lambda a: rd.linalg.inv(a[:, :1]), rd.ShapeError),
        (lambda a: rd.linalg.det(a[0]), rd.ShapeError),
        (lambda a: rd.linalg.solve(a * 1j, a), rd.DTypeError),
        (lambda a: rd.linalg.solve(a, a[:1]), rd.ShapeError),
    ],
)
def test_refusals(wrong: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        rd.algorithm(wrong, a="f64[3, 3]").interpret(np.eye(3))


def test_no_warning_names_an_array_of_raidos_own() -> None:
    """Least squares by two functions of raido's: what they copy inside is no user's to change."""

    @rd.algorithm
    def least_squares(a: rd.f64["n", "m"], b: rd.f64["n"]):
        q, r = rd.linalg.qr(a)
        return rd.linalg.solve(r, q.T @ b)

    rng = np.random.default_rng(0)
    a, b = rng.random((8, 3)), rng.random(8)
    with warnings.catch_warnings():
        warnings.simplefilter("error", rd.CopyWarning)
        found = least_squares(a, b)
    np.testing.assert_allclose(found, np.linalg.lstsq(a, b, rcond=None)[0])
