"""Factorisations of matrices: their defining properties, over shapes, ranks, equal values and stacks; and NumPy's values and errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import raido as rd

RNG = np.random.default_rng(0)
TURN = np.linalg.qr(RNG.standard_normal((6, 6)))[0]
SVD = {full: rd.algorithm(lambda a, *, full=full: rd.linalg.svd(a, full_matrices=full)) for full in (False, True)}
QR = {mode: rd.algorithm(lambda a, *, mode=mode: rd.linalg.qr(a, mode)) for mode in ("reduced", "complete", "r")}
EIGH = rd.algorithm(lambda a: rd.linalg.eigh(a))
SOLVED = rd.algorithm(lambda a: (rd.linalg.pinv(a, 1e-9), rd.linalg.matrix_rank(a), rd.linalg.svdvals(a)))


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape)


MATRICES = {
    "tall": normal(7, 3),
    "wide": normal(3, 6),
    "one element": normal(1, 1),
    "rank 2 of 4": normal(6, 2) @ normal(2, 4),
    "zeros": np.zeros((3, 2)),
    "equal singular values": TURN,
    "far apart": TURN @ np.diag([1e8, 1e4, 1, 1, 1e-3, 1e-7]) @ TURN.T,
    "enormous": 1e200 * normal(3, 3),
    "stack": normal(2, 3, 4),
    "no columns": normal(3, 0),
    "no rows": normal(0, 3),
}


def close(ours: Any, expected: Any, scale: float = 1.0) -> None:
    """Equal up to some units in the last place of the largest element."""
    expected = np.asarray(expected)
    assert ours.shape == expected.shape and ours.dtype == expected.dtype
    np.testing.assert_allclose(ours / scale, expected / scale, rtol=0, atol=200 * np.finfo(expected.dtype).eps)


def orthonormal(columns: np.ndarray) -> None:
    close(
        columns.mT @ columns,
        np.broadcast_to(np.eye(columns.shape[-1]), (*columns.shape[:-2], *[columns.shape[-1]] * 2)),
    )


def scale_of(a: np.ndarray) -> float:
    return max(np.abs(a).max(initial=0), np.finfo(float).tiny)


@pytest.mark.parametrize(("name", "full"), [*((name, True) for name in MATRICES), ("tall", False), ("wide", False)])
def test_singular_values_and_vectors(name: str, full: bool) -> None:
    a = MATRICES[name]
    u, s, vh = SVD[full].interpret(a)
    expected = np.linalg.svd(a, full_matrices=full)
    assert (u.shape, vh.shape) == (expected.U.shape, expected.Vh.shape)
    close(s, expected.S, scale_of(a))
    orthonormal(u)
    orthonormal(vh.mT)
    k = s.shape[-1]
    close((u[..., :k] * s[..., None, :]) @ vh[..., :k, :], a, scale_of(a))


@pytest.mark.parametrize("name", ["rank 2 of 4", "stack", "zeros"])
def test_inverses_and_ranks(name: str) -> None:
    a = MATRICES[name]
    inverse, rank, values = SOLVED.interpret(a)
    close(values, np.linalg.svd(a, compute_uv=False), scale_of(a))
    np.testing.assert_array_equal(rank, np.linalg.matrix_rank(a))
    np.testing.assert_allclose(inverse, np.linalg.pinv(a, 1e-9), rtol=0, atol=1e-12 * np.abs(inverse).max() + 1e-300)


@pytest.mark.parametrize("name", MATRICES)
def test_orthogonal_and_triangular_factors(name: str) -> None:
    a = MATRICES[name]
    for mode, program in QR.items():
        found, expected = program.interpret(a), np.linalg.qr(a, mode)
        q, r = (None, found) if mode == "r" else found
        assert r.shape == (expected if mode == "r" else expected.R).shape and (r == np.triu(r)).all()
        if q is not None:
            orthonormal(q)
            close(q @ r, a, scale_of(a))
    if name in ("tall", "wide", "stack"):
        close(QR["r"].interpret(a), np.linalg.qr(a, "r"), scale_of(a))


@pytest.mark.parametrize(
    "a",
    [
        np.eye(3),
        TURN @ np.diag([1.0, 1, -1, -1, 0, 0]) @ TURN.T,
        TURN @ np.diag([1e8, 1, 1e-3, -1e8, 5, 5]) @ TURN.T,
        normal(1, 1),
        normal(2, 3, 3),
        normal(0, 0),
    ],
)
def test_eigenvalues_and_vectors(a: np.ndarray) -> None:
    values, vectors = EIGH.interpret(a)
    close(values, np.linalg.eigvalsh(a), scale_of(a))
    orthonormal(vectors)
    lower = np.tril(a) + np.tril(a, -1).mT
    close(lower @ vectors, vectors * values[..., None, :], scale_of(a))


def test_only_one_triangle_is_read() -> None:
    a = normal(4, 4)
    for triangle in ("L", "U"):
        values = rd.algorithm(a="f64[n, n]")(lambda a, *, t=triangle: rd.linalg.eigvalsh(a, t)).interpret(a)
        close(values, np.linalg.eigvalsh(a, triangle), scale_of(a))


def test_least_squares() -> None:
    program = rd.algorithm(lambda a, b: rd.linalg.lstsq(a, b))
    for a, b in ((normal(6, 3), normal(6)), (normal(3, 5), normal(3)), (MATRICES["rank 2 of 4"], normal(6, 2))):
        for ours, expected in zip(program.interpret(a, b), np.linalg.lstsq(a, b), strict=True):
            assert np.shape(ours) == np.shape(expected)
            np.testing.assert_allclose(ours, expected, rtol=1e-9, atol=1e-12)


def test_types_and_refusals() -> None:
    u, s, vh = rd.algorithm(a="f32[3, 5]")(lambda a: np.linalg.svd(a, False)).interpret(normal(3, 5).astype(np.float32))
    assert (u.dtype, s.dtype, vh.dtype) == (np.float32,) * 3 and (u.shape, vh.shape) == ((3, 3), (3, 5))
    assert rd.algorithm(lambda a: rd.linalg.svdvals(a)).interpret(np.eye(2, dtype=np.int64)).dtype == np.float64
    assert np.isnan(rd.algorithm(lambda a: rd.linalg.svdvals(a)).interpret(np.full((2, 2), np.nan))).all()
    for wrong, error in (
        (lambda a: rd.linalg.qr(a, "raw"), rd.TraceError),
        (lambda a: rd.linalg.eigh(a, "X"), rd.TraceError),
        (lambda a: rd.linalg.svd(a[0]), rd.ShapeError),
        (lambda a: rd.linalg.eigh(a[:, :2]), rd.ShapeError),
        (lambda a: rd.linalg.svd(a * 1j), rd.DTypeError),
        (lambda a: rd.linalg.lstsq(a, a[None]), rd.ShapeError),
    ):
        with pytest.raises(error):
            rd.algorithm(a="f64[3, 3]")(wrong).trace()


def test_compiled_factors_of_any_size() -> None:
    compiled = rd.algorithm(a="f64[m, n]")(lambda a: rd.linalg.qr(a)).compile()
    for a in (normal(5, 4), normal(3, 6), normal(20, 20)):
        q, r = compiled(a)
        close(q @ r, a, scale_of(a))
        orthonormal(q)
