"""Non-temporal stores: one test per row, none per store; every element is written whatever the alignment; rows that are not streamed."""

import itertools

import numpy as np
import pytest
from emission import WIDEST, array, compile_body, every_cpu, fresh, index, n
from test_emit_assembly import CPU, LANES, is_clean, loop_with, loops

from raido.algo.graph.dtypes import f32, f64, u8, u16
from raido.algo.graph.index import add
from raido.schedule.nest.nodes import Block, For, VectorStore
from raido.schedule.nest.values import VectorRead

WIDTH = add(n, 0)


def rows_by_gangs(rows, gangs=1, above=0, low=0, high=WIDTH, kind="unroll", cpu=WIDEST):
    """b[y, x +: 16] = a[y, x +: 16] for `rows` rows side by side, `gangs` gangs side by side."""
    source, result = array("a", f32, rows, n), array("b", f32, rows, n)
    x, y = fresh("x"), fresh("y")
    places = [(y, add(x, g * LANES)) for g in reversed(range(gangs))]
    stores = [VectorStore(result, p, VectorRead(source, p, 1, LANES, None), stream=above) for p in places]
    inner = For(y, index(0), index(rows), 1, Block(tuple(stores)), kind)
    step = LANES * gangs
    return compile_body([For(x, index(low), add(high, 1 - step), step, Block((inner,)))], [source], [result], cpu=cpu)


def aligned(shape, offset=0):
    """Zeros that begin `offset` bytes after a line."""
    room = np.zeros(int(np.prod(shape)) + 32, "f4")
    start = (-room.ctypes.data % 64 + offset) // 4
    return room[start : start + int(np.prod(shape))].reshape(shape)


@pytest.mark.parametrize(("rows", "gangs"), [(1, 1), (4, 1), (1, 4), (2, 2)])
def test_the_loop_that_streams_tests_nothing(rows, gangs):
    body = loop_with(rows_by_gangs(rows, gangs, cpu=CPU), "vmovntps")
    assert is_clean(body)
    assert sum(i.startswith("j") for i in body) == 1
    assert not any(i.startswith(("test", "cmov", "vmovups\t%")) for i in body)


def test_gangs_side_by_side_are_streamed_together():
    body = loop_with(rows_by_gangs(2, 4, cpu=CPU), "vmovntps")
    assert sum(i.startswith("vmovntps") for i in body) % 8 == 0


@pytest.mark.parametrize("offset", [0, 4, 60])
@pytest.mark.parametrize("width", [0, 16, 48, 208, 1008, 1040, 1200])
@pytest.mark.parametrize("kind", ["unroll", "serial"])
def test_rows_of_any_alignment_are_covered(width, offset, kind):
    compiled = rows_by_gangs(3, kind=kind)
    data = np.random.default_rng(0).random((3, width), dtype="f4")
    out = aligned((3, width), offset)
    compiled([data], [width], [out])
    np.testing.assert_array_equal(out, data)


@pytest.mark.parametrize("gangs", [2, 4])
@pytest.mark.parametrize("offset", [0, 20])
def test_gangs_side_by_side_cover_rows_of_any_alignment(gangs, offset):
    width = LANES * gangs * 20
    compiled = rows_by_gangs(2, gangs)
    data = np.random.default_rng(0).random((2, width), dtype="f4")
    out = aligned((2, width), offset)
    compiled([data], [width], [out])
    np.testing.assert_array_equal(out, data)


@pytest.mark.parametrize("width", [1216, 1219])
def test_rows_that_differ_in_alignment_are_stored_as_usual(width):
    """Rows of 1219 floats begin at three distances from a line: nothing can be aligned for all of them."""
    compiled = rows_by_gangs(3, high=add(n, -(width % LANES)))
    data = np.random.default_rng(0).random((3, width), dtype="f4")
    out = aligned((3, width), 8)
    compiled([data], [width], [out])
    np.testing.assert_array_equal(out[:, :1216], data[:, :1216])


def copied_rows(dtype, gangs, cpu):
    """b[y, x +: lanes] = a[y, x +: lanes] for two rows, each of whole gangs, said one by one."""
    lanes, x = 64 // dtype.itemsize, fresh("x")
    source, result = array("a", dtype, 2, n), array("b", dtype, 2, n)
    places = [(index(y), add(x, g * lanes)) for y in range(2) for g in range(gangs)]
    stores = [VectorStore(result, p, VectorRead(source, p, 1, lanes, None), stream=0) for p in places]
    loop = For(x, index(0), add(n, 1 - lanes * gangs), lanes * gangs, Block(tuple(stores)))
    return compile_body([loop], [source], [result], cpu=cpu)


SHIFTED = pytest.mark.parametrize("dtype", [f32, f64, u8, u16], ids=str)


@SHIFTED
@pytest.mark.parametrize("gangs", [1, 2])
def test_rows_that_differ_in_alignment_are_shifted_into_lines(dtype, gangs):
    """Also where a row begins a line, where no element does, and where a row has no lines to shift; nothing but whole gangs is written."""
    compiled = copied_rows(dtype, gangs, WIDEST)
    gang = gangs * 64 // dtype.itemsize
    for whole, rest in itertools.product((0, 1, 5, 150), (0, 1, gang - 1)):
        width = whole * gang + rest
        data = np.random.default_rng(width).integers(1, 100, (2, width)).astype(dtype.numpy)
        for away in (0, dtype.itemsize, 1, 63):
            room = np.zeros(data.nbytes + 192, np.uint8)
            start = 64 - room.ctypes.data % 64 + away
            out = room[start : start + data.nbytes].view(dtype.numpy).reshape(data.shape)
            compiled([data], [width], [out])
            np.testing.assert_array_equal(out, np.where(np.arange(width) < whole * gang, data, 0))
            out[...] = 0
            assert not room.any()


@SHIFTED
@pytest.mark.parametrize("gangs", [1, 2])
@pytest.mark.parametrize("cpu", ["skylake-avx512", "icelake-server"])
def test_vectors_are_shifted_by_one_permutation(dtype, gangs, cpu):
    """The kept vectors and the distances are in registers; nothing is tested in the loop. Before Ice Lake bytes are put together of words."""
    body = loop_with(copied_rows(dtype, gangs, cpu), ("vpermt2", "vpermi2"))
    permuted, stored = (sum(i.startswith(name) for i in body) for name in (("vpermt2", "vpermi2"), "vmovnt"))
    assert is_clean(body)
    assert permuted == stored * (2 if dtype is u8 and cpu == "skylake-avx512" else 1)
    assert sum(i.startswith("j") for i in body) == 1


@pytest.mark.parametrize("width", [256, 1024])
def test_small_arrays_take_the_ordinary_loop(width):
    """Either loop gives the same; the size is compared once, outside of both."""
    compiled = rows_by_gangs(2, above=4096)
    data = np.random.default_rng(0).random((2, width), dtype="f4")
    out = aligned((2, width), 4)
    compiled([data], [width], [out])
    np.testing.assert_array_equal(out, data)
    assert "4096" in compiled.assembly
    assert not any("4096" in i for body in loops(compiled.assembly) for i in body)


@every_cpu
def test_vectors_of_every_width_are_streamed(cpu):
    lanes = {"x86-64-v2": 4, "haswell": 8}.get(cpu, 16)
    source, result, x = array("a", f32, n), array("b", f32, n), fresh("x")
    store = VectorStore(result, (x,), VectorRead(source, (x,), 1, lanes, None), stream=0)
    compiled = compile_body([For(x, index(0), n, lanes, Block((store,)))], [source], [result], cpu=cpu)
    assert "movnt" in compiled.assembly
    data, out = np.random.default_rng(0).random(96, dtype="f4"), aligned(96, 12)
    compiled([data], [96], [out])
    np.testing.assert_array_equal(out, data)
