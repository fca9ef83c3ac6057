"""NumPy's running sums, products and differences along an axis give NumPy's results."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from numpy_twin import NUMBERS, finite, same, sample

import raido as rd

SHAPES = ((), (5,), (0,), (2, 3), (3, 0), (2, 3, 2))


@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_cumsum(dtype: Any, shape: tuple[int, ...]) -> None:
    a = finite(shape, dtype)
    rtol = 1e-3 if np.dtype(dtype) == np.float16 else 0.0
    same(lambda a: (rd.cumsum(a), a.cumsum()), lambda a: (np.cumsum(a), a.cumsum()), a, rtol=rtol)
    if shape:
        same(
            lambda a: (rd.cumsum(a, 0), rd.cumsum(a, axis=-1), a.cumsum(-1)),
            lambda a: (np.cumsum(a, 0), np.cumsum(a, axis=-1), a.cumsum(-1)),
            a,
            rtol=rtol,
        )


@pytest.mark.parametrize("dtype", NUMBERS)
def test_cumprod(dtype: Any) -> None:
    a = finite((2, 6), dtype)
    rtol = 1e-2 if np.dtype(dtype) == np.float16 else 1e-5
    same(
        lambda a: (rd.cumprod(a), rd.cumprod(a, 0), a.cumprod(axis=1)),
        lambda a: (np.cumprod(a), np.cumprod(a, 0), a.cumprod(axis=1)),
        a,
        rtol=rtol,
    )


def test_running_in_a_type() -> None:
    same(
        lambda a: (rd.cumsum(a, 0, rd.i8), rd.cumsum(a, dtype=rd.f32), rd.cumprod(a, 1, dtype=rd.u16)),
        lambda a: (np.cumsum(a, 0, np.int8), np.cumsum(a, dtype=np.float32), np.cumprod(a, 1, dtype=np.uint16)),
        sample((3, 4), np.int8),
    )


@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("shape", [(5,), (1,), (0,), (2, 3), (3, 0), (2, 3, 2)], ids=str)
def test_diff(dtype: Any, shape: tuple[int, ...]) -> None:
    same(
        lambda a: (rd.diff(a), rd.diff(a, axis=0), rd.diff(a, 2), rd.diff(a, n=0), rd.diff(a, 3, -1)),
        lambda a: (np.diff(a), np.diff(a, axis=0), np.diff(a, 2), np.diff(a, n=0), np.diff(a, 3, -1)),
        sample(shape, dtype),
    )


def test_diff_beside_other_elements() -> None:
    a = sample((2, 3), np.float32)
    same(
        lambda a, x: (rd.diff(a, prepend=x), rd.diff(a, 1, 0, append=a), rd.diff(a, prepend=a[:, :1], append=2.5)),
        lambda a, x: (np.diff(a, prepend=x), np.diff(a, 1, 0, append=a), np.diff(a, prepend=a[:, :1], append=x)),
        a,
        np.float32(2.5),
    )
    for wrong in (lambda a: rd.diff(a, -1), lambda a: rd.diff(a[0, 0]), lambda a: rd.diff(a, 1, 2)):
        with pytest.raises(rd.ShapeError):
            rd.algorithm(wrong).interpret(a)


@pytest.mark.parametrize("edge_order", [1, 2])
@pytest.mark.parametrize("dtype", [np.int32, np.float32, np.float64, np.complex128])
def test_gradient(edge_order: int, dtype: Any) -> None:
    a = finite((4, 5), dtype)
    rtol = 1e-5 if np.dtype(dtype) == np.float32 else 1e-12
    same(lambda a: rd.gradient(a, edge_order=edge_order), lambda a: np.gradient(a, edge_order=edge_order), a, rtol=rtol)
    same(
        lambda a: (rd.gradient(a, 2.0, axis=1, edge_order=edge_order), rd.gradient(a[0], edge_order=edge_order)),
        lambda a: (np.gradient(a, 2.0, axis=1, edge_order=edge_order), np.gradient(a[0], edge_order=edge_order)),
        a,
        rtol=rtol,
    )
    same(
        lambda a: rd.gradient(a, 2, 0.5, edge_order=edge_order),
        lambda a: np.gradient(a, 2, 0.5, edge_order=edge_order),
        a,
        rtol=rtol,
    )


@pytest.mark.parametrize("edge_order", [1, 2])
def test_gradient_at_coordinates(edge_order: int) -> None:
    a, x = finite((4, 5), np.float64), np.array([0.0, 1.0, 3.0, 3.5, 7.0])
    same(
        lambda a, x: rd.gradient(a, 0.5, x, edge_order=edge_order),
        lambda a, x: np.gradient(a, 0.5, x, edge_order=edge_order),
        a,
        x,
        rtol=1e-12,
        compiled=True,
    )


def test_gradient_needs_elements() -> None:
    with pytest.raises(rd.ShapeError):
        rd.algorithm(a="f32[1]")(lambda a: rd.gradient(a)).trace()
    short = rd.algorithm(a="f32[n]")(lambda a: rd.gradient(a))
    for run in (short.interpret, short):
        with pytest.raises(rd.SizeMismatch):
            run(np.zeros(1, "f"))
    with pytest.raises(rd.TraceError):
        rd.algorithm(a="f32[n]")(lambda a: rd.gradient(a, 1, 2)).trace()


@rd.algorithm
def of_sizes(a: rd.f64["n", "m"]):
    return rd.cumsum(a, 1), rd.cumprod(a, 0), rd.cumsum(a), rd.diff(a), rd.diff(a, 2, 0), rd.gradient(a)


def of_sizes_in_numpy(a: Any) -> Any:
    return np.cumsum(a, 1), np.cumprod(a, 0), np.cumsum(a), np.diff(a), np.diff(a, 2, 0), np.gradient(a)


@pytest.mark.parametrize("shape", [(2, 2), (3, 5), (40, 33)], ids=str)
def test_sizes_need_not_be_known_while_tracing(shape: tuple[int, int]) -> None:
    same(of_sizes, of_sizes_in_numpy, np.random.default_rng(0).random(shape), compiled=True, rtol=1e-12)
