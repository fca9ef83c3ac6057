"""Scans of many kinds, and inputs for them: commutative and other operators, tuples, every axis, producers and consumers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from program_table import Programs

import raido as rd

PROGRAMS = Programs()
program = PROGRAMS.program


def vector(dtype: str, low: int = -9, high: int = 9) -> Callable[..., tuple[np.ndarray, ...]]:
    """Inputs: one array of rank 1."""
    return lambda chance, n, m: (chance.integers(low, high, n).astype(dtype),)


def matrix(dtype: str, low: int = -9, high: int = 9) -> Callable[..., tuple[np.ndarray, ...]]:
    """Inputs: one array of rank 2."""
    return lambda chance, n, m: (chance.integers(low, high, (m, n)).astype(dtype),)


@program(vector("f4"))
def running_sum(a: rd.f32["n"]):
    return rd.scan(rd.add, 0, a * 2 + 1)


@program(vector("i4"))
def exclusive_from_five(a: rd.i32["n"]):
    return rd.scan(rd.add, 5, a, exclusive=True)


@program(vector("u1", 0, 255))
def lowest_so_far(a: rd.u8["n"]):
    return rd.scan(rd.minimum, 200, a)


@program(vector("f8"))
def from_a_value_that_is_not_neutral(a: rd.f64["n"]):
    return rd.scan(rd.maximum, 3, a, exclusive=True)


@program(vector("bool", 0, 2))
def parity(a: rd.bool_["n"]):
    return rd.scan(rd.logical_xor, False, a)


@program(matrix("i8"))
def every_row(a: rd.i64["m", "n"]):
    return rd.map(lambda row: rd.scan(rd.add, 0, row), a)


@program(matrix("i2"))
def every_column(a: rd.i16["m", "n"]):
    return rd.scan(rd.add, 1, a, axis=0, exclusive=True)


@program(lambda chance, n, m: (chance.integers(0, 9, (3, m, n)).astype("f4"),))
def middle_axis(a: rd.f32["k", "m", "n"]):
    return rd.scan(rd.add, 0, a, axis=1)


@program(lambda chance, n, m: (chance.integers(-3, 3, n), chance.integers(-3, 3, n)))
def linear_recurrence(a: rd.i64["n"], b: rd.i64["n"]):
    """x[i] = a[i] * x[i − 1] + b[i]."""
    then = lambda p, q: (p[0] * q[0], p[1] * q[0] + q[1])
    return rd.scan(then, (1, 0), a, b)[1]


@program(lambda chance, n, m: tuple(chance.integers(-2, 2, (m, n)).astype("i4") for _ in range(4)))
def matrix_products(a: rd.i32["m", "n"], b: rd.i32["m", "n"], c: rd.i32["m", "n"], d: rd.i32["m", "n"]):
    """Products of 2 × 2 matrices: the order matters."""

    def times(p, q):
        return (
            p[0] * q[0] + p[1] * q[2],
            p[0] * q[1] + p[1] * q[3],
            p[2] * q[0] + p[3] * q[2],
            p[2] * q[1] + p[3] * q[3],
        )

    return rd.scan(times, (1, 0, 0, 1), a, b, c, d, axis=1)


@program(lambda chance, n, m: (chance.integers(0, 5, n).astype("f4"), np.arange(n)))
def last_largest(a: rd.f32["n"], where: rd.i64["n"]):
    def later(p, q):
        right = q[0] >= p[0]
        return rd.where(right, q[0], p[0]), rd.where(right, q[1], p[1])

    return rd.scan(later, (-1.0, -1), a, where, exclusive=True)


@program(vector("i4", -4, 9))
def last_that_counts(a: rd.i32["n"]):
    """An operator with a branch: its steps run one by one."""
    return rd.scan(lambda p, q: rd.cond(q > 0, lambda: q, lambda: p), 7, a)


@program(vector("i8"))
def scan_of_a_scan(a: rd.i64["n"]):
    return rd.scan(rd.maximum, -1000, rd.scan(rd.add, 0, a))


@program(matrix("f4"))
def rows_between_stencils(a: rd.f32["m", "n"]):
    smooth = rd.stencil(lambda p: p[0, -1] + 2 * p[0, 0] + p[0, 1], a, boundary="clamp", name="smooth")
    sums = rd.scan(rd.add, 0, smooth, axis=1, name="sums")
    return rd.stencil(lambda p: p[-1, 0] + p[1, 0], sums, boundary="wrap", name="out")


@program(matrix("i4"))
def summed_area(a: rd.i32["m", "n"]):
    return rd.scan(rd.add, 0, rd.scan(rd.add, 0, a, axis=1, name="across"), axis=0, name="down")


@program(lambda chance, n, m: (chance.integers(0, 5, (m, n)), chance.integers(0, 9, m)))
def a_start_for_each_row(a: rd.i64["m", "n"], first: rd.i64["m"]):
    return rd.map(lambda row, start: rd.scan(rd.add, start, row), a, first)


@program(lambda chance, n, m: (chance.integers(0, 9, (n, 3)).astype("i4"),))
def rows_as_elements(a: rd.i32["n", 3]):
    return rd.scan(lambda p, q: p + q, 0, a)


@program(vector("i4", 0, 9))
def total_of_a_scan(a: rd.i32["n"]):
    s = rd.scan(rd.add, 0, a, name="s")
    return rd.sum(s * 2), s


@program(vector("f4"))
def below_the_highest(a: rd.f32["n"]):
    """Two readers of a scan at their own index, and a third that reads the one before."""
    highest = rd.scan(rd.maximum, -100, a, name="highest")
    return a - highest, highest * 2 + a, rd.shift(highest, 1)


@program(matrix("i4"))
def shares_of_columns(a: rd.i32["m", "n"]):
    before = rd.scan(rd.add, 0, a, axis=0, exclusive=True, name="before")
    along = rd.scan(rd.add, 0, a, axis=1, name="along")
    return before * 3 - a, along + before
