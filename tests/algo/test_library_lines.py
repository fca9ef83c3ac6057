"""Windows, polynomials, integrals, predicates and packed bits give NumPy's results."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from numpy_twin import NUMBERS, finite, same, sample

import raido as rd


def test_windows() -> None:
    names = ("bartlett", "blackman", "hamming", "hanning")

    def called(module: Any) -> Any:
        return lambda: (
            tuple(getattr(module, name)(m) for name in names for m in (0, 1, 2, 7, 8))
            + tuple(module.kaiser(m, beta) for m in (0, 1, 6, 9) for beta in (0, 2.5, 14))
        )

    same_close(called(rd), called(np))
    weak = rd.algorithm(x="f32[n]")(lambda x: x * rd.hanning(x.shape[0]))
    x = np.ones(6, np.float32)
    assert weak.interpret(x).dtype == np.float32
    np.testing.assert_allclose(weak(x), np.hanning(6), rtol=1e-6, atol=1e-7)


def same_close(program: Any, reference: Any, *arguments: np.ndarray) -> None:
    """Equal types and shapes, values to within a few units of the last place of 1."""
    for got, want in zip(rd.algorithm(program).interpret(*arguments), reference(*arguments), strict=True):
        assert got.dtype == want.dtype and got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-14 if want.dtype == np.float64 else 2e-6)


@pytest.mark.parametrize("dtype", [np.int8, np.float32, np.float64])
def test_special_functions(dtype: Any) -> None:
    a = np.array([0, 1, -2, 5, 20]).astype(dtype)
    rtol = 3e-6 if dtype is np.float32 else 1e-13
    same(lambda a: rd.i0(a), lambda a: np.i0(a), a, rtol=rtol)
    same_close(lambda a: (rd.sinc(a / 4), rd.sinc(a)), lambda a: (np.sinc(a / 4), np.sinc(a)), a)


@pytest.mark.parametrize("dtype", [np.int32, np.float32, np.complex128])
def test_polynomials(dtype: Any) -> None:
    p, q, x = finite((4,), dtype), finite((2,), dtype, 1), finite((2, 3), dtype, 2)
    same(
        lambda p, q, x: (
            rd.polyval(p, x),
            rd.polyval([3, 0, 1], x),
            rd.polyadd(p, q),
            rd.polysub(q, p),
            rd.polymul(q, p),
            rd.polyder(p),
            rd.polyder(p, 2),
            rd.polyint(p),
            rd.polyint(p, 2, [1, 3]),
            rd.vander(p),
            rd.vander(q, 4, increasing=True),
            rd.vander(q, 1),
        ),
        lambda p, q, x: (
            np.polyval(p, x),
            np.polyval([3, 0, 1], x),
            np.polyadd(p, q),
            np.polysub(q, p),
            np.polymul(q, p),
            np.polyder(p),
            np.polyder(p, 2),
            np.polyint(p),
            np.polyint(p, 2, [1, 3]),
            np.vander(p),
            np.vander(q, 4, increasing=True),
            np.vander(q, 1),
        ),
        p,
        q,
        x,
        rtol=1e-5,
    )


def test_polynomials_of_open_sizes() -> None:
    program = rd.algorithm(p="f64[n]", q="f64[m]", x="f64[k]")(
        lambda p, q, x: (rd.polyval(p, x), rd.polyadd(p, q), rd.vander(x, p.shape[0]))
    )
    p, q, x = finite((5,), np.float64), finite((3,), np.float64), finite((4,), np.float64)
    same(program, lambda p, q, x: (np.polyval(p, x), np.polyadd(p, q), np.vander(x, 5)), p, q, x, rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.int8, np.float32, np.float64, np.complex128])
def test_integrals(dtype: Any) -> None:
    a, x = finite((3, 4), dtype), np.array([0.0, 0.5, 2.0, 2.25])
    same(
        lambda a, x: (rd.trapezoid(a), rd.trapezoid(a, dx=0.5, axis=0), rd.trapezoid(a, x), rd.trapezoid(a, a)),
        lambda a, x: (np.trapezoid(a), np.trapezoid(a, dx=0.5, axis=0), np.trapezoid(a, x), np.trapezoid(a, a)),
        a,
        x,
        rtol=1e-5 if dtype is np.float32 else 1e-12,
    )
    same(
        lambda a: (rd.ediff1d(a), rd.ediff1d(a[0], to_begin=a[1], to_end=a[2, 0])),
        lambda a: (np.ediff1d(a), np.ediff1d(a[0], to_begin=a[1], to_end=a[2, 0])),
        a,
    )
    same(
        lambda a: (
            rd.cumulative_sum(a, axis=0),
            rd.cumulative_prod(a, axis=1, include_initial=True),
            rd.cumulative_sum(a[0], include_initial=True),
        ),
        lambda a: (
            np.cumulative_sum(a, axis=0),
            np.cumulative_prod(a, axis=1, include_initial=True),
            np.cumulative_sum(a[0], include_initial=True),
        ),
        a,
        rtol=1e-5,
    )


def test_unwrap() -> None:
    a = np.array([[0.0, 3.0, 6.5, 0.2, -3.0], [1.0, 4.2, 7.3, 4.0, 10.5]])
    same(
        lambda a: (rd.unwrap(a), rd.unwrap(a, axis=0), rd.unwrap(a, 4.0), rd.unwrap(a, period=3)),
        lambda a: (np.unwrap(a), np.unwrap(a, axis=0), np.unwrap(a, 4.0), np.unwrap(a, period=3)),
        a,
        rtol=1e-12,
    )
    n = np.array([0, 1, 2, -1, 0, 5, 3])
    same(
        lambda n: (rd.unwrap(n, period=4), rd.unwrap(n, period=5), rd.unwrap(n)),
        lambda n: (np.unwrap(n, period=4), np.unwrap(n, period=5), np.unwrap(n)),
        n,
        rtol=1e-12,
    )


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # NumPy is about to give `fix` up
@pytest.mark.parametrize("dtype", NUMBERS)
def test_kinds_of_numbers(dtype: Any) -> None:
    a = sample((2, 6), dtype)
    same(lambda a: (rd.iscomplex(a), rd.isreal(a)), lambda a: (np.iscomplex(a), np.isreal(a)), a)
    assert rd.algorithm(lambda a: rd.zeros(2 if rd.iscomplexobj(a) else 1)).interpret(a).size == 1 + np.iscomplexobj(a)
    assert rd.algorithm(lambda a: rd.zeros(2 if rd.isrealobj(a) else 1)).interpret(a).size == 1 + np.isrealobj(a)
    if a.dtype.kind != "c":
        same(
            lambda a: (rd.isposinf(a), rd.isneginf(a), rd.fix(a)),
            lambda a: (np.isposinf(a), np.isneginf(a), np.fix(a)),
            a,
        )
    same(
        lambda a: (rd.array_equiv(a, a[0]), rd.array_equiv(a[0], a[:1])),
        lambda a: (np.array_equiv(a, a[0]), np.array_equiv(a[0], a[:1])),
        finite((2, 3), dtype),
    )


@pytest.mark.parametrize("bitorder", ["big", "little"])
def test_packed_bits(bitorder: Any) -> None:
    a, b = sample((3, 13), np.bool_), sample((2, 3), np.uint8)
    same(
        lambda a, b: (
            rd.packbits(a, bitorder=bitorder),
            rd.packbits(a, 0, bitorder),
            rd.packbits(a * 3, -1, bitorder),
            rd.unpackbits(b, bitorder=bitorder),
            rd.unpackbits(b, 0, bitorder=bitorder),
            rd.unpackbits(b, 1, 9, bitorder),
            rd.unpackbits(b, 1, -3, bitorder),
            rd.unpackbits(b, 1, 30, bitorder),
        ),
        lambda a, b: (
            np.packbits(a, bitorder=bitorder),
            np.packbits(a, 0, bitorder),
            np.packbits(a * 3, -1, bitorder),
            np.unpackbits(b, bitorder=bitorder),
            np.unpackbits(b, 0, bitorder=bitorder),
            np.unpackbits(b, 1, 9, bitorder),
            np.unpackbits(b, 1, -3, bitorder),
            np.unpackbits(b, 1, 30, bitorder),
        ),
        a,
        b,
    )
    with pytest.raises(rd.DTypeError):
        rd.algorithm(lambda a: rd.packbits(a)).interpret(np.ones(3))
