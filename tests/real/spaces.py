"""Bodies, rays and images: sums over all pairs, nearest hits, reconstruction."""

from __future__ import annotations

from typing import Any

import numpy as np
from real.registry import real

import raido as rd

rng = np.random.default_rng(5)
Vec = rd.record(x=rd.f64, y=rd.f64, z=rd.f64)


def add(a: Any, b: Any) -> Any:
    return Vec(x=a.x + b.x, y=a.y + b.y, z=a.z + b.z)


def scaled(a: Any, s: Any) -> Any:
    return Vec(x=a.x * s, y=a.y * s, z=a.z * s)


def dot(a: Any, b: Any) -> Any:
    return a.x * b.x + a.y * b.y + a.z * b.z


def _vectors(n: int) -> dict[str, np.ndarray]:
    return dict(zip("xyz", rng.normal(size=(3, n)), strict=True))


def _n_body(place: Any, speed: Any, mass: np.ndarray, iterations: Any) -> tuple[np.ndarray, ...]:
    p, v = (np.stack([d[c] for c in "xyz"], axis=1) for d in (place, speed))
    for _ in range(int(iterations)):
        gap = p[None] - p[:, None]
        pull = mass[None] / ((gap**2).sum(axis=2) + 0.01) ** 1.5
        v = v + 0.01 * (pull[:, :, None] * gap).sum(axis=1)
        p = p + 0.01 * v
    return p, v


@real(_n_body, *((_vectors(n), _vectors(n), rng.random(n), np.int64(3)) for n in (1, 2, 60)), tolerance=1e-11)
def n_body(place: Vec["n"], speed: Vec["n"], mass: rd.f64["n"], iterations: rd.i64):
    """Every body pulls every other; records as state of the loop over time."""

    def step(_, state):
        places, speeds = state

        def pulled(here):
            def pull(there, m):
                gap = add(there, scaled(here, -1.0))
                near = dot(gap, gap) + 0.01
                return scaled(gap, m / (near * rd.sqrt(near)))

            return rd.reduce(add, Vec(x=0, y=0, z=0), rd.map(pull, places, mass))

        speeds = rd.map(lambda v, p: add(v, scaled(pulled(p), 0.01)), speeds, places)
        return rd.map(lambda p, v: add(p, scaled(v, 0.01)), places, speeds), speeds

    places, speeds = rd.loop(iterations, step, (place, speed))
    return tuple(rd.stack([v.x, v.y, v.z], axis=1) for v in (places, speeds))


def _mri_q(x: np.ndarray, k: np.ndarray, phi: np.ndarray) -> np.ndarray:
    return (phi[None] * np.exp(2j * np.pi * (x @ k.T))).sum(axis=1)


@real(
    _mri_q, *((rng.random((n, 3)), rng.random((m, 3)), rng.random(m)) for n, m in ((1, 1), (40, 70))), tolerance=1e-11
)
def mri_q(x: rd.f64["n", 3], k: rd.f64["m", 3], phi: rd.f64["m"]):
    """The matrix Q of a reconstruction of magnetic resonance images (Parboil)."""

    def voxel(place):
        turn = lambda wave, size: size * rd.exp(2j * np.pi * rd.sum(wave * place))
        return rd.sum(rd.map(turn, k, phi))

    return rd.map(voxel, x)


def _back_projection(sinogram: np.ndarray, angles: np.ndarray) -> np.ndarray:
    n = sinogram.shape[1]
    y, x = np.mgrid[0:n, 0:n] - (n - 1) / 2
    image = np.zeros((n, n))
    for row, angle in zip(sinogram, angles, strict=True):
        t = x * np.cos(angle) + y * np.sin(angle) + (n - 1) / 2
        low = np.floor(t).astype(int)
        inside = (low >= 0) & (low + 1 < n)
        safe = np.clip(low, 0, max(n - 2, 0))
        image += np.where(inside, row[safe] * (1 - (t - low)) + row[np.minimum(safe + 1, n - 1)] * (t - low), 0)
    return image


@real(
    _back_projection,
    *((rng.random((a, n)), np.linspace(0, 3, a)) for a, n in ((1, 1), (3, 5), (12, 33))),
    tolerance=1e-11,
)
def back_projection(sinogram: rd.f64["a", "n"], angles: rd.f64["a"]):
    """A slice from its projections: every point gathers from every projection, between two of its samples."""
    n = sinogram.shape[1]
    middle = (rd.f64(n) - 1) / 2

    def point(y, x):
        def gathered(row, angle):
            t = (rd.f64(x) - middle) * rd.cos(angle) + (rd.f64(y) - middle) * rd.sin(angle) + middle
            low = rd.floor(t)
            at, part = low.astype(rd.i64), t - low
            here = lambda i: rd.gather(row, i, mode="clamp")
            value = here(at) * (1 - part) + here(at + 1) * part
            return rd.where((at >= 0) & (at + 1 < n), value, 0.0)

        return rd.sum(rd.map(gathered, sinogram, angles))

    return rd.tabulate((n, n), point)


def _trace_rays(centers: Any, radii: np.ndarray, size: int) -> tuple[np.ndarray, ...]:
    c = np.stack([centers[k] for k in "xyz"], axis=1)
    y, x = np.mgrid[0:size, 0:size]
    ray = np.stack([(x - size / 2) / size, (y - size / 2) / size, np.ones((size, size))], axis=2)
    ray = ray / np.sqrt((ray**2).sum(axis=2))[:, :, None]
    along = ray @ c.T
    gap = (c**2).sum(axis=1) - along**2
    hit = (gap < radii**2) & (along > 0)
    distance = np.where(hit, along - np.sqrt(np.where(hit, radii**2 - gap, 0)), np.inf)
    which = np.where(hit.any(axis=2), distance.argmin(axis=2), -1)
    return which, distance.min(axis=2)


def _spheres(n: int) -> tuple[Any, np.ndarray, int]:
    c = _vectors(n)
    return {**c, "z": np.abs(c["z"]) * 2 + 3}, 0.3 + rng.random(n) / 2, 24


@real(_trace_rays, *(_spheres(n) for n in (1, 5, 40)), tolerance=1e-11)
def ray_spheres(centers: Vec["n"], radii: rd.f64["n"], size: rd.size):
    """Which of some spheres the ray of every pixel meets first, and where; the nearest by a reduction of pairs."""

    def nearer(a, b):
        take = (b[0] < a[0]) | ((b[0] == a[0]) & (b[1] < a[1]))
        return rd.where(take, b[0], a[0]), rd.where(take, b[1], a[1])

    def pixel(y, x):
        ray = Vec(x=rd.f64(2 * x - size), y=rd.f64(2 * y - size), z=2 * rd.f64(size))
        ray = scaled(ray, 1 / rd.sqrt(dot(ray, ray)))

        def met(center, radius):
            along = dot(ray, center)
            inside = radius * radius - (dot(center, center) - along * along)
            hit = (inside > 0) & (along > 0)
            return rd.where(hit, along - rd.sqrt(rd.maximum(inside, 0.0)), np.inf)

        distances = rd.map(met, centers, radii)
        best, which = rd.reduce(nearer, (np.inf, 1 << 40), distances, rd.iota(distances.shape[0], rd.i64))
        return rd.where(best < np.inf, which, -1), best

    return rd.tabulate((size, size), pixel)


def _mandelbrot(size: int, limit: Any) -> np.ndarray:
    y, x = np.mgrid[0:size, 0:size]
    c = (x * (3.0 / size) - 2.0) + 1j * (y * (3.0 / size) - 1.5)
    z, iterations = np.zeros_like(c), np.zeros(c.shape, np.int64)
    for _ in range(int(limit)):
        on = z.real**2 + z.imag**2 < 4
        iterations += on
        z = np.where(on, z * z + c, z)
    return iterations


@real(_mandelbrot, (1, np.int64(10)), (40, np.int64(60)))
def mandelbrot(size: rd.size, limit: rd.i64):
    """How long each point stays near, with complex state."""

    def pixel(y, x):
        c = rd.complex128(rd.f64(x) * (3.0 / rd.f64(size)) - 2.0, rd.f64(y) * (3.0 / rd.f64(size)) - 1.5)
        near = lambda s: (s[0].real * s[0].real + s[0].imag * s[0].imag < 4) & (s[1] < limit)
        return rd.while_loop(near, lambda s: (s[0] * s[0] + c, s[1] + 1), (rd.complex128(0, 0), rd.i64(0)))[1]

    return rd.tabulate((size, size), pixel)
