"""Harris corners (Harris & Stephens 1988) of a photograph. Writes out/harris.png: the photograph with a square around each corner."""

from __future__ import annotations

from functools import reduce
from operator import add

import numpy as np
from scipy import ndimage
from show import check, extent, photograph, report, save, seconds

import raido as rd

BOX = [(dy, dx) for dy in (-1, 0, 1) for dx in (-1, 0, 1)]


@rd.algorithm
def harris(img: rd.f32["h", "w"], *, k=0.04):
    def along_x(p):
        return (p[-1, 1] - p[-1, -1] + 2 * (p[0, 1] - p[0, -1]) + p[1, 1] - p[1, -1]) / 8

    def along_y(p):
        return (p[1, -1] - p[-1, -1] + 2 * (p[1, 0] - p[-1, 0]) + p[1, 1] - p[-1, 1]) / 8

    def response(gx, gy):
        xx = reduce(add, [gx[t] * gx[t] for t in BOX])
        yy = reduce(add, [gy[t] * gy[t] for t in BOX])
        xy = reduce(add, [gx[t] * gy[t] for t in BOX])
        return xx * yy - xy * xy - k * (xx + yy) * (xx + yy)

    ix = rd.stencil(along_x, img, boundary="clamp", name="ix")
    iy = rd.stencil(along_y, img, boundary="clamp", name="iy")
    return rd.stencil(response, ix, iy, boundary="clamp", name="corners")


def schedule(algorithm: rd.Algorithm) -> rd.Schedule:
    """Row tiles of 64 rows; both derivatives slide down each tile."""
    s = algorithm.schedule()
    s["corners"].split("y", 64).vectorize("x").parallel("yo").partition_boundaries()
    for name in ("ix", "iy"):
        s[name].compute_at("corners", "yi").store_at("corners", "yo").vectorize("x").partition_boundaries()
    return s


def with_scipy(img: np.ndarray) -> np.ndarray:
    """The same by SciPy."""
    ix = ndimage.sobel(img, axis=1, mode="nearest") / 8
    iy = ndimage.sobel(img, axis=0, mode="nearest") / 8
    box = lambda a: ndimage.uniform_filter(a, 3, mode="nearest") * 9
    xx, yy, xy = box(ix * ix), box(iy * iy), box(ix * iy)
    return xx * yy - xy * xy - np.float32(0.04) * (xx + yy) ** 2


def main() -> None:
    img = photograph("camera")
    detect = harris.compile(schedule=schedule(harris))
    corners = detect(img)
    check(corners, with_scipy(img), 1e-3)
    peaks = (corners == ndimage.maximum_filter(corners, 9)) & (corners > 0.02 * corners.max())
    grow = lambda mask, steps: ndimage.binary_dilation(mask, np.ones((3, 3)), iterations=steps)
    marks = grow(peaks, 4) & ~grow(peaks, 2)
    picture = np.stack(
        [np.where(marks, 1, 0.7 * img), np.where(marks, 0.1, 0.7 * img), np.where(marks, 0.1, 0.7 * img)]
    )
    print(f"wrote {save('harris', picture)} with {int(peaks.sum())} corners")
    large = photograph("camera", repeat=8)
    out = np.empty_like(large)
    ours = seconds(lambda: detect(large, out=out))
    theirs = seconds(lambda: with_scipy(large), 3)
    report(f"Harris corners {extent(large)}", ours, theirs, "SciPy", amount=51 * large.size, unit="GFLOP/s")


if __name__ == "__main__":
    main()
