"""Loads and stores of every kind: contiguous, strided, reversed, masked, gathered, streamed; registers, stack, heap, constants."""

import re

import numpy as np
import pytest
from emission import array, compile_body, every_cpu, index, n

from raido.algo.graph.data import Data
from raido.algo.graph.dtypes import bool_, f16, f32, f64, i8, i16, i32, i64, u8, u16
from raido.algo.graph.expr import Op, const, fresh
from raido.algo.graph.index import add, mul
from raido.schedule.nest.nodes import Alloc, Block, Fold, For, If, Let, Prefetch, Scatter, Store, VectorStore, While
from raido.schedule.nest.values import (
    Buffer,
    Extract,
    Gather,
    LaneFold,
    Ramp,
    Read,
    Splat,
    VectorRead,
    VectorVar,
    new_serial,
)

LANES = 8
some_dtypes = pytest.mark.parametrize("dtype", [f32, f64, u8, i64, bool_], ids=str)


def values(dtype, count, seed=0):
    random = np.random.default_rng(seed)
    return (random.random(count) * 200).astype(dtype.numpy) if dtype is not bool_ else random.random(count) < 0.5


def below(limit, lanes=LANES):
    """The mask of lanes k with k < limit."""
    return Op("lt", bool_, (Ramp(index(0), 1, lanes), Splat(limit, lanes)))


@some_dtypes
@every_cpu
@pytest.mark.parametrize("stride", [1, 2, 3, 4, 5, -1, 0])
def test_strided_reads_take_every_strideth_element(dtype, cpu, stride):
    source, result = array("a", dtype, n), array("b", dtype, LANES)
    start = 0 if stride >= 0 else LANES - 1
    read = VectorRead(source, (index(start),), stride, LANES, None)
    compiled = compile_body([VectorStore(result, (index(0),), read)], [source], [result], cpu=cpu)
    data = values(dtype, (LANES - 1) * abs(stride) + 1)
    out = np.zeros(LANES, dtype.numpy)
    compiled([data], [len(data)], [out])
    np.testing.assert_array_equal(out, data[start + np.arange(LANES) * stride])


@some_dtypes
@every_cpu
@pytest.mark.parametrize("stride", [1, 2, -1, -3])
@pytest.mark.parametrize("active", [0, 1, 5, 8])
def test_masked_reads_and_writes_touch_active_lanes_only(dtype, cpu, stride, active):
    source, result = array("a", dtype, n), array("b", dtype, 3 * LANES)
    low = 0 if stride > 0 else (LANES - 1) * -stride
    mask = below(n)
    read = VectorRead(source, (index(low),), stride, LANES, mask)
    compiled = compile_body([VectorStore(result, (index(low),), read, stride, mask)], [source], [result], cpu=cpu)
    data = values(dtype, 3 * LANES)
    out = values(dtype, 3 * LANES, 1)
    wanted = out.copy()
    places = low + np.arange(LANES)[:active] * stride
    wanted[places] = data[places]
    compiled([data], [active], [out])
    np.testing.assert_array_equal(out, wanted)


@some_dtypes
@every_cpu
def test_gathers_and_scatters_follow_their_indices(dtype, cpu):
    where, source, result = array("i", i64, LANES), array("a", dtype, n), array("b", dtype, n)
    lanes = VectorRead(where, (index(0),), 1, LANES, None)
    for mask, active in ((None, LANES), (below(index(3)), 3)):
        read = Gather(source, (lanes,), mask)
        compiled = compile_body([Scatter(result, (lanes,), read, mask)], [where, source], [result], cpu=cpu)
        places = np.array([4, 2, 9, 4, 0, 11, 2, 2])
        data, out = values(dtype, 12), np.zeros(12, dtype.numpy)
        wanted = out.copy()
        wanted[places[:active]] = data[places[:active]]
        compiled([places, data], [12], [out])
        np.testing.assert_array_equal(out, wanted)


@every_cpu
@pytest.mark.parametrize("active", [0, 37, 64])
@pytest.mark.parametrize("dtype", [u8, f16], ids=repr)
def test_many_narrow_lanes_follow_their_indices_in_a_loop(dtype, cpu, active):
    """Lanes that are off point far outside; of equal places the last lane wins; the code is short."""
    count = 64
    where, source, result = array("i", i64, count), array("a", dtype, n), array("b", dtype, n)
    lanes = VectorRead(where, (index(0),), 1, count, None)
    on = Op("lt", bool_, (Ramp(index(0), 1, count), Splat(index(active), count)))
    mask = on if active < count else None
    statements = [Scatter(result, (lanes,), Gather(source, (lanes,), mask), mask)]
    compiled = compile_body(statements, [where, source], [result], cpu=cpu)
    random = np.random.default_rng(2)
    places = random.integers(0, 90, count)
    places[active:] = 1 << 50
    data, out = values(dtype, 90), np.zeros(90, dtype.numpy)
    wanted = out.copy()
    wanted[places[:active]] = data[places[:active]]
    compiled([places, data], [90], [out])
    np.testing.assert_array_equal(out, wanted)
    assert len(re.findall(r"^\t[a-z]", compiled.assembly, re.MULTILINE)) < 1500


def test_the_last_lane_wins_a_scatter_to_one_place():
    result = array("b", i32, 4)
    places = Splat(index(2), LANES)
    value = Op("cast", i32, (Ramp(index(10), 1, LANES),))
    out = np.zeros(4, "i4")
    compile_body([Scatter(result, (places,), value)], [], [result], ()).__call__([], [], [out])
    assert list(out) == [0, 0, 17, 0]


@pytest.mark.parametrize("offset", [0, 4, 32])
@every_cpu
def test_streamed_stores_reach_memory_at_any_alignment(offset, cpu):
    source, result, x = array("a", f32, n), array("b", f32, n), fresh("x")
    store = VectorStore(result, (x,), VectorRead(source, (x,), 1, LANES, None), stream=0)
    compiled = compile_body([For(x, index(0), n, LANES, Block((store,)))], [source], [result], cpu=cpu)
    assert "movnt" in compiled.assembly
    room = np.zeros(64 + 24, "f4")
    start = (-room.ctypes.data % 64) // 4 + offset // 4
    data, out = values(f32, 24), room[start : start + 24]
    compiled([data], [24], [out])
    np.testing.assert_array_equal(out, data)


@pytest.mark.parametrize("count", [0, 1, 2, 5])
def test_streaming_loops_move_to_aligned_addresses_and_still_cover_everything(count):
    """Rows of an odd length, written from column 1: whole gangs only, some of them twice."""
    source, result, x, y = array("a", f32, 3, n), array("b", f32, 3, n), fresh("x"), fresh("y")
    store = VectorStore(result, (y, x), VectorRead(source, (y, x), 1, LANES, None), stream=0)
    rows = For(y, index(0), index(3), 1, Block((For(x, index(1), add(n, -1), LANES, Block((store,))),)))
    compiled = compile_body([rows], [source], [result])
    width = count * LANES + 2
    data, out = values(f32, 3 * width).reshape(3, width), np.zeros((3, width), "f4")
    compiled([data], [width], [out])
    np.testing.assert_array_equal(out[:, 1:-1], data[:, 1:-1])
    assert not out[:, 0].any()
    assert not out[:, -1].any()


@some_dtypes
def test_predicated_scalar_reads_give_zero_and_writes_nothing_where_off(dtype):
    source, result = array("a", dtype, n), array("b", dtype, 4)
    x = fresh("x")
    inside = Op("lt", bool_, (x, n))
    body = Store(result, (x,), Read(source, (x,), inside), Op("ne", bool_, (x, index(1))))
    compiled = compile_body([For(x, index(0), index(4), 1, Block((body,)))], [source], [result])
    data, out = values(dtype, 3), values(dtype, 4, 2)
    wanted = np.array([data[0], out[1], data[2], 0], dtype.numpy)
    compiled([data], [3], [out])
    np.testing.assert_array_equal(out, wanted)


@every_cpu
def test_unrolled_loops_keep_register_buffers_out_of_memory(cpu):
    """Four accumulators over r, indexed by the unrolled loop in global coordinates."""
    a, out, rows = array("a", f32, n, 4), array("o", f32, 4, 8), array("acc", f32, 4, scope="register", lanes=8)
    y, r, y2, y3 = (fresh(name) for name in ("y", "r", "y2", "y3"))
    zero = Splat(const(f32, 0), 8)
    step = Op("add", f32, (Read(rows, (y2,), None), Splat(Read(a, (r, y2), None), 8)))
    statements = [
        Alloc(rows),
        For(y, index(0), index(4), 1, Block((Store(rows, (y,), zero),)), "unroll"),
        For(r, index(0), n, 1, Block((For(y2, index(0), index(4), 1, Block((Store(rows, (y2,), step),)), "unroll"),))),
        For(y3, index(0), index(4), 1, Block((VectorStore(out, (y3, index(0)), Read(rows, (y3,), None)),)), "unroll"),
    ]
    compiled = compile_body(statements, [a], [out], cpu=cpu)
    data = np.arange(40, dtype="f4").reshape(10, 4)
    result = np.zeros((4, 8), "f4")
    compiled([data], [10], [result])
    np.testing.assert_array_equal(result, np.repeat(data.sum(axis=0)[:, None], 8, axis=1))
    assert "(%rsp)" not in compiled.assembly


def test_unrolled_copies_know_their_index_relative_to_an_outer_loop():
    """The loop runs from 2·yo in global coordinates; the register's index is y - 2·yo."""
    out, cells = array("o", i64, n), array("c", i64, 2, scope="register")
    yo, y, y2 = (fresh(name) for name in ("yo", "y", "y2"))
    relative = lambda var: add(var, mul(yo, -2))
    high = add(mul(yo, 2), 2)
    body = Block(
        (
            Alloc(cells),
            For(y, mul(yo, 2), high, 1, Block((Store(cells, (relative(y),), mul(y, 3)),)), "unroll"),
            For(y2, mul(yo, 2), high, 1, Block((Store(out, (y2,), Read(cells, (relative(y2),), None)),)), "unroll"),
        )
    )
    result = np.zeros(6, "i8")
    compile_body([For(yo, index(0), index(3), 1, body)], [], [out])([], [6], [result])
    np.testing.assert_array_equal(result, np.arange(6) * 3)


@pytest.mark.parametrize("scope", ["stack", "heap"])
@some_dtypes
def test_temporary_buffers_hold_what_was_stored(scope, dtype):
    source, result, kept = array("a", dtype, 50), array("b", dtype, 50), array("t", dtype, 50, scope=scope)
    x, z = fresh("x"), fresh("z")
    statements = [
        Alloc(kept),
        For(x, index(0), index(50), 1, Block((Store(kept, (add(mul(x, -1), 49),), Read(source, (x,), None)),))),
        For(z, index(0), index(50), 1, Block((Store(result, (z,), Read(kept, (z,), None)),))),
    ]
    data, out = values(dtype, 50), np.zeros(50, dtype.numpy)
    assert compile_body(statements, [source], [result], ())([data], [], [out]).kind == 0
    np.testing.assert_array_equal(out, data[::-1])


def test_lane_private_buffers_are_vectors_and_can_be_gathered():
    """Each lane keeps a table of 3 and reads the entry that its own index names."""
    table, pick, out = array("t", i32, 3, scope="stack", lanes=LANES), array("p", i64, LANES), array("o", i32, LANES)
    lane = Op("cast", i32, (Ramp(index(0), 1, LANES),))
    k = fresh("k")
    hundred = Splat(Op("cast", i32, (mul(k, 100),)), LANES)
    statements = [
        Alloc(table),
        For(k, index(0), index(3), 1, Block((Store(table, (k,), Op("add", i32, (lane, hundred))),))),
        VectorStore(out, (index(0),), Gather(table, (VectorRead(pick, (index(0),), 1, LANES, None),), None)),
    ]
    places = np.array([0, 1, 2, 0, 2, 1, 1, 0])
    result = np.zeros(LANES, "i4")
    compile_body(statements, [pick], [out], ())([places], [], [result])
    np.testing.assert_array_equal(result, places * 100 + np.arange(LANES))


def test_constant_arrays_are_part_of_the_object():
    data = np.arange(300, dtype="f8") * 0.1
    table, out, x = array("c", f64, 300, scope="constant", data=Data(data)), array("o", f64, 300), fresh("x")
    result = np.zeros(300)
    body = For(x, index(0), index(300), 1, Block((Store(out, (x,), Read(table, (x,), None)),)), "parallel")
    compile_body([body], [], [out], ())([], [], [result])
    np.testing.assert_array_equal(result, data)


@pytest.mark.parametrize("name", ["add", "mul", "minimum", "maximum"])
@pytest.mark.parametrize("dtype", [f32, f64, i32, i8], ids=str)
@every_cpu
def test_lane_folds_are_the_halving_tree(name, dtype, cpu):
    from raido.algo.graph.primitives import evaluate

    source, out = array("a", dtype, 16), array("o", dtype, 2)
    vector = VectorRead(source, (index(0),), 1, 16, None)
    statements = [
        Store(out, (index(0),), LaneFold(name, vector)),
        Store(out, (index(1),), Extract(vector, 5)),
    ]
    data = (np.random.default_rng(3).standard_normal(16) * 50).astype(dtype.numpy)
    result = np.zeros(2, dtype.numpy)
    compile_body(statements, [source], [out], (), cpu)([data], [], [result])
    tree = data
    while len(tree) > 1:
        tree = evaluate(name, dtype, [tree[: len(tree) // 2], tree[len(tree) // 2 :]])
    assert result[0].tobytes() == tree[0].tobytes()
    assert result[1] == data[5]


@every_cpu
def test_masks_survive_names_loops_and_memory(cpu):
    """A masked while loop: lanes go on until their own count is reached."""
    limits, out = array("l", i32, LANES), array("o", i32, LANES)
    state = array("s", i32, scope="register", lanes=LANES)
    live = array("m", bool_, scope="register", lanes=LANES)
    now, want = VectorVar("now", i32, LANES, fresh("s").serial), VectorVar("want", i32, LANES, fresh("s").serial)
    mask = VectorVar("mask", bool_, LANES, fresh("s").serial)
    statements = [
        Alloc(state),
        Alloc(live),
        Let(want, VectorRead(limits, (index(0),), 1, LANES, None)),
        Store(state, (), Splat(const(i32, 0), LANES)),
        While(
            Block(
                (
                    Let(now, Read(state, (), None)),
                    Let(mask, Op("lt", bool_, (now, want))),
                    Store(live, (), mask),
                )
            ),
            LaneFold("logical_or", Read(live, (), None)),
            Block(
                (
                    Store(
                        state,
                        (),
                        Op("select", i32, (mask, Op("add", i32, (now, Splat(const(i32, 1), LANES))), now)),
                    ),
                )
            ),
        ),
        VectorStore(out, (index(0),), Read(state, (), None)),
    ]
    data, result = np.array([3, 0, 7, 1, 100, 5, 2, 9], "i4"), np.zeros(LANES, "i4")
    compile_body(statements, [limits], [out], (), cpu)([data], [], [result])
    np.testing.assert_array_equal(result, data)


def test_folds_store_all_components_at_once():
    """The running sum and maximum of the previous sums: each step reads both states as they were."""
    a, total, largest = array("a", f64, n), array("t", f64), array("m", f64)
    r = fresh("r")
    left, right = (fresh("l0", f64), fresh("l1", f64)), (fresh("r0", f64), fresh("r1", f64))
    value = Read(a, (r,), None)
    step = (Op("add", f64, (left[0], value)), Op("maximum", f64, (left[1], left[0])))
    fold = Fold((total, largest), (), step, left, right, step, (const(f64, 0), const(f64, 0)))
    data, sums = values(f64, 20), [np.zeros(()), np.zeros(())]
    compile_body([For(r, index(0), n, 1, Block((fold,)))], [a], [total, largest])([data], [20], sums)
    running = np.cumsum(data)
    assert sums[0] == running[-1]
    assert sums[1] == max(0, running[:-1].max())


@pytest.mark.parametrize("step", [1, 2])
def test_bounds_of_loops_are_what_was_read_before_memory_changed(step):
    bounds, result = Buffer("bounds", i64, (index(2),), "stack", new_serial(), (), 1, None), array("b", i64, n)
    low, high, x = fresh("low"), fresh("high"), fresh("x")
    begin, end = (Read(bounds, (index(k),), None) for k in range(2))
    written = Store(result, (x,), const(i64, 1))
    statements = [
        Alloc(bounds, -1),
        Store(bounds, (index(0),), index(3)),
        Store(bounds, (index(1),), n),
        Let(low, begin),
        Let(high, end),
        Store(bounds, (index(0),), index(0)),
        Store(bounds, (index(1),), index(0)),
        For(x, low, high, step, Block((written,))),
    ]
    out = np.zeros(11, "i8")
    compile_body(statements, (), [result])([], [11], [out])
    assert out.tolist() == [int(k >= 3 and (k - 3) % step == 0) for k in range(11)]


def test_branches_and_prefetches_are_taken_as_written():
    out, x = array("o", i64, n), fresh("x")
    body = Block(
        (
            Prefetch(out, (add(x, 100),)),
            If(
                Op("lt", bool_, (x, index(3))),
                Block((Store(out, (x,), mul(x, 2)),)),
                Block((Store(out, (x,), mul(x, -1)),)),
            ),
        )
    )
    result = np.zeros(5, "i8")
    compiled = compile_body([For(x, index(0), n, 1, body)], [], [out])
    compiled([], [5], [result])
    assert list(result) == [0, 2, 4, -3, -4]
    assert "prefetcht0" in compiled.assembly


@every_cpu
@pytest.mark.parametrize("offset", [0, 1, 2, 3])
@pytest.mark.parametrize("dtype", [u8, i16, u16], ids=str)
def test_narrow_elements_are_gathered_from_any_address(dtype, cpu, offset):
    """NumPy's arrays need not be aligned: an element of 16 bits may lie in two words."""
    source, places, result = array("a", dtype, n), array("k", i64, LANES), array("b", dtype, LANES)
    read = Gather(source, (VectorRead(places, (index(0),), 1, LANES, None),), None)
    body = [VectorStore(result, (index(0),), read)]
    compiled = compile_body(body, [source, places], [result], cpu=cpu)
    raw = np.random.default_rng(offset).integers(0, 256, 64 * dtype.numpy.itemsize + 8).astype(np.uint8)
    first = -raw.ctypes.data % 4 + offset
    data = raw[first : first + 64 * dtype.numpy.itemsize].view(dtype.numpy)
    at, out = np.array([0, 1, 2, 3, 63, 62, 7, 30]), np.zeros(LANES, dtype.numpy)
    compiled([data, at], [len(data)], [out])
    np.testing.assert_array_equal(out, data[at])
