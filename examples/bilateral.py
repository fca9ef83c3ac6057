"""Bilateral filter (Tomasi & Manduchi 1998): smooths a photograph and keeps its edges. Writes out/bilateral.png.

Each pixel becomes a mean of its 81 neighbours, weighted by how near they are and how alike: 81 exponentials for every pixel.
"""

from __future__ import annotations

import math

import numpy as np
from show import check, extent, photograph, report, save, seconds, side_by_side, tiled

import raido as rd

RADIUS, SPACE, RANGE = 4, 2.5, 0.1


@rd.algorithm
def bilateral(img: rd.f32["h", "w"]):
    def weigh(p):
        total, weight = rd.f32(0.0), rd.f32(0.0)
        for dy in range(-RADIUS, RADIUS + 1):
            for dx in range(-RADIUS, RADIUS + 1):
                near = math.exp(-(dy * dy + dx * dx) / (2 * SPACE**2))
                apart = p[dy, dx] - p[0, 0]
                w = near * rd.exp(apart * apart * (-1 / (2 * RANGE**2)))
                total, weight = total + w * p[dy, dx], weight + w
        return total / weight

    return rd.stencil(weigh, img, boundary="mirror", name="smooth")


def schedule(algorithm: rd.Algorithm) -> rd.Schedule:
    """Rows over the threads; the interior has no mirroring."""
    s = algorithm.schedule()
    s["smooth"].split("y", 16).vectorize("x").parallel("yo").partition_boundaries()
    return s


def with_numpy(img: np.ndarray) -> np.ndarray:
    """The same by NumPy, a whole image for each neighbour."""
    h, w = img.shape
    p = np.pad(img, RADIUS, mode="reflect")
    total, weight = np.zeros_like(img), np.zeros_like(img)
    for dy in range(2 * RADIUS + 1):
        for dx in range(2 * RADIUS + 1):
            near = np.float32(math.exp(-((dy - RADIUS) ** 2 + (dx - RADIUS) ** 2) / (2 * SPACE**2)))
            there = p[dy : dy + h, dx : dx + w]
            k = near * np.exp((there - img) ** 2 * np.float32(-1 / (2 * RANGE**2)))
            total, weight = total + k * there, weight + k
    return total / weight


def main() -> None:
    noise = np.random.default_rng(1).normal(0, 0.05, (512, 512)).astype(np.float32)
    img = np.clip(photograph("camera") + noise, 0, 1)
    smooth = bilateral.compile(schedule=schedule(bilateral))
    result = smooth(img)
    check(result, with_numpy(img))
    print("wrote", save("bilateral", side_by_side(img, result)))
    large = tiled(img, 4)
    out = np.empty_like(large)
    ours = seconds(lambda: smooth(large, out=out))
    theirs = seconds(lambda: with_numpy(large), 1)
    report(f"bilateral 9x9 {extent(large)}", ours, theirs, "NumPy", amount=81 * 8 * large.size, unit="GFLOP/s")


if __name__ == "__main__":
    main()
