"""`rd.fft` against NumPy's: interpreted over all small sizes, compiled for a few, within a few ulp of the magnitude of the numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import raido as rd
from raido.algo.library.radix_plan import chirps, good_size, radices, roots, transform

SMALL = range(1, 50)
LARGE = [1000, 1 << 10, 997, 1 << 14, 3**7, 5**5, 2 * 7919]
BOTH = np.fft.fft, np.fft.ifft
COMPILED = [1, 2, 3, 4, 5, 7, 12, 60, 64, 97, 1000]


def numbers(n: int, dtype: Any, *lead: int) -> np.ndarray:
    random = np.random.default_rng(n)
    x = random.standard_normal((*lead, n))
    if np.dtype(dtype).kind == "c":
        x = x + 1j * random.standard_normal((*lead, n))
    return x.astype(dtype)


def run(function: Callable[..., Any], *arguments: np.ndarray, compiled: bool = False) -> Any:
    """The result of a program for arguments of these sizes."""
    names = {
        np.dtype(t): name for t, name in (("f4", "f32"), ("f8", "f64"), ("c8", "complex64"), ("c16", "complex128"))
    }
    types = {
        f"x{k}": f"{names.get(a.dtype, rd_name(a.dtype))}[{', '.join(map(str, a.shape))}]"
        for k, a in enumerate(arguments)
    }
    wrapped = {1: lambda x0: function(x0), 2: lambda x0, x1: function(x0, x1)}[len(arguments)]
    program = rd.algorithm(**types)(wrapped)
    return program(*arguments) if compiled else program.interpret(*arguments)


def rd_name(dtype: np.dtype) -> str:
    return "bool_" if dtype.kind == "b" else f"{dtype.kind}{8 * dtype.itemsize}"


def close(got: np.ndarray, want: np.ndarray, n: int, *, chirped: bool = False) -> None:
    """Equal dtypes and shapes, and a root mean square error of a few ulp for each of the log2 n additions behind a number."""
    assert got.dtype == want.dtype and got.shape == want.shape
    ulp = np.finfo(want.dtype).eps
    size = math.sqrt(np.mean(np.abs(want.astype(np.complex128)) ** 2)) if want.size else 0.0
    error = math.sqrt(np.mean(np.abs(got.astype(np.complex128) - want) ** 2)) if want.size else 0.0
    assert error <= (4 if chirped else 1) * ulp * (1 + math.log2(n)) * size


def precise(function: Callable[..., Any], x: np.ndarray, *arguments: Any, **options: Any) -> np.ndarray:
    """NumPy's answer for the numbers in double precision, rounded to the type of its answer for them as they are."""
    wide = x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)
    return function(wide, *arguments, **options).astype(function(x, *arguments, **options).dtype)


def test_plans() -> None:
    assert radices(1) == () and radices(360) == (4, 2, 3, 3, 5) and radices(14) is None
    assert [good_size(n) for n in (1, 7, 11, 13, 127, 1993)] == [1, 8, 12, 15, 128, 2000]
    for n in (1, 2, 3, 8, 12, 30, 100):
        angles = 8 * np.arctan(np.longdouble(1)) * np.arange(n) / n
        assert np.abs(roots(n).real - np.cos(angles)).max() < 1.2e-16
        assert np.abs(roots(n).imag + np.sin(angles)).max() < 1.2e-16
    assert roots(8)[[0, 2, 4, 6]].tolist() == [1, -1j, -1, 1j]
    for n in (1, 2, 12, 45, 64, 250):
        x = numbers(n, np.complex128)
        close(transform(x), np.fft.fft(x), n)
    chirp, kernel = chirps(7, 15)
    assert chirp.shape == (7,) and kernel.shape == (15,)


@pytest.mark.parametrize("dtype", [np.complex128, np.complex64], ids=lambda d: d.__name__)
def test_all_small_sizes(dtype: Any) -> None:
    for n in SMALL:
        x = numbers(n, dtype)
        for got, transformed in zip(run(lambda x: (rd.fft.fft(x), rd.fft.ifft(x)), x), BOTH, strict=True):
            close(got, precise(transformed, x), n, chirped=radices(n) is None)


@pytest.mark.parametrize("dtype", [np.float64, np.float32], ids=lambda d: d.__name__)
def test_all_small_sizes_of_real_numbers(dtype: Any) -> None:
    for n in SMALL:
        x, chirped = numbers(n, dtype), radices(n) is None
        half = precise(np.fft.rfft, x)
        program = lambda x, h: (rd.fft.rfft(x), rd.fft.irfft(h, x.shape[0]))
        got, back = run(program, x, half)
        close(got, half, n, chirped=chirped)
        close(back, precise(np.fft.irfft, half, n), n, chirped=chirped)


@pytest.mark.parametrize("n", LARGE)
def test_large_sizes(n: int) -> None:
    for dtype in (np.complex128, np.complex64):
        x = numbers(n, dtype)
        close(run(rd.fft.fft, x), precise(np.fft.fft, x), n, chirped=radices(n) is None)


def test_tables_of_large_sizes_are_products() -> None:
    """Above 2**15 numbers, the roots of the first steps come out of two tables each."""
    n = 1 << 17
    for dtype in (np.complex128, np.complex64):
        x = numbers(n, dtype)
        close(run(rd.fft.fft, x), precise(np.fft.fft, x), n)


@pytest.mark.parametrize("n", COMPILED)
def test_compiled(n: int) -> None:
    x = numbers(n, np.complex64, 3)
    program = lambda x: (rd.fft.fft(x), rd.fft.ifft(x))
    for got, want in zip(run(program, x, compiled=True), BOTH, strict=True):
        close(got, precise(want, x), n, chirped=radices(n) is None)
    real = numbers(n, np.float64)
    assert run(rd.fft.rfft, real, compiled=True).tobytes() == run(rd.fft.rfft, real).tobytes()


@pytest.mark.parametrize("norm", [None, "backward", "ortho", "forward"])
def test_norms(norm: str | None) -> None:
    for name in ("fft", "ifft", "rfft", "irfft"):
        x = numbers(12, np.float64)
        want = getattr(np.fft, name)(x, norm=norm)
        close(run(lambda x, f=name: getattr(rd.fft, f)(x, norm=norm), x), want, 12)


@pytest.mark.parametrize(
    "dtype", [np.bool_, np.int8, np.uint8, np.int32, np.int64, np.uint64, np.float16], ids=lambda d: d.__name__
)
def test_dtypes_are_those_of_numpy(dtype: Any) -> None:
    x = (np.arange(12) % 5).astype(dtype)
    narrow = dtype is np.float16
    for name in ("fft", "ifft", "rfft"):
        got = run(getattr(rd.fft, name), x)
        assert got.dtype == (np.complex64 if narrow else np.complex128)
        close(got, getattr(np.fft, name)(x.astype(np.float32 if narrow else np.float64)), 12)


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -2, -3])
def test_axes_and_sizes(axis: int) -> None:
    x = numbers(6, np.complex128, 4, 5)
    for n in (None, 1, 3, 5, 8, 11):
        for name in ("fft", "ifft", "irfft"):
            want = getattr(np.fft, name)(x, n, axis)
            close(run(lambda x, f=name, m=n: getattr(rd.fft, f)(x, m, axis), x), want, 16, chirped=True)
        want = np.fft.rfft(x.real, n, axis)
        close(run(lambda x, m=n: rd.fft.rfft(x, m, axis), x.real.copy()), want, 16, chirped=True)


def test_two_dimensions() -> None:
    x = numbers(12, np.complex128, 2, 10)
    for s, axes in ((None, (-2, -1)), (None, (0, 1)), ((4, 9), (1, 2)), ((5, 5), (2, 0))):
        for name in ("fft2", "ifft2"):
            want = getattr(np.fft, name)(x, s, axes)
            close(run(lambda x, f=name, s=s, a=axes: getattr(rd.fft, f)(x, s, a), x), want, 120, chirped=True)
    image = numbers(16, np.float32, 8)
    close(run(rd.fft.fft2, image, compiled=True), precise(np.fft.fft2, image), 128)


def test_frequencies() -> None:
    frequencies = rd.algorithm(n="size")(lambda n: rd.fft.fftfreq(n, 0.25))
    for n in (1, 2, 5, 8):
        assert frequencies.interpret(n).tolist() == np.fft.fftfreq(n, 0.25).tolist()
        constant = rd.algorithm(lambda *, n=n: rd.fft.fftfreq(n))
        assert constant.interpret().tolist() == np.fft.fftfreq(n).tolist()


def test_sizes_that_are_not_known() -> None:
    x = numbers(10, np.float64, 3)
    whole = rd.algorithm(x="f64[m, n]")(lambda x: rd.fft.fft(x, 16))
    close(whole.interpret(x), np.fft.fft(x, 16), 16)
    close(whole(x), np.fft.fft(x, 16), 16)
    close(whole.interpret(x[:, :0]), np.zeros((3, 16), np.complex128), 16)
    lead = rd.algorithm(x="f64[m, 10]")(lambda x: rd.fft.rfft(x))
    for part in (x, x[:0]):
        close(lead(part), np.fft.rfft(part), 10)


def test_inside_other_functions() -> None:
    x = numbers(12, np.complex128, 4)
    rows = lambda x: rd.map(lambda row: rd.fft.fft(row * 2), x)
    close(run(rows, x), np.fft.fft(2 * x), 12)
    close(run(rows, x, compiled=True), np.fft.fft(2 * x), 12)
    there_and_back = lambda x: rd.fft.irfft(rd.fft.rfft(x), 30)
    y = numbers(30, np.float64)
    close(run(there_and_back, y, compiled=True), y, 30)


@pytest.mark.parametrize("n", [2, 3, 4, 8, 7])
def test_nan_spreads(n: int) -> None:
    x = np.zeros(n)
    x[n // 2] = np.nan
    assert np.isnan(run(rd.fft.fft, x)).all()


@pytest.mark.parametrize(
    ("function", "error"),
    [
        (lambda x: rd.fft.fft(x, 0), rd.ShapeError),
        (lambda x: rd.fft.fft(x, axis=2), rd.ShapeError),
        (lambda x: rd.fft.fft(x, norm="both"), rd.TraceError),
        (lambda x: rd.fft.rfft(rd.complex64(x)), rd.DTypeError),
        (lambda x: rd.fft.fft(x[0, 0]), rd.ShapeError),
        (lambda x: rd.fft.fft2(x, (3,)), rd.ShapeError),
        (lambda x: rd.fft.irfft(x[:, :1]), rd.ShapeError),
    ],
)
def test_refusals(function: Callable[..., Any], error: type) -> None:
    with pytest.raises(error):
        run(function, numbers(4, np.float32, 3))
