"""Parallel reductions as two stages: the partial results of chunks, and their reduction, in order."""

from __future__ import annotations

import numpy as np

import raido as rd
from raido.schedule.lower import lower
from raido.schedule.machine import Machine
from raido.schedule.nest.nodes import Nest
from raido.schedule.nest.printer import print_nest
from raido.schedule.oracles.interpret import interpret_nest


@rd.algorithm
def joined(first: rd.i32["n"], last: rd.i32["n"]):
    """Intervals put side by side: the first number of the first one, and the last of the last; not commutative."""
    return rd.reduce(
        lambda a, b: (rd.where(a[1] < 0, b[0], a[0]), rd.where(b[1] < 0, a[1], b[1])), (-1, -1), first, last
    )


def nest_of(schedule: rd.Schedule) -> Nest:
    complete = schedule.complete(Machine())
    return lower(complete.graph, complete.variants())


def test_partial_results_meet_in_order() -> None:
    schedule = joined.schedule()
    schedule["reduce_1"].parallel("r", grain=3)
    first, last = np.arange(17, dtype=np.int32), np.arange(100, 117, dtype=np.int32)
    for seed in range(3):
        got = interpret_nest(nest_of(schedule), [first, last], seed=seed)
        assert [int(each) for each in got] == [0, 116]


def test_chunks_are_those_of_the_schedule_wherever_the_stage_is_computed() -> None:
    @rd.algorithm
    def centred(a: rd.f64["h", "w"]):
        mean = rd.mean(a, axis=1)
        return rd.tabulate(a.shape, lambda y, x: a[y, x] - mean.named("mean")[y])

    schedule = centred.schedule()
    schedule["mean"].split("r", 4).reorder("ro", "x", "ri").parallel("ro")
    schedule["mean"].compute_at(schedule.stages[-1], "y")
    a = np.arange(33.0).reshape(3, 11)
    nest = nest_of(schedule)
    assert "parallel ro" in print_nest(nest)
    (got,) = interpret_nest(nest, [a], seed=1)
    np.testing.assert_allclose(got, a - a.mean(axis=1, keepdims=True))


def test_chunks_of_nothing_are_not_counted() -> None:
    @rd.algorithm
    def total(a: rd.i64["h", "w"]):
        return rd.sum(a)

    schedule = total.schedule()
    schedule["reduce_1"].parallel("ry", grain=2)
    nest = nest_of(schedule)
    (got,) = interpret_nest(nest, [np.zeros((9, 0), np.int64)], seed=0)
    assert got == 0
    assert "partial: i64[(h + 1)//2*min(1, w)]" in print_nest(nest), "of 10¹² rows of nothing there are none"


def test_partial_results_of_a_tile_are_folded_in_registers() -> None:
    @rd.algorithm
    def product(a: rd.f32["n", "k"], b: rd.f32["k", "m"]):
        return a @ b

    schedule = product.schedule()
    stage = schedule["matmul_1"].tile(y=2, x=64).split("r", 256).reorder("ro", "yo", "xo", "ri", "yi", "xi")
    stage.unroll("yi").vectorize("xi", interleave=4).parallel("ro")
    nest = nest_of(schedule)
    fold = print_nest(nest).split("partial[ro")[-1]
    assert "sum: f32 register" in fold and "heap" not in fold
    assert fold.index("by vector") < fold.index("for chunk in")
    rng = np.random.default_rng(0)
    a, b = rng.random((3, 600), np.float32), rng.random((600, 70), np.float32)
    (got,) = interpret_nest(nest, [a, b], seed=0)
    np.testing.assert_allclose(got, a @ b, rtol=1e-5)
