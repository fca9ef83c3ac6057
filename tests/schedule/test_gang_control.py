"""The vectoriser under divergent control flow: branches, loops and faults in some lanes only."""

import numpy as np
import pytest
from nests import add_up, at, f, hold, loop, n, name, nest, op, parameter, put, scalar_register, scratch, w, zero

from raido.algo.errors import ArithmeticFault, IndexOutOfRange
from raido.algo.graph.dtypes import f32, i32, i64
from raido.algo.graph.expr import const, fresh
from raido.algo.graph.index import add, sub
from raido.schedule.gang.vectorise import form_gangs
from raido.schedule.nest.nodes import Alloc, Block, Check, If, Store, While
from raido.schedule.nest.values import Read
from raido.schedule.oracles.interpret import interpret_nest

rng = np.random.default_rng(11)
LENGTHS = (0, 1, 4, 5, 16, 17, 33, 70)


def mandelbrot(interleave):
    """Iterations until |z| > 2, of at most 30."""
    cr, ci, out = parameter("cr", f32, n), parameter("ci", f32, n), parameter("out", i32, n)
    x = fresh("x")
    (zr, *make_zr), (zi, *make_zi) = scalar_register("zr", f(0)), scalar_register("zi", f(0))
    count, *make_count = scalar_register("count", const(i32, 0))
    r2, bind_r2 = name("r2", op("mul", at(zr), at(zr)))
    i2, bind_i2 = name("i2", op("mul", at(zi), at(zi)))
    new_i, bind_i = name("new_i", op("fma", op("mul", f(2), at(zr)), at(zi), at(ci, x)))
    go = op("logical_and", op("le", op("add", r2, i2), f(4)), op("lt", at(count), const(i32, 30)))
    body = (
        bind_i,
        put(zr, op("add", op("sub", r2, i2), at(cr, x))),
        put(zi, new_i),
        put(count, op("add", at(count), const(i32, 1))),
    )
    orbit = While(Block((bind_r2, bind_i2)), go, Block(body))
    statements = (*make_zr, *make_zi, *make_count, orbit, put(out, x, at(count)))
    return nest([cr, ci], [out], loop(x, n, *statements, kind="vector", interleave=interleave))


@pytest.mark.parametrize("interleave", (1, 2))
def test_masked_mandelbrot(interleave):
    program = mandelbrot(interleave)
    for length in LENGTHS:
        c = [rng.uniform(-2, 1, length).astype(np.float32), rng.uniform(-1.2, 1.2, length).astype(np.float32)]
        hold(program, c, n=length, look=lambda text: text.count("any_lanes") >= 1 or 1 / 0)


def test_the_iterations_of_a_masked_loop_keep_what_finished_lanes_have():
    out = parameter("out", i64, n)
    x, k = fresh("x"), fresh("k")
    acc, *make = scalar_register("acc", const(i64, 0))
    inner = loop(k, add(x, 1), put(acc, op("add", at(acc), k)), low=zero)
    program = nest([], [out], loop(x, n, *make, inner, put(out, x, at(acc)), kind="vector", interleave=2))
    for length in LENGTHS:
        (result,) = hold(program, [], n=length)
        assert list(result) == [x * (x + 1) // 2 for x in range(length)]


@pytest.mark.parametrize("interleave", (1, 3))
def test_nested_divergence(interleave):
    """for k in start[x]..stop[x]: if a[k] > ½ { if k odd … else while … } else …"""
    a, start, stop = parameter("a", f32, w), parameter("start", i64, n), parameter("stop", i64, n)
    out = parameter("out", f32, n)
    x, k = fresh("x"), fresh("k")
    acc, *make = scalar_register("acc", f(0))
    left, make_left, start_left = scalar_register("left", const(i64, 0))
    odd = op("eq", op("bit_and", k, const(i64, 1)), const(i64, 1))
    halve = While(
        Block(()),
        op("gt", at(left), zero),
        Block((put(acc, op("add", at(acc), f(1))), put(left, op("shr", at(left), const(i64, 1))))),
    )
    deep = If(odd, Block((add_up(acc, (), at(a, k)),)), Block((make_left, put(left, k), halve)))
    body = If(op("gt", at(a, k), f(0.5)), Block((deep,)), Block((put(acc, op("sub", at(acc), at(a, sub(k, 0)))),)))
    inner = loop(k, at(stop, x), body, low=at(start, x))
    program = nest(
        [a, start, stop],
        [out],
        loop(x, n, *make, inner, put(out, x, at(acc)), kind="vector", interleave=interleave),
        sizes=(n, w),
    )
    _ = start_left
    for length in LENGTHS:
        begin = rng.integers(0, 15, length)
        hold(program, [rng.random(40, np.float32), begin, begin + rng.integers(-3, 20, length)], n=length, w=40)


def test_early_exit_finds_the_first():
    a, out = parameter("a", i32, n, w), parameter("out", i64, n)
    x = fresh("x")
    k, *make = scalar_register("k", zero)
    inside = op("lt", at(k), w)
    seen = op("ne", Read(a, (x, at(k)), inside), const(i32, 7))
    search = While(Block(()), op("logical_and", inside, seen), Block((put(k, op("add", at(k), const(i64, 1))),)))
    program = nest([a], [out], loop(x, n, *make, search, put(out, x, at(k)), kind="vector"), sizes=(n, w))
    for length in LENGTHS:
        hold(program, [rng.integers(0, 12, (length, 9)).astype(np.int32)], n=length, w=9)


def test_lanes_that_are_off_read_nothing_out_of_bounds():
    """if index[x] >= 0: out[x] = a[index[x]] + a[x + index[x]] else 0."""
    a, index, out = parameter("a", f32, w), parameter("index", i64, n), parameter("out", f32, n)
    x = fresh("x")
    i, bind = name("i", at(index, x))
    total = op("add", at(a, i), at(a, op("add", x, i)))
    branch = If(op("ge", i, zero), Block((Store(out, (x,), total),)), Block((put(out, x, f(0)),)))
    program = nest([a, index], [out], loop(x, n, bind, branch, kind="vector", interleave=2), sizes=(n, w))
    for length in LENGTHS:
        choice = np.where(rng.random(length) < 0.5, -(10**9), rng.integers(0, 5, length))
        hold(program, [rng.random(length + 5, np.float32), choice], n=length, w=length + 5)


def test_memory_of_one_branch():
    out = parameter("out", f32, n)
    x = fresh("x")
    table, k = scratch("table", f32, 3, scope="stack"), fresh("k")
    low = op("lt", op("floormod", x, const(i64, 3), dtype=i64), const(i64, 2))
    fill = loop(k, const(i64, 3), put(table, k, op("cast", op("mul", k, x), dtype=f32)))
    branch = If(low, Block((Alloc(table), fill, put(out, x, at(table, 2)))), Block((put(out, x, f(5)),)))
    hold(nest([], [out], loop(x, n, branch, kind="vector", interleave=2)), [], n=29)


def checked(interleave=1, predicate=True):
    a, index, out = parameter("a", f32, w), parameter("index", i64, n), parameter("out", f32, n)
    x = fresh("x")
    i, bind = name("i", at(index, x))
    inside, holds = name("inside", op("logical_and", op("ge", i, zero), op("lt", i, w)))
    check = Check(inside, "index", 0, (zero, i, w), op("lt", x, sub(n, 2)) if predicate else None)
    store = put(out, x, Read(a, (i,), inside))
    vector = loop(x, n, bind, holds, check, store, kind="vector", interleave=interleave)
    return nest([a, index], [out], vector, sizes=(n, w), sites=(None,))


@pytest.mark.parametrize("interleave", (1, 2))
def test_the_first_failing_lane_is_recorded(interleave):
    program = checked(interleave)
    index = np.arange(21) % 5
    hold(program, [rng.random(5, np.float32), index], n=21, w=5)
    index[20] = 77  # behind the predicate
    hold(program, [rng.random(5, np.float32), index], n=21, w=5)
    index[13], index[14] = 50, 60
    for form in (program, form_gangs(program, 128), form_gangs(program, 512)):
        with pytest.raises(IndexOutOfRange, match="index 50 is out of range for dimension 0 of size 5"):
            interpret_nest(form, [rng.random(5, np.float32), index], {"n": 21, "w": 5})


def test_a_check_in_a_branch_not_taken_never_fails():
    a, out = parameter("a", i32, n), parameter("out", i32, n)
    x = fresh("x")
    nonzero = op("ne", at(a, x), const(i32, 0))
    divide = op("floordiv", const(i32, 100), at(a, x))
    guarded = If(
        nonzero, Block((Check(nonzero, "division", 0, ()), put(out, x, divide))), Block((put(out, x, at(a, x)),))
    )
    bare = (Check(nonzero, "division", 0, ()), put(out, x, divide))
    safe = nest([a], [out], loop(x, n, guarded, kind="vector"), sites=(None,))
    unsafe = nest([a], [out], loop(x, n, *bare, kind="vector"), sites=(None,))
    values = np.array([3, 0, 5, 0, 7, 1], np.int32)
    hold(safe, [values], n=6)
    for form in (unsafe, form_gangs(unsafe, 256)):
        with pytest.raises(ArithmeticFault):
            interpret_nest(form, [values], {"n": 6})


@pytest.mark.parametrize("interleave", (1, 2))
def test_an_index_is_what_it_was_when_it_was_named(interleave):
    """i = x + k; k = k + 1; out[x] = a[i], with k a register; and bounds of loops likewise."""
    a, out = parameter("a", i64, w), parameter("out", i64, n)
    x, turn, j = fresh("x"), fresh("turn"), fresh("j")
    (k, *make_k), (acc, *make_acc) = scalar_register("k", zero), scalar_register("acc", zero)
    i, bind = name("i", op("add", x, at(k)))
    bump = put(k, op("add", at(k), const(i64, 1)))
    inner = loop(j, op("add", x, const(i64, 4)), bump, add_up(acc, (), at(a, j)), low=op("add", x, at(k)))
    rest = loop(fresh("j"), at(a, x), add_up(acc, (), at(k)), low=at(k))
    again = loop(turn, const(i64, 3), bind, bump, add_up(acc, (), op("mul", turn, at(a, i))))
    body = (*make_k, *make_acc, again, put(k, const(i64, 1)), inner, put(k, const(i64, 2)), rest, put(out, x, at(acc)))
    program = nest([a], [out], loop(x, n, *body, kind="vector", interleave=interleave), sizes=(n, w))
    for length in LENGTHS:
        hold(program, [rng.integers(0, 9, length + 6)], n=length, w=length + 6)
