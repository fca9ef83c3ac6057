"""Filters and partitions, and uses of their results: other filters, scans, histograms, whole rows, records of several arrays."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from program_table import Programs

import raido as rd

PROGRAMS = Programs()
program = PROGRAMS.program


def vector(dtype: str, high: int = 9) -> Callable[..., tuple[np.ndarray, ...]]:
    """Inputs: one array of rank 1."""
    return lambda chance, n, m: (chance.integers(0, high, n).astype(dtype),)


@program(vector("i4"))
def large_ones(a: rd.i32["n"]):
    return rd.filter(lambda x: x > 4, a)


@program(vector("u1"))
def bytes_and_how_many(a: rd.u8["n"]):
    kept = rd.filter(lambda x: x % 2 == 0, a)
    return kept, kept.shape[0]


@program(vector("bool", 2))
def those_that_are_true(a: rd.bool_["n"]):
    return rd.filter(lambda x: x, a)


@program(lambda chance, n, m: (chance.integers(0, 9, n).astype("f4"), chance.integers(0, 9, n)))
def several_arrays(a: rd.f32["n"], b: rd.i64["n"]):
    return rd.filter(lambda x, y: (x < 5) & (y > 2), a * 2, b)


@program(lambda chance, n, m: (chance.integers(0, 3, (n, m)).astype("f4"),))
def whole_rows(a: rd.f32["n", "m"]):
    return rd.filter(lambda row: rd.sum(row) > 4, a)


@program(vector("i8"))
def both_parts(a: rd.i64["n"]):
    return rd.partition(lambda x: x > 4, a)


@program(lambda chance, n, m: (chance.integers(0, 9, (n, 2)),))
def parts_of_rows(a: rd.i64["n", 2]):
    return rd.partition(lambda row: row[0] > row[1], a)


@program(vector("i8"))
def a_filter_of_a_filter(a: rd.i64["n"]):
    return rd.filter(lambda x: x % 2 == 0, rd.filter(lambda x: x > 2, a, name="first"), name="second")


@program(vector("i8"))
def sums_of_what_is_kept(a: rd.i64["n"]):
    kept = rd.filter(lambda x: x > 2, a, name="kept")
    return rd.sum(kept), rd.scan(rd.add, 0, kept), rd.map(lambda x: x * 2, kept)


@program(vector("i8"))
def histogram_of_what_is_kept(a: rd.i64["n"]):
    return rd.bincount(rd.filter(lambda x: x > 2, a), 9)


@program(vector("i4"))
def positions(a: rd.i32["n"]):
    kept, where = rd.filter(lambda x, i: x > 5, a, rd.iota(a.shape[0], rd.i64))
    return where, kept


@program(lambda chance, n, m: (chance.integers(0, 9, n), chance.integers(0, 9, (m, 3))))
def columns_of_what_is_kept(a: rd.i64["n"], b: rd.i64["m", 3]):
    """A size that data decides as a trailing dimension."""
    kept = rd.filter(lambda x: x > 4, a)
    return rd.map(lambda row: rd.map(lambda x: x * row[0] + row[2], kept), b)


@program(vector("i8"))
def a_mask(a: rd.i64["n"]):
    return a[a > 3]
