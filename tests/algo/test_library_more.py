"""Arrays joined, chosen from, changed, made by rules, and taken as sets give NumPy's results."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from numpy_twin import REAL, finite, same, sample

import raido as rd


@pytest.mark.parametrize("dtype", REAL)
def test_sets(dtype: Any) -> None:
    a, b = finite((3, 4), dtype), finite((9,), dtype, 3)
    b[:3] = a[0, :3]
    if a.dtype.kind == "f":
        a[1, 1] = b[5] = np.nan
    same(
        lambda a, b: (rd.union1d(a, b), rd.intersect1d(a, b), rd.setdiff1d(a, b), rd.setxor1d(a, b)),
        lambda a, b: (np.union1d(a, b), np.intersect1d(a, b), np.setdiff1d(a, b), np.setxor1d(a, b)),
        a,
        b,
    )
    same(
        lambda a, b: rd.intersect1d(a, b, return_indices=True),
        lambda a, b: np.intersect1d(a, b, return_indices=True),
        a,
        b,
    )


def test_sets_of_two_types_and_none() -> None:
    a, b = np.array([3, 1, 2, 1], np.int8), np.array([1.0, 2.5])
    same(
        lambda a, b: (rd.union1d(a, b), rd.intersect1d(a, b), rd.setdiff1d(a, b, True), rd.setxor1d(a, b[:0])),
        lambda a, b: (np.union1d(a, b), np.intersect1d(a, b), np.setdiff1d(a, b, True), np.setxor1d(a, b[:0])),
        a,
        b,
    )


def test_parts_of_unique() -> None:
    a = np.array([[3, 1], [1, 2]])
    same(
        lambda a: (
            tuple(rd.unique_all(a)),
            tuple(rd.unique_counts(a)),
            tuple(rd.unique_inverse(a)),
            rd.unique_values(a),
        ),
        lambda a: (
            tuple(np.unique_all(a)),
            tuple(np.unique_counts(a)),
            tuple(np.unique_inverse(a)),
            np.sort(np.unique_values(a)),
        ),
        a,
    )
    assert rd.algorithm(lambda a: rd.unique_all(a)).trace(rd.f32["n"])


@pytest.mark.parametrize("dtype", [np.int16, np.float32, np.complex64])
def test_assembling(dtype: Any) -> None:
    a, b = finite((2, 3), dtype), finite((2, 2), dtype, 1)

    def called(m: Any) -> Any:
        return lambda a, b: (
            m.append(a, b),
            m.append(a, b, 1),
            m.append(a, [[1, 2, 3]], 0),
            m.block([[a, b], [b, a]]),
            m.block([a[0], b[0]]),
            m.block([[a], [1, 2, 3]]) if m is None else m.block([[a, b[:, :1]]]),
            m.block(a),
            tuple(m.broadcast_arrays(a, a[:1], a[0, 0])),
            m.resize(a, (4, 2)),
            m.resize(a, 0),
            m.resize(a[:0], (2, 2)),
            m.delete(a, 1),
            m.delete(a, [0, -1], 1),
            m.delete(a, slice(None, None, 2), 1),
            m.insert(a, 1, 7),
            m.insert(a, 1, [7, 8], 1),
            m.insert(a, -1, a[0], 0),
            m.insert(a[0], 3, [1, 2]),
            tuple(m.unstack(a, axis=1)),
            m.rollaxis(a[None], 2),
            m.rollaxis(a[None], 0, 3),
            m.permute_dims(a[None], (2, 0, 1)),
            m.matrix_transpose(a),
        )

    same(called(rd), called(np), a, b, sized=True)


def test_shapes() -> None:
    assert rd.algorithm(lambda a: a + sum(rd.broadcast_shapes((6, 7), (5, 6, 1), 7))).interpret(0) == 18
    for trim in ("fb", "f", "b"):
        for a in (np.array([0, 0, 3, 0, 1, 0]), np.zeros(3), np.zeros(0), np.array([1.5, 0])):
            same(lambda a, *, t=trim: rd.trim_zeros(a, t), lambda a, *, t=trim: np.trim_zeros(a, t), a)
    a = np.array([0, 2, 0], np.float32)
    same(rd.algorithm(a="f32[n]")(lambda a: rd.trim_zeros(a)), lambda a: np.trim_zeros(a), a, compiled=True)


@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.float64, np.complex64])
def test_choosing(dtype: Any) -> None:
    a, c = finite((3, 4), dtype), sample((3, 4), np.bool_, 1)
    same(
        lambda a, c: (
            rd.compress(c[0], a, 1),
            rd.compress(c[0, :2], a, 0),
            rd.compress([1, 0, 1], a),
            rd.extract(c, a),
            rd.piecewise(a, [c], [1, lambda v: v]),
            rd.piecewise(a, [c, ~c], [lambda v: v, lambda v: v]),
            a[rd.ix_([2, 0], [1, 3, 1])],
            rd.apply_along_axis(lambda r: r[::-1], 0, a),
            rd.apply_along_axis(lambda r: r[0], 1, a),
            rd.apply_along_axis(lambda r: r[:, None] == r[None, :], 0, a),
            rd.apply_over_axes(rd.sum, a, [0, 1]),
        ),
        lambda a, c: (
            np.compress(c[0], a, 1),
            np.compress(c[0, :2], a, 0),
            np.compress([1, 0, 1], a),
            np.extract(c, a),
            np.piecewise(a, [c], [1, lambda v: v]),
            np.piecewise(a, [c, ~c], [lambda v: v, lambda v: v]),
            a[np.ix_([2, 0], [1, 3, 1])],
            np.apply_along_axis(lambda r: r[::-1], 0, a),
            np.apply_along_axis(lambda r: r[0], 1, a),
            np.apply_along_axis(lambda r: r[:, None] == r[None, :], 0, a),
            np.apply_over_axes(np.sum, a, [0, 1]),
        ),
        a,
        c,
    )


@pytest.mark.parametrize("dtype", [np.int8, np.float32, np.complex64])
def test_changed_elements(dtype: Any) -> None:
    a, i = finite((3, 4), dtype), np.array([[1], [0], [3]])

    def put(a: np.ndarray, i: np.ndarray, values: Any, axis: Any) -> np.ndarray:
        changed = a.copy()
        np.put_along_axis(changed, i, values, axis)
        return changed

    def filled(a: np.ndarray, value: Any, wrap: bool = False) -> np.ndarray:
        changed = a.copy()
        np.fill_diagonal(changed, value, wrap)
        return changed

    same(
        lambda a, i: (
            rd.put_along_axis(a, i, 7, 1),
            rd.put_along_axis(a, i, a[:, :1], -1),
            rd.put_along_axis(a, i[:, 0], 5, None),
        ),
        lambda a, i: (put(a, i, 7, 1), put(a, i, a[:, :1], -1), put(a, i[:, 0], 5, None)),
        a,
        i,
    )
    tall = finite((7, 3), dtype)
    same(
        lambda a, t: (
            rd.fill_diagonal(a, 7),
            rd.fill_diagonal(a, [1, 2, 3]),
            rd.fill_diagonal(t, 5),
            rd.fill_diagonal(t, 5, wrap=True),
            rd.fill_diagonal(t, [1, 2, 3, 4], True),
        ),
        lambda a, t: (
            filled(a, 7),
            filled(a, [1, 2, 3]),
            filled(t, 5),
            filled(t, 5, True),
            filled(t, [1, 2, 3, 4], True),
        ),
        a,
        tall,
    )


def test_spaced() -> None:
    same(
        lambda: (
            rd.logspace(0, 2, 5),
            rd.logspace(0, 4, 3, False, 2.0),
            rd.logspace(0, 2, 3, dtype=int),
            rd.geomspace(1, 256, 9),
            rd.geomspace(-1000, -1, 4),
            rd.geomspace(2, 8, 4, endpoint=False),
            rd.fromfunction(lambda i, j: i * 10 + j, (2, 3)),
            rd.empty(3, rd.f32).shape[0] + rd.zeros(1),
        ),
        lambda: (
            np.logspace(0, 2, 5),
            np.logspace(0, 4, 3, False, 2.0),
            np.logspace(0, 2, 3, dtype=int),
            np.geomspace(1, 256, 9),
            np.geomspace(-1000, -1, 4),
            np.geomspace(2, 8, 4, endpoint=False),
            np.fromfunction(lambda i, j: i * 10 + j, (2, 3)),
            3 + np.zeros(1),
        ),
        rtol=1e-13,
    )
    a = sample((2, 3), np.int8)
    same(lambda a: (rd.copy(a), a.copy(), rd.empty_like(a).at[:].set(a)), lambda a: (a, a, a), a)


def test_indices_of_triangles() -> None:
    a, b = finite((4, 4), np.float32), finite((3, 4), np.int16)
    same(
        lambda a, b: (
            a[rd.tril_indices(4)],
            a[rd.triu_indices(4, 1)],
            b[rd.tril_indices(3, -1, 4)],
            b[rd.triu_indices_from(b, -1)],
            b[rd.tril_indices_from(b, 1)],
            a[rd.diag_indices_from(a)],
            a[rd.diag_indices(2)],
            rd.diagflat(b[:2, :2], 1),
        ),
        lambda a, b: (
            a[np.tril_indices(4)],
            a[np.triu_indices(4, 1)],
            b[np.tril_indices(3, -1, 4)],
            b[np.triu_indices_from(b, -1)],
            b[np.tril_indices_from(b, 1)],
            a[np.diag_indices_from(a)],
            a[np.diag_indices(2)],
            np.diagflat(b[:2, :2], 1),
        ),
        a,
        b,
    )
    program = rd.algorithm(b="i16[n, m]")(lambda b: (b[rd.tril_indices_from(b)], b[rd.triu_indices_from(b, 1)]))
    same(program, lambda b: (b[np.tril_indices_from(b)], b[np.triu_indices_from(b, 1)]), b)


@pytest.mark.parametrize("dtype", [np.int64, np.float64, np.complex128])
def test_matrices(dtype: Any) -> None:
    a, v = finite((2, 3, 3), dtype) // 8 if dtype is np.int64 else finite((2, 3, 3), dtype), finite((3,), dtype)
    names = (
        ("vector_norm", {"axis": 1}),
        ("vector_norm", {"axis": (0, 2), "keepdims": True}),
        ("vector_norm", {"ord": 1}),
    )
    names += (("matrix_norm", {}), ("matrix_norm", {"ord": np.inf, "keepdims": True}), ("trace", {"offset": 1}))
    names += (("diagonal", {"offset": -1}), ("matrix_transpose", {}))
    same(
        lambda a, v: (
            *(getattr(rd.linalg, name)(a, **o) for name, o in names),
            rd.linalg.multi_dot([v, a[0], a[1], v]),
        ),
        lambda a, v: (
            *(getattr(np.linalg, name)(a, **o) for name, o in names),
            np.linalg.multi_dot([v, a[0], a[1], v]),
        ),
        a,
        v,
        rtol=1e-12,
    )
    for n in (0, 1, 2, 5):
        same(
            lambda a, *, n=n: rd.linalg.matrix_power(a, n),
            lambda a, *, n=n: np.linalg.matrix_power(a, n),
            a,
            rtol=1e-12,
        )
    with pytest.raises(rd.TraceError, match=r"rd\.linalg\.inv"):
        rd.algorithm(lambda a: rd.linalg.matrix_power(a, -1)).interpret(a)


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        (lambda a: rd.compress(a > 0, a), rd.ShapeError),
        (lambda a: rd.delete(a, 5), rd.IndexOutOfRange),
        (lambda a: rd.delete(a, a), rd.TraceError),
        (lambda a: rd.block([[a], a]), rd.ShapeError),
        (lambda a: rd.rollaxis(a, 0, 4), rd.ShapeError),
        (lambda a: rd.fill_diagonal(a[0], 1), rd.ShapeError),
        (lambda a: rd.piecewise(a, [a > 0], [1, 2, 3]), rd.ShapeError),
        (lambda a: a.sort(), AttributeError),
        (lambda a: a.fill(0), AttributeError),
    ],
)
def test_refusals(wrong: Any, error: type) -> None:
    with pytest.raises(error):
        rd.algorithm(a="f64[2, 2]")(wrong).interpret(np.ones((2, 2)))
