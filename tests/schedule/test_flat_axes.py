"""Short rows that lie one behind another in memory are one loop by default, in which nothing is divided or gathered."""

from __future__ import annotations

import numpy as np
import pytest
from default_schedules import default_of

import raido as rd


def activation(x: rd.f32["n", "c", "h", "w"], scale: rd.f32["c"]):
    return rd.maximum(x * scale[:, None, None], 0).named("out")


def pooled(x: rd.f32["n", "c", "h", "w"]):
    return rd.sum(x, axis=(2, 3)).named("out")


def momentum(p: rd.f32["n", "m"], m: rd.f32["n", "m"], g: rd.f32["n", "m"]):
    m = (0.9 * m + g).named("m")
    return (p - 0.1 * m).named("out"), m


def test_axes_that_all_arrays_traverse_alike_are_fused():
    assert 's["out"].root().fuse("y", "x").fuse("d0", "z").parallel("d0z").vectorize("yx")' in default_of(activation)
    assert 's["out"].root().fuse("ry", "rx").fuse("y", "x").parallel("yx").vectorize("ryrx"' in default_of(pooled)
    assert '.fuse("y", "x").split("yx", 16384).parallel("yxo").vectorize("yxi")' in default_of(momentum)
    assert "compute_with" in default_of(momentum)


def test_long_rows_and_whole_vectors_stay_rows():
    assert "fuse" not in default_of(momentum, m=1000) and "fuse" not in default_of(momentum, m=32)
    assert 'fuse("y", "x")' in default_of(momentum, m=10)


def test_rows_that_some_array_does_not_have_stay_rows():
    def transposed(x: rd.f32["n", "m"], y: rd.f32["m", "n"]):
        return (x + y.T).named("out")

    def columns(x: rd.f32["n", "m"], y: rd.f32["m"]):
        return (x + y).named("out")

    def part(x: rd.f32["n", "m"], y: rd.f32["n", "m + 1"]):
        return (x + y[:, :-1]).named("out")

    assert not any('fuse("y", "x")' in default_of(each) for each in (transposed, columns, part))


@pytest.mark.parametrize("program", [activation, pooled, momentum])
@pytest.mark.parametrize("rows", [(0, 7), (3, 0), (7, 7), (2, 1), (5, 33)])
def test_results_are_those_of_the_interpreter(program, rows):
    algorithm = rd.algorithm(program)
    exe = algorithm.compile()
    assert "gather" not in exe.source("gang")
    draw = np.random.default_rng(0)
    shapes = [(2, 3, *rows)] if program is pooled else [(2, 3, *rows), (3,)] if program is activation else [rows] * 3
    arrays = [draw.random(shape, dtype=np.float32) for shape in shapes]
    found, expected = exe(*arrays), algorithm.interpret(*arrays)
    for one, other in zip(*([each] if program is not momentum else each for each in (found, expected)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)
