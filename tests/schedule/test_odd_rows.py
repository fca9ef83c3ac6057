"""Copies of rows whose length is not a multiple of one access: neighbouring threads take neighbouring elements."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from programs import PROGRAMS
from test_copies_ahead import AHEAD, factors, kernels_of

import raido as rd
from raido.algo.passes.specialise import specialise
from raido.schedule.lower import lower
from raido.schedule.machine import Machine
from raido.schedule.nest.nodes import For, Nest
from raido.schedule.nest.printer import print_nest
from raido.schedule.nest.walk import statements_within
from raido.schedule.oracles.checker import check_nest
from raido.schedule.oracles.interpret import interpret_nest, sizes_of
from raido.schedule.oracles.interpret_kernels import interpret_program
from raido.schedule.schedule import Schedule
from raido.schedule.stages.form_stages import form_stages

MACHINE = Machine(gpu=AHEAD)


def matmul(sizes: Mapping[str, int] | None = None) -> Nest:
    """A product under its default schedule, whose threads copy four neighbours at a time."""
    program = PROGRAMS["matmul"]()
    program = specialise(program, sizes) if sizes else program
    schedule = Schedule(form_stages(program), (), MACHINE).complete()
    return check_nest(lower(schedule.graph, schedule.variants(), MACHINE), "scalar")


def loops(nest: Nest) -> list[For]:
    return [s for s in statements_within(nest.body) if isinstance(s, For)]


@pytest.mark.parametrize("sizes", [(5, 7, 9), (8, 8, 8), (8, 7, 16)])
def test_products_of_odd_and_even_rows_are_right(sizes: tuple[int, int, int]) -> None:
    arrays, nest = factors(*sizes), matmul()
    (want,) = interpret_nest(nest, arrays)
    np.testing.assert_allclose(want, arrays[0] @ arrays[1], rtol=1e-5)
    for seed in range(2):
        (got,) = interpret_program(kernels_of(nest), arrays, sizes_of(nest, arrays, {}), seed=seed)
        np.testing.assert_array_equal(got, want)


def test_a_launch_asks_for_the_length_of_rows() -> None:
    text = print_nest(matmul())
    assert "if w%4 == 0:" in text and "for element in" in text


def test_rows_of_known_lengths_are_not_asked() -> None:
    by_element = lambda nest: sum(loop.var.name == "element" for loop in loops(nest))
    by_vector = lambda nest: sum(loop.kind == "vector" for loop in loops(nest))
    odd, even = (matmul({"n": 64, "k": k, "w": w}) for k, w in ((33, 65), (32, 64)))
    assert by_element(odd) and not by_vector(odd) and "%4 == 0" not in print_nest(odd)
    assert by_vector(even) and not by_element(even) and "%4 == 0" not in print_nest(even)


def test_neighbours_are_read_by_neighbours() -> None:
    """A loop over elements begins at its thread's number, and goes on by the threads of a block."""
    found = [loop for loop in loops(matmul({"n": 64, "k": 33, "w": 65})) if loop.var.name == "element"]
    assert found and all(loop.step == AHEAD.threads for loop in found)


def test_copies_that_threads_deal_out_otherwise_stay() -> None:
    @rd.algorithm
    def product(a: rd.f32["n", "k"], b: rd.f32["k", "m"]) -> Any:
        return rd.matmul(a, b, name="c")

    s = Schedule(form_stages(product.trace()), (), MACHINE)
    c = s["c"].split("y", 4).split("x", 4).split("r", 8).reorder("yo", "xo", "ro", "yi", "xi", "ri")
    c.bind("yo", "block.y").bind("xo", "block.x").bind("yi", "thread.y").bind("xi", "thread.x")
    c.cache("a", "c", "ro", scope="shared")
    s["a_copy"].split("r", 4).bind("y", "thread.y").bind("ro", "thread.x").vectorize("ri")
    complete = s.complete()
    nest = check_nest(lower(complete.graph, complete.variants(), MACHINE), "scalar")
    assert not [loop for loop in loops(nest) if loop.var.name == "element" and loop.step == 4]
    arrays = factors(5, 7, 9)
    np.testing.assert_allclose(interpret_nest(nest, arrays)[0], arrays[0] @ arrays[1], rtol=1e-5)
