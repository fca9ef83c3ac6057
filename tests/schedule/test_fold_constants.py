"""Constant folding of literals by the primitives' meanings, before any code generator's."""

import numpy as np
from nests import at, f, hold, loop, n, name, nest, op, parameter, put, scalar_register

from raido.algo.graph.dtypes import f32, f64, i64
from raido.algo.graph.expr import const, fresh
from raido.schedule.nest.fold_constants import fold_constants
from raido.schedule.nest.nodes import Block, If, While
from raido.schedule.nest.printer import print_nest
from raido.schedule.oracles.checker import check_nest


def test_operations_on_literals_are_done_and_their_names_vanish():
    out = parameter("out", f32, n)
    x = fresh("x")
    nothing, bind_nothing = name("nothing", op("div", f(0), f(0)))
    minus, bind_minus = name("minus", op("neg", f(0)))
    value = op("add", op("mul", op("cast", x, dtype=f32), nothing), minus)
    folded = fold_constants(nest([], [out], bind_nothing, loop(x, n, bind_minus, put(out, x, value))))
    assert print_nest(check_nest(folded, "scalar")) == (
        "nest test() -> out: f32[n]\n  for x in 0..n:\n    out[x] = f32(x) * nan + -0.0\n"
    )


def test_a_branch_that_is_decided_is_taken():
    out = parameter("out", f32, n)
    x = fresh("x")
    yes = If(op("lt", const(i64, 1), const(i64, 2)), Block((put(out, x, f(1)),)), Block((put(out, x, f(2)),)))
    no = If(op("lt", const(i64, 2), const(i64, 1)), Block((put(out, x, f(3)),)))
    assert print_nest(fold_constants(nest([], [out], loop(x, n, yes, no)))) == (
        "nest test() -> out: f32[n]\n  for x in 0..n:\n    out[x] = 1.0\n"
    )


def test_names_of_a_while_loop_stay():
    out = parameter("out", i64)
    k, *make = scalar_register("k", const(i64, 0))
    step, bind = name("step", op("add", const(i64, 1), const(i64, 2)))
    iterations = While(Block((bind,)), op("lt", at(k), const(i64, 10)), Block((put(k, op("add", at(k), step)),)))
    folded = check_nest(fold_constants(nest([], [out], *make, iterations, put(out, at(k)))), "scalar")
    assert "step = 3\n" in print_nest(folded)


def test_a_choice_of_literals_is_made_in_the_type_that_it_is_converted_to():
    """`where(p, 1e9, 0)` beside f32: no vectors of f64, and each literal is rounded as the conversion rounds it."""
    a, out = parameter("a", f32, n), parameter("out", f32, n)
    x = fresh("x")
    positive, large = op("gt", at(a, x), f(0)), op("gt", at(a, x), f(1))
    choice = op("select", large, const(f64, 0.1), op("select", positive, const(f64, -0.0), const(f64, 1e300)))
    program = nest([a], [out], loop(x, n, put(out, x, op("cast", choice, dtype=f32)), kind="vector"))
    folded = check_nest(fold_constants(program), "scalar")
    assert print_nest(folded).endswith("out[x] = 0.1 if a[x] > 1.0 else (-0.0 if a[x] > 0.0 else inf)\n")
    hold(program, [np.array([-1, 0.5, 2, np.nan], np.float32)], n=4)


def test_nothing_to_fold_gives_the_same_nest():
    a, out = parameter("a", f32, n), parameter("out", f32, n)
    x = fresh("x")
    program = nest([a], [out], loop(x, n, put(out, x, op("mul", at(a, x), f(0)))))
    assert fold_constants(program) is program
