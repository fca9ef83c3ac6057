"""Edges by the Sobel operator. Writes out/sobel.png: a photograph and its edges."""

from __future__ import annotations

import numpy as np
from scipy import ndimage
from show import check, extent, photograph, report, save, seconds, side_by_side

import raido as rd


@rd.algorithm
def sobel(img: rd.f32["h", "w"]):
    def magnitude(p):
        gx = p[-1, 1] - p[-1, -1] + 2 * (p[0, 1] - p[0, -1]) + p[1, 1] - p[1, -1]
        gy = p[1, -1] - p[-1, -1] + 2 * (p[1, 0] - p[-1, 0]) + p[1, 1] - p[-1, 1]
        return rd.sqrt(gx * gx + gy * gy)

    return rd.stencil(magnitude, img, boundary="clamp", name="edges")


def schedule(algorithm: rd.Algorithm) -> rd.Schedule:
    """Four rows of the result at once, so that neighbouring rows share their loads."""
    s = algorithm.schedule()
    s["edges"].split("y", 64).split("yi", 4, names=("ym", "yr")).reorder("yo", "ym", "x", "yr").unroll("yr")
    s["edges"].vectorize("x").parallel("yo").partition_boundaries().stream_stores()
    return s


def with_scipy(img: np.ndarray) -> np.ndarray:
    """The same by SciPy."""
    return np.hypot(ndimage.sobel(img, axis=1, mode="nearest"), ndimage.sobel(img, axis=0, mode="nearest"))


def main() -> None:
    img = photograph("coins")
    edges = sobel.compile(schedule=schedule(sobel))
    result = edges(img)
    check(result, with_scipy(img))
    print("wrote", save("sobel", side_by_side(img, np.sqrt(result / result.max()))))
    large = photograph("camera", repeat=16)
    out = np.empty_like(large)
    ours = seconds(lambda: edges(large, out=out))
    theirs = seconds(lambda: with_scipy(large), 3)
    report(f"Sobel {extent(large)}", ours, theirs, "SciPy", amount=2 * large.nbytes)


if __name__ == "__main__":
    main()
