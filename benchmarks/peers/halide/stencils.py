"""The stencils and image filters in Halide. Axes are Halide's: innermost first.

Each builder takes the arrays (inputs, then outputs) and the name of a schedule ("": none, for the autoschedulers). `STENCILS` lists the
competing schedules.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import add

import halide as hl
import numpy as np

from peers.halide.program import Build, Program, c, input_of, v, x, xi, xo, y, yi, yo, z, zi, zo


def gauss_weights(taps: int, sigma: float) -> np.ndarray:
    """Normalised Gaussian weights, f32."""
    w = np.exp(-((np.arange(taps) - taps // 2) ** 2) / (2.0 * sigma * sigma))
    return (w / w.sum()).astype(np.float32)


def blur(arrays: Sequence[np.ndarray], schedule: str) -> Program:
    """Two 3-tap passes, no boundary (the output is two smaller)."""
    image = arrays[0]
    param = input_of(image)
    bx, by = hl.Func("bx"), hl.Func("by")
    lanes = 16 if image.dtype == np.float32 else 32
    if image.dtype == np.float32:
        k = hl.f32(1 / 3)
        bx[x, y] = (param[x, y] + param[x + 1, y] + param[x + 2, y]) * k
        by[x, y] = (bx[x, y] + bx[x, y + 1] + bx[x, y + 2]) * k
    else:
        three = hl.u16(3)
        bx[x, y] = (param[x, y] + param[x + 1, y] + param[x + 2, y]) / three
        by[x, y] = (bx[x, y] + bx[x, y + 1] + bx[x, y + 2]) / three
    program = Program(by, [param], arrays, (x, y))
    if not schedule:
        return program
    kind, rows, group = schedule.split("_")
    if kind == "inline":
        by.split(y, yo, yi, int(rows)).split(yi, yi, v, int(group)).reorder(v, x, yi, yo).unroll(v)
        by.vectorize(x, lanes).parallel(yo)
    else:
        by.split(y, yo, yi, int(rows)).parallel(yo).vectorize(x, lanes)
        bx.store_at(by, yo).compute_at(by, yi).vectorize(x, lanes)
    return program


def stencil_2d(taps: Sequence[tuple[int, int]], scale: float) -> Build:
    """A weighted sum of neighbours (dx, dy) with the edge repeated."""

    def build(arrays: Sequence[np.ndarray], schedule: str) -> Program:
        param = input_of(arrays[0])
        b = hl.BoundaryConditions.repeat_edge(param)
        f = hl.Func("f")
        f[x, y] = reduce(add, [b[x + dx, y + dy] for dx, dy in taps]) * hl.f32(scale)
        program = Program(f, [param], arrays, (x, y))
        if not schedule:
            return program
        rows, group = map(int, schedule.split("_"))
        f.split(y, yo, yi, rows).parallel(yo).vectorize(x, 16)
        if group > 1:
            f.split(yi, yi, v, group).reorder(v, x, yi, yo).unroll(v)
        return program

    return build


def stencil_3d(taps: Sequence[tuple[int, int, int]], scale: float) -> Build:
    """A weighted sum of neighbours (dx, dy, dz) with the edge repeated."""

    def build(arrays: Sequence[np.ndarray], schedule: str) -> Program:
        param = input_of(arrays[0])
        b = hl.BoundaryConditions.repeat_edge(param)
        f = hl.Func("f")
        f[x, y, z] = reduce(add, [b[x + dx, y + dy, z + dz] for dx, dy, dz in taps]) * hl.f32(scale)
        program = Program(f, [param], arrays, (x, y, z))
        if not schedule:
            return program
        kind, ty, tz = schedule.split("_")
        f.vectorize(x, 16)
        if kind == "z":
            f.split(z, zo, zi, int(tz)).parallel(zo)
        else:
            f.split(y, yo, yi, int(ty)).split(z, zo, zi, int(tz)).reorder(x, yi, zi, yo, zo).parallel(zo)
        return program

    return build


def sobel(arrays: Sequence[np.ndarray], schedule: str) -> Program:
    """Gradient magnitude by the Sobel operator, edge repeated."""
    param = input_of(arrays[0])
    b = hl.BoundaryConditions.repeat_edge(param)
    f = hl.Func("sobel")
    at = lambda dx, dy: b[x + dx, y + dy]
    gx = (at(1, -1) - at(-1, -1)) + hl.f32(2) * (at(1, 0) - at(-1, 0)) + (at(1, 1) - at(-1, 1))
    gy = (at(-1, 1) - at(-1, -1)) + hl.f32(2) * (at(0, 1) - at(0, -1)) + (at(1, 1) - at(1, -1))
    f[x, y] = hl.sqrt(gx * gx + gy * gy)
    program = Program(f, [param], arrays, (x, y))
    if not schedule:
        return program
    rows, group = map(int, schedule.split("_"))
    f.split(y, yo, yi, rows).parallel(yo).vectorize(x, 16)
    if group > 1:
        f.split(yi, yi, v, group).reorder(v, x, yi, yo).unroll(v)
    return program


def gauss_direct(arrays: Sequence[np.ndarray], schedule: str) -> Program:
    """81 taps at once; the input is padded by its edge into a buffer for each row tile, so that the taps have no clamps."""
    param, w = input_of(arrays[0]), gauss_weights(9, 2.0)
    b, f = hl.BoundaryConditions.repeat_edge(param), hl.Func("g")
    taps = [(dx, dy) for dy in range(9) for dx in range(9)]
    f[x, y] = reduce(add, [b[x + dx - 4, y + dy - 4] * hl.f32(float(w[dy] * w[dx])) for dx, dy in taps])
    program = Program(f, [param], arrays, (x, y))
    if not schedule:
        return program
    kind, rows, vectors, strip = schedule.split("_")
    if kind == "pad":
        b.compute_at(f, yo).vectorize(b.args()[0], 16)
    f.split(y, yo, yi, int(strip)).split(yi, yi, v, int(rows)).split(x, x, xi, 16 * int(vectors))
    f.split(xi, xi, c, 16).reorder(c, xi, v, x, yi, yo).vectorize(c).unroll(xi).unroll(v).parallel(yo)
    return program


def gauss_separable(arrays: Sequence[np.ndarray], schedule: str) -> Program:
    """Nine taps down, then nine across (or across, then down, sliding)."""
    param, w = input_of(arrays[0]), gauss_weights(9, 2.0)
    b, g1, g2 = hl.BoundaryConditions.repeat_edge(param), hl.Func("g1"), hl.Func("g2")
    down = lambda f: reduce(add, [f[x, y + k - 4] * hl.f32(float(w[k])) for k in range(9)])
    across = lambda f: reduce(add, [f[x + k - 4, y] * hl.f32(float(w[k])) for k in range(9)])
    kind, strip, unroll = (schedule or "rows_0_0").split("_")
    first, second = (across, down) if kind == "slide" else (down, across)
    g1[x, y] = first(b)
    g2[x, y] = second(g1)
    program = Program(g2, [param], arrays, (x, y))
    if not schedule:
        return program
    if kind == "slide":
        g2.split(y, yo, yi, int(strip)).parallel(yo).vectorize(x, 16).unroll(x, int(unroll))
        g1.store_at(g2, yo).compute_at(g2, yi).vectorize(x, 16).unroll(x, int(unroll))
        return program
    g1.vectorize(x, 16).reorder(y, x).unroll(y)
    if kind == "tile":
        g2.tile(x, y, xo, yo, xi, yi, int(unroll), int(strip)).split(yi, yi, v, 4).reorder(xi, v, yi, xo, yo)
        g2.parallel(yo).vectorize(xi, 16).unroll(xi, 2)
    else:
        g2.split(y, yo, yi, int(strip)).split(yi, yi, v, 4).reorder(x, v, yi, yo).parallel(yo)
        g2.vectorize(x, 16).unroll(x, int(unroll))
    g1.compute_at(g2, yi)
    return program


def unsharp(arrays: Sequence[np.ndarray], schedule: str) -> Program:
    """Unsharp mask of a planar RGB image: gray, 7-tap Gaussian down and across, ratio, colour."""
    image = arrays[0]
    n = image.shape[1]
    w = gauss_weights(7, 1.5)
    param = input_of(image)
    whole = (hl.Expr(0), hl.Expr(n))
    b = hl.BoundaryConditions.repeat_edge(param, [whole, whole])
    gray, b1, b2, sharp, ratio, out = (hl.Func(n) for n in ("gray", "b1", "b2", "sharp", "ratio", "out"))
    gray[x, y] = hl.f32(0.299) * b[x, y, 0] + hl.f32(0.587) * b[x, y, 1] + hl.f32(0.114) * b[x, y, 2]
    b1[x, y] = reduce(add, [gray[x, y + k - 3] * hl.f32(float(w[k])) for k in range(7)])
    b2[x, y] = reduce(add, [b1[x + k - 3, y] * hl.f32(float(w[k])) for k in range(7)])
    sharp[x, y] = hl.f32(2) * gray[x, y] - b2[x, y]
    ratio[x, y] = sharp[x, y] / gray[x, y]
    out[x, y, c] = ratio[x, y] * param[x, y, c]
    program = Program(out, [param], arrays, (x, y, c))
    if not schedule:
        return program
    kind, rows = schedule.split("_")
    out.split(y, yo, yi, int(rows)).reorder(x, c, yi, yo).bound(c, 0, 3).unroll(c).parallel(yo).vectorize(x, 16)
    ratio.compute_at(out, yi).vectorize(x, 16)
    b1.compute_at(out, yi).vectorize(x, 16)
    if kind == "slide":
        gray.store_at(out, yo).compute_at(out, yi).vectorize(x, 16)
    else:
        gray.compute_at(out, yo).vectorize(x, 16)
    return program


def harris(arrays: Sequence[np.ndarray], schedule: str) -> Program:
    """Harris corner response; the clamp applies to the image, derivatives one pixel outside are those of the clamped image."""
    param = input_of(arrays[0])
    b = hl.BoundaryConditions.repeat_edge(param)
    ix, iy, ixx, iyy, ixy, sxx, syy, sxy, out = (
        hl.Func(n) for n in ("Ix", "Iy", "Ixx", "Iyy", "Ixy", "Sxx", "Syy", "Sxy", "harris")
    )
    k12 = hl.f32(1 / 12)
    at = lambda dx, dy: b[x + dx, y + dy]
    ix[x, y] = ((at(1, -1) - at(-1, -1)) + hl.f32(2) * (at(1, 0) - at(-1, 0)) + (at(1, 1) - at(-1, 1))) * k12
    iy[x, y] = ((at(-1, 1) - at(-1, -1)) + hl.f32(2) * (at(0, 1) - at(0, -1)) + (at(1, 1) - at(1, -1))) * k12
    ixx[x, y] = ix[x, y] * ix[x, y]
    iyy[x, y] = iy[x, y] * iy[x, y]
    ixy[x, y] = ix[x, y] * iy[x, y]
    for s, p in ((sxx, ixx), (syy, iyy), (sxy, ixy)):
        s[x, y] = reduce(add, [p[x + dx, y + dy] for dy in (-1, 0, 1) for dx in (-1, 0, 1)])
    trace = sxx[x, y] + syy[x, y]
    out[x, y] = sxx[x, y] * syy[x, y] - sxy[x, y] * sxy[x, y] - hl.f32(0.04) * trace * trace
    program = Program(out, [param], arrays, (x, y))
    if not schedule:
        return program
    kind, rows = schedule.split("_")
    if kind == "slide":
        out.split(y, yo, yi, int(rows)).parallel(yo).vectorize(x, 16)
        for f in (ix, iy):
            f.store_at(out, yo).compute_at(out, yi).vectorize(x, 16)
    else:
        out.tile(x, y, xo, yo, xi, yi, 256, int(rows)).parallel(yo).vectorize(xi, 16)
        for f in (ix, iy):
            f.compute_at(out, xo).vectorize(x, 16)
        iy.compute_with(ix, x)
    return program


def _star(radius: int) -> list[tuple[int, int, int]]:
    steps = [s * k for k in range(1, radius + 1) for s in (-1, 1)]
    return [(0, 0, 0)] + [tuple(s if d == axis else 0 for d in range(3)) for axis in range(3) for s in steps]


CROSS = [(0, 0), (-1, 0), (1, 0), (0, -1), (0, 1)]
BOX = [(dx, dy) for dy in (-1, 0, 1) for dx in (-1, 0, 1)]

STENCILS: dict[str, tuple[Build, tuple[str, ...]]] = {
    "gauss_direct": (gauss_direct, ("pad_4_2_32", "pad_2_4_32", "pad_8_2_32")),
    "gauss_separable": (gauss_separable, ("rows_64_2", "tile_64_1024", "slide_64_2")),
    "unsharp": (unsharp, ("slide_32", "slide_64", "yrow_32")),
    "harris": (harris, ("slide_32", "slide_64", "tile_64")),
    "blur_u16": (blur, ("inline_96_8", "inline_40_4", "slide_100_0")),
    "blur_f32": (blur, ("inline_96_8", "inline_40_4", "slide_100_0")),
    "sobel": (sobel, ("32_1", "64_2", "64_4")),
    "jacobi2d_5": (stencil_2d(CROSS, 0.2), ("50_1", "10_1", "48_4")),
    "jacobi2d_9": (stencil_2d(BOX, 1 / 9), ("50_1", "10_1", "48_4")),
    "jacobi3d_7": (stencil_3d(_star(1), 1 / 7), ("z_0_4", "z_0_2", "yz_128_16", "yz_64_16")),
    "jacobi3d_13": (stencil_3d(_star(2), 1 / 13), ("z_0_4", "yz_64_16", "yz_128_16")),
}
