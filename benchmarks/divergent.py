"""Programs bound by arithmetic, under their default schedules and by hand: `python benchmarks/divergent.py`.

Mandelbrot 2000 × 2000 with at most 256 rounds, one step of 10,000 bodies with an exact square root, 2²⁴ options by Black and Scholes.
Each is checked against NumPy before it is timed.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import typer

import raido as rd

LIMIT = 256


@rd.algorithm
def mandelbrot(ci: rd.f32["h"], cr: rd.f32["w"]):
    def escape(y, x):
        def inside(state):
            zr, zi, steps = state
            return (zr * zr + zi * zi <= 4.0) & (steps < LIMIT)

        def step(state):
            zr, zi, steps = state
            return zr * zr - zi * zi + cr[x], 2.0 * zr * zi + ci[y], steps + 1

        return rd.while_loop(inside, step, (rd.f32(0.0), rd.f32(0.0), rd.i32(0)))[2]

    return rd.tabulate((ci.shape[0], cr.shape[0]), escape, name="out")


@rd.algorithm
def nbody(x: rd.f32["n"], y: rd.f32["n"], z: rd.f32["n"], m: rd.f32["n"]):
    """The acceleration of every body along x."""

    def pull(i):
        def one(j):
            dx, dy, dz = x[j] - x[i], y[j] - y[i], z[j] - z[i]
            inverse = 1 / rd.sqrt(dx * dx + dy * dy + dz * dz + 0.0025)
            return m[j] * inverse * inverse * inverse * dx

        return rd.sum(rd.tabulate((x.shape[0],), one))

    return rd.tabulate((x.shape[0],), pull).named("out")


@rd.algorithm
def black_scholes(spot: rd.f32["n"], strike: rd.f32["n"], years: rd.f32["n"]):
    """The price of a call, at an interest of 2 % and a volatility of 30 %."""
    spread = 0.3 * rd.sqrt(years)
    d1 = (rd.log(spot / strike) + 0.065 * years) / spread
    normal = lambda d: 0.5 * rd.erfc(d * -0.70710678)
    return (spot * normal(d1) - strike * rd.exp(-0.02 * years) * normal(d1 - spread)).named("out")


def _mandelbrot_rows(algorithm: rd.Algorithm) -> rd.Schedule:
    """Four gangs side by side hide the latency of the recurrence; strips by ticket keep both threads busy."""
    s = algorithm.schedule()
    s["out"].split("y", 4).vectorize("x", interleave=4).parallel("yo", dynamic=True)
    return s


def _bodies(interleave: int) -> Callable[[rd.Algorithm], rd.Schedule]:
    def schedule(algorithm: rd.Algorithm) -> rd.Schedule:
        s = algorithm.schedule()
        s["out"].split("i", 128).vectorize("ii", interleave=interleave).parallel("io")
        return s

    return schedule


def _mandelbrot_answer(ci: np.ndarray, cr: np.ndarray) -> np.ndarray:
    real, imaginary = np.broadcast_arrays(cr, ci[:, None])
    zr, zi, steps = np.zeros_like(real), np.zeros_like(real), np.zeros(real.shape, np.int32)
    for _ in range(LIMIT):
        running = zr * zr + zi * zi <= 4
        steps += running
        zr, zi = np.where(running, zr * zr - zi * zi + real, zr), np.where(running, 2 * zr * zi + imaginary, zi)
    return steps


def _nbody_answer(x: np.ndarray, y: np.ndarray, z: np.ndarray, m: np.ndarray) -> np.ndarray:
    x, y, z, m = (a.astype(np.float64) for a in (x, y, z, m))
    pull = lambda i: (m * (x - x[i]) * ((x - x[i]) ** 2 + (y - y[i]) ** 2 + (z - z[i]) ** 2 + 0.0025) ** -1.5).sum()
    return np.array([pull(i) for i in range(len(x))])


def _option_answer(spot: np.ndarray, strike: np.ndarray, years: np.ndarray) -> np.ndarray:
    spot, strike, years = (a.astype(np.float64) for a in (spot, strike, years))
    spread = 0.3 * np.sqrt(years)
    d1 = (np.log(spot / strike) + 0.065 * years) / spread
    normal = lambda d: 0.5 * np.vectorize(math.erfc)(d * -math.sqrt(0.5))
    return spot * normal(d1) - strike * np.exp(-0.02 * years) * normal(d1 - spread)


def main(scale: int = typer.Option(1, help="divides the sizes")) -> None:
    random, f = np.random.default_rng(1), np.float32
    side, bodies, options = 2000 // scale, 10_000 // scale, (1 << 24) // scale
    ci, cr = np.linspace(-1.5, 1.5, side, dtype=f), np.linspace(-2, 1, side, dtype=f)
    draw = lambda low, high, n: random.uniform(low, high, n).astype(f)
    market = (draw(10, 100, options), draw(10, 100, options), draw(0.1, 2, options))
    rows = (
        (mandelbrot, _mandelbrot_rows, (ci, cr), _mandelbrot_answer),
        (nbody, _bodies(4), tuple(random.random((4, bodies), f)), _nbody_answer),
        (black_scholes, None, market, _option_answer),
    )
    for algorithm, hand, arguments, answer in rows:
        want, times = answer(*arguments), []
        for schedule in (None, hand):
            run = algorithm.compile(schedule=schedule(algorithm) if schedule else None)
            far = np.abs(run(*arguments) - want) > 1e-4 * np.abs(want).max()
            if far.mean() > 5e-3:  # fused multiply-add moves a few pixels on the rim of the Mandelbrot set
                raise SystemExit(f"{algorithm}: {far.mean():.2%} of the results differ")
            times.append(run.time(*arguments, repeat=20).min * 1e3)
        print(f"{algorithm.__name__:15s} default {times[0]:7.2f} ms   hand {times[1]:7.2f} ms", flush=True)


if __name__ == "__main__":
    typer.run(main)
