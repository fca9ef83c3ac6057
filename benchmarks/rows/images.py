"""Image filters: blur, Sobel, Gauss, unsharp mask, Harris corners."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import add

import numpy as np

import raido as rd
from rows.row import Row, Scheduler, drawn
from rows.stencils import rows_in_registers


def gauss_weights(taps: int, sigma: float) -> list[float]:
    w = np.exp(-((np.arange(taps) - taps // 2) ** 2) / (2.0 * sigma * sigma))
    return [float(v) for v in (w / w.sum()).astype(np.float32)]


W7, W9 = gauss_weights(7, 1.5), gauss_weights(9, 2.0)


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
def sobel(a: rd.f32["h", "w"]):
    def magnitude(p):
        gx = (p[-1, 1] - p[-1, -1]) + 2 * (p[0, 1] - p[0, -1]) + (p[1, 1] - p[1, -1])
        gy = (p[1, -1] - p[-1, -1]) + 2 * (p[1, 0] - p[-1, 0]) + (p[1, 1] - p[-1, 1])
        return rd.sqrt(gx * gx + gy * gy)

    return rd.stencil(magnitude, a, boundary="clamp", name="out")


@rd.algorithm
def gauss_direct(a: rd.f32["h", "w"]):
    weights = [((dy - 4, dx - 4), W9[dy] * W9[dx]) for dy in range(9) for dx in range(9)]
    return rd.stencil(lambda p: reduce(add, [p[t] * w for t, w in weights]), a, boundary="clamp", name="out")


@rd.algorithm
def gauss_separable(a: rd.f32["h", "w"]):
    down = lambda p: reduce(add, [p[k - 4, 0] * W9[k] for k in range(9)])
    across = lambda p: reduce(add, [p[0, k - 4] * W9[k] for k in range(9)])
    g1 = rd.stencil(down, a, boundary="clamp", name="g1")
    return rd.stencil(across, g1, boundary="clamp", name="out")


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


def blur_inline(height: int, rows: int) -> Scheduler:
    """Each row of the first pass serves three rows of the second, all in registers."""

    def schedule(algorithm: rd.Algorithm) -> rd.Schedule:
        s = algorithm.schedule()
        s["bx"].inline()
        s["by"].split("y", height).split("yi", rows, names=("ym", "yr")).reorder("yo", "ym", "x", "yr").unroll("yr")
        s["by"].vectorize("x").parallel("yo").stream_stores()
        return s

    return schedule


def gauss_rows(rows: int, interleave: int, lanes: int | None = None) -> Scheduler:
    """`rows` rows and `interleave` gangs of results in registers: every load serves up to `rows` of them."""

    def schedule(algorithm: rd.Algorithm) -> rd.Schedule:
        s = algorithm.schedule()
        out = s["out"].split("y", 64).split("yi", rows, names=("ym", "yr")).reorder("yo", "ym", "x", "yr")
        out.unroll("yr").vectorize("x", lanes, interleave=interleave).parallel("yo").partition_boundaries()
        return s

    return schedule


def gauss_tiles(height: int, rows: int) -> Scheduler:
    """Down first, `rows` rows at once, which share their loads, into a buffer that stays in cache; then across."""

    def schedule(algorithm: rd.Algorithm) -> rd.Schedule:
        s = algorithm.schedule()
        s["out"].split("y", height).split("yi", rows, names=("ym", "yr")).vectorize("x", interleave=2)
        s["out"].parallel("yo").partition_boundaries()
        s["g1"].compute_at("out", "ym").reorder("x", "y").unroll("y", rows).vectorize("x").partition_boundaries()
        return s

    return schedule


def unsharp_tiles(height: int) -> Scheduler:
    """Whole row tiles of every stage, small enough for the second-level cache."""

    def schedule(algorithm: rd.Algorithm) -> rd.Schedule:
        s = algorithm.schedule()
        s["out"].split("y", height).reorder("yo", "z", "yi", "x").unroll("z").vectorize("x").parallel("yo")
        s["b2"].inline()
        for name in ("ratio", "b1", "gray"):
            s[name].compute_at("out", "yo").vectorize("x")
        s["gray"].partition_boundaries()
        return s

    return schedule


def unsharp_sliding(algorithm: rd.Algorithm) -> rd.Schedule:
    s = algorithm.schedule()
    s["out"].split("y", 32).reorder("yo", "yi", "z", "x").unroll("z").vectorize("x").parallel("yo")
    s["b2"].inline()
    s["ratio"].compute_at("out", "yi").vectorize("x")
    s["b1"].compute_at("out", "yi").vectorize("x")
    s["gray"].compute_at("out", "yi").store_at("out", "yo").vectorize("x").partition_boundaries()
    return s


def harris_tiled(algorithm: rd.Algorithm) -> rd.Schedule:
    """Tiles whose derivatives fit the first-level cache; two rows at once share their loads."""
    s = algorithm.schedule()
    s["out"].tile(y=32, x=128).split("yi", 2, names=("ym", "yr")).reorder("xo", "ym", "xi", "yr")
    s["out"].unroll("yr").vectorize("xi").parallel("yo")
    for name in ("Ix", "Iy"):
        s[name].compute_at("out", "xo").vectorize("x").partition_boundaries()
    return s


def _edge(a: np.ndarray, r: int) -> np.ndarray:
    return np.pad(a, r, mode="edge")


def _blurred(a: np.ndarray) -> np.ndarray:
    if a.dtype == np.uint16:
        b = (a[:, :-2] + a[:, 1:-1] + a[:, 2:]) // np.uint16(3)
        return (b[:-2] + b[1:-1] + b[2:]) // np.uint16(3)
    b = (a[:, :-2] + a[:, 1:-1] + a[:, 2:]) * np.float32(1 / 3)
    return (b[:-2] + b[1:-1] + b[2:]) * np.float32(1 / 3)


def _magnitudes(a: np.ndarray) -> np.ndarray:
    p, (h, w) = _edge(a, 1), a.shape
    at = lambda dy, dx: p[1 + dy : 1 + dy + h, 1 + dx : 1 + dx + w]
    gx = (at(-1, 1) - at(-1, -1)) + 2 * (at(0, 1) - at(0, -1)) + (at(1, 1) - at(1, -1))
    gy = (at(1, -1) - at(-1, -1)) + 2 * (at(1, 0) - at(-1, 0)) + (at(1, 1) - at(-1, 1))
    return np.sqrt(gx * gx + gy * gy)


def _smooth(a: np.ndarray) -> np.ndarray:
    (h, w), p, k = a.shape, _edge(a, 4), np.array(W9, np.float32)
    down = reduce(add, [p[i : i + h] * k[i] for i in range(9)])
    return reduce(add, [down[:, i : i + w] * k[i] for i in range(9)])


def _sharpened(a: np.ndarray) -> np.ndarray:
    _, h, w = a.shape
    p = np.pad(a, ((0, 0), (3, 3), (3, 3)), mode="edge")
    gray = np.float32(0.299) * p[0] + np.float32(0.587) * p[1] + np.float32(0.114) * p[2]
    k = np.array(W7, np.float32)
    down = reduce(add, [gray[i : i + h] * k[i] for i in range(7)])
    across = reduce(add, [down[:, i : i + w] * k[i] for i in range(7)])
    centre = gray[3:-3, 3:-3]
    return ((2 * centre - across) / centre)[None] * a


def _corners(a: np.ndarray) -> np.ndarray:
    h, w = a.shape
    p = _edge(a, 2)
    at = lambda dy, dx: p[1 + dy : 3 + dy + h, 1 + dx : 3 + dx + w]
    f = np.float32(1 / 12)
    ix = ((at(-1, 1) - at(-1, -1)) + 2 * (at(0, 1) - at(0, -1)) + (at(1, 1) - at(1, -1))) * f
    iy = ((at(1, -1) - at(-1, -1)) + 2 * (at(1, 0) - at(-1, 0)) + (at(1, 1) - at(-1, 1))) * f
    box = lambda q: reduce(add, [q[dy : dy + h, dx : dx + w] for dy in range(3) for dx in range(3)])
    xx, yy, xy = box(ix * ix), box(iy * iy), box(ix * iy)
    return xx * yy - xy * xy - np.float32(0.04) * (xx + yy) ** 2


def _image(
    what: str,
    algorithm: rd.Algorithm,
    shape: tuple[int, ...],
    answer: Callable[[np.ndarray], np.ndarray],
    hand: dict[str, Scheduler],
    **more: float,
) -> Row:
    dtype = "u2" if algorithm is blur_u16 else "f4"
    inputs = drawn(shape, low=0.1 if algorithm is unsharp else 0, high=60000 if dtype == "u2" else 1, dtype=dtype)
    return Row(what, algorithm, inputs, answer, hand, **{"tolerance": 1e-5, **more})


_BLURS = {"40, 4 rows": blur_inline(40, 4), "96, 8 rows": blur_inline(96, 8)}
_SOBELS = {"4 rows": rows_in_registers(4), "2 rows": rows_in_registers(2)}

IMAGES = {
    "blur_u16": _image("blur 3 × 3 of u16, 6400 × 4800", blur_u16, (4802, 6402), _blurred, _BLURS, tolerance=0),
    "blur_f32": _image("blur 3 × 3 of f32, 6400 × 4800", blur_f32, (4802, 6402), _blurred, _BLURS),
    "sobel": _image("Sobel 8192²", sobel, (8192, 8192), _magnitudes, _SOBELS),
    "gauss_direct": _image(
        "Gauss 9 × 9, 4096²",
        gauss_direct,
        (4096, 4096),
        _smooth,
        {"4 rows x2": gauss_rows(4, 2), "2 rows x4": gauss_rows(2, 4), "2 rows x4 wide": gauss_rows(2, 4, 32)},
    ),
    "gauss_separable": _image(
        "Gauss 9 + 9 taps, 8192²",
        gauss_separable,
        (8192, 8192),
        _smooth,
        {"6 rows": gauss_tiles(60, 6), "4 rows": gauss_tiles(64, 4)},
    ),
    "unsharp": _image(
        "unsharp mask of RGB, 2048²",
        unsharp,
        (3, 2048, 2048),
        _sharpened,
        {"sliding": unsharp_sliding, "strips of 32": unsharp_tiles(32)},
        tolerance=1e-4,
    ),
    "harris": _image("Harris corners 4096²", harris, (4096, 4096), _corners, {"tiles": harris_tiled}, tolerance=1e-4),
}
