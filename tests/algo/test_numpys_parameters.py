"""NumPy's parameter names in functions with fewer parameters at first: `unique`, `bincount`, `repeat`, `size`; `where=`, `out=`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from numpy_twin import NUMBERS, finite, same, sample

import raido as rd

FLAGS = {"return_index": True, "return_inverse": True, "return_counts": True}


@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.uint32, np.float32, np.complex128])
def test_unique_slices(dtype: Any) -> None:
    a = finite((5, 2, 3), dtype)
    a[[3, 4]] = a[[0, 2]]
    a[:, 1] = a[:, 0]
    for axis in (0, 1, -1):
        same(lambda a, *, k=axis: rd.unique(a, axis=k, **FLAGS), lambda a, *, k=axis: np.unique(a, axis=k, **FLAGS), a)


def test_unique_slices_of_every_kind() -> None:
    nan = np.array([[1, np.nan], [0, 2], [1, np.nan], [0, 2]])
    program = rd.algorithm(a="f64[n, m]")(lambda a: rd.unique(a, True, axis=0))
    for a in (nan, nan[:0], nan[:, :1], np.zeros((3, 0))):
        same(program, lambda a: np.unique(a, True, axis=0), a, compiled=a is nan)
    same(lambda a: rd.unique(a[0], axis=0), lambda a: np.unique(a[0], axis=0), nan)


def test_unique_nan_apart() -> None:
    a = np.array([np.nan, 1, np.nan, 1])
    same(lambda a: rd.unique(a, equal_nan=False), lambda a: np.unique(a, equal_nan=False), a)
    same(lambda a: rd.unique(ar=a, sorted=True), lambda a: np.unique(a), a)
    with pytest.raises(rd.ShapeError):
        rd.algorithm(lambda a: rd.unique(a, axis=1)).interpret(a)


def test_bincount_of_a_length_that_data_decides() -> None:
    x, w = np.array([3, 1, 3], np.uint8), np.array([0.5, 1.0, 2.0])
    same(
        lambda x, w: (
            rd.bincount(x),
            rd.bincount(x, weights=w),
            rd.bincount(x, minlength=6),
            rd.bincount(x, minlength=2),
        ),
        lambda x, w: (np.bincount(x), np.bincount(x, w), np.bincount(x, minlength=6), np.bincount(x, minlength=2)),
        x,
        w,
        compiled=True,
    )
    same(
        lambda x: (rd.bincount(x), rd.bincount(x, minlength=2)),
        lambda x: (np.bincount(x), np.bincount(x, minlength=2)),
        x[:0],
    )
    with pytest.raises(rd.TraceError, match="`length`, or `minlength`"):
        rd.algorithm(lambda x: rd.bincount(x, 4, minlength=4)).interpret(x)


@pytest.mark.parametrize("dtype", [np.int16, np.complex64])
def test_repeat(dtype: Any) -> None:
    a = finite((2, 3), dtype)
    same(
        lambda a: (
            rd.repeat(a, repeats=2, axis=None),
            rd.repeat(a, [1, 2, 0], 1),
            a.repeat(2, axis=None),
            rd.repeat(a, repeats=2, axis=-1),
        ),
        lambda a: (np.repeat(a, 2), np.repeat(a, [1, 2, 0], 1), a.repeat(2), np.repeat(a, 2, -1)),
        a,
    )
    for wrong in (lambda a: rd.repeat(a), lambda a: rd.repeat(a, 2, repeats=2)):
        with pytest.raises(rd.TraceError, match="`counts`, or `repeats`"):
            rd.algorithm(wrong).interpret(a)


def test_size_called_is_the_number_of_elements() -> None:
    a = finite((2, 3), np.float32)
    same(lambda a: (a + rd.size(a), a + rd.size(a, 1)), lambda a: (a + np.size(a), a + np.size(a, 1)), a)
    assert rd.algorithm(a="f32[n, m]")(lambda a: rd.size(a, axis=0)).interpret(a) == 2


def test_numpys_partition_is_answered_with_sort() -> None:
    for wrong in (lambda a: rd.partition(a, 2), lambda a: rd.partition(a, kth=2)):
        with pytest.raises(rd.TraceError, match=r"rd\.sort\(a\)"):
            rd.algorithm(wrong).interpret(np.arange(3))


def test_sorts_take_a_kind() -> None:
    a = sample((5,), np.float32)
    same(
        lambda a: (rd.sort(a, kind="stable"), rd.argsort(a, -1, "stable"), a.argsort(stable=True)),
        lambda a: (np.sort(a, kind="stable"), np.argsort(a, -1, "stable"), np.argsort(a, stable=True)),
        a,
    )


def decreasing(rows: Any) -> Any:
    """The indices that bring each row in decreasing order, stable, NaN behind: Python's own `sorted`."""

    def place(value: Any) -> tuple[Any, ...]:
        return (True,) if value != value else (False, -value.real, -value.imag)

    return np.array([sorted(range(len(row)), key=lambda k, row=row: place(row[k])) for row in rows.tolist()])


@pytest.mark.parametrize("dtype", NUMBERS)
def test_decreasing_orders(dtype: Any) -> None:
    a = finite((4, 7), dtype) if np.dtype(dtype).kind == "c" else sample((4, 7), dtype)
    a[:, ::2] = a[:, 1:2]
    same(
        lambda a: (rd.sort(a, descending=True), rd.argsort(a, descending=True), a.argsort(0, descending=True)),
        lambda a: (np.take_along_axis(a, decreasing(a), 1), decreasing(a), decreasing(a.T).T),
        a,
    )


def test_functions_of_numbers_computed_in_a_type() -> None:
    a, b = sample((5,), np.uint8), sample((5,), np.uint8, 1)

    def called(module: Any) -> Any:
        return lambda a, b: (
            *(module.subtract(a, b, dtype=np.int16), module.sqrt(a, dtype="float32"), module.add(a, b, dtype=complex)),
            *(*module.divmod(a, 7, dtype=np.int64), module.gcd(a, b, dtype=np.int32)),
        )

    same(called(rd), called(np), a, b)
    for wrong in (lambda a: rd.less(a, a, dtype=float), lambda a: rd.add(a / 2, 1, dtype=int)):
        with pytest.raises(rd.DTypeError, match="`dtype="):
            rd.algorithm(wrong).interpret(a)


def test_making_and_joining_take_numpys_parameters() -> None:
    def called(module: Any) -> Any:
        return lambda a: (
            *(module.array(a, ndmin=3), module.array([a, a], ndmin=1, copy=None), module.asarray(a, copy=None)),
            *(module.concat([a, [[7, 8, 9]]], dtype=np.float32), module.stack([a, a], dtype=np.int8)),
            *(module.concat([a, a], axis=None), module.reshape(a, -1, copy=True), a.astype(float, copy=False)),
            *(module.astype(a, float, copy=False), *module.meshgrid(a[0], a[1], copy=False)),
        )

    same(called(rd), called(np), sample((2, 3), np.int64))


AXES: tuple[Any, ...] = (None, 0, -1, (0, 1))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", NUMBERS)
def test_masks_of_sums(dtype: Any) -> None:
    a, mask, row = finite((3, 4), dtype), sample((3, 4), np.bool_, 2), sample((4,), np.bool_, 3)
    names = ("sum", "prod", "any", "all", "mean")
    names = names[:-1] if np.dtype(dtype) == np.bool_ else names
    rtol = {2: 2e-3, 4: 1e-5}.get(np.finfo(dtype).dtype.itemsize, 1e-12) if np.dtype(dtype).kind in "fc" else 1e-12

    def called(module: Any) -> Any:
        return lambda a, m, r: tuple(
            getattr(module, name)(a, axis=axis, where=w, keepdims=axis == 0)
            for name in names
            for axis in AXES
            for w in (m, r)
        )

    same(called(rd), called(np), a, mask, row, rtol=rtol)


@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.uint64, np.float16, np.float64])
def test_masks_of_extremes(dtype: Any) -> None:
    a, mask = sample((3, 4), dtype), sample((3, 4), np.bool_, 2)
    names = ("min", "max", "nanmin", "nanmax")

    def called(module: Any, first: Any) -> Any:
        return lambda a, m: tuple(
            getattr(module, name)(a, axis=axis, where=m, initial=first) for name in names for axis in (None, 0, -1)
        )

    first = np.dtype(dtype).type(1)
    same(called(rd, first), called(np, first), a, mask)
    for name in names:
        with pytest.raises(rd.TraceError, match="initial="):
            rd.algorithm(lambda a, m, *, f=name: getattr(rd, f)(a, where=m)).interpret(a, mask)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", [np.int16, np.float32, np.float64])
def test_masks_of_deviations(dtype: Any) -> None:
    a, mask = finite((4, 5), dtype), sample((4, 5), np.bool_, 2)
    names = ("var", "std", "nanmean", "nansum")

    def called(module: Any) -> Any:
        return lambda a, m: tuple(
            getattr(module, name)(a, axis=axis, where=m) for name in names for axis in (None, 0, -1)
        )

    same(called(rd), called(np), a, mask, rtol=1e-5 if dtype is np.float32 else 1e-12)


def test_masks_compiled_and_of_open_sizes() -> None:
    program = rd.algorithm(a="f64[n, m]", m="bool_[n, 1]")(
        lambda a, m: (rd.sum(a, where=m), a.mean(0, where=m), rd.max(a, 1, initial=-1, where=m))
    )
    a, m = finite((3, 5), np.float64), np.array([[True], [False], [True]])
    want = lambda a, m: (np.sum(a, where=m), a.mean(0, where=m), np.max(a, 1, initial=-1, where=m))
    same(program, want, a, m, rtol=1e-12, compiled=True)


def test_refused_masks_and_outputs() -> None:
    a = finite((3, 4), np.float32)
    for wrong, error in (
        (lambda a: rd.sum(a, where=a), rd.DTypeError),
        (lambda a: rd.sum(a[0], where=a > 0), rd.ShapeError),
        (lambda a: rd.sum(a, where=a[0, :3] > 0), rd.SizeMismatch),
        (lambda a: rd.add(a, a, where=a > 0), rd.TraceError),
        (lambda a: rd.gcd(a, a, where=a > 0), rd.TraceError),
        (lambda a: rd.sum(a, out=a), rd.TraceError),
        (lambda a: rd.add(a, a, out=a), rd.TraceError),
        (lambda a: rd.fft.fft(a, out=a), rd.TraceError),
        (lambda a: a.cumsum(0, None, a), rd.TraceError),
        (lambda a: a.clip(0, 1, a), rd.TraceError),
    ):
        with pytest.raises(error):
            rd.algorithm(wrong).interpret(a)
    same(lambda a: rd.add(a, a, out=None, where=True), lambda a: a + a, a)
