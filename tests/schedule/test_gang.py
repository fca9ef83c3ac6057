"""The vectoriser on plain loops: accesses, types, tails."""

import numpy as np
import pytest
from nests import add_up, at, f, hold, loop, n, name, nest, op, parameter, put, scalar_register, scratch, w

from raido.algo.errors import SizeMismatch
from raido.algo.graph.dtypes import f32, i32, i64, u8
from raido.algo.graph.expr import Op, const, fresh
from raido.algo.graph.index import add, mul, sub
from raido.schedule.nest.nodes import Alloc, Block, If, Let, Store
from raido.schedule.nest.values import Read

rng = np.random.default_rng(7)
LENGTHS = (0, 1, 3, 4, 5, 15, 16, 17, 31, 37, 64, 67)
TAILS = ("mask", "shift", "scalar", "default")


@pytest.mark.parametrize("tail", TAILS)
@pytest.mark.parametrize("interleave", (1, 2, 3))
def test_every_tail_at_every_length(tail, interleave):
    a, out = parameter("a", f32, n), parameter("out", f32, n)
    x = fresh("x")
    value = op("add", op("mul", at(a, x), f(3)), f(1))
    program = nest([a], [out], loop(x, n, put(out, x, value), kind="vector", tail=tail, interleave=interleave))
    for length in LENGTHS:
        hold(program, [rng.random(length, np.float32)], n=length)


@pytest.mark.parametrize("tail", TAILS)
@pytest.mark.parametrize("changes", (False, True), ids=("apart", "in place"))
@pytest.mark.parametrize("interleave", (2, 3, 4))
def test_gangs_that_wait_for_their_iterations_do_so_together(tail, changes, interleave):
    """Lanes with a loop of their own: what fills no group runs as a group under masks, or half of one, so that gangs wait together."""
    a, out = parameter("a", f32, n), parameter("out", f32, n)
    x, t = fresh("x"), fresh("t")
    acc, *start = scalar_register("acc", at(out if changes else a, x))
    step = loop(t, const(i64, 5), put(acc, op("add", op("mul", at(acc), f(0.5)), f(1))))
    y = fresh("y")
    fill = [loop(y, n, put(out, y, at(a, y)))] * changes
    waiting = loop(x, n, *start, step, put(out, x, at(acc)), kind="vector", tail=tail, interleave=interleave)
    program = nest([a], [out], *fill, waiting)

    def look(text):
        moved_back = tail == "shift" and not changes  # as asked, gang by gang
        remaining = 1 if tail == "scalar" else 2 if moved_back else {2: 2, 3: 2, 4: 3}[interleave]
        assert text.count("for t in") == 1 + remaining, text

    for length in (0, 1, 7, 8, 9, 15, 16, 17, 24, 31, 37, 64, 67):
        hold(program, [rng.random(length, np.float32)], n=length, look=look)


@pytest.mark.parametrize("extent", (1, 4, 6, 16, 20, 35))
@pytest.mark.parametrize("tail", TAILS)
def test_constant_extents_need_no_test(extent, tail):
    a, out = parameter("a", f32, n), parameter("out", f32, n)
    x, xo = fresh("x"), fresh("xo")
    inner = loop(x, add(xo, extent), put(out, x, op("neg", at(a, x))), low=xo, kind="vector", tail=tail, interleave=2)
    program = nest([a], [out], loop(xo, n, inner, step=extent))

    def look(text):
        assert "if " not in text

    hold(program, [rng.random(3 * extent, np.float32)], n=3 * extent, look=look)


def test_exact_has_no_tail():
    a, out = parameter("a", f32, n), parameter("out", f32, n)
    x = fresh("x")
    program = nest([a], [out], loop(x, n, put(out, x, at(a, x)), kind="vector", tail="exact", lanes=8))
    hold(program, [rng.random(40, np.float32)], n=40, look=lambda text: text.index("8") and "where" in text and 1 / 0)


def test_what_an_exact_tail_would_leave_out_is_an_error():
    out = parameter("out", f32, n)
    x, y = fresh("x"), fresh("x")
    fill = loop(y, n, put(out, y, f(1)))
    double = loop(x, n, put(out, x, op("mul", at(out, x), f(2))), kind="vector", tail="exact", lanes=8)
    hold(nest([], [out], fill, double), [], n=0)
    with pytest.raises(SizeMismatch, match='tail "exact": an extent of 41 is not a multiple of 8'):
        hold(nest([], [out], fill, double), [], n=41)


def test_work_in_place_is_never_shifted():
    out = parameter("out", f32, n)
    x, y = fresh("x"), fresh("x")
    fill = loop(y, n, put(out, y, op("cast", y, dtype=f32)))
    double = loop(x, n, put(out, x, op("mul", at(out, x), f(2))), kind="vector", tail="shift")
    for length in LENGTHS:
        hold(nest([], [out], fill, double), [], n=length)


def test_bytes_to_floats_use_the_lanes_of_the_widest_type():
    a, out = parameter("a", u8, n), parameter("out", f32, n)
    x = fresh("x")
    total = op("add", op("cast", at(a, x), dtype=f32), op("cast", at(a, add(x, 1)), dtype=f32))
    program = nest(
        [a],
        [out],
        loop(x, sub(n, 1), put(out, x, op("div", total, f(2))), kind="vector", tail="mask"),
        put(out, sub(n, 1), f(0)),
    )
    texts = []
    hold(program, [rng.integers(0, 256, 45).astype(np.uint8)], n=45, bits=(512,), look=texts.append)
    assert "a[x +: 16]" in texts[0] and "a[x + 1 +: 16]" in texts[0]


def test_strided_reversed_column_and_gathered_reads():
    a, index, m = parameter("a", f32, n), parameter("index", i64, w), parameter("m", f32, w, w)
    names = ("stride", "back", "column", "gather", "both")
    outs = [parameter(name, f32, w) for name in names]
    x = fresh("x")
    gathered = at(a, at(index, x))
    body = (
        put(outs[0], x, at(a, add(mul(x, 3), 2))),
        put(outs[1], x, at(a, sub(n, add(x, 1)))),
        put(outs[2], x, at(m, x, 1)),
        put(outs[3], x, gathered),
        put(outs[4], x, op("add", gathered, at(m, 0, x))),
    )
    program = nest([a, index, m], outs, loop(x, w, *body, kind="vector", tail="mask"), sizes=(n, w))
    for width in (2, 7, 21):
        arrays = [
            rng.random(3 * width, np.float32),
            rng.integers(0, 3 * width, width),
            rng.random((width, width), np.float32),
        ]
        hold(program, arrays, n=3 * width, w=width)


def test_scatter_and_strided_stores():
    index, out, wide = parameter("index", i64, n), parameter("out", f32, n), parameter("wide", f32, n, const(i64, 2))
    x = fresh("x")
    body = (
        put(out, at(index, x), op("cast", x, dtype=f32)),
        put(wide, x, const(i64, 0), f(1)),
        put(wide, x, const(i64, 1), op("cast", x, dtype=f32)),
    )
    program = nest([index], [out, wide], loop(x, n, *body, kind="vector", tail="mask"))
    hold(program, [rng.permutation(23)], n=23, look=lambda text: "by 2" in text or 1 / 0)


def test_an_outer_axis_may_be_vectorised():
    a, out = parameter("a", f32, n, w), parameter("out", f32, n)
    y, x = fresh("y"), fresh("x")
    acc, alloc, start = scalar_register("acc", f(0))
    body = (alloc, start, loop(x, w, add_up(acc, (), at(a, y, x))), put(out, y, at(acc)))
    program = nest([a], [out], loop(y, n, *body, kind="vector", interleave=2), sizes=(n, w))
    hold(program, [rng.random((19, 5), np.float32)], n=19, w=5)


def test_uniform_values_stay_scalar():
    a, out = parameter("a", f32, n), parameter("out", f32, n)
    x = fresh("x")
    var, bind = name("u", op("sqrt", at(a, 0)))
    program = nest([a], [out], loop(x, n, bind, put(out, x, op("mul", var, at(a, x))), kind="vector"))
    hold(program, [rng.random(9, np.float32)], n=9, look=lambda text: "u = sqrt(a[0])" in text or 1 / 0)


def test_private_arrays_are_arrays_of_vectors():
    out = parameter("out", i32, n)
    x, k = fresh("x"), fresh("k")
    table = scratch("table", i32, 4, scope="stack")
    fill = loop(k, const(i64, 4), put(table, k, op("cast", op("mul", k, x), dtype=i32)))
    pick = op("floormod", x, const(i64, 4), dtype=i64)
    program = nest([], [out], loop(x, n, Alloc(table), fill, put(out, x, at(table, pick)), kind="vector", interleave=2))
    hold(program, [], n=37, look=lambda text: "table_0: i32x" in text or 1 / 0)


def test_predicated_reads_touch_nothing_where_they_are_off():
    a, out = parameter("a", f32, n), parameter("out", f32, n)
    x = fresh("x")
    place = add(x, -2)
    inside = Read(a, (place,), op("ge", place, const(i64, 0)))
    program = nest([a], [out], loop(x, n, put(out, x, inside), kind="vector"))
    for length in LENGTHS:
        hold(program, [rng.random(length, np.float32)], n=length)


def test_register_tiles_become_vectors():
    """c = a @ b in tiles of 3 × 32: accumulators indexed by the vectorised axis."""
    a, b, c = parameter("a", f32, n, n), parameter("b", f32, n, w), parameter("c", f32, n, w)
    i, jo, j, r, j2, j3 = (fresh(v) for v in ("i", "jo", "j", "r", "j", "j"))
    ii, ii2, ii3 = fresh("ii"), fresh("ii"), fresh("ii")
    acc = scratch("acc", f32, 3, 32)
    three = const(i64, 3)

    def tile(inner, var, statement):
        vector = loop(var, add(jo, 32), statement, low=jo, kind="vector", interleave=2, lanes=16)
        return loop(inner, three, vector, kind="unroll")

    step = op("mul", at(a, add(i, ii2), r), at(b, r, j2))
    body = (
        Alloc(acc),
        tile(ii, j, put(acc, ii, sub(j, jo), f(0))),
        loop(r, n, tile(ii2, j2, add_up(acc, (ii2, sub(j2, jo)), step))),
        tile(ii3, j3, put(c, add(i, ii3), j3, at(acc, ii3, sub(j3, jo)))),
    )
    program = nest([a, b], [c], loop(i, n, loop(jo, w, *body, step=32), step=3), sizes=(n, w))
    arrays = [rng.random((6, 6), np.float32), rng.random((6, 64), np.float32)]

    def look(text):
        assert "acc: f32x16[3, 2] register" in text
        assert "if " not in text and "where" not in text

    hold(program, arrays, n=6, w=64, look=look)


def test_register_tiles_that_vectors_do_not_fill_have_lanes_to_spare():
    a, out = parameter("a", f32, n), parameter("out", f32, n)
    xo, x, x2 = fresh("xo"), fresh("x"), fresh("x")
    acc = scratch("acc", f32, 12)
    body = (
        Alloc(acc),
        loop(x, const(i64, 12), put(acc, x, at(a, add(xo, x))), kind="vector", lanes=8),
        loop(x2, const(i64, 12), put(out, add(xo, x2), at(acc, x2)), kind="vector", lanes=8),
    )
    program = nest([a], [out], loop(xo, n, *body, step=12))
    hold(program, [rng.random(24, np.float32)], n=24, look=lambda text: "acc: f32x8[2] register" in text or 1 / 0)


def test_a_branch_that_is_the_same_in_all_lanes_stays_one():
    a, out = parameter("a", f32, n), parameter("out", f32, n)
    x = fresh("x")
    branch = If(op("lt", n, const(i64, 10)), Block((put(out, x, f(1)),)), Block((Store(out, (x,), at(a, x)),)))
    program = nest([a], [out], loop(x, n, branch, kind="vector"))
    for length in (5, 12):
        hold(program, [rng.random(length, np.float32)], n=length, look=lambda text: "if n < 10" in text or 1 / 0)


_ = (Let, Op)
