"""`rd.fft` along several axes, of real numbers with half the work, and of sizes known only when the program runs."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from numpy_twin import finite, same

import raido as rd

PLANS: list[tuple[Any, Any]] = [
    (None, None),
    (None, (0, 1)),
    (None, (-1, 0)),
    ((4, 9), (1, 2)),
    ((5, -1), (2, 0)),
    ((3, 4), None),
    (None, (1,)),
]


@pytest.mark.parametrize(("s", "axes"), PLANS, ids=str)
def test_several_axes(s: Any, axes: Any) -> None:
    z, x = finite((2, 5, 6), np.complex128), finite((2, 5, 6), np.float64)
    own = (-3, -2) if s == (3, 4) else axes  # NumPy warns of sizes without axes
    own = (-2, -1) if s == (3, 4) else own
    same(
        lambda z, x: (rd.fft.fftn(z, s, axes), rd.fft.ifftn(z, s, axes, "ortho"), rd.fft.rfftn(x, s, axes)),
        lambda z, x: (np.fft.fftn(z, s, own), np.fft.ifftn(z, s, own, "ortho"), np.fft.rfftn(x, s, own)),
        z,
        x,
        rtol=1e-10,
        sized=True,
    )
    same(
        lambda z: rd.fft.irfftn(z, s, axes, "forward"),
        lambda z: np.fft.irfftn(z, s, own, "forward"),
        z,
        rtol=1e-10,
        sized=True,
    )


def test_two_axes_of_real_numbers() -> None:
    x, z = finite((4, 6), np.float32), finite((4, 4), np.complex64)
    same(
        lambda x, z: (rd.fft.rfft2(x), rd.fft.irfft2(z), rd.fft.irfft2(z, (4, 5)), rd.fft.rfft2(x, (3, 8), (1, 0))),
        lambda x, z: (np.fft.rfft2(x), np.fft.irfft2(z), np.fft.irfft2(z, (4, 5)), np.fft.rfft2(x, (3, 8), (1, 0))),
        x,
        z,
        rtol=1e-4,
        sized=True,
    )


@pytest.mark.parametrize("norm", [None, "forward"])
@pytest.mark.parametrize("n", [None, 1, 2, 3, 4, 10])
def test_transforms_to_real_numbers(n: Any, norm: Any) -> None:
    z, x = finite((2, 6), np.complex128), finite((2, 6), np.float64)
    same(
        lambda z, x: (rd.fft.hfft(z, n, norm=norm), rd.fft.ihfft(x, n, norm=norm), rd.fft.irfft(z, n, -1, norm)),
        lambda z, x: (np.fft.hfft(z, n, norm=norm), np.fft.ihfft(x, n, norm=norm), np.fft.irfft(z, n, -1, norm)),
        z,
        x,
        rtol=1e-10,
        sized=True,
    )
    same(lambda x: rd.fft.rfft(x, n, 0, norm), lambda x: np.fft.rfft(x, n, 0, norm), x, rtol=1e-10, sized=True)


def test_shifts_and_frequencies() -> None:
    a = finite((3, 4, 5), np.float32)
    same(
        lambda a: tuple(f(a, axes) for f in (rd.fft.fftshift, rd.fft.ifftshift) for axes in (None, 1, -1, (0, 2))),
        lambda a: tuple(f(a, axes) for f in (np.fft.fftshift, np.fft.ifftshift) for axes in (None, 1, -1, (0, 2))),
        a,
    )
    whole = rd.algorithm(a="f32[n]")(lambda a: rd.fft.ifftshift(rd.fft.fftshift(a)))
    same(whole, lambda a: a, a[0, 0])
    for n in (1, 2, 5, 8):
        assert rd.algorithm(n="size")(lambda n: rd.fft.rfftfreq(n, 0.25)).interpret(n).tolist() == [
            *np.fft.rfftfreq(n, 0.25)
        ]


SYMBOLIC = rd.algorithm(x="complex128[m, n]", y="f32[n]")(
    lambda x, y: (rd.fft.fft(x), rd.fft.ifft(x, norm="ortho"), rd.fft.rfft(y), rd.fft.irfft(rd.fft.rfft(y)))
)


@pytest.mark.parametrize("n", [2, 4, 8, 64])
def test_powers_of_two_need_not_be_known(n: int) -> None:
    x, y = finite((3, n), np.complex128), finite((n,), np.float32)
    want = np.fft.fft(x), np.fft.ifft(x, norm="ortho"), np.fft.rfft(y), y
    for got, wanted in zip(SYMBOLIC.interpret(x, y), want, strict=True):
        assert got.dtype == wanted.dtype and got.shape == wanted.shape
        size = np.abs(wanted).max()
        np.testing.assert_allclose(got, wanted, rtol=0, atol=8 * np.finfo(wanted.dtype).eps * max(size, 1))


def test_powers_of_two_compiled() -> None:
    one = rd.algorithm(x="f32[n]")(lambda x: rd.fft.fft(x))
    x = finite((32,), np.float32)
    assert one(x).tobytes() == one.interpret(x).tobytes()
    assert one.interpret(np.float32([3])).tolist() == [3]
    for run in (one.interpret, one):
        with pytest.raises(rd.SizeMismatch, match=r"a Fourier transform of 12 numbers(.|\n)*try +n=, or"):
            run(np.ones(12, np.float32))


def test_the_roots_of_a_size_that_is_a_symbol_are_made_once() -> None:
    s = rd.algorithm(x="f32[m, n]")(lambda x: rd.fft.fft(x)).schedule()
    assert "roots" in s.stages and not any(name.endswith("/roots") for name in s.stages)
    assert any(directive.stage == "roots" and directive.name == "root" for directive in s.complete().directives)


def test_a_transform_of_no_numbers_is_named_before_the_sizes_beside_it() -> None:
    """Of 0 real numbers, n // 2 + 1 are wanted: the fault is the transform's, not that of the arrays of this size beside it."""
    f = rd.algorithm(x="f64[n]")(lambda x: rd.fft.rfft(x) * rd.fft.rfftfreq(x.shape[0]))
    for run in (f, f.interpret):
        with pytest.raises(rd.SizeMismatch, match="a Fourier transform of 0 numbers"):
            run(np.zeros(0))


def test_the_work_for_real_numbers_is_half(capsys: pytest.CaptureFixture[str]) -> None:
    """The steps of a transform of 1024 real numbers go over 512 complex ones."""
    for transform, size in ((lambda x: rd.fft.rfft(x), 512), (lambda x: rd.fft.fft(x), 1024)):
        rd.algorithm(x="f64[1024]")(transform).schedule().show()
        steps = [line for line in capsys.readouterr().out.splitlines() if re.match(r" *radix.*: f64\[", line)]
        assert steps and all(math.prod(map(int, re.findall(r"\d+", line.partition("[")[2]))) == size for line in steps)


def test_refused_sizes_and_axes() -> None:
    x = finite((4, 3), np.float64)
    for wrong in (
        lambda x: rd.fft.fftn(x, (3,), (0, 1)),
        lambda x: rd.fft.fftn(x, axes=(2,)),
        lambda x: rd.fft.fftn(x, 3),
        lambda x: rd.fft.rfftn(x, axes=()),
        lambda x: rd.fft.fftshift(x, 2),
    ):
        with pytest.raises(rd.ShapeError):
            rd.algorithm(wrong).interpret(x)


@pytest.mark.parametrize("transform", [rd.fft.fft, rd.fft.ifft])
def test_columns_are_transformed_in_blocks_of_whole_cache_lines(transform: Callable[..., Any]) -> None:
    x = finite((64, 48), np.complex64)
    columns = rd.algorithm(x="complex64[64, 48]")(lambda x: transform(x, axis=0))
    exe = columns.compile()
    want = getattr(np.fft, transform.__name__)(x, axis=0)
    np.testing.assert_allclose(exe(x), want, rtol=0, atol=1e-5 * np.abs(want).max())
    assert re.search(r"radix_4\w*: f32\[\d+, 16, 4, 16\]", exe.source("nest")) and "gather" not in exe.source("gang")
