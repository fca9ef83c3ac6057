"""Sums of a line, of products, of rows and of columns; and the product of matrices."""

from __future__ import annotations

import numpy as np

import raido as rd
from rows.row import Row, Scheduler, drawn, whole_numbers


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


def whole(chunk: int, interleave: int) -> Scheduler:
    """Chunks for the threads, `interleave` vectors of partial sums in each."""

    def schedule(algorithm: rd.Algorithm) -> rd.Schedule:
        s = algorithm.schedule()
        s["out"].split("r", chunk).parallel("ro").vectorize("ri", interleave=interleave)
        return s

    return schedule


def along_rows(interleave: int) -> Scheduler:
    def schedule(algorithm: rd.Algorithm) -> rd.Schedule:
        s = algorithm.schedule()
        s["out"].parallel("x").vectorize("r", interleave=interleave)
        return s

    return schedule


def across_rows(interleave: int) -> Scheduler:
    """Chunks of rows, each read from end to end, eight rows at a time."""

    def schedule(algorithm: rd.Algorithm) -> rd.Schedule:
        s = algorithm.schedule()
        s["out"].split("r", 512).split("ri", 8, names=("rm", "rj")).reorder("ro", "rm", "x", "rj")
        s["out"].unroll("rj").vectorize("x", interleave=interleave).parallel("ro")
        return s

    return schedule


def register_tile(rows: int, columns: int, both: bool = False) -> Scheduler:
    """Tiles of the result in registers; the right factor packed in panels, so that what a tile reads lies together.

    both: the left one too, for each row of tiles: its rows would lie a multiple of 4096 bytes apart, on the same sets of the cache.
    """

    def schedule(algorithm: rd.Algorithm) -> rd.Schedule:
        s = algorithm.schedule()
        s["out"].tile(y=rows, x=columns).reorder("yo", "xo", "r", "yi", "xi").unroll("yi")
        s["out"].vectorize("xi", interleave=columns // 16).parallel("yo")
        s["out"].cache("b", "out", None, layout=("xo", "r", "xi"))
        if both:
            s["out"].cache("a", "out", "yo", layout=("yo", "r", "yi"))
        return s

    return schedule


def exact_sum(*arrays: np.ndarray) -> np.ndarray:
    """The sum in f64, in chunks: the reference for sums of many numbers."""
    pieces = zip(*(np.array_split(a, 64) for a in arrays), strict=True)
    return np.array(sum(np.prod([p.astype(np.float64) for p in piece], axis=0).sum() for piece in pieces), np.float32)


def sum_of_rows(a: np.ndarray) -> np.ndarray:
    return a.sum(axis=1, dtype=np.float64).astype(np.float32)


def sum_of_columns(a: np.ndarray) -> np.ndarray:
    return a.sum(axis=0, dtype=np.float64).astype(np.float32)


LINE = (100_000_000,)
TILES = {"8x32": register_tile(8, 32), "8x32, packed": register_tile(8, 32, both=True), "12x32": register_tile(12, 32)}


def _rows(h: int, w: int, *interleaves: int) -> Row:
    hand = {f"lanes x{k}": along_rows(k) for k in interleaves}
    return Row(f"sums of {h:,} rows of {w:,}", row_sums, whole_numbers((h, w)), sum_of_rows, hand)


def _square(n: int) -> Row:
    return Row(f"sgemm {n:,}³", sgemm, drawn((n, n), (n, n)), np.matmul, TILES)


REDUCTIONS = {
    "sum": Row("sum of 10⁸", total, whole_numbers(LINE), exact_sum, {"8": whole(1 << 17, 8), "4": whole(1 << 19, 4)}),
    "dot": Row(
        "dot product of 10⁸",
        dot,
        whole_numbers(LINE, LINE),
        exact_sum,
        {"8": whole(1 << 17, 8), "4": whole(1 << 16, 4)},
    ),
    "rows_10": _rows(10, 10_000_000, 8),
    "rows_1e4": _rows(10_000, 10_000, 8, 4),
    "rows_1e6": _rows(1_000_000, 100, 2, 1),
    "rows_1e7": _rows(10_000_000, 10, 1),
    "columns_1e4": Row(
        "sums of 10,000 columns of 10,000",
        column_sums,
        whole_numbers((10_000, 10_000)),
        sum_of_columns,
        {"x2": across_rows(2), "x1": across_rows(1)},
    ),
}
PRODUCTS = {"sgemm_1024": _square(1024), "sgemm_2048": _square(2048)}
