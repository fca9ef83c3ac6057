"""Separable Gaussian blur with a radius chosen at trace time. Writes out/gauss.png: before and after."""

from __future__ import annotations

from functools import reduce
from operator import add

import numpy as np
from scipy import ndimage
from show import check, extent, photograph, report, save, seconds, side_by_side

import raido as rd


@rd.algorithm
def gauss(img: rd.f32["h", "w"], *, radius=4, sigma=2.0):
    taps = np.exp(-(np.arange(-radius, radius + 1) ** 2) / (2 * sigma**2))
    taps = [float(t) for t in taps / taps.sum()]
    steps = range(-radius, radius + 1)
    g1 = rd.stencil(
        lambda p: reduce(add, [taps[k + radius] * p[k, 0] for k in steps]), img, boundary="clamp", name="g1"
    )
    return rd.stencil(
        lambda p: reduce(add, [taps[k + radius] * p[0, k] for k in steps]), g1, boundary="clamp", name="g2"
    )


def schedule(algorithm: rd.Algorithm) -> rd.Schedule:
    """Two rows at a time: the pass down the columns shares its loads in registers, the pass along the rows reads them from L1."""
    s = algorithm.schedule()
    s["g2"].split("y", 64).split("yi", 2, names=("ym", "yr")).vectorize("x").parallel("yo").partition_boundaries()
    s["g2"].stream_stores(above=32 << 20)
    s["g1"].compute_at("g2", "ym").split("y", 2).reorder("yo", "x", "yi").unroll("yi").vectorize("x")
    s["g1"].partition_boundaries()
    return s


def main() -> None:
    img = photograph("camera")
    blur = gauss.compile(schedule=schedule(gauss))
    result = blur(img)
    with_scipy = lambda a: ndimage.gaussian_filter(a, 2.0, mode="nearest", radius=4)
    check(result, with_scipy(img))
    print("wrote", save("gauss", side_by_side(img, result)))
    large = photograph("camera", repeat=16)
    out = np.empty_like(large)
    ours = seconds(lambda: blur(large, out=out))
    theirs = seconds(lambda: with_scipy(large), 3)
    report(f"Gauss 9x9 {extent(large)}", ours, theirs, "SciPy", amount=2 * large.nbytes)


if __name__ == "__main__":
    main()
