"""The nest interpreter as an oracle: it refuses ill-formed nests."""

import numpy as np
import pytest
from nests import add_up, at, f, loop, n, nest, op, parameter, put, scalar_register, scratch, w, zero

from raido.algo.graph.data import Data
from raido.algo.graph.dtypes import bool_, f32, i32, i64
from raido.algo.graph.expr import const, fresh
from raido.algo.graph.index import add
from raido.schedule.nest.nodes import Alloc, Block, Copy, If, Let, Store, Swap, VectorStore
from raido.schedule.nest.values import Buffer, Read, VectorRead, VectorVar
from raido.schedule.oracles.checker import check_nest
from raido.schedule.oracles.interpret import interpret_nest
from raido.schedule.oracles.memory import NestError


def test_out_of_bounds_reads_and_writes_are_found():
    a, out = parameter("a", f32, n), parameter("out", f32, n)
    x = fresh("x")
    for value, place in ((at(a, add(x, 1)), x), (at(a, x), add(x, -1))):
        with pytest.raises(NestError, match="out of bounds"):
            interpret_nest(nest([a], [out], loop(x, n, put(out, place, value))), [np.ones(5, np.float32)])


def test_neighbouring_rows_are_out_of_bounds_too():
    a, out = parameter("a", f32, n, w), parameter("out", f32, n, w)
    body = VectorStore(out, (zero, zero), VectorRead(a, (zero, const(i64, 2)), 1, 4, None))
    with pytest.raises(NestError, match="out of bounds"):
        interpret_nest(nest([a], [out], body, sizes=(n, w)), [np.ones((3, 5), np.float32)])


def test_reads_of_what_was_never_written_are_found():
    out = parameter("out", f32, n)
    x = fresh("x")
    acc = scratch("acc", f32)
    program = nest([], [out], loop(x, n, Alloc(acc), add_up(acc, (), f(1)), put(out, x, at(acc))))
    with pytest.raises(NestError, match="before it is written"):
        interpret_nest(program, [], {"n": 3})


def test_results_must_be_written_whole():
    out = parameter("out", f32, n)
    x = fresh("x")
    with pytest.raises(NestError, match="never written"):
        interpret_nest(nest([], [out], loop(x, n, put(out, x, f(1)), step=2)), [], {"n": 4})


def test_loops_over_threads_run_in_any_order():
    """A loop that is not parallel shows itself when its order changes."""
    out = parameter("out", i64, n)
    x = fresh("x")
    count, *make = scalar_register("count", zero)
    bump = put(count, op("add", at(count), const(i64, 1)))
    program = nest([], [out], *make, loop(x, n, bump, put(out, x, at(count)), kind="parallel"))
    in_order = interpret_nest(program, [], {"n": 50})[0]
    other = interpret_nest(program, [], {"n": 50}, seed=1)[0]
    assert sorted(other) == list(in_order) != list(other)


def test_integers_wrap_and_bools_are_bools():
    out, flags = parameter("out", i64, n), parameter("flags", bool_, n)
    x = fresh("x")
    big = op("mul", op("add", x, const(i64, 1 << 62)), const(i64, 5))
    program = nest([], [out, flags], loop(x, n, put(out, x, big), put(flags, x, op("lt", big, zero))))
    values, negative = interpret_nest(program, [], {"n": 3})
    with np.errstate(all="ignore"):
        expected = (np.arange(3) + (1 << 62)) * 5
    assert list(values) == list(expected) and list(negative) == list(expected < 0)


def test_strided_constant_and_swapped_buffers():
    out = parameter("out", i32, n)
    table = Buffer("table", i32, (const(i64, 4),), "constant", 0, (), 1, Data(np.array([3, 1, 4, 1], np.int32)))
    p, q = scratch("p", i32, 4, scope="heap"), scratch("q", i32, 4, scope="heap")
    x, y, z = fresh("x"), fresh("x"), fresh("x")
    four = const(i64, 4)
    program = nest(
        [],
        [out],
        Alloc(p),
        Alloc(q),
        loop(x, four, put(p, x, at(table, x))),
        Copy(p, q),
        loop(y, four, put(p, y, op("add", at(q, y), const(i32, 1)))),
        Swap(p, q),
        loop(z, four, put(out, z, op("sub", at(q, z), at(p, z)))),
    )
    assert list(interpret_nest(check_nest(program, "scalar"), [], {"n": 4})[0]) == [1, 1, 1, 1]


def test_sizes_are_inferred_from_shapes():
    a, out = parameter("a", f32, add(n, 1), w), parameter("out", i64)
    program = nest([a], [out], put(out, op("add", n, w)), sizes=(n, w))
    assert interpret_nest(program, [np.zeros((5, 7), np.float32)])[0] == 11


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        (lambda o, x: put(o, x, const(i32, 1)), "f32 expected"),
        (lambda o, x: Store(o, (), f(1)), "1 dimensions"),
        (lambda o, x: put(o, fresh("y"), f(1)), "y is not in scope"),
        (lambda o, x: If(x, Block(())), "bool_ expected"),
        (lambda o, x: Let(VectorVar("v", f32, 4, 1), VectorRead(o, (x,), 1, 4, None)), "in a scalar nest"),
        (lambda o, x: put(scratch("p", f32), f(1)), "p is not in scope"),
        (lambda o, x: put(o, x, op("add", f(1), const(i32, 1), dtype=f32)), "does not take"),
        (lambda o, x: Alloc(scratch("p", f32, n)), "no constant size"),
        (lambda o, x: loop(x, n), "already in scope"),
        (lambda o, x: put(o, x, Read(o, (x,), x)), "a mask of type i64"),
    ],
)
def test_the_checker_refuses(statement, message):
    out = parameter("out", f32, n)
    x = fresh("x")
    with pytest.raises((NestError, TypeError), match=message):
        check_nest(nest([], [out], loop(x, n, statement(out, x))), "scalar")


def test_a_gang_nest_has_no_vector_loops():
    out = parameter("out", f32, n)
    x = fresh("x")
    with pytest.raises(NestError, match="a vector loop in a gang nest"):
        check_nest(nest([], [out], loop(x, n, put(out, x, f(1)), kind="vector")), "gang")
