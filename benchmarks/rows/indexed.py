"""Scans, histograms, filters and sparse matrices: programs whose values or indices depend on earlier elements or on data."""

from __future__ import annotations

import numpy as np

import raido as rd
from rows.row import Row, Scheduler, aligned, drawn, uniform, whole_numbers

KEPT = 500  # of values below 1000: every other one on average


@rd.algorithm
def scan_f32(a: rd.f32["n"]):
    return rd.scan(rd.add, 0, a, name="out")


@rd.algorithm
def scan_i32(a: rd.i32["n"]):
    return rd.scan(rd.add, 0, a, name="out")


@rd.algorithm
def filtered(a: rd.i32["n"]):
    return rd.filter(lambda v: v < KEPT, a, name="out")


@rd.algorithm
def spmv(offsets: rd.i64["m"], columns: rd.i32["k"], values: rd.f32["k"], x: rd.f32["n"]):
    return rd.segmented_reduce(rd.add, 0, values * x[columns], offsets, name="out")


@rd.algorithm
def segment_sums(offsets: rd.i64["m"], values: rd.f32["k"]):
    return rd.segmented_reduce(rd.add, 0, values, offsets, name="out")


def histogram(bins: int) -> rd.Algorithm:
    def counts(a: rd.i32["n"]):
        return rd.bincount(a, bins, weights=rd.replicate(a.shape[0], rd.i32(1)), name="out")

    counts.__name__ = f"histogram_{bins}"
    return rd.algorithm(counts)


def chain(block: int, interleave: int) -> Scheduler:
    """One pass: a block is reduced (or counted), waits for its predecessor's prefix, and is read again while it is cached."""

    def schedule(algorithm: rd.Algorithm) -> rd.Schedule:
        s = algorithm.schedule()
        s["out"].strategy("chain", block=block).vectorize("xi", interleave=interleave).stream_stores()
        return s

    return schedule


def compress(block: int) -> Scheduler:
    def schedule(algorithm: rd.Algorithm) -> rd.Schedule:
        s = algorithm.schedule()
        s["out"].strategy("chain", block=block).vectorize("xi")
        return s

    return schedule


def private(replicas: int) -> Scheduler:
    """Private bins for each thread's chunks, in `replicas` replicas used in turn, so that equal neighbours do not wait for each other."""

    def schedule(algorithm: rd.Algorithm) -> rd.Schedule:
        s = algorithm.schedule()
        s["out"].strategy("private", replicas=replicas).vectorize("x")
        return s

    return schedule


def segments(grain: int) -> Scheduler:
    """Gathers are inlined, lanes run along each segment, and threads take segments as they become free."""

    def schedule(algorithm: rd.Algorithm) -> rd.Schedule:
        s = algorithm.schedule()
        s["gather_1"].inline()
        s["out"].parallel("s", grain=grain, dynamic=True)
        return s

    return schedule


def blocks_of_values(block: int) -> Scheduler:
    """Threads take equal blocks of values, wherever segments end."""

    def schedule(algorithm: rd.Algorithm) -> rd.Schedule:
        s = algorithm.schedule()
        s["out"].strategy("flat", block=block)
        return s

    return schedule


def half_in_one(scale: int) -> list[np.ndarray]:
    """Segments of up to 95 numbers, and one in the middle that holds as many as all others."""
    n, random = (1 << 20) // scale, np.random.default_rng(5)
    lengths = random.integers(0, 96, n)
    lengths[n // 2] = lengths.sum() - lengths[n // 2]
    offsets = aligned((n + 1,), "i8")
    offsets[0] = 0
    np.cumsum(lengths, out=offsets[1:])
    return [offsets, *whole_numbers((int(offsets[-1]),))(1)]


def _segments(offsets: np.ndarray, values: np.ndarray) -> np.ndarray:
    sums = np.append(0, np.cumsum(values, dtype=np.float64))
    return np.diff(sums[offsets]).astype(np.float32)


def skewed_matrix(scale: int) -> list[np.ndarray]:
    """Compressed rows: four in five hold up to 40 numbers, one in five up to 340."""
    n, random = (1 << 20) // scale, np.random.default_rng(3)
    long = random.random(n) < 0.2
    lengths = (random.random(n) * np.where(long, 341, 41)).astype(np.int64)
    offsets = aligned((n + 1,), "i8")
    offsets[0] = 0
    np.cumsum(lengths, out=offsets[1:])
    count = int(offsets[-1])
    return [offsets, uniform(count, high=n, dtype="i4"), uniform(count, seed=8), uniform(n, seed=9)]


def _products(offsets: np.ndarray, columns: np.ndarray, values: np.ndarray, x: np.ndarray) -> np.ndarray:
    sums = np.append(0, np.cumsum(values.astype(np.float64) * x[columns]))
    return np.diff(sums[offsets]).astype(np.float32)


def _counts(bins: int) -> Row:
    inputs = lambda scale: [uniform((1 << 26) // scale, high=bins, dtype="i4")]
    answer = lambda a: np.bincount(a, minlength=bins).astype(np.int32)
    hand = {f"{replicas} copies": private(replicas) for replicas in ((4, 8) if bins < 1000 else (1,))}
    return Row(f"histogram of 2²⁶ i32 in {bins:,} bins", histogram(bins), inputs, answer, hand, tolerance=0)


_SCANS = {f"chain {b >> 10} Ki x{k}": chain(b, k) for b, k in ((1 << 16, 2), (1 << 15, 2), (1 << 16, 4))}
_INTEGERS = drawn((100_000_000,), high=1000, dtype="i4")

INDEXED = {
    "scan_f32": Row(
        "inclusive scan of 10⁸ f32", scan_f32, whole_numbers((100_000_000,)), np.cumsum, _SCANS, tolerance=0
    ),
    "scan_i32": Row(
        "inclusive scan of 10⁸ i32",
        scan_i32,
        _INTEGERS,
        lambda a: np.cumsum(a, dtype=np.int32),
        _SCANS,
        tolerance=0,
    ),
    "histogram_256": _counts(256),
    "histogram_1e6": _counts(1_000_000),
    "filter": Row(
        "filter of 10⁸ i32, half kept",
        filtered,
        _INTEGERS,
        lambda a: a[a < KEPT],
        {"chain 128 Ki": compress(1 << 17), "chain 32 Ki": compress(1 << 15)},
        tolerance=0,
        filtered=True,
    ),
    "spmv": Row(
        "sparse matrix × vector, 2²⁰ rows, 52 M numbers, skewed",
        spmv,
        skewed_matrix,
        _products,
        {"2048": segments(2048), "512": segments(512)},
        tolerance=1e-4,
    ),
    "segments": Row(
        "sums of 2²⁰ segments, one of which holds half of 10⁸ numbers",
        segment_sums,
        half_in_one,
        _segments,
        {f"blocks of {b >> 10} Ki": blocks_of_values(b) for b in (1 << 17, 1 << 14)},
        tolerance=0,
    ),
}
