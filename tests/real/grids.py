"""Grids in time: game of life, heat of a chip, speckle reduction; matrices and transforms as loops over whole arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg
from real.registry import real

import raido as rd

rng = np.random.default_rng(3)


def _life(board: np.ndarray, iterations: Any) -> np.ndarray:
    for _ in range(int(iterations)):
        around = sum(np.roll(board, (dy, dx), (0, 1)) for dy in (-1, 0, 1) for dx in (-1, 0, 1)) - board
        board = ((around == 3) | ((around == 2) & (board == 1))).astype(np.int8)
    return board


@real(_life, *((rng.integers(0, 2, s).astype(np.int8), np.int64(6)) for s in ((1, 1), (5, 7), (64, 65))))
def game_of_life(board: rd.i8["h", "w"], iterations: rd.i64):
    """Conway's, on a torus."""

    def cell(p):
        around = p[-1, -1] + p[-1, 0] + p[-1, 1] + p[0, -1] + p[0, 1] + p[1, -1] + p[1, 0] + p[1, 1]
        return ((around == 3) | ((around == 2) & (p[0, 0] == 1))).astype(rd.i8)

    return rd.loop(iterations, lambda t, b: rd.stencil(cell, b, boundary="wrap"), board)


def _hotspot(heat: np.ndarray, power: np.ndarray, iterations: Any) -> np.ndarray:
    for _ in range(int(iterations)):
        p = np.pad(heat, 1, mode="edge")
        across, along = p[1:-1, :-2] + p[1:-1, 2:] - 2 * heat, p[:-2, 1:-1] + p[2:, 1:-1] - 2 * heat
        heat = heat + 0.1 * (power + along * 0.5 + across * 0.25 + (80.0 - heat) * 0.01)
    return heat


@real(
    _hotspot,
    *((300 + rng.random(s), rng.random(s), np.int64(9)) for s in ((1, 1), (3, 8), (40, 66))),
    tolerance=1e-13,
)
def hotspot(heat: rd.f64["h", "w"], power: rd.f64["h", "w"], iterations: rd.i64):
    """The temperature of a chip whose parts give off heat (Rodinia)."""

    def step(t, p):
        along = p[-1, 0] + p[1, 0] - 2 * p[0, 0]
        across = p[0, -1] + p[0, 1] - 2 * p[0, 0]
        return p[0, 0] + 0.1 * (t + along * 0.5 + across * 0.25 + (80.0 - p[0, 0]) * 0.01)

    def sweep(_, h):
        return rd.stencil(lambda p, q: step(q[0, 0], p), h, power, boundary="clamp")

    return rd.loop(iterations, sweep, heat)


def _srad(image: np.ndarray, iterations: Any) -> np.ndarray:
    for _ in range(int(iterations)):
        mean = image.mean()
        noise = ((image * image).mean() - mean * mean) / (mean * mean)
        p = np.pad(image, 1, mode="edge")
        north, south, west, east = (p[:-2, 1:-1], p[2:, 1:-1], p[1:-1, :-2], p[1:-1, 2:])
        dn, ds, dw, de = (side - image for side in (north, south, west, east))
        gradient = (dn * dn + ds * ds + dw * dw + de * de) / (image * image)
        laplace = (dn + ds + dw + de) / image
        ratio = (0.5 * gradient - laplace * laplace / 16) / (1 + 0.25 * laplace) ** 2
        c = np.clip(1 / (1 + (ratio - noise) / (noise * (1 + noise))), 0, 1)
        below, right = (
            np.pad(c, ((0, 1), (0, 1)), mode="edge")[1:, :-1],
            np.pad(c, ((0, 1), (0, 1)), mode="edge")[:-1, 1:],
        )
        image = image + 0.125 * (c * dn + below * ds + c * dw + right * de)
    return image


@real(_srad, *((1 + rng.random(s), np.int64(4)) for s in ((2, 2), (5, 9), (40, 70))), tolerance=1e-11)
def srad(image: rd.f64["h", "w"], iterations: rd.i64):
    """Speckle-reducing anisotropic diffusion (Rodinia): statistics of the whole image steer each iteration."""

    def sweep(_, img):
        mean = rd.mean(img)
        noise = (rd.mean(img * img) - mean * mean) / (mean * mean)

        def coefficient(p):
            dn, ds, dw, de = p[-1, 0] - p[0, 0], p[1, 0] - p[0, 0], p[0, -1] - p[0, 0], p[0, 1] - p[0, 0]
            gradient = (dn * dn + ds * ds + dw * dw + de * de) / (p[0, 0] * p[0, 0])
            laplace = (dn + ds + dw + de) / p[0, 0]
            ratio = (0.5 * gradient - laplace * laplace / 16) / (1 + 0.25 * laplace) ** 2
            return rd.clip(1 / (1 + (ratio - noise) / (noise * (1 + noise))), 0, 1)

        def spread(p, c):
            north, south = c[0, 0] * (p[-1, 0] - p[0, 0]), c[1, 0] * (p[1, 0] - p[0, 0])
            west, east = c[0, 0] * (p[0, -1] - p[0, 0]), c[0, 1] * (p[0, 1] - p[0, 0])
            return p[0, 0] + 0.125 * (north + south + west + east)

        c = rd.stencil(coefficient, img, boundary="clamp")
        return rd.stencil(spread, img, c, boundary="clamp")

    return rd.loop(iterations, sweep, image)


def _lu(a: np.ndarray) -> np.ndarray:
    a = a.copy()
    for k in range(len(a)):
        a[k + 1 :, k] /= a[k, k]
        a[k + 1 :, k + 1 :] -= np.outer(a[k + 1 :, k], a[k, k + 1 :])
    return a


@real(_lu, *((rng.random((n, n)) + n * np.eye(n),) for n in (0, 1, 5, 48)), tolerance=1e-12)
def lu(a: rd.f64["n", "n"]):
    """Both factors of a matrix in one, without pivots; right-looking."""
    n = a.shape[0]

    def eliminate(k, m):
        factor = lambda i: m[i, k] / m[k, k]
        inside = lambda i, j: rd.where(j == k, factor(i), rd.where(j > k, m[i, j] - factor(i) * m[k, j], m[i, j]))
        return rd.tabulate((n, n), lambda i, j: rd.where(i > k, inside(i, j), m[i, j]))

    return rd.loop(n, eliminate, a)


def _solve(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return scipy.linalg.solve(a, b) if len(a) else b


@real(_solve, *((rng.random((n, n)) + n * np.eye(n), rng.random(n)) for n in (1, 5, 40)), tolerance=1e-11)
def gauss(a: rd.f64["n", "n"], b: rd.f64["n"]):
    """A linear system by elimination with partial pivoting; rows change places by an update."""
    n = a.shape[0]

    def eliminate(k, state):
        m, y = state
        candidates = rd.where(rd.iota(n) >= k, rd.abs(m[:, k]), -1.0)
        pivot = rd.argmax(candidates)
        rows = rd.iota(n, rd.i64).at[k].set(pivot).at[pivot].set(k)
        m, y = m[rows], y[rows]
        factor = rd.where(rd.iota(n) == k, 0.0, m[:, k] / m[k, k])
        return m - factor[:, None] * m[k][None], y - factor * y[k]

    m, y = rd.loop(n, eliminate, (a, b))
    return y / rd.tabulate(n, lambda i: m[i, i])


def _signal(n: int) -> tuple[np.ndarray, np.int64]:
    return rng.normal(size=n) + 1j * rng.normal(size=n), np.int64(n.bit_length() - 1)


@real(lambda z, _: np.fft.fft(z), *(_signal(n) for n in (1, 2, 8, 512)), tolerance=1e-11)
def fft(z: rd.complex128["n"], levels: rd.i64):
    """Radix 2, Stockham's order: every iteration combines halves of the array, so that nothing is reversed at the end."""
    n = z.shape[0]

    def butterfly(level, x):
        half = rd.i64(1) << level

        def element(i):
            block, place = i // (2 * half), i % (2 * half)
            k = place % half
            angle = -np.pi * (k / half)
            twiddle = rd.complex128(rd.cos(angle), rd.sin(angle))
            first, second = x[block * half + k], x[block * half + k + n // 2] * twiddle
            return rd.where(place < half, first + second, first - second)

        return rd.tabulate(n, element)

    return rd.loop(levels, butterfly, z)


def _canny(image: np.ndarray, low: Any, high: Any) -> np.ndarray:
    p = np.pad(image, 1, mode="edge")
    window = {
        (dy, dx): p[1 + dy : p.shape[0] - 1 + dy, 1 + dx : p.shape[1] - 1 + dx]
        for dy in (-1, 0, 1)
        for dx in (-1, 0, 1)
    }
    gx = window[-1, 1] + 2 * window[0, 1] + window[1, 1] - window[-1, -1] - 2 * window[0, -1] - window[1, -1]
    gy = window[1, -1] + 2 * window[1, 0] + window[1, 1] - window[-1, -1] - 2 * window[-1, 0] - window[-1, 1]
    size = np.abs(gx) + np.abs(gy)
    s = np.pad(size, 1)
    beside = np.maximum(s[1:-1, :-2], s[1:-1, 2:])
    above = np.maximum(s[:-2, 1:-1], s[2:, 1:-1])
    ridge = size >= np.where(np.abs(gx) >= np.abs(gy), beside, above)
    weak, strong = ridge & (size > low), ridge & (size > high)
    while True:
        q = np.pad(strong, 1)
        near = np.zeros_like(strong)
        for dy in (0, 1, 2):
            for dx in (0, 1, 2):
                near |= q[dy : dy + strong.shape[0], dx : dx + strong.shape[1]]
        grown = strong | (weak & near)
        if (grown == strong).all():
            return strong
        strong = grown


@real(
    _canny,
    *((rng.integers(0, 50, s).astype(np.int32), np.int32(60), np.int32(110)) for s in ((1, 1), (6, 7), (50, 70))),
)
def canny(image: rd.i32["h", "w"], low: rd.i32, high: rd.i32):
    """Edges: gradients, their ridges, and weak edges kept where they touch strong ones, until nothing changes."""

    def gradient(p):
        gx = p[-1, 1] + 2 * p[0, 1] + p[1, 1] - p[-1, -1] - 2 * p[0, -1] - p[1, -1]
        gy = p[1, -1] + 2 * p[1, 0] + p[1, 1] - p[-1, -1] - 2 * p[-1, 0] - p[-1, 1]
        return rd.abs(gx) + rd.abs(gy), rd.abs(gx) >= rd.abs(gy)

    size, flat = rd.stencil(gradient, image, boundary="clamp")

    def is_ridge(s, f):
        return s[0, 0] >= rd.where(f[0, 0], rd.maximum(s[0, -1], s[0, 1]), rd.maximum(s[-1, 0], s[1, 0]))

    ridge = rd.stencil(is_ridge, size, flat.astype(rd.i32) != 0, boundary=(rd.constant(0), rd.constant(0)))
    weak, strong = ridge & (size > low), ridge & (size > high)

    def grow(state):
        edges, _ = state

        def touched(p, w):
            near = p[-1, -1] | p[-1, 0] | p[-1, 1] | p[0, -1] | p[0, 1] | p[1, -1] | p[1, 0] | p[1, 1]
            return p[0, 0] | (w[0, 0] & near)

        grown = rd.stencil(touched, edges, weak, boundary=rd.constant(False))
        return grown, rd.any(grown != edges)

    return rd.while_loop(lambda s: s[1], grow, (strong, True))[0]
