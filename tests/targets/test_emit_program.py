"""Kernels, threads and the host plan: loops over threads, nested ones, tickets, faults, heap memory, host loops with swapped buffers."""

import numpy as np
import pytest
from emission import Compiled, array, compile_body, index, n

from raido.algo.errors import CompileError
from raido.algo.graph.dtypes import DTYPES, bool_, f32, f64, i32, i64
from raido.algo.graph.expr import Op, SizeVar, const, fresh
from raido.algo.graph.index import add, mul
from raido.schedule.nest.nodes import (
    Alloc,
    Block,
    Check,
    Copy,
    Fold,
    For,
    If,
    Let,
    Nest,
    Produce,
    Store,
    Swap,
    VectorStore,
    While,
)
from raido.schedule.nest.values import Extract, Ramp, Read, Splat, VectorRead, VectorVar
from raido.targets.faults import FAULT_CODES
from raido.targets.native import runtime_library, set_threads


@pytest.fixture(params=[1, 2, 5])
def threads(request):
    set_threads(request.param)
    yield request.param
    set_threads(None)


@pytest.mark.parametrize("options", [{}, {"grain": 7}, {"dynamic": True}, {"dynamic": True, "grain": 5}], ids=str)
@pytest.mark.parametrize("step", [1, 3, 8])
def test_every_round_of_a_parallel_loop_runs_once(threads, options, step):
    out, x = array("o", i64, n), fresh("x")
    once = Store(out, (x,), Op("add", i64, (Read(out, (x,), None), add(x, 1))))
    compiled = compile_body([For(x, index(2), n, step, Block((once,)), "parallel", **options)], [], [out])
    for size in (0, 2, 3, 50, 1000):
        result = np.zeros(size, "i8")
        compiled([], [size], [result])
        wanted = np.zeros(size, "i8")
        wanted[2::step] = np.arange(2, size, step) + 1
        np.testing.assert_array_equal(result, wanted)


def test_parallel_loops_nest_and_see_names_of_outer_loops(threads):
    m = SizeVar("m")
    out, y, x = array("o", f64, n, m), fresh("y"), fresh("x")
    scale, row = fresh("scale", f64), fresh("row", f64)
    body = Block(
        (
            Let(row, Op("mul", f64, (Op("cast", f64, (y,)), scale))),
            For(
                x,
                index(0),
                m,
                1,
                Block((Store(out, (y, x), Op("add", f64, (row, Op("cast", f64, (x,))))),)),
                "parallel",
            ),
        )
    )
    statements = [Let(scale, const(f64, 0.5)), For(y, index(0), n, 1, body, "parallel")]
    result = np.zeros((9, 13))
    compile_body(statements, [], [out], (n, m))([], [9, 13], [result])
    np.testing.assert_array_equal(result, np.arange(9)[:, None] * 0.5 + np.arange(13))


def test_masks_reach_the_loop_over_threads(threads):
    """A vector of bool named outside is passed as bytes."""
    out, x = array("o", i64, n, 8), fresh("x")
    on = VectorVar("on", bool_, 8, fresh("on").serial)
    named = Let(on, Op("lt", bool_, (Ramp(index(0), 1, 8), Splat(n, 8))))
    value = Op("select", i64, (on, Splat(x, 8), Splat(index(-1), 8)))
    loop = For(x, index(0), n, 1, Block((VectorStore(out, (x, index(0)), value, 1, on),)), "parallel")
    result = np.full((5, 8), 7)
    compile_body([named, loop], [], [out])([], [5], [result])
    wanted = np.full((5, 8), 7)
    wanted[:, :5] = np.arange(5)[:, None]
    np.testing.assert_array_equal(result, wanted)


@pytest.mark.parametrize("lanes", [1, 8])
def test_long_chains_of_names_compile(lanes):
    """Each name stands for three uses of the one before: whoever puts values for names never ends."""
    source, out, x = array("a", i64, n), array("o", i64, n), fresh("x")
    spread = (lambda e: Splat(e, lanes)) if lanes > 1 else (lambda e: e)
    name = lambda k: VectorVar(f"v{k}", i64, lanes, fresh("v").serial) if lanes > 1 else fresh(f"v{k}")
    value = VectorRead(source, (x,), 1, lanes, None) if lanes > 1 else Read(source, (x,), None)
    statements = []
    for k in range(60):
        here = name(k)
        statements.append(Let(here, value))
        above = Op("gt", bool_, (here, spread(index(k))))
        less, more = (Op("add", i64, (here, spread(index(step)))) for step in (-1, 2))
        value = Op("minimum", i64, (Op("select", i64, (above, less, more)), Op("mul", i64, (here, here))))
    store = VectorStore(out, (x,), value) if lanes > 1 else Store(out, (x,), value)
    loop = For(x, index(0), n, lanes, Block((*statements, store)))
    given, result = np.arange(-4, 12), np.zeros(16, "i8")
    wanted = given.copy()
    for k in range(60):
        wanted = np.minimum(np.where(wanted > k, wanted - 1, wanted + 2), wanted * wanted)
    compile_body([loop], [source], [out])([given], [16], [result])
    np.testing.assert_array_equal(result, wanted)


def test_names_of_every_type_reach_the_loop_over_threads(threads):
    """Scalars of all types, and vectors, are passed to the function that one thread runs."""
    out, flags = array("o", f64, n), array("f", bool_, n)
    x, yes = fresh("x"), fresh("yes", bool_)
    scalars = [fresh(dtype.name, dtype) for dtype in DTYPES if dtype is not bool_]
    vector = VectorVar("v", i32, 8, fresh("v").serial)
    total = Op("cast", f64, (Extract(vector, 3),))
    for scalar in scalars:
        total = Op("add", f64, (total, Op("cast", f64, (scalar,))))
    body = Block((Store(out, (x,), total), Store(flags, (x,), yes)))
    statements = [
        *(Let(s, Op("cast", s.dtype, (n,))) for s in scalars),
        Let(vector, Splat(Op("cast", i32, (n,)), 8)),
        Let(yes, Op("gt", bool_, (n, index(3)))),
        For(x, index(0), n, 1, body, "parallel"),
    ]
    compiled = compile_body(statements, [], [out, flags])
    for size in (3, 10):
        results = [np.zeros(size), np.zeros(size, bool)]
        compiled([], [size], results)
        assert (results[0] == size * (len(scalars) + 1)).all()
        assert (results[1] == (size > 3)).all()


def test_strides_of_many_dimensions_are_computed_wherever_they_are_needed(threads):
    """The first use is inside a branch; later uses stand outside it."""
    a, b, c = (SizeVar(name) for name in "abc")
    out = array("o", i64, n, a, b, c)
    x, y = fresh("x"), fresh("y")
    place = lambda k: (k, index(1), add(b, -1), add(c, -2))
    first = If(Op("lt", bool_, (x, index(1))), Block((Store(out, place(x), index(7)),)))
    statements = [
        For(x, index(0), n, 1, Block((first,))),
        For(y, index(1), n, 1, Block((Store(out, place(y), add(y, 10)),))),
    ]
    result = np.zeros((3, 2, 4, 5), "i8")
    compile_body(statements, [], [out], (n, a, b, c))([], [3, 2, 4, 5], [result])
    assert list(result[:, 1, 3, 3]) == [7, 11, 12]


def test_registers_that_a_loop_over_threads_fills_are_in_memory(threads):
    out, cells, x, y = array("o", i64, 6), array("c", i64, 6, scope="register"), fresh("x"), fresh("y")
    statements = [
        Alloc(cells),
        For(x, index(0), index(6), 1, Block((Store(cells, (x,), mul(x, 5)),)), "parallel"),
        For(y, index(0), index(6), 1, Block((Store(out, (y,), Read(cells, (y,), None)),)), "unroll"),
    ]
    result = np.zeros(6, "i8")
    compile_body(statements, [], [out], ())([], [], [result])
    assert list(result) == [0, 5, 10, 15, 20, 25]


def test_an_accumulator_shared_between_threads_is_refused():
    out, total, r = array("o", i64, 1), array("t", i64, scope="register"), fresh("r")
    left, right = fresh("l"), fresh("r")
    step = (Op("add", i64, (left, r)),)
    fold = Fold((total,), (), step, (left,), (right,), step, (index(0),), "add")
    statements = [
        Alloc(total),
        For(r, index(0), n, 1, Block((fold,)), "parallel"),
        Store(out, (index(0),), Read(total, (), None)),
    ]
    with pytest.raises(CompileError, match="share the accumulator"):
        compile_body(statements, [], [out])


def test_heap_memory_of_a_task_is_its_own(threads):
    """Each row is reversed through a temporary of its own, taken once for each thread and not once for each row."""
    source, out, kept = array("a", f32, n, 100), array("o", f32, n, 100), array("t", f32, 100, scope="heap")
    y, x, z = fresh("y"), fresh("x"), fresh("z")
    body = Block(
        (
            Alloc(kept),
            For(x, index(0), index(100), 1, Block((Store(kept, (x,), Read(source, (y, x), None)),))),
            For(z, index(0), index(100), 1, Block((Store(out, (y, z), Read(kept, (add(mul(z, -1), 99),), None)),))),
        )
    )
    data = np.random.default_rng(0).random((64, 100), "f4")
    result = np.zeros_like(data)
    compiled = compile_body([For(y, index(0), n, 1, body, "parallel")], [source], [out])
    assert compiled([data], [64], [result]).kind == 0
    np.testing.assert_array_equal(result, data[:, ::-1])


def test_memory_that_cannot_be_had_is_a_fault_and_nothing_runs():
    out, huge = array("o", f32, 1), array("t", f64, n, scope="heap")
    statements = [Alloc(huge), Store(out, (index(0),), const(f32, 1))]
    for host in (False, True):
        result = np.zeros(1, "f4")
        fault = compile_body(statements, [], [out], host=host)([], [1 << 58], [result])
        assert fault.kind == FAULT_CODES["memory"]
        assert fault.values[0] == 1 << 61
        assert result[0] == 0


def check_below(x, limit, site=3):
    lanes = 8 if not hasattr(x, "name") else 1
    bound = Splat(limit, 8) if lanes == 8 else limit
    return Check(Op("lt", bool_, (x, bound)), "index", site, (index(0), x, limit))


def test_a_scalar_check_records_the_first_failure_and_ends_the_kernel():
    out, x = array("o", i64, 10), fresh("x")
    body = Block((check_below(x, n), Store(out, (x,), add(x, 1))))
    compiled = compile_body([For(x, index(0), index(10), 1, body)], [], [out])
    result = np.zeros(10, "i8")
    fault = compiled([], [6], [result])
    assert (fault.kind, fault.site, list(fault.values)[:3]) == (FAULT_CODES["index"], 3, [0, 6, 6])
    assert list(result) == [1, 2, 3, 4, 5, 6, 0, 0, 0, 0]
    assert compiled([], [10], [result]).kind == 0
    assert list(result) == list(range(1, 11))


def test_a_kernel_that_has_memory_to_give_back_goes_on_to_its_end():
    out, x, room = array("o", i64, 10), fresh("x"), array("t", i64, n, 100, scope="heap")
    loop = For(x, index(0), index(10), 1, Block((check_below(x, n), Store(out, (x,), add(x, 1)))))
    compiled = compile_body([Produce("step", Block((Alloc(room), loop)))], [], [out])
    result = np.zeros(10, "i8")
    assert list(compiled([], [6], [result]).values)[:3] == [0, 6, 6]
    assert list(result) == list(range(1, 11))


@pytest.mark.parametrize("limit", [0, 1, 5, 7, 8])
def test_a_vector_check_names_the_first_bad_lane(limit):
    places = array("p", i64, 8)
    lanes = VectorRead(places, (index(0),), 1, 8, None)
    compiled = compile_body([check_below(lanes, n, 9)], [places], [])
    fault = compiled([np.arange(8)], [limit], [])
    assert fault.kind == (0 if limit == 8 else FAULT_CODES["index"])
    if limit < 8:
        assert (fault.site, list(fault.values)[:3]) == (9, [0, limit, limit])


def test_lanes_and_branches_that_are_off_never_fault():
    lanes = Ramp(index(0), 1, 8)
    on = Op("lt", bool_, (lanes, Splat(n, 8)))
    check = Check(Op("lt", bool_, (lanes, Splat(index(4), 8))), "division", 1, (lanes,), on)
    compiled = compile_body([check], [], [])
    assert compiled([], [4], []).kind == 0
    fault = compiled([], [6], [])
    assert (fault.kind, fault.values[0]) == (FAULT_CODES["division"], 4)


def stencil_step(source, target):
    """target[x] = source[x-1] + source[x] + source[x+1] inside, a copy at the ends."""
    x = fresh("x")
    total = Op("add", f64, (Read(source, (add(x, -1),), None), Read(source, (x,), None)))
    total = Op("add", f64, (total, Read(source, (add(x, 1),), None)))
    ends = [Store(target, (e,), Read(source, (e,), None)) for e in (index(0), add(n, -1))]
    inside = For(x, index(1), add(n, -1), 1, Block((Store(target, (x,), total),)), "parallel")
    return Produce("step", Block((inside, *ends)))


def test_host_loops_swap_buffers():
    """n steps of a three point sum, in two heap buffers that change places."""
    steps = SizeVar("steps")
    a, out = array("a", f64, n), array("o", f64, n)
    now, then = array("now", f64, n, scope="heap"), array("then", f64, n, scope="heap")
    body = Block(
        (
            Alloc(now),
            Alloc(then),
            Copy(a, now),
            Copy(a, then),
            For(fresh("t"), index(0), steps, 1, Block((stencil_step(now, then), Swap(now, then)))),
            Copy(now, out),
        )
    )
    compiled = Compiled(Nest("test", (a,), (n, steps), (out,), body))
    data = np.random.default_rng(0).random(200)
    cached = runtime_library().rd_cached_bytes()
    for count in (0, 1, 2, 5):
        result, wanted = np.zeros(200), data.copy()
        for _ in range(count):
            wanted[1:-1] = wanted[:-2] + wanted[1:-1] + wanted[2:]
        assert compiled([data], [200, count], [result]).kind == 0
        np.testing.assert_array_equal(result, wanted)
    assert runtime_library().rd_cached_bytes() <= cached + (1 << 14)


def test_host_while_loops_read_what_kernels_wrote():
    """Doubles until the sum passes a limit; the flag lives in memory of the host plan."""
    out, flag, limit = array("o", i64, 1), array("flag", bool_, scope="register"), SizeVar("limit")
    value = Read(out, (index(0),), None)
    double = Produce("double", Block((Store(out, (index(0),), mul(value, 2)),)))
    test = Produce("test", Block((Store(flag, (), Op("lt", bool_, (value, limit))),)))
    loop = While(Block((test,)), Read(flag, (), None), Block((double,)))
    compiled = Compiled(Nest("test", (), (limit,), (out,), Block((Alloc(flag), loop))))
    for bound, wanted in ((1, 3), (3, 3), (4, 6), (1000, 1536)):
        result = np.array([3])
        assert compiled([], [bound], [result]).kind == 0
        assert result[0] == wanted


def test_after_a_fault_the_rest_of_the_host_plan_is_skipped_and_memory_given_back():
    out, kept = array("o", i32, 3), array("t", f64, n, scope="heap")
    bad = Produce("bad", Block((Check(Op("lt", bool_, (n, index(5))), "power", 0, (n,)),)))
    mark = lambda k: Produce("mark", Block((Store(out, (index(k),), const(i32, 1)),)))
    loop = For(fresh("t"), index(0), index(3), 1, Block((mark(1), bad, mark(2))))
    body = Block((mark(0), Alloc(kept), loop))
    compiled = Compiled(Nest("test", (), (n,), (out,), body))
    for size, wanted in ((4, [1, 1, 1]), (5, [1, 1, 0])):
        result = np.zeros(3, "i4")
        assert compiled([], [size], [result]).kind == (0 if size == 4 else FAULT_CODES["power"])
        assert list(result) == wanted
