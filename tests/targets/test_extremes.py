"""Minimum and maximum of floats are IEEE 754-2019's: −0.0 is below 0.0 and NaN propagates, so no schedule shows which zero came first."""

from __future__ import annotations

import numpy as np
import pytest
from emission import array, compile_body, every_cpu, index

import raido as rd
from raido.algo.graph.dtypes import dtype_named
from raido.algo.graph.expr import Op, const, fresh
from raido.algo.graph.primitives import evaluate
from raido.schedule.nest.nodes import Block, For, VectorStore
from raido.schedule.nest.values import Splat, VectorRead

LANES = 8
NUMBERS = (0.0, -0.0, 1.5, -1.5, np.inf, -np.inf, np.nan)


def same_bits(got, want):
    got, want = np.asarray(got), np.asarray(want)
    np.testing.assert_array_equal(got, want)
    number = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(got)[number], np.signbit(want)[number])


@every_cpu
@pytest.mark.parametrize("name", ["f16", "f32", "f64"])
def test_against_literals(name, cpu):
    """Code for a literal is shorter; it stands on either side."""
    dtype = dtype_named(name)
    data = np.array([*NUMBERS, 3.0], dtype.numpy)
    source, x = array("a", dtype, LANES), fresh("x")
    read = VectorRead(source, (x,), 1, LANES, None)
    statements, outputs, wanted = [], [], []
    for which in ("minimum", "maximum"):
        for number in NUMBERS:
            literal = Splat(const(dtype, number), LANES)
            for operands in ((read, literal), (literal, read)):
                outputs.append(array(f"out{len(outputs)}", dtype, LANES))
                statements.append(VectorStore(outputs[-1], (x,), Op(which, dtype, operands)))
                wanted.append(evaluate(which, dtype, [data, dtype.numpy.type(number)]))
    results = [np.empty_like(data) for _ in outputs]
    loop = For(x, index(0), index(LANES), LANES, Block(tuple(statements)))
    compile_body([loop], [source], outputs, (), cpu)([data], [], results)
    for got, want in zip(results, wanted, strict=True):
        same_bits(got, want)


SCHEDULES = {
    "default": lambda s: None,
    "one after another": lambda s: [s[stage].unroll("r", 1) for stage in ("low", "high")],
    "lanes": lambda s: [s[stage].vectorize("r", interleave=2) for stage in ("low", "high")],
    "chunks": lambda s: [s[stage].split("r", 64).parallel("ro").vectorize("ri") for stage in ("low", "high")],
}


@pytest.mark.parametrize("said", SCHEDULES)
def test_folds_of_zeros_of_both_signs(said):
    @rd.algorithm
    def extremes(a: rd.f32["n"]):
        return rd.min(a, name="low"), rd.max(a, name="high")

    schedule = extremes.schedule()
    SCHEDULES[said](schedule)
    executable = extremes.compile(schedule=schedule)
    rng = np.random.default_rng(4)
    for zeros in ([0.0, -0.0], [0.0], [-0.0], [0.0, -0.0, np.nan], [0.0, -0.0, 1.0], [0.0, -0.0, -1.0]):
        for n in (1, 2, 17, 300):
            a = rng.choice(np.array(zeros, np.float32), n)
            low, high = extremes.interpret(a)
            same_bits(executable(a), (low, high))
            if not a.any():
                assert np.signbit(low) == np.signbit(a).any() and np.signbit(high) == np.signbit(a).all()
