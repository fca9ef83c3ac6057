"""The plan of a Fourier transform of one size, computed in NumPy's f64 while tracing: radices, roots of unity, chirps.

Only additions, subtractions and products of f64 are used beside `math.cos` and `math.sin` of angles in the first octant, so the tables do
not depend on how NumPy was built.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

RADICES = 4, 2, 3, 5


def radices(n: int) -> tuple[int, ...] | None:
    """The factors of `n` out of 4, 2, 3 and 5, in this order; None where `n` has other prime factors."""
    found: list[int] = []
    for radix in RADICES:
        while n % radix == 0:
            found.append(radix)
            n //= radix
    return tuple(found) if n == 1 else None


def good_size(least: int) -> int:
    """The smallest size ≥ `least` whose prime factors are 2, 3 and 5 alone."""
    size = least
    while radices(size) is None:
        size += 1
    return size


@functools.lru_cache(maxsize=64)
def roots(n: int) -> Any:
    """The roots of unity exp(−2πi·k / n) for k = 0 … n − 1, complex128, both parts within an ulp; exact on the axes, and symmetric to
    them."""
    table = np.array([_root(k, n) for k in range(n)], np.complex128)
    table.flags.writeable = False
    return table


def roots_at(exponents: np.ndarray, n: int) -> Any:
    """The roots of unity exp(−2πi·k / n) for the k of an array."""
    return np.array([_root(int(k) % n, n) for k in exponents.ravel()], np.complex128).reshape(exponents.shape)


def _root(k: int, n: int) -> complex:
    octant, rest = divmod(8 * k, n)
    quarters, sign = (octant + 1) // 2, -1 if octant % 2 else 1
    angle = math.pi * ((n - rest) if octant % 2 else rest) / (4 * n)
    x, y = math.cos(angle), sign * math.sin(angle)
    for _ in range(quarters % 4):
        x, y = -y, x
    return complex(x, -y)


def twiddles(m: int, radix: int) -> Any:
    """The roots exp(−2πi·p·j / (m·radix)), as an array [p, j]."""
    p, j = np.arange(m)[:, None], np.arange(radix)
    return roots(m * radix)[p * j]


@functools.lru_cache(maxsize=16)
def chirps(n: int, size: int) -> tuple[Any, Any]:
    """The chirp exp(−πi·k² / n) of Bluestein's transform of n numbers, and the transform of its inverse around 0, of `size`, divided by
    `size`."""
    squares = np.array([k * k % (2 * n) for k in range(n)])
    chirp = roots(2 * n)[squares]
    around = np.zeros(size, np.complex128)
    around[:n] = chirp.conj()
    around[size - n + 1 :] = chirp[:0:-1].conj()
    return chirp, transform(around) / size


def transform(values: Any) -> Any:
    """The Fourier transform, in f64, of numbers whose count has the prime factors 2, 3 and 5 alone: Stockham's algorithm, as in
    `fft_steps.py`."""
    n, re, im = len(values), values.real.copy(), values.imag.copy()
    done = 1
    for radix in radices(n) or ():
        m = n // done // radix
        weights, turns = roots(radix), twiddles(m, radix)
        re, im = re.reshape(radix, m, done), im.reshape(radix, m, done)
        parts = []
        for j in range(radix):
            pairs = [(weights[j * k % radix], re[k], im[k]) for k in range(radix)]
            x = functools.reduce(np.add, [w.real * a - w.imag * b for w, a, b in pairs])
            y = functools.reduce(np.add, [w.real * b + w.imag * a for w, a, b in pairs])
            c, s = turns[:, j, None].real, turns[:, j, None].imag
            parts.append((x * c - y * s, x * s + y * c))
        re, im = (np.stack(column, axis=1).ravel() for column in zip(*parts, strict=True))
        done *= radix
    result = np.empty(n, np.complex128)
    result.real, result.imag = re, im
    return result
