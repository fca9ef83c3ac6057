"""Elements per GPU thread by default: as many as one access moves where a stage does nothing but stream them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from nests import at, f, loop, n, op, parameter, put

import raido as rd
from raido.algo.graph.dtypes import f32, i64
from raido.algo.graph.expr import Op, const, fresh
from raido.schedule.kernels.outlining import outline_kernels
from raido.schedule.kernels.wide_moves import move_wide
from raido.schedule.lower import lower
from raido.schedule.machine import Gpu, Machine
from raido.schedule.nest.nodes import Block, If, VectorStore
from raido.schedule.nest.walk import statements_within
from raido.schedule.oracles.interpret_kernels import interpret_program
from raido.schedule.schedule import Schedule
from raido.schedule.stages.form_stages import form_stages

GPU = Machine(task=1 << 10, gpu=Gpu(threads=8, along=(8, 8, 8), subgroup=8, processors=2, resident=8))


@rd.algorithm(a="f32[n]", b="f32[n]")
def axpy(a: rd.Array, b: rd.Array) -> rd.Array:
    return rd.elementwise(lambda x, y: 2 * x + y, a, b, name="s")


@rd.algorithm(a="u8[n]")
def doubled(a: rd.Array) -> rd.Array:
    return rd.elementwise(lambda x: x.astype(rd.i16) * 2, a, name="s")


@rd.algorithm(a="f32[n]")
def differences(a: rd.Array) -> rd.Array:
    return rd.stencil(lambda p: p[1] - p[0], a, boundary="valid", name="s")


@rd.algorithm(a="f32[h, w]", b="f32[h]")
def rows(a: rd.Array, b: rd.Array) -> rd.Array:
    return rd.map(lambda row, y: row * y, a, b, name="s")


@rd.algorithm(a="i32[n]")
def steps(a: rd.Array) -> rd.Array:
    return rd.map(lambda x: rd.while_loop(lambda k: k * k < x, lambda k: k + 1, rd.i32(0)), a, name="s")


@pytest.mark.parametrize(
    ("algorithm", "sizes", "lanes"),
    [
        (axpy, {}, 4),
        (axpy, {"n": 1000}, 4),
        (axpy, {"n": 60}, 1),
        (doubled, {}, 8),
        (differences, {}, 1),
        (rows, {}, 1),
        (rows, {"h": 40, "w": 64}, 4),
        (rows, {"h": 40, "w": 66}, 1),
        (steps, {}, 1),
    ],
)
def test_threads_take_as_many_neighbours_as_move_at_once(algorithm: Any, sizes: dict[str, int], lanes: int) -> None:
    schedule = Schedule(form_stages(algorithm.trace()), (), GPU).complete(GPU, sizes)
    kinds = [loop.kind for loop in schedule["s"].plan.loops]
    assert ("vector" in kinds) == (lanes > 1)
    assert lanes == 1 or f'i", {lanes})' in str(schedule)


@rd.algorithm(a="f64[n]")
def logistic(a: rd.Array) -> rd.Array:
    return rd.map(lambda x: 1 / (1 + rd.exp(-x)), a, name="s")


@pytest.mark.parametrize("branches", [False, True])
def test_a_tail_that_every_thread_makes_is_no_longer_than_what_vectors_save(branches: bool) -> None:
    """A device that runs both sides of every branch evaluates the tail for each vector."""
    assert GPU.gpu is not None
    machine = replace(GPU, gpu=replace(GPU.gpu, branches=branches))
    for algorithm, wide in ((axpy, True), (logistic, branches)):
        schedule = Schedule(form_stages(algorithm.trace()), (), machine).complete(machine)
        assert any(loop.kind == "vector" for loop in schedule["s"].plan.loops) == wide


def test_whole_vectors_are_asked_for_first_and_ask_nothing_more() -> None:
    """Whether there is any element at all is for threads to ask that have no whole vector."""
    schedule = Schedule(form_stages(axpy.trace()), (), GPU).complete(GPU)
    (kernel,) = outline_kernels(lower(schedule.graph, schedule.variants(), GPU)).kernels
    tests = [s for s in statements_within(kernel.body) if isinstance(s, If)]
    assert isinstance(tests[0].condition, Op) and tests[0].condition.name == "le"
    assert not any(isinstance(s, If) for s in statements_within(tests[0].then))
    assert any(isinstance(s, VectorStore) for s in statements_within(tests[0].then))


@pytest.mark.parametrize("n", (1, 31, 32, 70))
def test_streams_move_at_once_and_tails_one_by_one(n: int) -> None:
    schedule = Schedule(form_stages(axpy.trace()), (), GPU).complete(GPU)
    program = outline_kernels(lower(schedule.graph, schedule.variants(), GPU))
    moves = [s for kernel in program.kernels for s in statements_within(kernel.body) if isinstance(s, VectorStore)]
    assert len(moves) == 3
    a, b = (np.random.default_rng(k).random(n, dtype="f4") for k in range(2))
    np.testing.assert_array_equal(interpret_program(program, [a, b], {"n": n}, seed=n)[0], axpy.interpret(a, b))


def _program(algorithm: Any, **sizes: int) -> Any:
    schedule = Schedule(form_stages(algorithm.trace()), (), GPU).complete(GPU, sizes)
    return outline_kernels(lower(schedule.graph, schedule.variants(), GPU))


@rd.algorithm(a="f32[n]", k=rd.size)
def steps_in_place(a: rd.Array, k: Any) -> rd.Array:
    return rd.loop(k, lambda _, s: 2 * s + 1, a)


@rd.algorithm(a="f32", b="f32[2]", c="f32[m]", x="f32[n]")
def scaled(a: rd.Array, b: rd.Array, c: rd.Array, x: rd.Array) -> rd.Array:
    return x * rd.exp(-a) + b[1] + c[0]


def test_elements_that_change_in_place_move_at_once() -> None:
    """Each is read before any is stored, and by its own iteration alone."""
    made = _program(steps_in_place)
    (kernel,) = made.kernels
    assert sum(isinstance(s, VectorStore) for s in statements_within(kernel.body)) == 2
    a = np.random.default_rng(2).random(70, dtype="f4")
    np.testing.assert_array_equal(
        interpret_program(made, [a], {"n": 70, "k": 3}, seed=1)[0], steps_in_place.interpret(a, 3)
    )


def test_elements_that_later_statements_read_change_one_by_one() -> None:
    a, out, x = parameter("a", f32, n), parameter("out", f32, n), fresh("x")
    changed, read = put(a, x, op("add", at(a, x), f(1))), put(out, x, at(a, x))
    for body, together in (((changed, read), {out}), ((read, changed), {a, out})):
        vector = loop(x, const(i64, 4), *body, kind="vector")
        moved = move_wide(Block((vector,)), {}, True)
        assert {s.buffer for s in statements_within(moved) if isinstance(s, VectorStore)} & {a, out} == together


def test_scalars_of_arguments_take_no_launch() -> None:
    """Every thread computes them; an element that an argument may not have is read where it is there."""
    made = _program(scaled)
    (kernel,) = made.kernels
    assert (
        {a.name for a in kernel.arrays if a.scope == "parameter"}
        == {"a", "b", "c", "x", "out"}
        == {a.name for a in kernel.arrays}
    )
    given = [np.float32(0.5), np.arange(2, dtype="f4"), np.ones(3, "f4"), np.arange(40, dtype="f4")]
    np.testing.assert_array_equal(
        interpret_program(made, given, {"n": 40, "m": 3}, seed=1)[0], scaled.interpret(*given)
    )


@rd.algorithm(a="f32[h, w]", b="f32[h, w]")
def axpy_of_rows(a: rd.Array, b: rd.Array) -> rd.Array:
    return rd.elementwise(lambda x, y: 2 * x + y, a, b, name="s")


@rd.algorithm(a="u8[h, w, 3]", b="u8")
def brighter(a: rd.Array, b: rd.Array) -> rd.Array:
    return rd.elementwise(lambda x, y: rd.maximum(x, y) + 1, a, b, name="s")


@rd.algorithm(a="i64[h, w]")
def with_columns(a: rd.Array) -> rd.Array:
    return a + rd.iota(a.shape[1])


@pytest.mark.parametrize(
    ("algorithm", "flat"),
    [(axpy_of_rows, True), (brighter, True), (rows, False), (with_columns, False)],
)
def test_elements_that_are_treated_alike_are_one_row(algorithm: Any, flat: bool) -> None:
    """Neither short rows nor rows that begin anywhere keep vectors from moving at once; where rows differ, indices would be divided."""
    assert ("fuse" in str(Schedule(form_stages(algorithm.trace()), (), GPU).complete(GPU))) == flat


@pytest.mark.parametrize("shape", ((0, 3), (3, 5), (7, 33), (40, 1)))
def test_vectors_reach_over_the_ends_of_rows(shape: tuple[int, int]) -> None:
    draw, sizes = np.random.default_rng(3), dict(zip("hw", shape, strict=True))
    for algorithm, given in (
        (axpy_of_rows, [draw.random(shape, "f4"), draw.random(shape, "f4")]),
        (brighter, [draw.integers(0, 255, (*shape, 3), "u1"), np.uint8(9)]),
    ):
        made = _program(algorithm)
        assert any(isinstance(s, VectorStore) for kernel in made.kernels for s in statements_within(kernel.body))
        np.testing.assert_array_equal(interpret_program(made, given, sizes, seed=1)[0], algorithm.interpret(*given))


@rd.algorithm(a="f32[h, w]")
def total(a: rd.Array) -> rd.Array:
    return rd.sum(a * a, name="s")


@rd.algorithm(a="f32[h, 3]", b="f32[3]")
def weighted(a: rd.Array, b: rd.Array) -> rd.Array:
    return rd.sum(a * b, name="s")


@pytest.mark.parametrize("algorithm", (total, weighted))
@pytest.mark.parametrize("shape", ((0, 3), (1, 3), (700, 3)))
def test_sums_of_short_rows_occupy_all_threads(algorithm: Any, shape: tuple[int, int]) -> None:
    """Along rows there is work for three of them."""
    machine = replace(GPU, gpu=Gpu(threads=32, resident=128, subgroup=8))
    schedule = Schedule(form_stages(algorithm.trace()), (), machine).complete()
    made = outline_kernels(lower(schedule.graph, schedule.variants(), machine))
    assert [kernel.extent[0] for kernel in made.kernels] == [32, 32]
    draw = np.random.default_rng(4)
    given = [draw.integers(-4, 4, shape).astype("f4"), draw.integers(-4, 4, 3).astype("f4")][: len(made.inputs)]
    got = interpret_program(made, given, {"h": shape[0], "w": 3}, seed=1)[0]
    np.testing.assert_array_equal(got, algorithm.interpret(*given))
