"""Placements and shared loops that once changed a result; each test checks one rule."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import raido as rd
from raido.algo.interpreter.interpret import interpret
from raido.schedule.gang.vectorise import form_gangs
from raido.schedule.lower import lower
from raido.schedule.nest.nodes import Nest
from raido.schedule.oracles.checker import check_nest
from raido.schedule.oracles.interpret import interpret_nest
from raido.schedule.schedule import Schedule
from raido.schedule.stages.form_stages import form_stages
from raido.targets.target import Target

F32 = np.float32
CPU = Target.parse("llvm:x86-64-v3")


def hold(algorithm: Any, arguments: Sequence[Any], say: Callable[[Schedule], Any]) -> Nest:
    """The completed schedule gives the graph interpreter's bits, on both nests; returns the scalar nest."""
    program = algorithm.trace(*arguments)
    inputs = algorithm.flatten(arguments)
    schedule = Schedule(form_stages(program))
    say(schedule)
    complete = schedule.complete(CPU.machine)
    nest = check_nest(lower(complete.graph, complete.variants()), "scalar")
    wanted = interpret(program, *inputs)
    for each in (nest, check_nest(form_gangs(nest, CPU.machine.vector_bits), "gang")):
        for got, want in zip(interpret_nest(each, *inputs, seed=1), wanted, strict=True):
            np.testing.assert_array_equal(np.asarray(got), np.asarray(want))
    return nest


def ramp(*shape: int, dtype: Any = F32) -> np.ndarray:
    """Small whole numbers, so that sums of them are exact."""
    return (np.arange(int(np.prod(shape))) % 11).reshape(shape).astype(dtype)


def test_a_copy_of_a_scalar_and_a_copy_of_the_copy_are_two_stages() -> None:
    @rd.algorithm
    def scaled(a: rd.f32["n"], s: rd.f32):
        return rd.elementwise(lambda x: x * s, a).named("out")

    def say(s: Schedule) -> None:
        s["out"].cache("s", "out", "x")
        s["s_copy"].cache("s", "s_copy", None)

    hold(scaled, [ramp(9), F32(3)], say)


def test_a_clone_of_a_scalar_stage_is_not_the_stage() -> None:
    @rd.algorithm
    def twice(s: rd.f32, a: rd.f32["n"]):
        t = rd.exp(rd.array([s]))[0]
        root = rd.tabulate((), lambda: t + 1).named("root")
        left = rd.elementwise(lambda x: x * root, a).named("left")
        right = rd.elementwise(lambda x: x + root, a).named("right")
        return left, right

    def say(s: Schedule) -> None:
        s["root"].clone("right", name="copy")
        s["root"].compute_at("left", "x")
        s["copy"].root()

    hold(twice, [F32(0), ramp(9)], say)


@rd.algorithm
def fanned(a: rd.f32["h", "w"]):
    double = rd.elementwise(lambda x: x * 2, a).named("double")
    triple = rd.elementwise(lambda x: x * 3, a).named("triple")
    rows = rd.stencil(lambda p: p[-1, 0] + p[2, 1], triple, boundary="clamp").named("rows")
    out = rd.elementwise(lambda x, y: x + y, double, rows).named("out")
    return out


def test_guests_of_a_placed_stage_are_computed_as_far_as_they_are_read() -> None:
    def say(s: Schedule) -> None:
        s["rows"].inline()
        s["out"].split("y", 4)
        s["triple"].compute_with("double", "x")
        s["double"].compute_at("out", "yo")

    for shape in ((9, 5), (1, 1), (4, 17), (0, 3)):
        hold(fanned, [ramp(*shape)], say)


def test_guests_of_a_stage_that_slides_slide_with_it() -> None:
    def say(s: Schedule) -> None:
        s["rows"].inline()
        s["triple"].compute_with("double", "y")
        s["double"].compute_at("out", "y").store_at("out")

    for shape in ((9, 5), (1, 1), (4, 17), (0, 3)):
        hold(fanned, [ramp(*shape)], say)


def test_what_a_guest_reads_is_computed_in_the_loops_that_it_shares() -> None:
    def say(s: Schedule) -> None:
        s["rows"].compute_with("double", "y")
        s["triple"].compute_at("double", "y")

    for shape in ((9, 5), (1, 1), (4, 17), (0, 3)):
        hold(fanned, [ramp(*shape)], say)


def affine_fold(a: Any, axis: int) -> Any:
    """A fold whose operator (composition of affine functions) is not commutative."""
    return rd.reduce(lambda p, q: (p[0] * q[0], p[1] * q[0] + q[1]), (1, 0), a, a, axis=axis)[1]


def test_an_ordered_fold_in_shared_loops_keeps_its_order() -> None:
    @rd.algorithm
    def folds(a: rd.u32[3, "m"]):
        double = rd.elementwise(lambda x: x * 2, a).named("double")
        return double, affine_fold(a, 1).named("rows")

    def say(s: Schedule) -> None:
        s["double"].parallel("y").split("x", 4).unroll("xi")
        s["rows"].compute_with("double", "xi")

    for width in (0, 1, 9):
        hold(folds, [ramp(3, width, dtype=np.uint32)], say)


def test_rounds_of_an_unrolled_shared_loop_are_not_jammed_when_a_guest_folds_in_order() -> None:
    @rd.algorithm
    def folds(a: rd.u32[12]):
        double = rd.elementwise(lambda x: x * 2, a).named("double")
        return double, affine_fold(a, 0).named("all")

    def say(s: Schedule) -> None:
        s["double"].split("x", 4).unroll("xo")
        s["all"].compute_with("double", "xo")

    hold(folds, [ramp(12, dtype=np.uint32) + 1], say)


def test_a_window_starts_anew_in_the_unrolled_rounds_of_any_stage_around_it() -> None:
    @rd.algorithm
    def chain(a: rd.f32[3, "w"]):
        low = rd.elementwise(lambda x: x * 2, a).named("low")
        mid = rd.stencil(lambda p: p[0, 0] + p[0, 1], low, boundary="clamp").named("mid")
        return rd.stencil(lambda p: p[0, 0] + p[0, 2], mid, boundary="clamp").named("out")

    def say(s: Schedule) -> None:
        s["out"].unroll("y")
        s["mid"].compute_at("out", "y").reorder("x", "y")
        s["low"].compute_at("mid", "x").store_at("out")

    for width in (1, 9):
        hold(chain, [ramp(3, width)], say)


def test_rounds_of_a_fused_shared_loop_that_are_left_out_add_nothing_to_a_parallel_fold() -> None:
    @rd.algorithm
    def summed(a: rd.f32["n"]):
        double = rd.elementwise(lambda x: x * 2, a).named("double")
        return double, rd.sum(a).named("sum")

    def say(s: Schedule) -> None:
        s["double"].split("x", 4).reorder("xi", "xo").fuse("xi", "xo").parallel("xixo")
        s["sum"].compute_with("double", "xixo")

    for n in (0, 1, 7, 8):
        hold(summed, [ramp(n)], say)


def test_a_window_is_left_alone_where_a_border_needs_more_than_it_holds() -> None:
    @rd.algorithm
    def mirrored(a: rd.f32["h", "w"]):
        low = rd.elementwise(lambda x: x * 2, a).named("low")
        return rd.stencil(lambda p: p[1, 0] + p[2, 0], low, boundary="mirror").named("out")

    def say(s: Schedule) -> None:
        s["out"].reorder("x", "y").partition_boundaries()
        s["low"].compute_at("out", "y").store_at("out", "x")

    for shape in ((1, 1), (2, 3), (9, 2)):
        hold(mirrored, [ramp(*shape)], say)


def test_a_guest_keeps_the_loops_that_its_host_fused_with_others() -> None:
    @rd.algorithm
    def pair(a: rd.f32["h", "w"]):
        return rd.elementwise(lambda x: x * 2, a).named("double"), rd.elementwise(lambda x: x * 3, a).named("triple")

    def say(s: Schedule) -> None:
        s["double"].split("y", 3).fuse("yi", "x")
        s["triple"].compute_with("double", "yo")

    hold(pair, [ramp(7, 5)], say)


def test_nothing_of_an_array_without_elements_is_computed_in_a_loop() -> None:
    @rd.algorithm
    def shifted(a: rd.f32["h", "w"]):
        low = rd.elementwise(lambda x: x * 2, a).named("low")
        return rd.stencil(lambda p: p[0, 1] + p[0, 2], low, boundary="clamp").named("out")

    for shape in ((5, 0), (5, 1), (5, 4)):
        hold(shifted, [ramp(*shape)], lambda s: s["low"].compute_at("out", "y"))


def test_a_fold_over_an_unrolled_shared_loop_keeps_to_the_copy_it_began_in() -> None:
    @rd.algorithm
    def sums(b: rd.f64[3, "m", 4]):
        return rd.sum(rd.rint(b), axis=2, name="sums"), (b + 1.5).named("host")

    def say(s: Schedule) -> None:
        s["sums"].compute_with("host", "x")
        s["host"].vectorize("y").unroll("z").unroll("x")

    hold(sums, [ramp(3, 17, 4, dtype=np.float64)], say)


def test_a_guest_over_the_fold_of_a_placed_stage_is_computed_along_all_of_it() -> None:
    @rd.algorithm
    def centred(a: rd.u32["h", "w"]):
        sums = rd.sum(a, axis=1, dtype=rd.u32, name="sums")
        double = rd.elementwise(lambda x: x * 2, a).named("double")
        return rd.map(lambda row, s: row + s, double, sums).named("out")

    def say(s: Schedule) -> None:
        s["out"].split("x", 2)
        s["sums"].compute_at("out", "xo")
        s["double"].compute_with("sums", "r")

    for shape in ((3, 5), (1, 1), (4, 17), (0, 3), (3, 0)):
        hold(centred, [ramp(*shape, dtype=np.uint32)], say)


def test_what_the_steps_of_an_update_read_is_computed_at_their_loop_but_not_what_its_operator_reads() -> None:
    @rd.algorithm
    def weights(keys: rd.i64["n"], values: rd.i64["n"], limits: rd.i64["k"]):
        where = rd.map(lambda x: x % 5, keys, name="where")
        twice = rd.map(lambda x: x * 2, values, name="twice")
        limit = rd.sum(limits, name="limit")
        most = lambda p, q: rd.minimum(rd.maximum(p, q), limit)
        return rd.reduce_by_index(rd.zeros(5, rd.i64), most, 0, where, twice, name="bins")

    def say(s: Schedule) -> None:
        s["where"].compute_at("bins", "r")
        s["twice"].compute_at("bins", "r")
        with pytest.raises(rd.ScheduleError, match="the operator of"):
            s["limit"].compute_at("bins", "r")

    hold(weights, [ramp(37, dtype=np.int64), ramp(37, dtype=np.int64), ramp(9, dtype=np.int64)], say)
