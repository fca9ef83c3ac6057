"""Ambient occlusion of three spheres on a floor: rays that hit diverge from rays that miss."""

from __future__ import annotations

from typing import Any

import numpy as np

import raido as rd
from rows.divergent import row_tiles
from rows.row import Row

SPHERES = ((-2.0, 0.0, -3.5), (-0.5, 0.0, -3.0), (1.0, 0.0, -2.2))  # all of radius 0.5; the floor is y = -0.5
FAR = 1e17
Vector = rd.record(x=rd.f32, y=rd.f32, z=rd.f32)


def vector(x: Any, y: Any, z: Any) -> Any:
    return Vector(x=rd.f32(x), y=rd.f32(y), z=rd.f32(z))


def dot(a: Any, b: Any) -> Any:
    return a.x * b.x + a.y * b.y + a.z * b.z


def along(s: Any, a: Any, b: Any) -> Any:
    return vector(s * a.x + b.x, s * a.y + b.y, s * a.z + b.z)


def cross(a: Any, b: Any) -> Any:
    return vector(a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x)


def unit(a: Any) -> Any:
    s = rd.rsqrt(dot(a, a))
    return vector(s * a.x, s * a.y, s * a.z)


def from_sphere(sphere: tuple[float, float, float], place: Any) -> Any:
    return vector(place.x - sphere[0], place.y - sphere[1], place.z - sphere[2])


def first_hit(ray: Any) -> tuple[Any, Any]:
    """The distance from the eye at which a ray meets a surface, FAR where it meets none, and the normal there."""
    eye = vector(0.0, 0.0, 0.0)
    best, normal = rd.where(ray.y < 0, -0.5 / ray.y, FAR), vector(0.0, 1.0, 0.0)
    for sphere in SPHERES:
        away = from_sphere(sphere, eye)
        b = dot(away, ray)
        inside = b * b - (dot(away, away) - 0.25)
        t = -b - rd.sqrt(rd.maximum(inside, 0.0))
        nearer = (inside > 0) & (t > 0) & (t < best)
        out = unit(from_sphere(sphere, along(t, ray, eye)))
        best = rd.where(nearer, t, best)
        normal = vector(*(rd.where(nearer, p, q) for p, q in zip(out, normal, strict=True)))
    return best, normal


def occluded(origin: Any, ray: Any) -> Any:
    """Whether a ray meets anything at all."""
    hit = (origin.y + 0.5) * ray.y < 0
    for sphere in SPHERES:
        away = from_sphere(sphere, origin)
        b, c = dot(away, ray), dot(away, away) - 0.25
        hit = hit | ((b * b > c) & (b < 0) & (c > 0))
    return hit


@rd.algorithm
def ambient_occlusion(ys: rd.f32["h", 2], xs: rd.f32["w", 2], dx: rd.f32["k"], dy: rd.f32["k"], dz: rd.f32["k"]):
    """The share of rays about the normal that hit nothing, in four samples of each pixel; 0 where the eye ray hits nothing."""
    count = dx.shape[0]

    def light(y, x):
        ray = unit(vector(x, y, rd.f32(-1)))
        distance, normal = first_hit(ray)

        def open_share():
            flat, level = rd.abs(normal.x) < 0.6, rd.abs(normal.y) < 0.6
            up = vector(rd.where(flat, 1.0, 0.0), rd.where(~flat & level, 1.0, 0.0), rd.where(flat | level, 0.0, 1.0))
            b0 = unit(cross(up, normal))
            b1 = unit(cross(normal, b0))
            origin = along(1e-4, normal, vector(distance * ray.x, distance * ray.y, distance * ray.z))

            def meets(i, hits):
                way = along(dx[i], b0, along(dy[i], b1, vector(*(dz[i] * part for part in normal))))
                return hits + rd.where(occluded(origin, way), rd.i32(1), rd.i32(0))

            return 1 - rd.f32(rd.loop(count, meets, rd.i32(0))) / rd.f32(count)

        return rd.cond(distance < FAR, open_share, lambda: rd.f32(0))

    def pixel(y, x):
        return (
            light(ys[y, 0], xs[x, 0])
            + light(ys[y, 0], xs[x, 1])
            + light(ys[y, 1], xs[x, 0])
            + light(ys[y, 1], xs[x, 1])
        ) / 4

    return rd.tabulate((ys.shape[0], xs.shape[0]), pixel, name="out")


def scene(scale: int) -> list[np.ndarray]:
    """Samples half a pixel apart, and 64 directions about a normal."""
    side = 512 // scale
    samples = ((np.arange(side)[:, None] + [0, 0.5]) / (side / 2) - 1).astype(np.float32)
    turn, radius = np.random.default_rng(11).random((2, 64)) * [[2 * np.pi], [1]]
    away = np.sqrt(radius)
    directions = (np.cos(turn) * away, np.sin(turn) * away, np.sqrt(1 - radius))
    return [-samples, samples.copy(), *(d.astype(np.float32) for d in directions)]


def shading(ys: np.ndarray, xs: np.ndarray, *directions: np.ndarray) -> np.ndarray:
    """The same in NumPy, a row of pixels at a time, in f64."""
    centres = np.array(SPHERES)[:, :, None]
    image = np.zeros((len(ys), len(xs)))
    for row, heights in enumerate(ys):
        y, x = (a.ravel() for a in np.meshgrid(heights.astype(float), xs.astype(float).ravel(), indexing="ij"))
        ray = np.stack([x, y, -np.ones_like(x)])
        ray /= np.linalg.norm(ray, axis=0)
        b = -(centres * ray).sum(1)
        inside = b * b - (centres**2).sum(1) + 0.25
        floor = np.where(ray[1] < 0, -0.5 / np.where(ray[1] < 0, ray[1], -1), FAR)
        t = np.where(inside > 0, -b - np.sqrt(np.maximum(inside, 0)), FAR)
        t = np.stack([floor, *np.where(t > 0, t, FAR)])
        which, distance = t.argmin(0), t.min(0)
        seen = distance < FAR
        which, ray, distance = which[seen], ray[:, seen], distance[seen]
        place = distance * ray
        normal = np.where(which, (place - np.array([[0, 0, 0], *SPHERES])[which].T) * 2, [[0], [1], [0]])
        up = np.eye(3)[np.where(abs(normal[0]) < 0.6, 0, np.where(abs(normal[1]) < 0.6, 1, 2))].T
        b0 = np.cross(up, normal, axis=0)
        b0 /= np.linalg.norm(b0, axis=0)
        b1 = np.cross(normal, b0, axis=0)
        origin = place + 1e-4 * normal
        hits = np.zeros(len(distance))
        away = origin - centres
        c = (away * away).sum(1) - 0.25
        for u, v, w in zip(*directions, strict=True):
            way = u * b0 + v * b1 + w * normal
            b = (away * way).sum(1)
            hits += ((origin[1] + 0.5) * way[1] < 0) | ((b * b > c) & (b < 0) & (c > 0)).any(0)
        light = np.zeros(len(seen))
        light[seen] = 1 - hits / len(directions[0])
        image[row] = light.reshape(2, -1, 2).sum((0, 2)) / 4
    return image.astype(np.float32)


RAYS = {
    "ambient_occlusion": Row(
        "ambient occlusion 512², 2 × 2 samples, 64 rays",
        ambient_occlusion,
        scene,
        shading,
        {"2 x2": row_tiles(2, 2), "1 x3": row_tiles(1, 3)},
        tolerance=2e-3,
        stray=1e-2,
    )
}
