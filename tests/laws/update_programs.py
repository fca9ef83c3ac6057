"""Histograms, scatters and updates of elements and rows, and inputs for them: bins out of range, equal indices, every kind of operator."""

from __future__ import annotations

import numpy as np
from program_table import Programs

import raido as rd

PROGRAMS = Programs()
program = PROGRAMS.program


@program(lambda chance, n, m: (chance.integers(-2, 9, 5 * n).astype("i4"),))
def histogram(a: rd.i32["n"]):
    return rd.bincount(a, 7)


@program(
    lambda chance, n, m: (
        chance.integers(-2, m + 2, 5 * n),
        chance.integers(-9, 9, 5 * n).astype("f8"),
        np.arange(float(m)),
    )
)
def weights(bins: rd.i64["n"], w: rd.f64["n"], start: rd.f64["m"]):
    return rd.reduce_by_index(start, rd.add, 0, bins, w * 2)


@program(
    lambda chance, n, m: (chance.integers(0, m + 1, 5 * n).astype("u1"), chance.integers(-9, 9, 5 * n).astype("i2"))
)
def largest_of_each(bins: rd.u8["n"], w: rd.i16["n"]):
    return rd.reduce_by_index(rd.full(9, rd.i16(-20)), rd.maximum, -(1 << 15), bins, w)


@program(lambda chance, n, m: (chance.integers(0, 4, (m, 3 * n)),))
def histogram_of_each_row(a: rd.i64["m", "n"]):
    return rd.map(lambda row: rd.bincount(row, 4), a)


@program(
    lambda chance, n, m: (
        np.zeros((m, 3), "i4"),
        chance.integers(-1, m + 1, n),
        chance.integers(-9, 9, (n, 3)).astype("i4"),
    )
)
def rows_of_bins(d: rd.i32["m", "k"], i: rd.i64["n"], v: rd.i32["n", "k"]):
    return rd.reduce_by_index(d, rd.add, 0, i, v)


@program(lambda chance, n, m: (chance.integers(0, 3, 3 * n), chance.integers(0, 4, 3 * n)))
def two_dimensions(i: rd.i64["n"], j: rd.i64["n"]):
    return rd.reduce_by_index(rd.full((3, 4), rd.i64(0)), rd.add, 0, (i, j), rd.replicate(i.shape[0], rd.i64(1)))


@program(
    lambda chance, n, m: (
        chance.integers(-1, m + 1, 5 * n).astype("i4"),
        chance.integers(-9, 9, 5 * n).astype("f4"),
        np.arange(float(m), dtype="f4"),
    )
)
def moments(bins: rd.i32["n"], v: rd.f32["n"], start: rd.f32["m"]):
    """Three updates at equal indices, which become one."""
    into = lambda dest, op, neutral, values: rd.reduce_by_index(dest, op, neutral, bins, values)
    squares = into(rd.zeros(start.shape, rd.f32), rd.add, 0, v * v)
    return into(start, rd.add, 0, v), squares, into(rd.full(start.shape, rd.f32(-5)), rd.maximum, -np.inf, v)


@program(lambda chance, n, m: (chance.integers(0, 5, 3 * n), chance.integers(0, 9, 3 * n)))
def smallest_and_where(i: rd.i64["n"], v: rd.i64["n"]):
    def nearer(p, q):
        left = (p[0] < q[0]) | ((p[0] == q[0]) & (p[1] <= q[1]))
        return rd.where(left, p[0], q[0]), rd.where(left, p[1], q[1])

    n = i.shape[0]
    start = (rd.full(5, rd.i64(100)), rd.full(5, rd.i64(1 << 40)))
    return rd.reduce_by_index(start, nearer, (1 << 40, 1 << 40), i, v, rd.iota(n, rd.i64))


@program(lambda chance, n, m: (np.zeros(m, "i4"), chance.integers(-1, m + 1, 3 * n), np.arange(3 * n).astype("i4")))
def the_last_wins(d: rd.i32["m"], i: rd.i64["n"], v: rd.i32["n"]):
    return rd.scatter(d, i, v + 1)


@program(lambda chance, n, m: (chance.permutation(n),))
def inverse(p: rd.i64["n"]):
    n = p.shape[0]
    return rd.scatter(rd.replicate(n, rd.i64(-1)), p, rd.iota(n, rd.i64), unique_indices=True)


@program(
    lambda chance, n, m: (np.zeros((m, n)), chance.integers(0, m + 1, 4), chance.integers(0, 9, (4, n)).astype("f8"))
)
def whole_rows(d: rd.f64["m", "n"], i: rd.i64["k"], v: rd.f64["k", "n"]):
    return rd.scatter(d, i, v)


@program(lambda chance, n, m: (chance.integers(0, 9, n), chance.integers(0, n + (n < 3), 3)))
def elements_at(a: rd.i64["n"], i: rd.i64["k"]):
    """Checked: a fault where the array is empty."""
    return a.at[i].add(5)


@program(lambda chance, n, m: (chance.integers(0, 4, 3 * n), chance.integers(0, 9, 3 * n).astype("f4")))
def means_by_class(label: rd.i64["n"], x: rd.f32["n"]):
    total = rd.reduce_by_index(rd.full(4, rd.f32(0)), rd.add, 0, label, x, name="total")
    count = rd.bincount(label, 4, name="count")
    return rd.where(count > 0, rd.floor(total), 0.0)


@program(lambda chance, n, m: (chance.integers(0, 9, 3 * n),))
def cumulative_histogram(a: rd.i64["n"]):
    return rd.scan(rd.add, 0, rd.bincount(a, 9))
