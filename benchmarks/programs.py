"""The stencils of the comparison with Halide: inputs, NumPy's answer, raido's algorithm and its hand schedule.

Sizes are those of the table in docs/benchmarks.md; `--scale` of the command divides them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import add

import numpy as np
from rows import Row

import raido as rd

W7 = np.exp(-((np.arange(7) - 3) ** 2) / (2.0 * 1.5 * 1.5))
W7 = [float(v) for v in (W7 / W7.sum()).astype(np.float32)]


@rd.algorithm
def blur_u16(img: rd.u16["h", "w"]):
    bx = rd.stencil(lambda p: (p[0, 0] + p[0, 1] + p[0, 2]) // 3, img, boundary="valid", name="bx")
    return rd.stencil(lambda p: (p[0, 0] + p[1, 0] + p[2, 0]) // 3, bx, boundary="valid", name="by")


@rd.algorithm
def blur_f32(img: rd.f32["h", "w"]):
    k = 1 / 3
    bx = rd.stencil(lambda p: (p[0, 0] + p[0, 1] + p[0, 2]) * k, img, boundary="valid", name="bx")
    return rd.stencil(lambda p: (p[0, 0] + p[1, 0] + p[2, 0]) * k, bx, boundary="valid", name="by")


@rd.algorithm
def jacobi2d_5(a: rd.f32["h", "w"]):
    return rd.stencil(
        lambda p: (p[0, 0] + p[0, -1] + p[0, 1] + p[-1, 0] + p[1, 0]) * 0.2, a, boundary="clamp", name="out"
    )


@rd.algorithm
def jacobi2d_9(a: rd.f32["h", "w"]):
    taps = [(dy, dx) for dy in (-1, 0, 1) for dx in (-1, 0, 1)]
    return rd.stencil(lambda p: reduce(add, [p[t] for t in taps]) * (1 / 9), a, boundary="clamp", name="out")


def _star(radius: int) -> list[tuple[int, ...]]:
    steps = [s * k for k in range(1, radius + 1) for s in (-1, 1)]
    return [(0, 0, 0)] + [tuple(s if d == axis else 0 for d in range(3)) for axis in (2, 1, 0) for s in steps]


@rd.algorithm
def jacobi3d_7(a: rd.f32["d", "h", "w"]):
    return rd.stencil(lambda p: reduce(add, [p[t] for t in _star(1)]) * (1 / 7), a, boundary="clamp", name="out")


@rd.algorithm
def jacobi3d_13(a: rd.f32["d", "h", "w"]):
    return rd.stencil(lambda p: reduce(add, [p[t] for t in _star(2)]) * (1 / 13), a, boundary="clamp", name="out")


@rd.algorithm
def sobel(a: rd.f32["h", "w"]):
    def magnitude(p):
        gx = (p[-1, 1] - p[-1, -1]) + 2 * (p[0, 1] - p[0, -1]) + (p[1, 1] - p[1, -1])
        gy = (p[1, -1] - p[-1, -1]) + 2 * (p[1, 0] - p[-1, 0]) + (p[1, 1] - p[-1, 1])
        return rd.sqrt(gx * gx + gy * gy)

    return rd.stencil(magnitude, a, boundary="clamp", name="out")


@rd.algorithm
def unsharp(img: rd.f32[3, "h", "w"]):
    edge = rd.pad(img, ((0, 0), (3, 3), (3, 3)), mode="edge")
    gray = (0.299 * edge[0] + 0.587 * edge[1] + 0.114 * edge[2]).named("gray")
    b1 = rd.stencil(lambda p: reduce(add, [p[k, 0] * W7[k] for k in range(7)]), gray, boundary="valid", name="b1")
    b2 = rd.stencil(lambda p: reduce(add, [p[0, k] * W7[k] for k in range(7)]), b1, boundary="valid", name="b2")
    centre = gray[3:-3, 3:-3]
    ratio = ((2 * centre - b2) / centre).named("ratio")
    return (ratio * img).named("out")


@rd.algorithm
def harris(img: rd.f32["h", "w"]):
    edge = rd.pad(img, 2, mode="edge")
    k12 = 1 / 12

    def ix_of(p):
        return ((p[0, 2] - p[0, 0]) + 2 * (p[1, 2] - p[1, 0]) + (p[2, 2] - p[2, 0])) * k12

    def iy_of(p):
        return ((p[2, 0] - p[0, 0]) + 2 * (p[2, 1] - p[0, 1]) + (p[2, 2] - p[0, 2])) * k12

    ix = rd.stencil(ix_of, edge, boundary="valid", name="Ix")
    iy = rd.stencil(iy_of, edge, boundary="valid", name="Iy")

    def response(p, q):
        taps = [(dy, dx) for dy in (0, 1, 2) for dx in (0, 1, 2)]
        sxx = reduce(add, [p[t] * p[t] for t in taps])
        syy = reduce(add, [q[t] * q[t] for t in taps])
        sxy = reduce(add, [p[t] * q[t] for t in taps])
        trace = sxx + syy
        return sxx * syy - sxy * sxy - 0.04 * trace * trace

    return rd.stencil(response, ix, iy, boundary="valid", name="out")


def _rows_in_registers(rows: int) -> Callable[[rd.Algorithm], rd.Schedule]:
    """`rows` output rows at once: neighbours share their loads; stores go past the caches."""

    def schedule(algorithm: rd.Algorithm) -> rd.Schedule:
        s = algorithm.schedule()
        out = s["out"].split("y", 64).split("yi", rows, names=("ym", "yr")).reorder("yo", "ym", "x", "yr")
        out.unroll("yr").vectorize("x").parallel("yo").partition_boundaries().stream_stores()
        return s

    return schedule


def _planes(algorithm: rd.Algorithm) -> rd.Schedule:
    """Each plane from end to end, so that every plane read is one stream; rows of 2 KiB are too short to be streamed."""
    s = algorithm.schedule()
    s["out"].split("z", 4).vectorize("x", interleave=2).parallel("zo").partition_boundaries().prefetch("a", "y", 8)
    return s


def _blur_inline(strip: int, rows: int) -> Callable[[rd.Algorithm], rd.Schedule]:
    """Each row of the first pass serves three rows of the second, all in registers."""

    def schedule(algorithm: rd.Algorithm) -> rd.Schedule:
        s = algorithm.schedule()
        s["bx"].inline()
        s["by"].split("y", strip).split("yi", rows, names=("ym", "yr")).reorder("yo", "ym", "x", "yr").unroll("yr")
        s["by"].vectorize("x").parallel("yo").stream_stores()
        return s

    return schedule


def _unsharp_sliding(algorithm: rd.Algorithm) -> rd.Schedule:
    s = algorithm.schedule()
    s["out"].split("y", 32).reorder("yo", "yi", "z", "x").unroll("z").vectorize("x").parallel("yo")
    s["b2"].inline()
    s["ratio"].compute_at("out", "yi").vectorize("x")
    s["b1"].compute_at("out", "yi").vectorize("x")
    s["gray"].compute_at("out", "yi").store_at("out", "yo").vectorize("x").partition_boundaries()
    return s


def _harris_tiled(algorithm: rd.Algorithm) -> rd.Schedule:
    """Tiles whose derivatives fit the first cache; two rows at once share their loads."""
    s = algorithm.schedule()
    s["out"].tile(y=32, x=128).split("yi", 2, names=("ym", "yr")).reorder("xo", "ym", "xi", "yr")
    s["out"].unroll("yr").vectorize("xi").parallel("yo")
    for name in ("Ix", "Iy"):
        s[name].compute_at("out", "xo").vectorize("x").partition_boundaries()
    return s


def _edge(a: np.ndarray, r: int) -> np.ndarray:
    return np.pad(a, r, mode="edge")


def _weighted(radius: int, taps: list[tuple[int, ...]], scale: float) -> Callable[[np.ndarray], np.ndarray]:
    def answer(a: np.ndarray) -> np.ndarray:
        p = _edge(a, radius)
        windows = [p[tuple(slice(radius + d, radius + d + n) for d, n in zip(t, a.shape, strict=True))] for t in taps]
        return reduce(add, windows) * np.float32(scale)

    return answer


def _blur_answer(a: np.ndarray) -> np.ndarray:
    if a.dtype == np.uint16:
        b = (a[:, :-2] + a[:, 1:-1] + a[:, 2:]) // np.uint16(3)
        return (b[:-2] + b[1:-1] + b[2:]) // np.uint16(3)
    b = (a[:, :-2] + a[:, 1:-1] + a[:, 2:]) * np.float32(1 / 3)
    return (b[:-2] + b[1:-1] + b[2:]) * np.float32(1 / 3)


def _sobel_answer(a: np.ndarray) -> np.ndarray:
    p, (h, w) = _edge(a, 1), a.shape
    at = lambda dy, dx: p[1 + dy : 1 + dy + h, 1 + dx : 1 + dx + w]
    gx = (at(-1, 1) - at(-1, -1)) + 2 * (at(0, 1) - at(0, -1)) + (at(1, 1) - at(1, -1))
    gy = (at(1, -1) - at(-1, -1)) + 2 * (at(1, 0) - at(-1, 0)) + (at(1, 1) - at(-1, 1))
    return np.sqrt(gx * gx + gy * gy)


def _unsharp_answer(a: np.ndarray) -> np.ndarray:
    _, h, w = a.shape
    p = np.pad(a, ((0, 0), (3, 3), (3, 3)), mode="edge")
    gray = np.float32(0.299) * p[0] + np.float32(0.587) * p[1] + np.float32(0.114) * p[2]
    k = np.array(W7, np.float32)
    down = reduce(add, [gray[i : i + h] * k[i] for i in range(7)])
    across = reduce(add, [down[:, i : i + w] * k[i] for i in range(7)])
    centre = gray[3:-3, 3:-3]
    return ((2 * centre - across) / centre)[None] * a


def _harris_answer(a: np.ndarray) -> np.ndarray:
    h, w = a.shape
    p = _edge(a, 2)
    at = lambda dy, dx: p[1 + dy : 3 + dy + h, 1 + dx : 3 + dx + w]
    f = np.float32(1 / 12)
    ix = ((at(-1, 1) - at(-1, -1)) + 2 * (at(0, 1) - at(0, -1)) + (at(1, 1) - at(1, -1))) * f
    iy = ((at(1, -1) - at(-1, -1)) + 2 * (at(1, 0) - at(-1, 0)) + (at(1, 1) - at(-1, 1))) * f
    box = lambda q: reduce(add, [q[dy : dy + h, dx : dx + w] for dy in range(3) for dx in range(3)])
    xx, yy, xy = box(ix * ix), box(iy * iy), box(ix * iy)
    return xx * yy - xy * xy - np.float32(0.04) * (xx + yy) ** 2


_box2 = [(dy, dx) for dy in (-1, 0, 1) for dx in (-1, 0, 1)]
_cross2 = [(0, 0), (0, -1), (0, 1), (-1, 0), (1, 0)]

STENCILS: dict[str, Row] = {
    "unsharp": Row(unsharp, ((3, 2048, 2048),), "f4", _unsharp_answer, _unsharp_sliding, low=0.1, tolerance=1e-4),
    "harris": Row(harris, ((4096, 4096),), "f4", _harris_answer, _harris_tiled, tolerance=1e-4),
    "blur_u16": Row(blur_u16, ((4802, 6402),), "u2", _blur_answer, _blur_inline(96, 8), high=60000, tolerance=0),
    "blur_f32": Row(blur_f32, ((4802, 6402),), "f4", _blur_answer, _blur_inline(40, 4)),
    "sobel": Row(sobel, ((8192, 8192),), "f4", _sobel_answer, _rows_in_registers(4)),
    "jacobi2d_5": Row(jacobi2d_5, ((10000, 10000),), "f4", _weighted(1, _cross2, 0.2), _rows_in_registers(4)),
    "jacobi2d_9": Row(jacobi2d_9, ((10000, 10000),), "f4", _weighted(1, _box2, 1 / 9), _rows_in_registers(4)),
    "jacobi3d_7": Row(jacobi3d_7, ((512, 512, 512),), "f4", _weighted(1, _star(1), 1 / 7), _planes),
    "jacobi3d_13": Row(jacobi3d_13, ((512, 512, 512),), "f4", _weighted(2, _star(2), 1 / 13), _planes),
}
