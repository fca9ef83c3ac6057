"""Columns read side by side are transposed from rows: the same values, no gather where there are as many columns as lanes."""

from __future__ import annotations

import numpy as np
import pytest
from nests import at, f, hold, loop, n, name, nest, op, parameter, put, scalar_register, w

import raido as rd
from raido.algo.graph.dtypes import f32, f64, i64, u8
from raido.algo.graph.expr import SizeVar, const, fresh
from raido.algo.graph.index import add, mul
from raido.schedule.gang.transposes import shuffle_levels
from raido.schedule.nest.nodes import Store

rng = np.random.default_rng(7)
m = SizeVar("m")


@pytest.mark.parametrize(("bits", "lanes"), [(8, 16), (16, 8), (16, 16), (32, 4), (32, 8), (32, 16), (64, 2), (64, 8)])
def test_rounds_of_shuffles_make_columns_of_rows(bits, lanes):
    now = [[(row, column) for column in range(lanes)] for row in range(lanes)]
    levels = shuffle_levels(lanes, bits)
    for made in levels:
        now = [[(now[a] + now[b])[place] for place in places] for a, b, places in made]
    assert now == [[(row, column) for row in range(lanes)] for column in range(lanes)]
    assert len(levels) == lanes.bit_length() - 1 and all(len(made) == lanes for made in levels)


def turned(dtype, lanes, columns, value=lambda e: e, **how):
    """out[k, x] = value(a[x, c]) for each column c, over n rows."""
    a, out = parameter("a", dtype, n, w), parameter("out", dtype, const(i64, len(columns)), n)
    x = fresh("x")
    stores = [put(out, const(i64, k), x, value(at(a, x, c))) for k, c in enumerate(columns)]
    return nest([a], [out], loop(x, n, *stores, kind="vector", lanes=lanes, **how), sizes=(n, w))


def numbers(dtype, *shape):
    return rng.integers(0, 250, shape).astype(dtype.numpy)


@pytest.mark.parametrize(("dtype", "lanes"), [(f32, 4), (f32, 16), (f64, 2), (f64, 8), (u8, 16)])
@pytest.mark.parametrize("rows", (0, 1, 15, 16, 17, 48, 50))
def test_squares_are_turned_at_every_height(dtype, lanes, rows):
    def look(text):
        assert text.count("shuffle_lanes") == lanes * (lanes.bit_length() - 1) * text.count("row = ") > 0

    hold(turned(dtype, lanes, range(lanes)), [numbers(dtype, rows, lanes + 1)], n=rows, w=lanes + 1, look=look)


def test_only_whole_squares_are_turned():
    """Of eleven columns, eight are two squares of four; the others are fetched lane by lane."""
    value = lambda e: op("mul", e, f(2))
    found = []
    program = turned(f32, 4, [0, 1, 2, 3, 5, 7, 8, 9, 10, 12, 13], value, tail="mask")
    hold(program, [numbers(f32, 8, 14)], n=8, w=14, look=found.append)
    whole = found[0].partition("if ")[0]
    assert whole.count("shuffle_lanes") == 2 * 4 * 2 and whole.count("gather") == 3


def test_gangs_side_by_side_have_squares_of_their_own():
    found = []
    hold(turned(f64, 4, range(4), interleave=2), [numbers(f64, 21, 4)], n=21, w=4, look=found.append)
    assert "row_1" in found[0] and "row_0" in found[0]


def test_what_the_loop_writes_is_not_read_ahead():
    """Each column is the one before, a row later: nothing may be read before it is written."""
    out = parameter("out", f32, n, w)
    x = fresh("x")
    steps = [put(out, x, const(i64, c + 1), op("add", at(out, x, c), f(1))) for c in range(4)]
    first = loop(y := fresh("y"), n, put(out, y, const(i64, 0), f(3)))
    program = nest([], [out], first, loop(x, n, *steps, kind="vector", lanes=4), sizes=(n, w))
    hold(program, [], n=9, w=5, look=lambda text: "shuffle_lanes" not in text or 1 / 0)


def test_rows_that_are_counted_in_the_block_are_fetched():
    a, out = parameter("a", f32, n, w), parameter("out", f32, const(i64, 4), w)
    x = fresh("x")
    row, named = name("row", mul(add(x, 1), 2))
    stores = [put(out, const(i64, c), x, at(a, row, c)) for c in range(4)]
    program = nest([a], [out], loop(x, w, named, *stores, kind="vector", lanes=4), sizes=(n, w))
    hold(program, [numbers(f32, 21, 9)], n=21, w=9, look=lambda text: "shuffle_lanes" not in text or 1 / 0)


def test_columns_that_a_variable_counts_are_fetched():
    a, out = parameter("a", i64, n, w), parameter("out", i64, const(i64, 4), n)
    x = fresh("x")
    column, made, start = scalar_register("column", const(i64, 1))
    body = []
    for k in range(4):
        body += [put(out, const(i64, k), x, at(a, x, add(at(column), k))), Store(column, (), add(at(column), k))]
    program = nest([a], [out], loop(x, n, made, start, *body, kind="vector", lanes=4), sizes=(n, w))
    hold(program, [numbers(i64, 9, 11)], n=9, w=11, look=lambda text: "shuffle_lanes" not in text or 1 / 0)


def test_rows_of_a_known_short_length_overlap_so_they_are_fetched():
    a, out = parameter("a", f32, n, const(i64, 3)), parameter("out", f32, const(i64, 4), n)
    x = fresh("x")
    stores = [put(out, const(i64, c), x, at(a, x, min(c, 2))) for c in range(4)]
    program = nest([a], [out], loop(x, n, *stores, kind="vector", lanes=4))
    hold(program, [numbers(f32, 9, 3)], n=9, look=lambda text: "shuffle_lanes" not in text or 1 / 0)


def test_squares_stand_where_branches_are():
    """Columns from a place that a uniform loop moves; nothing is read where the branch is not taken."""
    a, out = parameter("a", f32, n, w), parameter("out", f32, w, n)
    x, c = fresh("x"), fresh("c")
    body = [put(out, add(c, k), x, op("mul", at(a, x, add(c, k)), at(a, x, add(c, k)))) for k in range(4)]
    program = nest([a], [out], loop(x, n, loop(c, w, *body, step=4), kind="vector", lanes=4), sizes=(n, w))
    hold(program, [numbers(f32, 9, 12)], n=9, w=12, look=lambda text: "shuffle_lanes" in text or 1 / 0)


def test_rows_of_a_few_elements_have_a_branch_with_lanes_along_the_columns():
    turned_colours = rd.algorithm(lambda a: rd.transpose(a, (1, 2, 0)), a="u8[c, h, w]")
    steps = str(turned_colours.schedule().complete())
    assert '.when("x <= 8")' in steps and "when" not in str(turned_colours.schedule().complete(sizes={"c": 3}))
    for c in (1, 3, 8, 17):
        a = numbers(u8, c, 5, 33)
        assert (turned_colours(a) == a.transpose(1, 2, 0)).all()
