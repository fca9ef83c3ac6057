"""Products and norms of vectors and matrices against NumPy, over dtypes, ranks and axes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import raido as rd

DTYPES = (np.bool_, np.int8, np.int64, np.float16, np.float32, np.float64, np.complex64, np.complex128)


def sample(dtype: Any, shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    dtype = np.dtype(dtype)
    if dtype.kind in "bi":
        return random.integers(0 if dtype.kind == "b" else -3, 2 if dtype.kind == "b" else 4, shape).astype(dtype)
    values = random.standard_normal(shape)
    return (values + 1j * random.standard_normal(shape)).astype(dtype) if dtype.kind == "c" else values.astype(dtype)


def near(ours: Any, expected: Any) -> None:
    expected = np.asarray(expected)
    assert ours.dtype == expected.dtype
    assert ours.shape == expected.shape
    eps = np.finfo(expected.dtype).eps if expected.dtype.kind in "fc" else 0
    np.testing.assert_allclose(ours, expected, rtol=30 * eps, atol=30 * eps)


@pytest.mark.parametrize("dtype", DTYPES)
def test_products_of_vectors_and_matrices(dtype: type) -> None:
    m, k, v = sample(dtype, (3, 4)), sample(dtype, (2, 4), 1), sample(dtype, (4,), 2)

    def program(m: Any, k: Any, v: Any) -> Any:
        products = rd.inner(m, k), rd.inner(v, v), rd.inner(m, v), rd.outer(m, v), rd.vdot(m[:2], k), rd.kron(m, v)
        return *products, rd.tensordot(m, k, (1, 1)), rd.tensordot(m, v, 0), rd.tensordot(m, m), rd.kron(k, m)

    expected = [np.inner(m, k), np.inner(v, v), np.inner(m, v), np.outer(m, v), np.vdot(m[:2], k), np.kron(m, v)]
    expected += [np.tensordot(m, k, (1, 1)), np.tensordot(m, v, 0), np.tensordot(m, m), np.kron(k, m)]
    for ours, answer in zip(rd.algorithm(program).interpret(m, k, v), expected, strict=True):
        near(ours, answer)


@pytest.mark.parametrize("dtype", [np.int64, np.float32, np.complex128])
def test_products_that_broadcast(dtype: type) -> None:
    m, v = sample(dtype, (2, 3, 4)), sample(dtype, (2, 4), 1)
    w = sample(dtype, (2, 3), 2)

    def program(m: Any, v: Any, w: Any) -> Any:
        return rd.vecdot(m, v[:, None]), rd.matvec(m, v), rd.vecmat(w, m), rd.vecdot(m, w[..., None], axis=1)

    expected = np.vecdot(m, v[:, None]), np.matvec(m, v), np.vecmat(w, m), np.vecdot(m, w[..., None], axis=1)
    for ours, answer in zip(rd.algorithm(program).interpret(m, v, w), expected, strict=True):
        near(ours, answer)


def test_scalars_and_axes_by_pairs() -> None:
    a, b = sample(np.float64, (2, 3, 4)), sample(np.float64, (4, 3, 5), 1)
    near(rd.algorithm(lambda a: rd.inner(a, 3)).interpret(a), np.inner(a, 3))
    near(rd.algorithm(lambda a: rd.kron(a, 2)).interpret(a), np.kron(a, 2))
    axes = ((1, 2), (1, 0))
    near(rd.algorithm(lambda a, b: rd.tensordot(a, b, axes)).interpret(a, b), np.tensordot(a, b, axes))
    near(rd.algorithm(lambda a, b: rd.tensordot(a, b, ([-1], [0]))).interpret(a, b), np.tensordot(a, b, ([-1], [0])))
    with pytest.raises(rd.ShapeError, match="2 axes of one operand"):
        rd.algorithm(lambda a, b: rd.tensordot(a, b, ((0, 1), (0,)))).interpret(a, b)
    with pytest.raises(rd.ShapeError, match="named twice"):
        rd.algorithm(lambda a, b: rd.tensordot(a, b, ((0, 0), (0, 1)))).interpret(a, b)
    with pytest.raises(rd.ShapeError, match="rank 1, where at least 2"):
        rd.algorithm(lambda a: rd.matvec(a[0, 0], a)).interpret(a)


@pytest.mark.parametrize("dtype", [np.bool_, np.uint8, np.float16, np.float64, np.complex64])
@pytest.mark.parametrize("offset", [0, 1, -2, 9])
def test_trace(dtype: type, offset: int) -> None:
    a = sample(dtype, (3, 4, 5)) if dtype is not np.uint8 else np.arange(60, dtype=np.uint8).reshape(3, 4, 5)
    near(rd.algorithm(lambda a: rd.trace(a[0], offset)).interpret(a), np.trace(a[0], offset))
    near(rd.algorithm(lambda a: rd.trace(a, offset, 2, 0)).interpret(a), np.trace(a, offset, 2, 0))


@pytest.mark.parametrize("dtype", [np.int32, np.float32, np.complex128])
def test_cross(dtype: type) -> None:
    a, b = sample(dtype, (4, 3)), sample(dtype, (4, 3), 1)
    fixed = rd.algorithm(lambda a, b: rd.cross(a, b)), rd.algorithm(lambda a, b: rd.cross(a.T, b.T, axis=0))
    near(fixed[0].interpret(a, b), np.cross(a, b))
    near(fixed[1].interpret(a, b), np.cross(a.T, b.T, axis=0))
    near(rd.algorithm(lambda a, b: rd.cross(a, b, axisc=0)).interpret(a, b), np.cross(a, b, axisc=0))
    near(rd.algorithm(lambda a: rd.cross(a, [1, 2, 3])).interpret(a[0]), np.cross(a[0], [1, 2, 3]))
    with pytest.raises(rd.ShapeError, match="2 elements, not of 3"):
        rd.algorithm(lambda a: rd.cross(a, a)).trace(rd.f64["n", 2])
    with pytest.raises(rd.SizeMismatch, match=r"vectors of rd\.cross"):
        rd.algorithm(lambda a: rd.cross(a, a)).interpret(np.zeros((2, 4)))


VECTOR_ORDERS = [None, 2, 1, 0, 3, 2.5, -1, np.inf, -np.inf]
MATRIX_ORDERS = [None, "fro", 1, -1, np.inf, -np.inf]


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("dtype", [np.int16, np.float16, np.float32, np.float64, np.complex64, np.complex128])
def test_norms(dtype: type, keepdims: bool) -> None:
    a = sample(dtype, (3, 4, 5))
    cases: list[tuple[Any, Any]] = [(order, axis) for order in VECTOR_ORDERS for axis in (0, -1)]
    cases += [(order, axes) for order in MATRIX_ORDERS for axes in ((0, 1), (2, 0))]
    cases += [(None, None)]
    algorithm = rd.algorithm(lambda a: tuple(rd.linalg.norm(a, order, axis, keepdims) for order, axis in cases))
    for ours, (order, axis) in zip(algorithm.interpret(a), cases, strict=True):
        expected = np.linalg.norm(a, order, axis, keepdims)
        assert ours.dtype == expected.dtype
        assert ours.shape == expected.shape
        eps = 30 * np.finfo(expected.dtype).eps
        np.testing.assert_allclose(ours, expected, rtol=eps, atol=eps, err_msg=f"{order} {axis}")


def test_norms_of_whole_arrays_and_refusals() -> None:
    a = sample(np.float64, (3, 4))
    for order in MATRIX_ORDERS:
        near(rd.algorithm(lambda a, *, order=order: rd.linalg.norm(a, order)).interpret(a), np.linalg.norm(a, order))
    near(rd.algorithm(lambda a: rd.linalg.norm(a[0], 3)).interpret(a), np.linalg.norm(a[0], 3))
    with pytest.raises(rd.TraceError, match="no order 3 of norms of matrices"):
        rd.algorithm(lambda a: rd.linalg.norm(a, 3)).interpret(a)
    with pytest.raises(rd.ShapeError, match="over 3 axes"):
        rd.algorithm(lambda a: rd.linalg.norm(a, 1)).interpret(np.zeros((2, 2, 2)))


@pytest.mark.parametrize("order", [2, -2, "nuc"])
def test_norms_by_singular_values(order: object) -> None:
    a = sample(np.float64, (3, 4, 5))
    for axes, keepdims in (((1, 2), False), ((0, 2), True), ((2, 0), False)):
        run = rd.algorithm(lambda a, *, order=order, axes=axes, keep=keepdims: rd.linalg.norm(a, order, axes, keep))
        near(run.interpret(a), np.linalg.norm(a, order, axes, keepdims))  # type: ignore[call-overload]


def test_compiled_code_agrees() -> None:
    a, b = sample(np.float32, (20, 30)), sample(np.float32, (30, 5), 1)
    program = rd.algorithm(
        lambda a, b: (rd.tensordot(a, b, 1), rd.trace(a), rd.linalg.norm(a, 1), rd.kron(b[:2], b), rd.vdot(a, a))
    )
    expected = np.tensordot(a, b, 1), np.trace(a), np.linalg.norm(a, 1), np.kron(b[:2], b), np.vdot(a, a)
    for ours, answer in zip(program(a, b), expected, strict=True):
        np.testing.assert_allclose(ours, answer, rtol=1e-5, atol=1e-5)


def test_methods_of_arrays() -> None:
    a, z = sample(np.float64, (3, 4)), sample(np.complex128, (4, 3))

    def program(a: Any, z: Any) -> Any:
        line = a.flatten()
        order = line.argsort()
        found = line[order].searchsorted(0.0, "right")
        return (
            a.trace(1),
            a.dot(a.T),
            a.conj(),
            z.trace(),
            z.dot(z.T),
            z.conjugate(),
            found,
            *divmod(a, 0.5),
            *divmod(7, a),
        )

    line = a.ravel()
    found = line[line.argsort()].searchsorted(0.0, "right")
    expected = (
        a.trace(1),
        a.dot(a.T),
        a.conj(),
        z.trace(),
        z.dot(z.T),
        z.conjugate(),
        found,
        *divmod(a, 0.5),
        *divmod(7, a),
    )
    for ours, answer in zip(rd.algorithm(program).interpret(a, z), expected, strict=True):
        near(ours, answer)
