"""Unsharp mask: a photograph sharpened by the difference from its own blur. Writes out/unsharp.png: before and after.

The blur is a separable 7-tap Gaussian of the brightness; every colour is scaled by how much the brightness changed.
"""

from __future__ import annotations

from functools import reduce
from operator import add

import numpy as np
from scipy import ndimage
from show import check, extent, photograph, report, save, seconds, side_by_side

import raido as rd


@rd.algorithm
def unsharp(img: rd.f32[3, "h", "w"], *, sigma=1.5, strength=1.5):
    taps = np.exp(-(np.arange(-3, 4) ** 2) / (2 * sigma**2))
    taps = [float(t) for t in taps / taps.sum()]
    edge = rd.pad(img, ((0, 0), (3, 3), (3, 3)), mode="edge")
    gray = (0.299 * edge[0] + 0.587 * edge[1] + 0.114 * edge[2]).named("gray")
    down = rd.stencil(lambda p: reduce(add, [taps[k] * p[k, 0] for k in range(7)]), gray, boundary="valid", name="down")
    blur = rd.stencil(lambda p: reduce(add, [taps[k] * p[0, k] for k in range(7)]), down, boundary="valid", name="blur")
    centre = gray[3:-3, 3:-3]
    sharp = centre + strength * (centre - blur)
    ratio = (sharp / rd.maximum(centre, 1e-3)).named("ratio")
    return rd.clip(ratio * img, 0.0, 1.0).named("out")


def schedule(algorithm: rd.Algorithm) -> rd.Schedule:
    """Row tiles of 32 rows for each thread; the brightness slides down each tile, row by row, and stays in cache."""
    s = algorithm.schedule()
    s["out"].split("y", 32).reorder("yo", "yi", "z", "x").unroll("z").vectorize("x").parallel("yo")
    s["ratio"].compute_at("out", "yi").vectorize("x")
    s["blur"].inline()
    s["down"].compute_at("out", "yi").vectorize("x")
    s["gray"].compute_at("out", "yi").store_at("out", "yo").vectorize("x").partition_boundaries()
    return s


def with_scipy(img: np.ndarray) -> np.ndarray:
    """The same by NumPy and SciPy."""
    taps = np.exp(-(np.arange(-3, 4) ** 2) / (2 * 1.5**2)).astype(np.float32)
    taps /= taps.sum()
    gray = np.float32(0.299) * img[0] + np.float32(0.587) * img[1] + np.float32(0.114) * img[2]
    down = ndimage.correlate1d(gray, taps, axis=0, mode="nearest")
    blur = ndimage.correlate1d(down, taps, axis=1, mode="nearest")
    sharp = gray + np.float32(1.5) * (gray - blur)
    return np.clip(sharp / np.maximum(gray, np.float32(1e-3)) * img, 0, 1)


def main() -> None:
    img = photograph("astronaut")
    sharpen = unsharp.compile(schedule=schedule(unsharp))
    result = sharpen(img)
    check(result, with_scipy(img))
    print("wrote", save("unsharp", side_by_side(img[:, :300, 90:390], result[:, :300, 90:390])))
    large = photograph("astronaut", repeat=4)
    out = np.empty_like(large)
    ours = seconds(lambda: sharpen(large, out=out))
    theirs = seconds(lambda: with_scipy(large), 3)
    report(f"unsharp mask {extent(large)}", ours, theirs, "SciPy", amount=2 * large.nbytes)


if __name__ == "__main__":
    main()
