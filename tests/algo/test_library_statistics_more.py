"""NumPy's statistics without NaN, covariances and histograms give NumPy's results."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from numpy_twin import finite, same

import raido as rd

AXES: tuple[Any, ...] = (None, 0, -1, (0, 2))


def holed(dtype: Any) -> np.ndarray:
    """Numbers with NaN in some places, in a whole row and in a whole column."""
    a = finite((3, 4, 5), dtype)
    if a.dtype.kind in "fc":
        a[0, :, 1] = a[2, 3] = a[:, 0] = a[1, 1, 1] = np.nan
    return a


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.float16, np.float32, np.float64, np.complex64])
def test_without_nan(dtype: Any) -> None:
    a, narrow = holed(dtype), {np.float16: 4e-2, np.float32: 1e-5, np.complex64: 1e-5}
    names = ("nanprod", "nanvar", "nanstd")

    def called(module: Any) -> Any:
        return lambda a: tuple(getattr(module, name)(a, axis, keepdims=axis == 0) for name in names for axis in AXES)

    a = a / 8 if a.dtype.kind in "fc" else a
    same(called(rd), called(np), a.astype(dtype), rtol=narrow.get(dtype, 1e-12))
    if np.dtype(dtype).kind != "c":
        same(lambda a: rd.nanvar(a, 1, ddof=3), lambda a: np.nanvar(a, 1, ddof=3), a, rtol=narrow.get(dtype, 1e-12))


@pytest.mark.parametrize("dtype", [np.int8, np.float16, np.float64])
def test_running_and_places_without_nan(dtype: Any) -> None:
    a = holed(dtype)
    same(
        lambda a: (rd.nancumsum(a), rd.nancumsum(a, 1), rd.nancumprod(a[0, 1:2], -1)),
        lambda a: (np.nancumsum(a), np.nancumsum(a, 1), np.nancumprod(a[0, 1:2], -1)),
        a,
        rtol=2e-3,
    )
    b = a[:, 1:3]
    same(
        lambda b: (rd.nanargmin(b), rd.nanargmax(b, 0), rd.nanargmin(b, -1, keepdims=True)),
        lambda b: (np.nanargmin(b), np.nanargmax(b, 0), np.nanargmin(b, -1, keepdims=True)),
        b,
    )


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", [np.int8, np.float32, np.float64])
def test_order_without_nan(dtype: Any) -> None:
    a = holed(dtype)
    rtol = 1e-5 if dtype is np.float32 else 1e-12
    same(
        lambda a: tuple(rd.nanmedian(a, axis, keepdims=axis == 0) for axis in AXES),
        lambda a: tuple(np.nanmedian(a, axis, keepdims=axis == 0) for axis in AXES),
        a,
        rtol=rtol,
    )
    for method in ("linear", "lower", "nearest", "midpoint", "hazen"):
        same(
            lambda a, *, m=method: (rd.nanquantile(a, 0.3, 1, method=m), rd.nanpercentile(a, [20, 70.0], method=m)),
            lambda a, *, m=method: (np.nanquantile(a, 0.3, 1, method=m), np.nanpercentile(a, [20, 70.0], method=m)),
            a,
            rtol=rtol,
        )
    same(lambda a: rd.nanmedian(a), lambda a: np.nanmedian(a), a[0, 0])


def test_covariances() -> None:
    a, b, z = finite((3, 6), np.float32), finite((2, 6), np.float64, 5), finite((2, 5), np.complex128)
    f, w = np.array([1, 2, 1, 1, 3, 1]), np.array([0.5, 1, 2, 1, 1, 0.25])

    def called(module: Any) -> Any:
        return lambda a, b, f, w: (
            module.cov(a),
            module.cov(a, b),
            module.cov(a[0]),
            module.cov(a[0], b[0], bias=True),
            module.cov(a, rowvar=False, ddof=0),
            module.cov(a, fweights=f),
            module.cov(a, fweights=f, aweights=w),
            module.cov(a, aweights=w, ddof=0),
            module.corrcoef(a, b),
            module.corrcoef(a[0]),
        )

    same(called(rd), called(np), a, b, f, w, rtol=1e-11)
    same(lambda z: (rd.cov(z), rd.corrcoef(z)), lambda z: (np.cov(z), np.corrcoef(z)), z, rtol=1e-11)
    open_sizes = rd.algorithm(a="f32[k, n]")(lambda a: (rd.cov(a), rd.corrcoef(a)))
    same(open_sizes, lambda a: (np.cov(a), np.corrcoef(a)), a, rtol=1e-11)
    with pytest.raises(rd.ShapeError):
        rd.algorithm(lambda a: rd.cov(a[None])).interpret(a)


def test_histograms_of_several_dimensions() -> None:
    x, y, w = finite((40,), np.float64), finite((40,), np.float32, 3), np.abs(finite((40,), np.float64, 4))
    edges = np.array([-8.0, -1.0, 0.0, 5.0])
    same(
        lambda x, y, w: (
            rd.histogram2d(x, y, 4),
            rd.histogram2d(x, y, [3, edges], weights=w),
            rd.histogram2d(x, y, edges, density=True),
            rd.histogram2d(x, y, 3, [(-2, 2), (-4, 1)]),
            rd.histogram_bin_edges(x, 5),
        ),
        lambda x, y, w: (
            np.histogram2d(x, y, 4),
            np.histogram2d(x, y, [3, edges], weights=w),
            np.histogram2d(x, y, edges, density=True),
            np.histogram2d(x, y, 3, [(-2, 2), (-4, 1)]),
            np.histogram_bin_edges(x, 5),
        ),
        x,
        y,
        w,
        rtol=1e-12,
    )
    points = finite((30, 3), np.float64)
    same(
        lambda p: (rd.histogramdd(p, 3), rd.histogramdd(p, (2, 3, 4)), rd.histogramdd(p[:, 0], 3)),
        lambda p: (np.histogramdd(p, 3), np.histogramdd(p, (2, 3, 4)), np.histogramdd(p[:, :1], 3)),
        points,
        rtol=1e-12,
        sized=True,
    )
    with pytest.raises(rd.ShapeError):
        rd.algorithm(p="f64[30, 3]")(lambda p: rd.histogramdd(p, (2, 3))[0]).interpret(points)
