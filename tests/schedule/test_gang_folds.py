"""Reductions over a vectorised axis: partial results per lane and gang, and their storage."""

import numpy as np
import pytest
from nests import add_up, at, f, hold, loop, n, nest, op, parameter, put, scalar_register, scratch, w, zero

from raido.algo.graph.dtypes import f32, i32, i64
from raido.algo.graph.expr import const, fresh
from raido.algo.graph.index import add, minimum
from raido.schedule.gang.vectorise import form_gangs
from raido.schedule.nest.nodes import Alloc, Block, Fold, If, Store
from raido.schedule.nest.printer import print_nest

rng = np.random.default_rng(13)
LENGTHS = (0, 1, 3, 16, 17, 31, 64, 131)


@pytest.mark.parametrize("tail", ("mask", "shift", "scalar"))
@pytest.mark.parametrize("interleave", (1, 2, 3, 4))
def test_sums(tail, interleave):
    a, out = parameter("a", i32, n), parameter("out", i32)
    x = fresh("x")
    acc, *make = scalar_register("acc", const(i32, 5))
    fold = loop(x, n, add_up(acc, (), at(a, x)), kind="vector", interleave=interleave, tail=tail)
    program = nest([a], [out], *make, fold, put(out, at(acc)))
    for length in LENGTHS:
        hold(program, [rng.integers(-9, 9, length).astype(np.int32)], n=length)


def test_float_sums_are_close_and_partials_cross_outer_loops():
    a, out = parameter("a", f32, n), parameter("out", f32)
    xo, x = fresh("xo"), fresh("x")
    acc, *make = scalar_register("acc", f(0))
    inner = loop(x, minimum(add(xo, 40), n), add_up(acc, (), at(a, x)), low=xo, kind="vector", interleave=2)
    program = nest([a], [out], *make, loop(xo, n, inner, step=40), put(out, at(acc)))
    for length in LENGTHS:
        hold(program, [rng.random(length, np.float32)], n=length, close=True)
    text = print_nest(form_gangs(program, 256))
    assert text.index("acc_lanes0: f32x8") < text.index("for xo") < text.index("sum_lanes")


def test_partials_of_a_fold_in_a_branch_are_made_and_combined_where_it_is_taken():
    """Lanes of a segment without values, or of a piece of one, would be combined for nothing."""
    a, out = parameter("a", i32, n), parameter("out", i32)
    x = fresh("x")
    acc, *make = scalar_register("acc", const(i32, 5))
    fold = loop(x, n, add_up(acc, (), at(a, x)), kind="vector")
    program = nest([a], [out], *make, If(op("lt", const(i64, 20), n), Block((fold,))), put(out, at(acc)))
    for length in LENGTHS:
        hold(program, [rng.integers(-9, 9, length).astype(np.int32)], n=length)
    text = print_nest(form_gangs(program, 256))
    assert text.index("if 20 < n") < text.index("acc_lanes0: i32x8") < text.index("sum_lanes") < text.index("out = ")


def test_a_branch_that_reads_the_accumulator_keeps_partials_inside():
    a, out = parameter("a", i32, n, w), parameter("out", i32, n)
    y, x = fresh("y"), fresh("x")
    acc, *make = scalar_register("acc", const(i32, 0))
    inner = loop(x, w, add_up(acc, (), at(a, y, x)), kind="vector")
    program = nest([a], [out], *make, loop(y, n, inner, put(out, y, at(acc))), sizes=(n, w))
    hold(program, [rng.integers(-9, 9, (5, 21)).astype(np.int32)], n=5, w=21)


def test_results_folded_in_memory():
    a, out = parameter("a", i32, n, w), parameter("out", i32, n)
    y, x = fresh("y"), fresh("x")
    program = nest(
        [a],
        [out],
        loop(y, n, put(out, y, const(i32, 0)), loop(x, w, add_up(out, (y,), at(a, y, x)), kind="vector", interleave=2)),
        sizes=(n, w),
    )
    hold(program, [rng.integers(-9, 9, (5, 41)).astype(np.int32)], n=5, w=41)


def test_several_accumulators_in_registers():
    a, out = parameter("a", i32, n, w), parameter("out", i32, n)
    y, x, k, k2, k3 = fresh("y"), fresh("x"), fresh("k"), fresh("k"), fresh("k")
    acc, three = scratch("acc", i32, 3), const(i64, 3)
    program = nest(
        [a],
        [out],
        loop(
            y,
            n,
            Alloc(acc),
            loop(k, three, put(acc, k, const(i32, 0)), kind="unroll"),
            loop(x, w, loop(k2, three, add_up(acc, (k2,), at(a, add(y, k2), x)), kind="unroll"), kind="vector"),
            loop(k3, three, put(out, add(y, k3), at(acc, k3)), kind="unroll"),
            step=3,
        ),
        sizes=(n, w),
    )
    hold(program, [rng.integers(-9, 9, (6, 37)).astype(np.int32)], n=6, w=37)


@pytest.mark.parametrize("interleave", (1, 2))
def test_argmin_is_a_pair_whose_ties_go_to_the_first(interleave):
    a, out, where = parameter("a", i32, n), parameter("out", i32), parameter("where", i64)
    x = fresh("x")
    best, place = scratch("best", i32), scratch("place", i64)
    left = fresh("left", i32), fresh("left", i64)
    right = fresh("right", i32), fresh("right", i64)

    def smaller(a, b):
        tie = op("logical_and", op("eq", a[0], b[0]), op("le", a[1], b[1]))
        take = op("logical_or", op("lt", a[0], b[0]), tie)
        return op("select", take, a[0], b[0]), op("select", take, a[1], b[1])

    start = const(i32, 1000), const(i64, 1 << 40)
    fold = Fold((best, place), (), smaller(left, (at(a, x), x)), left, right, smaller(left, right), start)
    program = nest(
        [a],
        [out, where],
        Alloc(best),
        Alloc(place),
        Store(best, (), start[0]),
        Store(place, (), start[1]),
        loop(x, n, fold, kind="vector", interleave=interleave),
        put(out, at(best)),
        put(where, at(place)),
    )
    for length in (1, 2, 16, 17, 70):
        values = rng.integers(0, 5, length).astype(np.int32)
        result = hold(program, [values], n=length)
        assert result[1] == np.argmin(values)


@pytest.mark.parametrize("own", (False, True))
@pytest.mark.parametrize("neutral", ((), (const(i32, 0),)))
def test_a_scan_names_what_is_held_before_and_after(neutral, own):
    """Lanes along the scanned axis are scanned; lanes across it (`own`) have running values of their own."""
    a, before, after = (parameter(name, i32, n, w) for name in ("a", "before", "after"))
    y, x, running = fresh("y"), fresh("x"), scratch("running", i32)
    held, new, left, right = (fresh(name, i32) for name in ("held", "new", "left", "right"))
    both = (op("add", left, right),)
    scan = Fold((running,), (), both, (left,), (right,), both, neutral, "", (at(a, y, x),), (held,), (new,))
    outer, inner = ({"kind": "vector"}, {}) if own else ({}, {"kind": "vector", "interleave": 2})
    steps = loop(x, w, scan, put(before, y, x, held), put(after, y, x, new), **inner)
    rows = loop(y, n, Alloc(running), put(running, const(i32, 7)), steps, **outer)
    program = nest([a], [before, after], rows, sizes=(n, w))
    values = rng.integers(-9, 9, (5, 41)).astype(np.int32)
    results = hold(program, [values], n=5, w=41)
    assert (results[1] == 7 + np.cumsum(values, 1)).all() and (results[0] == results[1] - values).all()
    assert "held, new = running, then scan running = running + a[y, x]" in print_nest(program)


def test_places_that_only_the_data_knows_are_folded_lane_by_lane():
    index, out = parameter("index", i64, n), parameter("out", i32, w)
    x, k = fresh("x"), fresh("k")
    fold = add_up(out, (at(index, x),), op("cast", x, dtype=i32))
    program = nest(
        [index], [out], loop(k, w, put(out, k, const(i32, 0))), loop(x, n, fold, kind="vector"), sizes=(n, w)
    )
    hold(program, [rng.integers(0, 3, 23)], n=23, w=3)
    _ = zero


def test_folds_over_a_serial_axis_inside_a_vectorised_one():
    a, out = parameter("a", f32, w, n), parameter("out", f32, n)
    x, r, x2 = fresh("x"), fresh("r"), fresh("x")
    start = loop(x2, n, put(out, x2, f(0)), kind="vector")
    rows = loop(r, w, loop(x, n, add_up(out, (x,), at(a, r, x)), kind="vector", tail="mask"))
    hold(nest([a], [out], start, rows, sizes=(n, w)), [rng.random((4, 27), np.float32)], n=27, w=4)


def test_two_reductions_in_one_loop():
    a, least, most = parameter("a", i32, n), parameter("least", i32), parameter("most", i32)
    x = fresh("x")
    (low, *make_low), (high, *make_high) = (
        scalar_register("low", const(i32, 99)),
        scalar_register("high", const(i32, 0)),
    )
    body = (add_up(low, (), at(a, x)), add_up(high, (), op("mul", at(a, x), at(a, x))))
    vector = loop(x, n, *body, kind="vector", interleave=4)
    program = nest([a], [least, most], *make_low, *make_high, vector, put(least, at(low)), put(most, at(high)))
    for length in LENGTHS:
        hold(program, [rng.integers(-9, 9, length).astype(np.int32)], n=length)


def test_sums_under_a_mask_are_in_registers_while_a_loop_inside_adds_to_them():
    a, out = parameter("a", i32, n, w), parameter("out", i32, w)
    x, r = fresh("x"), fresh("r")
    start = fresh("x")
    inner = loop(x, w, loop(r, n, add_up(out, (x,), at(a, r, x))), kind="vector", interleave=2)
    program = nest([a], [out], loop(start, w, put(out, start, const(i32, 1))), inner, sizes=(n, w))

    def look(text):
        for sums, on in (("out_0", "on_0"), ("out_2", "on")):  # of a group, and of a gang alone
            loaded = text.index(f"{sums} = out[x_rest +: 8] where {on}\n")
            stored = text.index(f"out[x_rest +: 8] = {sums} where {on}\n")
            assert loaded < text.index(f"{sums} = {sums} + ", loaded) < stored

    for rows, width in ((5, 21), (0, 3), (3, 16), (2, 0)):
        hold(program, [rng.integers(-9, 9, (rows, width)).astype(np.int32)], bits=(256,), n=rows, w=width, look=look)


def test_sums_that_something_else_in_the_loop_reads_stay_in_memory():
    a, out, last = parameter("a", i32, n, w), parameter("out", i32, w), parameter("last", i32, w)
    x, r, start = fresh("x"), fresh("r"), fresh("x")
    body = (add_up(out, (x,), at(a, r, x)), put(last, x, at(out, x)))
    inner = loop(x, w, loop(r, n, *body), kind="vector")
    clear = loop(start, w, put(out, start, const(i32, 1)), put(last, start, const(i32, 0)))
    program = nest([a], [out, last], clear, inner, sizes=(n, w))
    hold(
        program,
        [rng.integers(-9, 9, (4, 21)).astype(np.int32)],
        bits=(256,),
        n=4,
        w=21,
        look=lambda text: "out[x_rest +: 8] = (out[x_rest +: 8] where on)" in text or 1 / 0,
    )
