"""Sorts along every axis, by keys of every kind, with ties and special values; and uses of their results."""

from __future__ import annotations

import numpy as np
from program_table import Programs

import raido as rd

PROGRAMS = Programs()
program = PROGRAMS.program


def floats(chance: np.random.Generator, n: int, m: int) -> tuple[np.ndarray, ...]:
    """Few different numbers, NaN, infinities and both zeros among them."""
    return (chance.choice(np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1.5, -2.0]), n).astype("f4"),)


@program(lambda chance, n, m: (chance.integers(-(1 << 31), 1 << 31, n).astype("i4"),))
def wide_integers(a: rd.i32["n"]):
    return rd.sort(a * 2 + 1)


@program(lambda chance, n, m: (chance.integers(-9, 9, n).astype("i1"), chance.integers(0, 2, n).astype("bool")))
def narrow_ones(a: rd.i8["n"], b: rd.bool_["n"]):
    return rd.sort(a), rd.argsort(b)


@program(floats)
def special_values(a: rd.f32["n"]):
    return rd.sort(a), rd.argsort(a)


@program(lambda chance, n, m: (chance.integers(0, 1 << 63, n).astype("u8"),))
def unsigned_ones(a: rd.u64["n"]):
    return rd.sort(a)


@program(lambda chance, n, m: (chance.integers(-9, 9, (m, n)),))
def every_row(a: rd.i64["m", "n"]):
    return rd.map(rd.sort, a)


@program(lambda chance, n, m: (chance.integers(-9, 9, (n, m)).astype("f8"),))
def every_column(a: rd.f64["n", "m"]):
    return rd.sort(a, axis=0), rd.argsort(a, axis=0)


@program(lambda chance, n, m: (*floats(chance, n, m), chance.integers(-9, 9, n).astype("i1")))
def two_keys(a: rd.f32["n"], b: rd.i8["n"]):
    return rd.sort((a, b)), rd.argsort((b, a))


@program(lambda chance, n, m: (chance.integers(0, 9, n),))
def each_once(a: rd.i64["n"]):
    return rd.unique(a)


@program(lambda chance, n, m: (chance.integers(0, 99, n),))
def median_differences(a: rd.i64["n"]):
    ordered = rd.sort(a, name="ordered")
    return rd.scan(rd.add, 0, rd.stencil(lambda p: p[1] - p[0], ordered, boundary="clamp"))


@program(floats)
def least_and_greatest(a: rd.f32["n"]):
    ordered = rd.sort(a, name="ordered")
    return rd.concat([ordered[:3], ordered[-2:]])


@program(lambda chance, n, m: (chance.integers(0, 9, n).astype("i4"), m))
def first_ones(a: rd.i32["n"], k: rd.size):
    return rd.argsort(a)[:k]


@program(lambda chance, n, m: (np.concatenate((floats(chance, n, m)[0], np.zeros(1, "f4"))),))
def middle(a: rd.f32["n"]):
    return rd.median(a), rd.percentile(a, 90, method="lower")


@program(lambda chance, n, m: (chance.integers(-9, 9, (m, n)),))
def greatest_of_rows(a: rd.i64["m", "n"]):
    return rd.flip(rd.sort(a, axis=1), axis=1)[:, :2]
