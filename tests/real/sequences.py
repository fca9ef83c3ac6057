"""Sequences: segments of largest sum or longest order, a tridiagonal solver by scans, sorting by bits, hashing words, paths."""

from __future__ import annotations

import hashlib
import math
from typing import Any

import numpy as np
import scipy.linalg
from real.registry import real

import raido as rd

rng = np.random.default_rng(1)


def _best_segment(a: np.ndarray) -> Any:
    best = here = 0
    for x in a:
        here = max(0, here + int(x))
        best = max(best, here)
    return np.int64(best)


@real(_best_segment, *((rng.integers(-50, 40, n),) for n in (0, 1, 10, 1000)))
def maximum_segment_sum(a: rd.i64["n"]):
    """The operator joins (best, best prefix, best suffix, sum); it does not commute."""

    def join(x, y):
        best = rd.maximum(rd.maximum(x[0], y[0]), x[2] + y[1])
        return best, rd.maximum(x[1], x[3] + y[1]), rd.maximum(y[2], x[2] + y[3]), x[3] + y[3]

    positive = rd.maximum(a, 0)
    return rd.reduce(join, (0, 0, 0, 0), positive, positive, positive, a)[0]


def _longest_sorted(a: np.ndarray) -> Any:
    best = here = 0
    for i in range(len(a)):
        here = here + 1 if i and a[i - 1] <= a[i] else 1
        best = max(best, here)
    return np.int64(best)


@real(_longest_sorted, *((rng.integers(0, 9, n).astype(np.int32),) for n in (0, 1, 12, 900)))
def longest_sorted_segment(a: rd.i32["n"]):
    """The operator joins (longest, sorted prefix, sorted suffix, length, first, last); length 0 is neutral."""

    def join(x, y):
        meets = (x[3] > 0) & (y[3] > 0) & (x[5] <= y[4])
        middle = rd.where(meets, x[2] + y[1], 0)
        prefix = rd.where((x[1] == x[3]) & meets, x[3] + y[1], rd.where(x[3] == 0, y[1], x[1]))
        suffix = rd.where((y[2] == y[3]) & meets, y[3] + x[2], rd.where(y[3] == 0, x[2], y[2]))
        longest = rd.maximum(rd.maximum(x[0], y[0]), middle)
        first, last = rd.where(x[3] == 0, y[4], x[4]), rd.where(y[3] == 0, x[5], y[5])
        return longest, prefix, suffix, x[3] + y[3], first, last

    one = rd.replicate(a.shape[0], rd.i64(1))
    return rd.reduce(join, (0, 0, 0, 0, 0, 0), one, one, one, one, a, a)[0]


def _banded(n: int) -> tuple[np.ndarray, ...]:
    lower, upper, right = rng.random((3, n))
    return lower, 4 + rng.random(n), upper, right


def _solve_banded(a: np.ndarray, b: np.ndarray, c: np.ndarray, y: np.ndarray) -> np.ndarray:
    bands = np.stack([np.append(0, c[:-1]), b, np.append(a[1:], 0)])
    return scipy.linalg.solve_banded((1, 1), bands, y)


@real(_solve_banded, *(_banded(n) for n in (1, 2, 17, 200)), tolerance=1e-12)
def tridiagonal(a: rd.f64["n"], b: rd.f64["n"], c: rd.f64["n"], y: rd.f64["n"]):
    """Pivots are ratios of products of 2 × 2 matrices; the two substitutions are compositions of affine functions."""

    def product(p, q):
        value = (
            q[0] * p[0] + q[1] * p[2],
            q[0] * p[1] + q[1] * p[3],
            q[2] * p[0] + q[3] * p[2],
            q[2] * p[1] + q[3] * p[3],
        )
        scale = 1 / (rd.abs(value[0]) + rd.abs(value[1]) + rd.abs(value[2]) + rd.abs(value[3]))
        return tuple(v * scale for v in value)

    def compose(f, g):
        return g[0] + g[1] * f[0], g[1] * f[1]

    n = b.shape[0]
    inner = rd.iota(n) > 0
    cross = rd.where(inner, -(a * rd.shift(c, 1)), 0.0)
    one, zero = rd.where(inner, 1.0, 0.0), rd.where(inner, 0.0, 1.0)
    m = rd.scan(product, (1.0, 0.0, 0.0, 1.0), rd.where(inner, b, 1.0), cross, one, zero)
    pivot = (m[0] * b[0] + m[1]) / (m[2] * b[0] + m[3])
    forward = rd.scan(compose, (0.0, 1.0), y, rd.where(inner, -(a / rd.shift(pivot, 1, fill=1.0)), 0.0))[0]
    last = rd.iota(n) == n - 1
    factors = rd.where(last, 0.0, -(c / pivot))
    return rd.scan(compose, (0.0, 1.0), (forward / pivot)[::-1], factors[::-1])[0][::-1]


@real(np.sort, *((rng.integers(0, 1 << 32, n).astype(np.uint32),) for n in (0, 1, 40, 3000)))
def radix_sort(a: rd.u32["n"]):
    """One bit an iteration: zeros keep their order in front, ones behind; places by two scans, moved by a scatter."""

    def by_bit(bit, x):
        ones = ((x >> rd.u32(bit)) & 1).astype(rd.i64)
        zeros = 1 - ones
        behind = rd.sum(zeros) + rd.scan(rd.add, 0, ones, exclusive=True)
        places = rd.where(ones == 1, behind, rd.scan(rd.add, 0, zeros, exclusive=True))
        return rd.scatter(x, places, x, unique_indices=True)

    return rd.loop(32, by_bit, a)


@real(lambda a: np.sort(a, kind="stable"), *((rng.integers(0, 99, n).astype(np.int32),) for n in (0, 1, 50, 1000)))
def partition_sort(a: rd.i32["n"]):
    """The same by partitions, of signed numbers."""

    def by_bit(bit, x):
        zeros, ones = rd.partition(lambda v: (v >> rd.i32(bit)) & 1 == 0, x)
        return rd.concat([zeros, ones])

    return rd.loop(7, by_bit, a)


def _words(n: int) -> np.ndarray:
    return rng.integers(97, 123, (n, 8)).astype(np.uint8)


def _search(words: np.ndarray, digest: np.ndarray) -> Any:
    found = [hashlib.md5(word.tobytes()).digest() == digest.astype("<u4").tobytes() for word in words]
    return np.int64(found.index(True) if True in found else len(words))


def _search_arguments(n: int, place: int) -> tuple[np.ndarray, np.ndarray]:
    words = _words(n)
    chosen = words[place] if place < n else words[0] * 0
    return words, np.frombuffer(hashlib.md5(chosen.tobytes()).digest(), "<u4").copy()


SHIFTS = ((7, 12, 17, 22), (5, 9, 14, 20), (4, 11, 16, 23), (6, 10, 15, 21))
SINES = tuple(int(abs(math.sin(i + 1)) * 2**32) for i in range(64))


@real(_search, _search_arguments(1, 0), _search_arguments(300, 211), _search_arguments(50, 60))
def md5_dictionary_search(words: rd.u8["n", 8], digest: rd.u32[4]):
    """The first of words of 8 letters with that MD5 digest (RFC 1321); n where there is none."""
    start = (0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476)

    def hashed(word):
        letter = lambda k: word[k].astype(rd.u32)
        block: list[Any] = [letter(k) | letter(k + 1) << 8 | letter(k + 2) << 16 | letter(k + 3) << 24 for k in (0, 4)]
        block += [rd.u32(0x80), *[rd.u32(0)] * 11, rd.u32(64), rd.u32(0)]
        a, b, c, d = (rd.u32(s) for s in start)
        for i in range(64):
            mix, place = (
                ((b & c) | (~b & d), i),
                ((d & b) | (~d & c), (5 * i + 1) % 16),
                (b ^ c ^ d, (3 * i + 5) % 16),
                (c ^ (b | ~d), 7 * i % 16),
            )[i // 16]
            turned, by = a + mix + rd.u32(SINES[i]) + block[place], SHIFTS[i // 16][i % 4]
            a, b, c, d = d, b + (turned << by | turned >> (32 - by)), b, c
        return rd.array([v + rd.u32(s) for v, s in zip((a, b, c, d), start, strict=True)])

    same = rd.map(lambda word: rd.all(hashed(word) == digest), words)
    return rd.min(rd.where(same, rd.iota(words.shape[0]), words.shape[0]), initial=words.shape[0])


def _least_path(cost: np.ndarray) -> np.ndarray:
    best = cost[0]
    for row in cost[1:]:
        sides = np.pad(best, 1, mode="edge")
        best = row + np.minimum(np.minimum(sides[:-2], sides[2:]), best)
    return best


@real(_least_path, *((rng.integers(0, 10, s).astype(np.int32),) for s in ((1, 1), (2, 5), (40, 133))))
def pathfinder(cost: rd.i32["h", "w"]):
    """The cheapest way down to each place of the last row, moving by at most one column a row."""

    def row(t, best):
        least = rd.stencil(lambda p: rd.minimum(rd.minimum(p[-1], p[0]), p[1]), best, boundary="clamp")
        return cost[t + 1] + least

    return rd.loop(cost.shape[0] - 1, row, cost[0])


def _unpacked(digits: np.ndarray) -> tuple[np.ndarray, ...]:
    values, starts, counts = [], [], []
    for d in digits:
        if values and values[-1] == d:
            counts[-1] += 1
        else:
            values.append(d)
            starts.append(sum(counts))
            counts.append(1)
    return np.array(values, digits.dtype), np.array(counts, np.int64), digits


@real(_unpacked, *((rng.integers(0, 2, n).astype(np.uint8),) for n in (0, 1, 9, 400)))
def run_lengths(digits: rd.u8["n"]):
    """Runs of equal values, packed and unpacked again."""
    n = digits.shape[0]
    first = (rd.iota(n) == 0) | (digits != rd.roll(digits, 1))
    values, starts = rd.filter(lambda f, *_: f, first, digits, rd.iota(n, rd.i64))[1:]
    counts = rd.concat([starts[1:], rd.array([n])])[: starts.shape[0]] - starts
    return values, counts, rd.repeat(values, counts)
