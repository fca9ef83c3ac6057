"""Kernels and host plans: a program cut into them gives its nest's results, and they satisfy their own declarations."""

from __future__ import annotations

import numpy as np
import pytest
from nests import add_up, at, f, loop, n, nest, op, parameter, put, scalar_register, scratch, w

from raido.algo.errors import IndexOutOfRange
from raido.algo.graph.dtypes import f32, i64
from raido.algo.graph.expr import const, fresh
from raido.algo.graph.index import add
from raido.schedule.kernels.host_plan import Allocate, Launch, ReadBack
from raido.schedule.kernels.limits import Limits
from raido.schedule.kernels.outlining import outline_kernels
from raido.schedule.nest.nodes import Alloc, Check
from raido.schedule.oracles.interpret import interpret_nest
from raido.schedule.oracles.interpret_kernels import interpret_program
from raido.schedule.oracles.memory import NestError


def gives_the_same(program, arrays=(), limits=None, **sizes):
    """Cuts a nest, holds its kernels against the nest, and returns them."""
    made = outline_kernels(program, limits or Limits(threads=4))
    want = interpret_nest(program, list(arrays), sizes)
    known = {name: sizes[name] for name in made.sizes}
    for seed in (None, 1):
        for got, expected in zip(interpret_program(made, list(arrays), known, seed=seed), want, strict=True):
            np.testing.assert_array_equal(got, expected)
    return made


def test_a_launch_has_a_thread_for_each_iteration():
    out, x = parameter("out", f32, n), fresh("x")
    made = gives_the_same(nest([], [out], loop(x, n, put(out, x, f(2)), kind="parallel")), n=9)
    (launch,) = made.plan[1:]
    assert isinstance(launch, Launch) and made.kernels[0].extent == (4, 1, 1)


def test_grids_beyond_the_limit_are_folded():
    out, x = parameter("out", f32, n), fresh("x")
    program = nest([], [out], loop(x, n, put(out, x, f(2)), kind="parallel"))
    gives_the_same(program, limits=Limits(threads=2, blocks=(3, 2, 9)), n=17)


def test_serial_statements_that_need_nothing_between_are_one_kernel():
    a, out, x, y = parameter("a", f32, n), parameter("out", f32, n), fresh("x"), fresh("y")
    total, *start = scalar_register("total", f(0))
    last = put(out, const(i64, 0), at(total))
    program = nest(
        [a],
        [out],
        *start,
        loop(x, n, put(out, x, at(a, x)), kind="parallel"),
        loop(y, n, add_up(total, (), at(a, y))),
        last,
    )
    made = gives_the_same(program, [np.arange(5, dtype=np.float32)], n=5)
    assert len(made.kernels) == 2 and not any(isinstance(s, Allocate) for s in made.plan)


def test_launches_of_kernels_that_are_alike_share_one():
    a, out, x, y = parameter("a", f32, n), parameter("out", f32, n), fresh("x"), fresh("y")
    between = scratch("between", f32, n, scope="heap")
    first = loop(x, n, put(between, x, op("add", at(a, x), f(1))), kind="parallel")
    second = loop(y, n, put(out, y, op("add", at(between, y), f(1))), kind="parallel")
    made = gives_the_same(nest([a], [out], Alloc(between), first, second), [np.arange(5, dtype=np.float32)], n=5)
    assert len(made.kernels) == 1 and sum(isinstance(s, Launch) for s in made.plan) == 2


def test_iterations_have_memory_of_their_own():
    out, x, y = parameter("out", f32, n, w), fresh("x"), fresh("y")
    row = scratch("row", f32, w, scope="heap")
    inner = loop(y, w, put(row, y, op("cast", add(x, y), dtype=f32)))
    z = fresh("z")
    program = nest(
        [], [out], loop(x, n, Alloc(row), inner, loop(z, w, put(out, x, z, at(row, z))), kind="parallel"), sizes=(n, w)
    )
    made = gives_the_same(program, limits=Limits(threads=2, resident=3), n=11, w=4)
    assert sum(isinstance(s, Allocate) for s in made.plan) == 1


def test_a_size_that_memory_holds_is_read_back():
    a, out, x, y = parameter("a", i64), parameter("out", f32, n), fresh("x"), fresh("y")
    first = loop(x, n, put(out, x, f(1)), kind="parallel")
    program = nest([a], [out], first, loop(y, at(a), put(out, y, f(2)), kind="parallel"))
    made = gives_the_same(program, [np.array(3)], n=5)
    assert sum(isinstance(s, ReadBack) for s in made.plan) == 1


def test_nothing_is_used_that_was_read_back_after_a_fault():
    """The kernel that would have written the size does nothing, and the plan goes no further."""
    out, x, y, z = parameter("out", f32, n), fresh("x"), fresh("y"), fresh("z")
    size = scratch("size", i64, scope="heap")
    checked = loop(x, n, Check(op("lt", x, const(i64, 2)), "index", 0, (const(i64, 0), x, n)), kind="parallel")
    written = loop(y, const(i64, 1), put(size, n), kind="parallel")
    last = loop(z, at(size), put(out, z, f(1)), kind="parallel")
    program = outline_kernels(nest([], [out], Alloc(size), checked, written, last, sites=(None,)))
    with pytest.raises(IndexOutOfRange):
        interpret_program(program, [], {"n": 5})
    (result,) = interpret_program(program, [], {"n": 2})
    assert list(result) == [1, 1]


def test_an_array_too_small_for_its_kernel_is_found():
    out, x = parameter("out", f32, n), fresh("x")
    made = outline_kernels(nest([], [out], loop(x, add(n, 1), put(out, x, f(2)), kind="parallel")))
    with pytest.raises(NestError, match="out of bounds"):
        interpret_program(made, [], {"n": 4})
