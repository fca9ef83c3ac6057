"""The loops that Numba compiles: plain Python over the arrays of the row, inputs first; `prange` distributes a loop over the threads."""

from __future__ import annotations

import numba
import numpy as np
from numba import prange

parallel = numba.njit(parallel=True, fastmath=True, cache=True)
f32 = np.float32
PARTS = 64


@parallel
def total(a, out):
    s = f32(0)
    for i in prange(a.size):
        s += a[i]
    out[()] = s


@parallel
def dot(a, b, out):
    s = f32(0)
    for i in prange(a.size):
        s += a[i] * b[i]
    out[()] = s


@parallel
def row_sums(a, out):
    for y in prange(a.shape[0]):
        s = f32(0)
        for x in range(a.shape[1]):
            s += a[y, x]
        out[y] = s


@parallel
def column_sums(a, out):
    parts = np.zeros((PARTS, a.shape[1]), np.float32)
    for p in prange(PARTS):
        for y in range(p * a.shape[0] // PARTS, (p + 1) * a.shape[0] // PARTS):
            for x in range(a.shape[1]):
                parts[p, x] += a[y, x]
    out[:] = parts.sum(0)


@parallel
def scan(a, out):
    """Parts are summed up, then scanned."""
    sums = np.zeros(PARTS + 1, a.dtype)
    for p in prange(PARTS):
        s = sums[0]
        for i in range(p * a.size // PARTS, (p + 1) * a.size // PARTS):
            s += a[i]
        sums[p + 1] = s
    before = np.cumsum(sums)
    for p in prange(PARTS):
        s = a.dtype.type(before[p])
        for i in range(p * a.size // PARTS, (p + 1) * a.size // PARTS):
            s += a[i]
            out[i] = s


@numba.njit(parallel=True, cache=True)
def histogram(a, out):
    parts = np.zeros((numba.get_num_threads(), out.size), np.int32)
    for p in prange(parts.shape[0]):
        for i in range(p * a.size // parts.shape[0], (p + 1) * a.size // parts.shape[0]):
            parts[p, a[i]] += 1
    out[:] = parts.sum(0)


@parallel
def kept(a, out):
    """Counted by parts, then moved."""
    counts = np.zeros(PARTS + 1, np.int64)
    for p in prange(PARTS):
        count = 0
        for i in range(p * a.size // PARTS, (p + 1) * a.size // PARTS):
            count += a[i] < 500
        counts[p + 1] = count
    begins = np.cumsum(counts)
    for p in prange(PARTS):
        o = begins[p]
        for i in range(p * a.size // PARTS, (p + 1) * a.size // PARTS):
            if a[i] < 500:
                out[o] = a[i]
                o += 1
    return begins[PARTS]


@parallel
def spmv(offsets, columns, values, x, out):
    for r in prange(out.size):
        s = f32(0)
        for k in range(offsets[r], offsets[r + 1]):
            s += values[k] * x[columns[k]]
        out[r] = s


@parallel
def segments(offsets, values, out):
    for r in prange(out.size):
        s = f32(0)
        for k in range(offsets[r], offsets[r + 1]):
            s += values[k]
        out[r] = s


@parallel
def jacobi2d_5(a, out):
    h, w = a.shape
    for y in prange(h):
        u, d = max(y - 1, 0), min(y + 1, h - 1)
        out[y, 0] = f32(0.2) * (a[y, 0] + a[y, 0] + a[y, min(1, w - 1)] + a[u, 0] + a[d, 0])
        for x in range(1, w - 1):
            out[y, x] = f32(0.2) * (a[y, x] + a[y, x - 1] + a[y, x + 1] + a[u, x] + a[d, x])
        out[y, w - 1] = f32(0.2) * (a[y, w - 1] + a[y, max(w - 2, 0)] + a[y, w - 1] + a[u, w - 1] + a[d, w - 1])


@parallel
def jacobi2d_9(a, out):
    h, w = a.shape
    for y in prange(h):
        u, d = max(y - 1, 0), min(y + 1, h - 1)
        for x in (0, w - 1):
            l, r = max(x - 1, 0), min(x + 1, w - 1)
            s = a[u, l] + a[u, x] + a[u, r] + a[y, l] + a[y, x] + a[y, r] + a[d, l] + a[d, x] + a[d, r]
            out[y, x] = s * f32(1 / 9)
        for x in range(1, w - 1):
            s = a[u, x - 1] + a[u, x] + a[u, x + 1] + a[y, x - 1] + a[y, x] + a[y, x + 1]
            out[y, x] = (s + a[d, x - 1] + a[d, x] + a[d, x + 1]) * f32(1 / 9)


@parallel
def jacobi3d_7(a, out):
    n, h, w = a.shape
    for z in prange(n):
        f, b = max(z - 1, 0), min(z + 1, n - 1)
        for y in range(h):
            u, d = max(y - 1, 0), min(y + 1, h - 1)
            for x in (0, w - 1):
                s = a[z, y, max(x - 1, 0)] + a[z, y, x] + a[z, y, min(x + 1, w - 1)]
                out[z, y, x] = (s + a[z, u, x] + a[z, d, x] + a[f, y, x] + a[b, y, x]) * f32(1 / 7)
            for x in range(1, w - 1):
                s = a[z, y, x - 1] + a[z, y, x] + a[z, y, x + 1]
                out[z, y, x] = (s + a[z, u, x] + a[z, d, x] + a[f, y, x] + a[b, y, x]) * f32(1 / 7)


@parallel
def mandelbrot(ci, cr, out):
    for y in prange(ci.size):
        for x in range(cr.size):
            zr, zi, steps = f32(0), f32(0), 0
            while zr * zr + zi * zi <= f32(4) and steps < 256:
                zr, zi = zr * zr - zi * zi + cr[x], f32(2) * zr * zi + ci[y]
                steps += 1
            out[y, x] = steps


@parallel
def nbody(x, y, z, m, ax, ay, az):
    for i in prange(x.size):
        sx, sy, sz = f32(0), f32(0), f32(0)
        for j in range(x.size):
            dx, dy, dz = x[j] - x[i], y[j] - y[i], z[j] - z[i]
            inverse = f32(1) / np.sqrt(dx * dx + dy * dy + dz * dz + f32(0.0025))
            s = m[j] * inverse * inverse * inverse
            sx += dx * s
            sy += dy * s
            sz += dz * s
        ax[i], ay[i], az[i] = sx, sy, sz


@numba.njit(fastmath=True, cache=True)
def below(d):
    k = f32(1) / (f32(1) + f32(0.2316419) * abs(d))
    p = f32(-1.821255978) + k * f32(1.330274429)
    p = k * (f32(0.319381530) + k * (f32(-0.356563782) + k * (f32(1.781477937) + k * p)))
    c = f32(0.39894228) * np.exp(f32(-0.5) * d * d) * p
    return f32(1) - c if d > 0 else c


@parallel
def black_scholes(spot, strike, years, calls, puts):
    for i in prange(spot.size):
        s, t = spot[i], years[i]
        spread = f32(0.3) * np.sqrt(t)
        d1 = (np.log(s / strike[i]) + f32(0.065) * t) / spread
        later, n1, n2 = strike[i] * np.exp(f32(-0.02) * t), below(d1), below(d1 - spread)
        calls[i] = s * n1 - later * n2
        puts[i] = later * (f32(1) - n2) - s * (f32(1) - n1)


def matmul(a, b, out):
    """OpenBLAS."""
    np.matmul(a, b, out=out)


KERNELS = {
    "sum": (total,),
    "dot": (dot,),
    **{f"rows_{size}": (row_sums,) for size in ("10", "1e4", "1e6", "1e7")},
    "columns_1e4": (column_sums,),
    "scan_f32": (scan,),
    "scan_i32": (scan,),
    "histogram_256": (histogram,),
    "histogram_1e6": (histogram,),
    "filter": (kept,),
    "spmv": (spmv,),
    "segments": (segments,),
    "jacobi2d_5": (jacobi2d_5,),
    "jacobi2d_9": (jacobi2d_9,),
    "jacobi3d_7": (jacobi3d_7,),
    "sgemm_1024": (matmul,),
    "sgemm_2048": (matmul,),
    "mandelbrot": (mandelbrot,),
    "nbody": (nbody,),
    "black_scholes": (black_scholes,),
}
