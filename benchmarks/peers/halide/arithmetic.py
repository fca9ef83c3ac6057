"""Scan, histogram, Mandelbrot, n-body and Black–Scholes in Halide, which has no scan and no `while`: both are worked around."""

from __future__ import annotations

from collections.abc import Sequence

import halide as hl
import numpy as np

from peers.halide.program import Program, input_of, u, v, x, xi, xo, y, yi, yo


def scan(arrays: Sequence[np.ndarray], schedule: str) -> Program:
    """A handwritten three-phase scan: sums of blocks, their prefix sums, and a scan of every block, `rows` blocks at once."""
    block, rows = map(int, (schedule or "4000_8").split("_"))
    blocks = arrays[0].size // block
    source, result = (a[: blocks * block].reshape(blocks, block) for a in arrays)
    if source.size != arrays[0].size:
        raise SystemExit("the scan in Halide needs a size that its block divides")
    param = input_of(source)
    zero = hl.cast(param.type(), 0)
    sums, before, out = hl.Func("sums"), hl.Func("before"), hl.Func("scan")
    r, rb, rl = hl.RDom([(0, block)], "r"), hl.RDom([(1, blocks - 1)], "rb"), hl.RDom([(1, block - 1)], "rl")
    sums[y] = zero
    sums[y] += param[r.x, y]
    before[y] = zero
    before[rb.x] = before[rb.x - 1] + sums[rb.x - 1]
    out[x, y] = hl.undef(param.type())
    out[0, y] = before[y] + param[0, y]
    out[rl.x, y] = out[rl.x - 1, y] + param[rl.x, y]
    program = Program(out, [param], [source, result], (x, y))
    if not schedule:
        return program
    ri, rv = hl.RVar("ri"), hl.RVar("rv")
    sums.compute_root().parallel(y, 1000)
    sums.update().split(r.x, ri, rv, 16)
    lanes = sums.update().rfactor(rv, v)
    lanes.compute_at(sums, y).vectorize(v)
    lanes.update().reorder(v, ri).vectorize(v).unroll(ri, 5)
    sums.update().parallel(y, 8)
    before.compute_root()
    out.update(0).parallel(y, 500)
    out.update(1).split(y, yo, yi, rows).reorder(yi, rl.x, yo).unroll(yi).parallel(yo)
    return program


def histogram(arrays: Sequence[np.ndarray], schedule: str) -> Program:
    """Chunks for the threads, `copies` sets of bins in each, by `rfactor`."""
    param, bins = input_of(arrays[0]), arrays[1].size
    h, r = hl.Func("h"), hl.RDom([(0, arrays[0].size)], "r")
    h[x] = hl.i32(0)
    h[hl.unsafe_promise_clamped(param[r], 0, bins - 1)] += 1
    program = Program(h, [param], arrays, (x,))
    if not schedule:
        return program
    chunks, copies = map(int, schedule.split("_"))
    ro, ri, rs = hl.RVar("ro"), hl.RVar("ri"), hl.RVar("rs")
    h.update().split(r.x, ro, ri, arrays[0].size // chunks)
    if copies > 1:
        h.update().split(ri, ri, rs, copies)
        parts = h.update().rfactor([(ro, u), (rs, v)])
        parts.compute_root().reorder_storage(x, v, u).parallel(u).vectorize(x, 16)
        parts.update().reorder(v, ri, u).parallel(u).unroll(v)
    else:
        parts = h.update().rfactor(ro, u)
        parts.compute_root().parallel(u).vectorize(x, 16)
        parts.update().parallel(u).unroll(ri, 4)
    h.vectorize(x, 16)
    h.update().reorder(x, *((rs, ro) if copies > 1 else (ro,))).vectorize(x, 16)
    return program


def mandelbrot(arrays: Sequence[np.ndarray], schedule: str) -> Program:
    """All 256 iterations for every element; escaped elements keep their values."""
    ci, cr = input_of(arrays[0], "ci"), input_of(arrays[1], "cr")
    z, out, r = hl.Func("z"), hl.Func("out"), hl.RDom([(0, 256)], "r")
    z[x, y] = hl.Tuple([hl.f32(0), hl.f32(0), hl.i32(0)])
    zr, zi, steps = (z[x, y][k] for k in range(3))
    inside = zr * zr + zi * zi <= hl.f32(4)
    count = steps + hl.select(inside, 1, 0) + hl.select(r.x < 0, 1, 0)
    further = (zr * zr - zi * zi + cr[x], hl.f32(2) * zr * zi + ci[y])
    z[x, y] = hl.Tuple([hl.select(inside, further[0], zr), hl.select(inside, further[1], zi), count])
    out[x, y] = z[x, y][2]
    program = Program(out, [ci, cr], arrays, (x, y))
    if not schedule:
        return program
    vectors = int(schedule)
    out.split(y, yo, yi, 8).parallel(yo).split(x, xo, xi, 16 * vectors).vectorize(xi, 16)
    z.compute_at(out, xo).vectorize(x, 16).unroll(x)
    z.update().reorder(x, y, r.x).vectorize(x, 16).unroll(x).unroll(r.x, 4)
    return program


def nbody(arrays: Sequence[np.ndarray], schedule: str) -> Program:
    """A vector or more of bodies at a time, all others in turn."""
    params = [input_of(a, name) for a, name in zip(arrays[:4], "XYZM", strict=True)]
    pull, out, r = hl.Func("pull"), hl.Func("out"), hl.RDom([(0, arrays[0].size)], "r")
    gaps = [p[r] - p[x] for p in params[:3]]
    inverse = hl.f32(1) / hl.sqrt(gaps[0] * gaps[0] + gaps[1] * gaps[1] + gaps[2] * gaps[2] + hl.f32(0.0025))
    weight = params[3][r] * (inverse * inverse * inverse)
    pull[x] = hl.Tuple([hl.f32(0)] * 3)
    pull[x] = hl.Tuple([pull[x][k] + gaps[k] * weight for k in range(3)])
    out[x] = hl.Tuple([pull[x][k] for k in range(3)])
    program = Program(out, params, arrays, (x,))
    if not schedule:
        return program
    vectors = int(schedule)
    out.split(x, xo, xi, 16 * vectors, hl.TailStrategy.ShiftInwards).vectorize(xi, 16).parallel(xo)
    pull.compute_at(out, xo).vectorize(x, 16).unroll(x)
    pull.update().reorder(x, r.x).vectorize(x, 16).unroll(x)
    return program


def black_scholes(arrays: Sequence[np.ndarray], schedule: str) -> Program:
    """A pair of prices for every option."""
    spot, strike, years = (input_of(a, name) for a, name in zip(arrays[:3], "SXT", strict=True))

    def below(d: hl.Expr) -> hl.Expr:
        k = hl.f32(1) / (hl.f32(1) + hl.f32(0.2316419) * hl.abs(d))
        p = hl.f32(0)
        for weight in (1.330274429, -1.821255978, 1.781477937, -0.356563782, 0.319381530):
            p = k * (hl.f32(weight) + p)
        c = hl.f32(0.39894228) * hl.exp(hl.f32(-0.5) * d * d) * p
        return hl.select(d > 0, hl.f32(1) - c, c)

    out = hl.Func("prices")
    s, t = spot[x], years[x]
    spread = hl.f32(0.3) * hl.sqrt(t)
    d1 = (hl.log(s / strike[x]) + hl.f32(0.065) * t) / spread
    later, n1, n2 = strike[x] * hl.exp(hl.f32(-0.02) * t), below(d1), below(d1 - spread)
    out[x] = hl.Tuple([s * n1 - later * n2, later * (hl.f32(1) - n2) - s * (hl.f32(1) - n1)])
    program = Program(out, [spot, strike, years], arrays, (x,))
    if not schedule:
        return program
    out.split(x, xo, xi, 1 << 15).parallel(xo).vectorize(xi, 16).unroll(xi, int(schedule))
    return program


ARITHMETIC = {
    "scan_f32": (scan, ("2000_8", "4000_4", "4000_8")),
    "scan_i32": (scan, ("2000_8", "4000_4", "4000_8")),
    "histogram_256": (histogram, ("64_1", "64_4", "64_8")),
    "histogram_1e6": (histogram, ("2_1",)),
    "mandelbrot": (mandelbrot, ("4", "5", "8")),
    "nbody": (nbody, ("2", "4")),
    "black_scholes": (black_scholes, ("1", "2")),
}
