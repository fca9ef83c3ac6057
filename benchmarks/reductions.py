"""The rows of the comparison that reduce: sums, dot product, sums of rows and of columns, product of matrices."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from rows import Row

import raido as rd


@rd.algorithm
def total(a: rd.f32["n"]):
    return rd.sum(a, name="out")


@rd.algorithm
def dot(a: rd.f32["n"], b: rd.f32["n"]):
    return rd.sum(a * b, name="out")


@rd.algorithm
def row_sums(a: rd.f32["h", "w"]):
    return rd.sum(a, axis=1, name="out")


@rd.algorithm
def column_sums(a: rd.f32["h", "w"]):
    return rd.sum(a, axis=0, name="out")


@rd.algorithm
def sgemm(a: rd.f32["n", "k"], b: rd.f32["k", "m"]):
    return rd.matmul(a, b).named("out")


def _whole(algorithm: rd.Algorithm) -> rd.Schedule:
    """Chunks for the threads, eight vectors of partial sums in each."""
    s = algorithm.schedule()
    s["out"].split("r", 1 << 17).parallel("ro").vectorize("ri", interleave=8)
    return s


def _rows(interleave: int) -> Callable[[rd.Algorithm], rd.Schedule]:
    def schedule(algorithm: rd.Algorithm) -> rd.Schedule:
        s = algorithm.schedule()
        s["out"].parallel("x").vectorize("r", interleave=interleave)
        return s

    return schedule


def _columns(algorithm: rd.Algorithm) -> rd.Schedule:
    """Chunks of rows, each read from end to end, eight rows at a time."""
    s = algorithm.schedule()
    s["out"].split("r", 512).split("ri", 8, names=("rm", "rj")).reorder("ro", "rm", "x", "rj")
    s["out"].unroll("rj").vectorize("x", interleave=2).parallel("ro")
    return s


def _register_tile(algorithm: rd.Algorithm) -> rd.Schedule:
    """8 × 32 results in registers; the right factor packed in panels, so that what a tile reads lies together."""
    s = algorithm.schedule()
    s["out"].tile(y=8, x=32).reorder("yo", "xo", "r", "yi", "xi").unroll("yi").vectorize("xi", interleave=2)
    s["out"].parallel("yo").cache("b", "out", None, layout=("xo", "r", "xi"))
    return s


def _exact_sum(*arrays: np.ndarray) -> np.ndarray:
    """In f64, in pieces: the reference for sums of many numbers."""
    pieces = zip(*(np.array_split(a, 64) for a in arrays), strict=True)
    return np.array(sum(np.prod([p.astype(np.float64) for p in piece], axis=0).sum() for piece in pieces), np.float32)


def _sums(axis: int) -> Callable[[np.ndarray], np.ndarray]:
    return lambda a: a.sum(axis=axis, dtype=np.float64).astype(np.float32)


_LINE = (100_000_000,)

REDUCTIONS: dict[str, Row] = {
    "sum": Row(total, (_LINE,), "f4", _exact_sum, _whole, numpy=np.sum),
    "dot": Row(dot, (_LINE, _LINE), "f4", _exact_sum, _whole, numpy=np.dot),
    "rows_10": Row(row_sums, ((10, 10_000_000),), "f4", _sums(1), _rows(8), numpy=lambda a: a.sum(1)),
    "rows_1e4": Row(row_sums, ((10_000, 10_000),), "f4", _sums(1), _rows(8), numpy=lambda a: a.sum(1)),
    "rows_1e6": Row(row_sums, ((1_000_000, 100),), "f4", _sums(1), _rows(2), numpy=lambda a: a.sum(1)),
    "rows_1e7": Row(row_sums, ((10_000_000, 10),), "f4", _sums(1), _rows(1), numpy=lambda a: a.sum(1)),
    "columns_1e4": Row(column_sums, ((10_000, 10_000),), "f4", _sums(0), _columns, numpy=lambda a: a.sum(0)),
    "sgemm_1024": Row(sgemm, ((1024, 1024), (1024, 1024)), "f4", np.matmul, _register_tile, numpy=np.matmul),
}
