"""Minimum and maximum of floats are IEEE 754-2019's: −0.0 is below 0.0 and NaN propagates, so no schedule shows which zero came first."""

from __future__ import annotations

import numpy as np
import pytest
from emission import array, assembly_of, compile_body, every_cpu, index

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


def exchanged(v: list) -> list:
    """The middle one of five values and those of its network that are results too: the least of four, and a maximum of a minimum."""
    for i, j in ((0, 1), (3, 4), (2, 4), (2, 3), (1, 4), (0, 3), (0, 2), (1, 3), (1, 2)):
        v[i], v[j] = rd.minimum(v[i], v[j]), rd.maximum(v[i], v[j])
    return v


@rd.algorithm
def medians(a: rd.f32["n"], b: rd.f64["n"]):
    middle = lambda p: exchanged([p[k] for k in range(5)])[2]
    return rd.stencil(middle, a, boundary="clamp"), rd.stencil(middle, b, boundary="clamp")


@rd.algorithm
def clipped_sorts(a: rd.f32[5, "n"]):
    """All results of a network, two functions of them, and extremes of literals inside."""
    v = exchanged([rd.minimum(row, 1.0) for row in a])
    return rd.stack(v), v[1] + v[2], rd.maximum(rd.maximum(v[0], -0.0), a[2])


@every_cpu
def test_networks(cpu):
    """NaN is tested once for a network; zeros are ordered by their signs inside."""
    rng = np.random.default_rng(5)
    a = rng.choice([*NUMBERS, -3.0, 4.0, 5.0, 0.0], (5, 203)).astype(np.float32)
    target = rd.Target("llvm", cpu=cpu)
    for algorithm, inputs in ((medians, (a[0], a[1].astype(np.float64))), (clipped_sorts, (a,))):
        for got, want in zip(algorithm.compile(target)(*inputs), algorithm.interpret(*inputs), strict=True):
            same_bits(got, want)


def test_an_extreme_of_a_network_is_one_instruction():
    body = assembly_of(medians, "skylake-avx512")
    assert "vrangeps" in body and "vrangepd" in body and "vpternlog" not in body
    body = assembly_of(medians, "haswell")
    assert "vcmpordps" in body and "vcmpunordps" not in body and "blendv" in body


def test_networks_of_blocks_whose_names_are_alike_have_inputs_of_their_own():
    """The name of an extreme in whole gangs is that of a loaded element in the rest of a row: inputs of the one were tested in the other."""

    def several(a: rd.f32["n", "m"], b: rd.i64["n", "m"], c: rd.i64["n", "m"], d: rd.i64["n", "m"]):
        return rd.logaddexp(a[b, c], rd.stack([c, b, d], axis=-3))

    assert assembly_of(rd.algorithm(several), "skylake-avx512")
