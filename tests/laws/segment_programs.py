"""Segmented reductions, and inputs for them: empty segments, long ones, values outside of all segments, and unordered offsets."""

from __future__ import annotations

import numpy as np
from program_table import Programs

import raido as rd

PROGRAMS = Programs()
program = PROGRAMS.program


def offsets(chance, n, m):
    """Segments of n values, most of them short; one may hold half."""
    inner = np.sort(chance.integers(0, n + 1, m))
    if m > 2 and chance.random() < 0.5:
        inner[: m // 2] = chance.integers(0, n // 2 + 1)
        inner.sort()
    first = chance.integers(0, (inner[0] if m else n) + 1)
    return np.concatenate([[first], inner]).astype("i8")


def numbers(chance, n, dtype="f8"):
    return chance.integers(-9, 9, n).astype(dtype)


@program(lambda chance, n, m: (numbers(chance, 3 * n, "f4"), offsets(chance, 3 * n, 2 * m)))
def sums(v: rd.f32["n"], o: rd.i64["k"]):
    return rd.segmented_reduce(rd.add, 0, v, o)


@program(lambda chance, n, m: (numbers(chance, 3 * n, "i4"), offsets(chance, 3 * n, 2 * m)))
def from_a_start(v: rd.i32["n"], o: rd.i64["k"]):
    """The start is not neutral, and takes part once."""
    return rd.segmented_reduce(rd.add, 100, v * 2, o) + 1


@program(lambda chance, n, m: (numbers(chance, 3 * n, "i8"), offsets(chance, 3 * n, 2 * m)))
def last_of_each(v: rd.i64["n"], o: rd.i64["k"]):
    """Not commutative, and with no neutral element that is known."""
    return rd.segmented_reduce(lambda a, b: b, -1, v, o)


@program(lambda chance, n, m: (numbers(chance, 3 * n), offsets(chance, 3 * n, 2 * m)))
def smallest_and_where(v: rd.f64["n"], o: rd.i64["k"]):
    def nearer(p, q):
        left = (p[0] < q[0]) | ((p[0] == q[0]) & (p[1] <= q[1]))
        return rd.where(left, p[0], q[0]), rd.where(left, p[1], q[1])

    places = rd.iota(v.shape[0], rd.i64)
    return rd.segmented_reduce(nearer, (np.inf, 1 << 40), (v, places), o)


@program(
    lambda chance, n, m: (
        numbers(chance, 3 * n),
        chance.integers(0, 7 + (chance.random() < 0.1), 3 * n),
        np.concatenate([[0], offsets(chance, 3 * n, 2 * m), [3 * n]]),
        numbers(chance, 7),
    )
)
def sparse_product(v: rd.f64["n"], column: rd.i64["n"], o: rd.i64["k"], x: rd.f64["j"]):
    """Sometimes with a column that is not there; every number is in some segment, so that it is needed."""
    return rd.segmented_reduce(rd.add, 0, v * x[column], o)


@program(lambda chance, n, m: (numbers(chance, n), chance.permutation(offsets(chance, n, m + 2))))
def offsets_in_any_order(v: rd.f64["n"], o: rd.i64["k"]):
    """Mostly a fault."""
    return rd.segmented_reduce(rd.maximum, -np.inf, v, o)


@program(lambda chance, n, m: (numbers(chance, (3, n)), offsets(chance, n, m)))
def segments_of_each_row(v: rd.f64["h", "n"], o: rd.i64["k"]):
    return rd.map(lambda row: rd.segmented_reduce(rd.add, 0, row, o), v)


@program(lambda chance, n, m: (numbers(chance, (n, 3)), offsets(chance, n, m)))
def segments_of_rows(v: rd.f64["n", "w"], o: rd.i64["k"]):
    return rd.segmented_reduce(rd.add, 0, v, o)


@program(lambda chance, n, m: (numbers(chance, 3 * n), offsets(chance, 3 * n, 2 * m)))
def means(v: rd.f64["n"], o: rd.i64["k"]):
    total = rd.segmented_reduce(rd.add, 0, v, o, name="total")
    count = o[1:] - o[:-1]
    return rd.where(count > 0, total * 2, 0), rd.segmented_scan(rd.add, 0, v, o)
