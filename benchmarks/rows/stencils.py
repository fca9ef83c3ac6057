"""Jacobi sweeps in two and three dimensions, with clamped boundaries."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import add

import numpy as np

import raido as rd
from rows.row import Row, Scheduler, drawn

CROSS = [(0, 0), (0, -1), (0, 1), (-1, 0), (1, 0)]
BOX = [(dy, dx) for dy in (-1, 0, 1) for dx in (-1, 0, 1)]


def star(radius: int) -> list[tuple[int, ...]]:
    """A point of three dimensions and its neighbours along the axes, the contiguous one first."""
    steps = [s * k for k in range(1, radius + 1) for s in (-1, 1)]
    return [(0, 0, 0)] + [tuple(s if d == axis else 0 for d in range(3)) for axis in (2, 1, 0) for s in steps]


@rd.algorithm
def jacobi2d_5(a: rd.f32["h", "w"]):
    return rd.stencil(lambda p: reduce(add, [p[t] for t in CROSS]) * 0.2, a, boundary="clamp", name="out")


@rd.algorithm
def jacobi2d_9(a: rd.f32["h", "w"]):
    return rd.stencil(lambda p: reduce(add, [p[t] for t in BOX]) * (1 / 9), a, boundary="clamp", name="out")


@rd.algorithm
def jacobi3d_7(a: rd.f32["d", "h", "w"]):
    return rd.stencil(lambda p: reduce(add, [p[t] for t in star(1)]) * (1 / 7), a, boundary="clamp", name="out")


@rd.algorithm
def jacobi3d_13(a: rd.f32["d", "h", "w"]):
    return rd.stencil(lambda p: reduce(add, [p[t] for t in star(2)]) * (1 / 13), a, boundary="clamp", name="out")


def rows_in_registers(rows: int, ahead: int = 0) -> Scheduler:
    """`rows` output rows at once, in row tiles of 64 rows where lines are prefetched: neighbours share loads; stores bypass the caches."""

    def schedule(algorithm: rd.Algorithm) -> rd.Schedule:
        s = algorithm.schedule()
        if ahead:
            out = s["out"].split("y", 64).split("yi", rows, names=("ym", "yr")).reorder("yo", "ym", "x", "yr")
            out.prefetch("a", "x", ahead)
        else:
            out = s["out"].split("y", rows, names=("yo", "yr")).reorder("yo", "x", "yr")
        out.unroll("yr").vectorize("x").parallel("yo").partition_boundaries().stream_stores()
        return s

    return schedule


def planes(stream: bool) -> Scheduler:
    """Each plane from end to end, so that every input plane is one stream: with non-temporal stores, or prefetched four rows ahead."""

    def schedule(algorithm: rd.Algorithm) -> rd.Schedule:
        s = algorithm.schedule()
        if stream:
            s["out"].vectorize("x").parallel("z", grain=16).partition_boundaries().stream_stores()
        else:
            s["out"].split("z", 4).vectorize("x", interleave=2).parallel("zo").partition_boundaries()
            s["out"].prefetch("a", "y", 4)
        return s

    return schedule


def weighted(radius: int, taps: list[tuple[int, ...]], scale: float) -> Callable[[np.ndarray], np.ndarray]:
    """NumPy's sum of the neighbours of every element."""

    def answer(a: np.ndarray) -> np.ndarray:
        p = np.pad(a, radius, mode="edge")
        windows = [p[tuple(slice(radius + d, radius + d + n) for d, n in zip(t, a.shape, strict=True))] for t in taps]
        return reduce(add, windows) * np.float32(scale)

    return answer


SQUARE, CUBE = drawn((10_000, 10_000)), drawn((512, 512, 512))
SWEEPS = {
    "4 rows": rows_in_registers(4),
    "4 rows, ahead": rows_in_registers(4, ahead=64),
    "12 rows": rows_in_registers(12),
}
PLANES = {"streamed": planes(True), "stored": planes(False)}

STENCILS = {
    "jacobi2d_5": Row("Jacobi, 5 points, 10,000²", jacobi2d_5, SQUARE, weighted(1, CROSS, 0.2), SWEEPS),
    "jacobi2d_9": Row("Jacobi, 3 × 3 box, 10,000²", jacobi2d_9, SQUARE, weighted(1, BOX, 1 / 9), SWEEPS),
    "jacobi3d_7": Row("Jacobi, 7 points, 512³", jacobi3d_7, CUBE, weighted(1, star(1), 1 / 7), PLANES),
    "jacobi3d_13": Row("Jacobi, 13 points, 512³", jacobi3d_13, CUBE, weighted(2, star(2), 1 / 13), PLANES),
}
