"""The Mandelbrot set: every pixel its own while loop. Writes out/mandelbrot.png.

Lanes of a vector leave the loop at different times; the gang goes round as long as one of its pixels does.
"""

from __future__ import annotations

import numpy as np
from show import SMALL, report, save, seconds

import raido as rd

LIMIT = 256


@rd.algorithm
def mandelbrot(n: rd.size):
    def escape(y, x):
        cr = -2.0 + rd.f32(x) * (2.5 / rd.f32(n))
        ci = -1.25 + rd.f32(y) * (2.5 / rd.f32(n))

        def inside(state):
            zr, zi, steps = state
            return (zr * zr + zi * zi <= 4.0) & (steps < LIMIT)

        def step(state):
            zr, zi, steps = state
            return zr * zr - zi * zi + cr, 2.0 * zr * zi + ci, steps + 1

        return rd.while_loop(inside, step, (rd.f32(0.0), rd.f32(0.0), rd.i32(0)))[2]

    return rd.tabulate((n, n), escape, name="steps")


def schedule(algorithm: rd.Algorithm) -> rd.Schedule:
    """Two gangs side by side hide the latency of the recurrence; small strips keep the threads busy."""
    s = algorithm.schedule()
    s["steps"].split("y", 8).vectorize("x", interleave=2).parallel("yo", dynamic=True)
    return s


def with_numpy(n: int) -> np.ndarray:
    """The same by NumPy, dropping the pixels that have escaped."""
    f = np.float32
    c_r = f(-2.0) + np.arange(n, dtype=f) * (f(2.5) / f(n))
    c_i = f(-1.25) + np.arange(n, dtype=f) * (f(2.5) / f(n))
    cr, ci = (a.ravel() for a in np.meshgrid(c_r, c_i))
    steps, where = np.zeros(n * n, np.int32), np.arange(n * n)
    zr, zi = np.zeros_like(cr), np.zeros_like(ci)
    for _ in range(LIMIT):
        alive = zr * zr + zi * zi <= 4
        where, zr, zi, cr, ci = where[alive], zr[alive], zi[alive], cr[alive], ci[alive]
        steps[where] += 1
        zr, zi = zr * zr - zi * zi + cr, 2 * zr * zi + ci
    return steps.reshape(n, n)


def main() -> None:
    run = mandelbrot.compile(schedule=schedule(mandelbrot))
    n = 400 if SMALL else 2000
    result = run(n)
    want = with_numpy(n)
    differing = float((result != want).mean())  # fused multiply-add moves a few pixels on the rim
    if differing > 5e-3:
        raise SystemExit(f"wrong result: {differing:.2%} of the pixels differ")
    shade = np.log1p(result) / np.log1p(LIMIT)
    picture = np.stack([np.where(result == LIMIT, 0, c) for c in (shade**2, shade, np.sqrt(shade))])
    print("wrote", save("mandelbrot", picture if SMALL else picture[:, ::2, ::2]))
    ours = seconds(lambda: run(n))
    theirs = seconds(lambda: with_numpy(n), 1)
    report(f"Mandelbrot {n}x{n}", ours, theirs, "NumPy", amount=8 * float(want.sum()), unit="GFLOP/s")


if __name__ == "__main__":
    main()
