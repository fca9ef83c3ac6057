"""Lanes over reductions whose operator is not commutative: contiguous blocks, combined in order, also around inner loops."""

from __future__ import annotations

import numpy as np
import pytest

import raido as rd
from raido.schedule.gang.vectorise import form_gangs
from raido.schedule.lower import lower
from raido.schedule.nest.printer import print_nest
from raido.schedule.oracles.checker import check_nest
from raido.schedule.oracles.interpret import interpret_nest


@rd.algorithm
def last_of_columns(a: rd.i32["n", "m"]):
    return rd.reduce(lambda p, q: rd.where(q != 0, q, p), 0, a, axis=0, name="out")


@rd.algorithm
def composed(a: rd.i64["n", "m"], b: rd.i64["n", "m"]):
    """x -> a0 x + b0, then x -> a1 x + b1, and so on, down each column."""
    then = lambda p, q: (p[0] * q[0], q[0] * p[1] + q[1])
    return rd.reduce(then, (1, 0), a, b, axis=0, name="out")


SCHEDULES = {
    "rows, and columns inside": lambda s: s.reorder("r", "x").vectorize("r"),
    "strips of rows": lambda s: s.split("r", 4).vectorize("ro", lanes=4),
    "strips, and columns inside": lambda s: s.split("r", 3).reorder("ro", "x", "ri").vectorize("ro", interleave=2),
    "strips inside of chunks": lambda s: (
        s.split("r", 40).split("ri", 2).reorder("ro", "rio", "x", "rii").parallel("ro").vectorize("rio", lanes=4)
    ),
    "columns in registers": lambda s: s.vectorize("r", lanes=4).unroll("x", 4),
    "columns cut": lambda s: s.split("x", 3).reorder("xo", "r", "xi").vectorize("r", lanes=2),
}


def inputs(algorithm, n, m):
    chance = np.random.default_rng(100 * n + m)
    dtypes = ("i4",) if algorithm is last_of_columns else ("i8", "i8")
    return [chance.integers(-1, 2, (n, m)).astype(dtype) for dtype in dtypes]


@pytest.mark.parametrize("algorithm", [last_of_columns, composed], ids=["last", "composed"])
@pytest.mark.parametrize("name", SCHEDULES)
def test_blocks_are_combined_in_order(algorithm, name):
    schedule = algorithm.schedule()
    SCHEDULES[name](schedule["out"])
    nest = check_nest(lower(schedule.graph, schedule.variants()), "scalar")
    gang = check_nest(form_gangs(nest, 256), "gang")
    for n, m in ((0, 3), (1, 1), (7, 2), (8, 0), (33, 5), (97, 4)):
        arrays = inputs(algorithm, n, m)
        want = algorithm.interpret(*arrays)
        want = want if isinstance(want, tuple) else (want,)
        for each in (nest, gang):
            for part, got in zip(want, interpret_nest(each, arrays), strict=True):
                np.testing.assert_array_equal(part, got)


def test_every_lane_has_a_block_of_rounds():
    schedule = last_of_columns.schedule()
    schedule["out"].reorder("r", "x").vectorize("r")
    executable = last_of_columns.compile(schedule=schedule)
    assert "gather a[block*(0 +: 8) + r, x]" in executable.source("gang")
    assert "block_2[x, 0 +: 8] =" in executable.source("gang")
    (a,) = inputs(last_of_columns, 1003, 17)
    np.testing.assert_array_equal(executable(a), last_of_columns.interpret(a))
    assert "by vector" in print_nest(lower(schedule.graph, schedule.variants()))
