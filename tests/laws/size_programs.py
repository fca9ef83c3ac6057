"""Segments, repeats and slices, whose lengths data decides; and programs that fault because of these lengths."""

from __future__ import annotations

import numpy as np
from program_table import Programs

import raido as rd

PROGRAMS = Programs()
program = PROGRAMS.program


def segments(chance: np.random.Generator, n: int, m: int) -> np.ndarray:
    """Offsets of m segments in n elements, some of them empty; now and then one of them holds nearly everything."""
    offsets = np.sort(chance.integers(0, n + 1, m + 1))
    return offsets if chance.random() < 0.7 else np.minimum(offsets, 1) * n


@program(lambda chance, n, m: (chance.integers(0, 9, n).astype("f4"), segments(chance, n, m)))
def segment_sums(v: rd.f32["k"], offsets: rd.i64["s"]):
    return rd.segmented_reduce(rd.add, 0, v * 2, offsets)


@program(lambda chance, n, m: (chance.integers(0, 9, n).astype("i4"), segments(chance, n, m)))
def from_a_value_that_is_not_neutral(v: rd.i32["k"], offsets: rd.i64["s"]):
    return rd.segmented_reduce(rd.maximum, 5, v, offsets), rd.segmented_reduce(rd.add, 7, v, offsets)


@program(
    lambda chance, n, m: (
        chance.integers(0, 9, n).astype("f8"),
        chance.integers(0, 7, n),
        segments(chance, n, m),
        chance.integers(0, 9, 7).astype("f8"),
    )
)
def sparse_matrix_times_vector(v: rd.f64["k"], column: rd.i64["k"], offsets: rd.i64["s"], x: rd.f64["n"]):
    return rd.segmented_reduce(rd.add, 0, v * x[column], offsets)


@program(lambda chance, n, m: (chance.integers(-3, 3, n), chance.integers(-3, 3, n), segments(chance, n, m)))
def composed_maps(a: rd.i64["k"], b: rd.i64["k"], offsets: rd.i64["s"]):
    """Affine maps: the order matters."""
    return rd.segmented_reduce(lambda p, q: (p[0] * q[0], p[1] * q[0] + q[1]), (1, 0), (a, b), offsets)


@program(lambda chance, n, m: (chance.integers(0, 9, (n, 3)), segments(chance, n, m)))
def segments_of_rows(v: rd.i64["k", 3], offsets: rd.i64["s"]):
    return rd.segmented_reduce(rd.add, 0, v, offsets)


@program(lambda chance, n, m: (chance.integers(0, 9, n), segments(chance, n, m)))
def segment_prefixes(v: rd.i64["k"], offsets: rd.i64["s"]):
    return rd.segmented_scan(rd.add, 5, v, offsets)


@program(lambda chance, n, m: (chance.integers(0, 9, (n, 2)).astype("i2"), segments(chance, n, m)))
def prefixes_of_rows(v: rd.i16["k", 2], offsets: rd.i64["s"]):
    return rd.segmented_scan(rd.minimum, 4, v, offsets)


@program(lambda chance, n, m: (chance.integers(0, 9, n), chance.integers(-1, n + 2, 3)))
def offsets_that_may_be_wrong(v: rd.i64["k"], offsets: rd.i64["s"]):
    return rd.segmented_reduce(rd.add, 0, v, offsets)


@program(lambda chance, n, m: (chance.integers(0, 9, n), chance.integers(0, 4, n)))
def sum_of_repeated(v: rd.i64["k"], counts: rd.i64["k"]):
    return rd.sum(rd.repeat(v, counts) * 2)


@program(lambda chance, n, m: (chance.integers(0, 9, n), chance.integers(-1 if n > 5 else 0, 4, n)))
def repeated(v: rd.i64["k"], counts: rd.i64["k"]):
    long = rd.repeat(v, counts, name="long")
    return long, rd.scan(rd.add, 0, long, name="sums"), long.shape[0]


@program(lambda chance, n, m: (chance.integers(-3, 9, n), chance.integers(0, 4)))
def loop_that_grows(v: rd.i64["k"], iterations: rd.i64):
    grown = rd.loop(iterations, lambda t, x: rd.concat([x[::2] + t, -x[1:], v[:1]]), v, name="grown")
    return grown, rd.sum(grown)


@program(lambda chance, n, m: (chance.integers(-3, 9, n), chance.integers(0, 4)))
def filter_in_a_loop(v: rd.i64["k"], least: rd.i64):
    """Each iteration keeps the larger ones beside their squares, until there are few."""

    def body(state):
        kept, squares, iterations = state
        high, low = rd.filter(lambda a, b: a > iterations, kept, squares, name="high")
        return high - 1, low + high, iterations + 1

    going = lambda s: (s[0].shape[0] > least) & (s[2] < 9)
    return rd.while_loop(going, body, (v, v * v, rd.i64(0)), name="iterations")


@program(lambda chance, n, m: (chance.integers(-3, 9, (n, m)), chance.integers(-1 if n > 5 else 0, m + 1, n)))
def arrays_of_private_size(a: rd.i64["n", "m"], least: rd.i64["n"]):
    """Medians of what each row keeps, and prefixes of as many numbers as each asks for."""

    def row(r, k):
        kept = rd.sort(rd.filter(lambda x: x > k, r), name="sorted")
        count = kept.shape[0]
        median = rd.cond(count > 0, lambda: kept[count // 2], lambda: rd.i64(-9))
        return median, rd.sum(rd.scan(rd.add, 0, rd.iota(k) + count))

    return rd.map(row, a, least)


@program(lambda chance, n, m: (chance.integers(-3, 9, (n, m)), chance.integers(0, 4, n)))
def rows_that_grow(a: rd.i64["n", "m"], iterations: rd.i64["n"]):
    grow = lambda t, x: rd.concat([x, rd.filter(lambda v: v > t, x)])
    return rd.map(lambda r, k: rd.sum(rd.loop(k, grow, r, name="grown")), a, iterations)


@program(lambda chance, n, m: (chance.integers(-3, 9, (n, 2)), chance.integers(0, 2).astype(bool)))
def branches_of_different_sizes(v: rd.i64["k", 2], longer: rd.bool_):
    rows, flat = rd.cond(longer, lambda: (v, v.flatten()), lambda: (v[1:] * 2, v[:, 0]), name="either")
    return rows, flat, rd.sum(rows[:, 1]) + flat.shape[0]


@program(lambda chance, n, m: (chance.integers(0, 9, n), chance.integers(-1, n + 1, 2)))
def slice_between(v: rd.i64["k"], bounds: rd.i64[2]):
    part = v[bounds[0] : bounds[1]]
    return part, rd.sum(part)


@program(lambda chance, n, m: (chance.integers(0, 9, n),))
def evens_then_prefixes(v: rd.i64["k"]):
    kept = rd.filter(lambda x: x % 2 == 0, v, name="kept")
    return rd.scan(rd.add, 0, kept, name="sums"), kept[1:]
