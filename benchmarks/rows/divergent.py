"""Programs bound by arithmetic with divergent control flow: Mandelbrot, n-body, Black–Scholes."""

from __future__ import annotations

import numpy as np

import raido as rd
from rows.row import Row, Scheduler, uniform

LIMIT = 256


@rd.algorithm
def mandelbrot(ci: rd.f32["h"], cr: rd.f32["w"]):
    """The number of iterations of z² + c within radius 2."""

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
    """The acceleration of every body by all, softened."""

    def pulled(i):
        def pull(j):
            dx, dy, dz = x[j] - x[i], y[j] - y[i], z[j] - z[i]
            near = dx * dx + dy * dy + dz * dz + 0.0025
            s = m[j] / (near * rd.sqrt(near))
            return dx * s, dy * s, dz * s

        return tuple(rd.sum(along) for along in rd.tabulate(x.shape[0], pull))

    return rd.tabulate(x.shape[0], pulled, name="out")


@rd.algorithm
def black_scholes(spot: rd.f32["n"], strike: rd.f32["n"], years: rd.f32["n"]):
    """The price of a call and of a put, at an interest of 2 % and a volatility of 30 %; the normal distribution by a polynomial."""

    def below(d):
        k = 1 / (1 + 0.2316419 * rd.abs(d))
        p = k * (0.319381530 + k * (-0.356563782 + k * (1.781477937 + k * (-1.821255978 + k * 1.330274429))))
        c = 0.39894228 * rd.exp(-0.5 * d * d) * p
        return rd.where(d > 0, 1 - c, c)

    def price(s, x, t):
        spread = 0.3 * rd.sqrt(t)
        d1 = (rd.log(s / x) + 0.065 * t) / spread
        later, n1, n2 = x * rd.exp(-0.02 * t), below(d1), below(d1 - spread)
        return s * n1 - later * n2, later * (1 - n2) - s * (1 - n1)

    return rd.map(price, spot, strike, years, name="out")


def row_tiles(rows: int, interleave: int) -> Scheduler:
    """Interleaved gangs hide the latency of the recurrence; row tiles scheduled dynamically keep the threads busy."""

    def schedule(algorithm: rd.Algorithm) -> rd.Schedule:
        s = algorithm.schedule()
        s["out"].split("y", rows).vectorize("x", interleave=interleave).parallel("yo", dynamic=True)
        return s

    return schedule


def pieces(axis: str, size: int, interleave: int, stream: bool = False) -> Scheduler:
    """Chunks for the threads, with `interleave` gangs interleaved."""

    def schedule(algorithm: rd.Algorithm) -> rd.Schedule:
        s = algorithm.schedule()
        s["out"].split(axis, size).vectorize(axis + "i", interleave=interleave).parallel(axis + "o")
        if stream:
            s["out"].stream_stores()
        return s

    return schedule


def _plane(scale: int) -> list[np.ndarray]:
    side = 2000 // scale
    steps = np.arange(side, dtype=np.float32) * np.float32(3 / side)
    return [steps - np.float32(1.5), steps - np.float32(2)]


def _iterations(ci: np.ndarray, cr: np.ndarray) -> np.ndarray:
    shape = (len(ci), len(cr))
    real, imaginary = (np.broadcast_to(c, shape).ravel() for c in (cr, ci[:, None]))
    steps, where = np.zeros(real.size, np.int32), np.arange(real.size)
    zr, zi = np.zeros_like(real), np.zeros_like(real)
    for _ in range(LIMIT):
        inside = zr * zr + zi * zi <= 4
        where, zr, zi, real, imaginary = (a[inside] for a in (where, zr, zi, real, imaginary))
        steps[where] += 1
        zr, zi = zr * zr - zi * zi + real, 2 * zr * zi + imaginary
    return steps.reshape(shape)


def _bodies(scale: int) -> list[np.ndarray]:
    return [uniform(10_000 // scale, seed=k) for k in range(4)]


def _pulls(x: np.ndarray, y: np.ndarray, z: np.ndarray, m: np.ndarray) -> tuple[np.ndarray, ...]:
    places, found = np.stack([x, y, z]).astype(np.float64), []
    for body in places.T:
        away = places - body[:, None]
        found.append((m * away * ((away * away).sum(0) + 0.0025) ** -1.5).sum(1))
    return tuple(np.array(found, np.float32).T)


def _market(scale: int) -> list[np.ndarray]:
    n = (1 << 24) // scale
    return [uniform(n, low=low, high=high, seed=k) for k, (low, high) in enumerate(((5, 30), (1, 100), (0.25, 10)))]


def _prices(spot: np.ndarray, strike: np.ndarray, years: np.ndarray) -> tuple[np.ndarray, ...]:
    """By the same polynomial, in f64."""

    def below(d: np.ndarray) -> np.ndarray:
        k = 1 / (1 + 0.2316419 * np.abs(d))
        p = k * (0.319381530 + k * (-0.356563782 + k * (1.781477937 + k * (-1.821255978 + k * 1.330274429))))
        c = 0.39894228 * np.exp(-0.5 * d * d) * p
        return np.where(d > 0, 1 - c, c)

    calls, puts = np.empty_like(spot), np.empty_like(spot)
    for start in range(0, len(spot), 1 << 20):
        piece = slice(start, start + (1 << 20))
        s, x, t = (a[piece].astype(np.float64) for a in (spot, strike, years))
        spread = 0.3 * np.sqrt(t)
        d1 = (np.log(s / x) + 0.065 * t) / spread
        later, n1, n2 = x * np.exp(-0.02 * t), below(d1), below(d1 - spread)
        calls[piece], puts[piece] = s * n1 - later * n2, later * (1 - n2) - s * (1 - n1)
    return calls, puts


DIVERGENT = {
    "mandelbrot": Row(
        f"Mandelbrot 2000², {LIMIT} rounds",
        mandelbrot,
        _plane,
        _iterations,
        {"4 x4": row_tiles(4, 4), "4 x2": row_tiles(4, 2), "2 x6": row_tiles(2, 6)},
        stray=5e-3,
    ),
    "nbody": Row(
        "n-body, 10⁴ bodies, one step",
        nbody,
        _bodies,
        _pulls,
        {"x4": pieces("i", 64, 4), "x2": pieces("i", 64, 2)},
        tolerance=1e-4,
    ),
    "black_scholes": Row(
        "Black–Scholes, 2²⁴ calls and puts",
        black_scholes,
        _market,
        _prices,
        {f"x{k}": pieces("x", 1 << 15, k, stream=True) for k in (2, 3)},
    ),
}
