"""Regrouped axes: quotients and remainders that cancel leave vector accesses, others gathers; the values are the same."""

from __future__ import annotations

import re

import numpy as np
import pytest
from nests import at, hold, loop, n, name, nest, op, parameter, put

import raido as rd
from raido.algo.graph.dtypes import f32, i64
from raido.algo.graph.expr import const, fresh
from raido.algo.graph.index import add, as_index, canonical, constant_value, floordiv, mod, mul, sub
from raido.algo.graph.rewrite import substitute
from raido.targets.compile import Compilation

rng = np.random.default_rng(11)


def numbers(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def read_as_one_axis(*shape, places, count, sizes=()):
    """out[x] = a[places(x)] for x below `count`."""
    a, out = parameter("a", f32, *map(as_index, shape)), parameter("out", f32, as_index(count))
    x = fresh("x")
    how = {"kind": "vector", "lanes": 4}
    return nest([a], [out], loop(x, as_index(count), put(out, x, at(a, *places(x))), **how), sizes=sizes)


@pytest.mark.parametrize("tail", range(4))
@pytest.mark.parametrize(
    ("shape", "places"),
    [
        ((9, 3), lambda x: (floordiv(x, 3), mod(x, 3))),
        ((2, 3, 5), lambda x: (floordiv(x, 15), mod(floordiv(x, 5), 3), mod(x, 5))),
        ((7, 5), lambda x: (add(floordiv(sub(x, 7), 5), 2), mod(sub(x, 7), 5))),
        ((9, 4), lambda x: (floordiv(mul(x, 2), 4), mod(mul(x, 2), 4))),
    ],
)
def test_regrouped_axes_are_read_as_vectors(shape, places, tail):
    def look(text):
        assert "gather" not in text

    hold(read_as_one_axis(*shape, places=places, count=14 + tail), [numbers(*shape)], look=look)


def test_axes_that_are_regrouped_by_another_size_are_gathered():
    found = []
    places = lambda x: (floordiv(x, 3), mod(x, 3))
    hold(read_as_one_axis(9, 4, places=places, count=17), [numbers(9, 4)], look=found.append)
    assert all("gather" in text for text in found)


def test_the_first_size_need_not_be_known():
    def look(text):
        assert "gather" not in text

    places = lambda x: (floordiv(x, 3), mod(x, 3))
    hold(read_as_one_axis(n, 3, places=places, count=13, sizes=(n,)), [numbers(6, 3)], n=6, look=look)


def test_named_quotients_are_looked_into_and_stored_at():
    """out[row, x % 6] = a[row, x % 6 // 2, x % 2] with row = x // 6: both are one axis in memory."""
    a, out = (parameter(*each) for each in (("a", f32, n, as_index(3), as_index(2)), ("out", f32, n, as_index(6))))
    x = fresh("x")
    row, let_row = name("row", op("floordiv", x, const(i64, 6)))
    column, let_column = name("column", op("mod", x, const(i64, 6)))
    value = at(a, row, floordiv(column, 2), mod(x, 2))
    body = let_row, let_column, put(out, row, column, value)

    def look(text):
        assert "gather" not in text and "scatter" not in text

    program = nest([a], [out], loop(x, mul(n, 6), *body, kind="vector", lanes=4, interleave=2))
    hold(program, [numbers(5, 3, 2)], n=5, look=look)


@pytest.mark.parametrize("times", [(1, 2), (3, 2)])
def test_tiles_of_unknown_width_are_copied_row_by_row(times):
    tiled = rd.algorithm(x=rd.f32["h", "w"])(lambda x: rd.tile(x, times))
    text = Compilation(tiled.trace(), rd.Target("llvm"), None, {}).source("nest")
    assert re.search(r"for row\w* in 0\.\.\(2\*w - 1\)//max\(1, w\) \+ 1:", text)
    assert "%" not in text
    for shape in [(4, 5), (0, 3), (3, 0), (1, 1)]:
        x = numbers(*shape)
        assert np.array_equal(tiled(x), np.tile(x, times))


def test_an_input_read_as_one_axis_is_a_view_of_its_memory():
    flat = rd.algorithm(x=rd.f32["a", "b", "c"])(lambda x: rd.filter(lambda v: v > 0, x.reshape(-1)))
    text = Compilation(flat.trace(), rd.Target("llvm"), None, {}).source("nest")
    assert "x_flat: f32[a*b*c] = x" in text
    assert "%" not in text
    for shape in [(2, 3, 4), (0, 2, 3), (2, 0, 3), (3, 2, 0)]:
        x = numbers(*shape)
        assert (flat(x) == x[x > 0]).all()


@pytest.mark.parametrize("shape", [(3, 4, 5), (1, 1, 1), (2, 0, 3)])
def test_a_gather_from_an_input_in_another_shape_copies_nothing(shape):
    picked = rd.algorithm(x=rd.f32["a", "b", "c"], i=rd.i64["k"])(lambda x, i: x.reshape(-1)[i])
    assert picked.schedule().stages == ("gather_1",)
    x = numbers(*shape)
    i = rng.integers(0, x.size or 1, 7 if x.size else 0)
    assert (picked(x, i) == x.reshape(-1)[i]).all()
    with pytest.raises(rd.IndexOutOfRange):
        picked(x, np.array([0, x.size]))


def test_the_state_of_a_loop_read_as_one_axis_is_no_view():
    flip = lambda s: s.reshape(s.shape[1], s.shape[0]).reshape(s.shape)
    program = rd.algorithm(x=rd.i32[3, "n"])(lambda x: rd.loop(2, lambda i, s: rd.where(s > i, flip(s) + 1, s), x))
    text = Compilation(program.trace(), rd.Target("llvm"), None, {}).source("nest")
    assert "_flat" not in text
    x = np.arange(12, dtype="i4").reshape(3, 4)
    want = np.where(x > 0, x + 1, x)
    assert (program(x) == np.where(want > 1, want + 1, want)).all()


def test_a_remainder_below_the_unit_of_an_index_leaves_its_division():
    """⌊(16z + y mod 16) / 64⌋ is ⌊z / 4⌋, and the remainder is 16 (z mod 4) + y mod 16; likewise wherever the remainder cannot carry."""
    z, y = fresh("z"), fresh("y")
    at = add(mul(z, 16), mod(y, 16))
    assert floordiv(at, 64) is floordiv(z, 4) and mod(at, 64) is add(mul(mod(z, 4), 16), mod(y, 16))
    assert floordiv(add(at, 40), 64) is not floordiv(z, 4)  # carries
    for unit, below, k, more in ((12, 4, 24, 8), (12, 4, 24, 9), (-8, 8, 32, -16), (8, 3, 16, 29)):
        e = add(add(mul(z, unit), mod(y, below)), more)
        for i in range(-5, 6):
            for j in range(below + 1):
                values = {z: as_index(i), y: as_index(j)}
                got = [canonical(substitute(divide(e, k), values)) for divide in (floordiv, mod)]
                assert [constant_value(value) for value in got] == list(divmod(unit * i + j % below + more, k))
