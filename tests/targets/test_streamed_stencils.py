"""Random streamed stencils give the interpreter's results: rows that are cache lines and rows that are not, short and long,
of known and unknown sizes, with every boundary and every alignment of memory, without accesses out of bounds.
"""

import random

import numpy as np
import pytest
from emission import every_cpu

import raido as rd

DTYPES = {"u8": rd.u8, "u16": rd.u16, "f32": rd.f32, "f64": rd.f64, "i64": rd.i64}
WIDTHS = [range(1, 71), range(500, 531), (1024, 1100, 2048, 2051)]  # the last of them are streamed wherever they begin
BOUNDARIES = ["clamp", "wrap", "mirror", rd.constant(3)]
FREE = 77  # what memory holds around a result


def stencil(draw):
    """The sum of some neighbours, in one result or two."""
    name, boundary = draw.choice(sorted(DTYPES)), (draw.choice(BOUNDARIES), draw.choice(BOUNDARIES))
    before, behind = draw.choice([(1, 1), (2, 2), (0, 3), (17, 17)])
    above, two = draw.randint(0, 1), draw.random() < 0.25

    def total(p):
        return p[0, -before] + p[0, 0] + p[0, behind] + p[-above, 0]

    @rd.algorithm(a=f"{name}[h, w]")
    def program(a):
        taps = (lambda p: (total(p), (total(p) * 2).astype(rd.f32))) if two else total
        return rd.stencil(taps, a, boundary=boundary, name="out")

    return program, DTYPES[name].numpy


def schedule(draw, program):
    """Streamed, in gangs side by side, with rows side by side or not."""
    s = program.schedule()
    rows = draw.choice([1, 1, 2, 4])
    if rows > 1:
        s["out"].split("y", rows).reorder("yo", "x", "yi").unroll("yi")
    s["out"].vectorize("x", interleave=draw.choice([1, 1, 2, 4])).stream_stores()
    if draw.random() < 0.8:
        s["out"].partition_boundaries()
    return s


def memory(shape, dtype, away):
    """Room for an array whose first element lies `away` bytes behind the begin of a line, and the array."""
    size = int(np.prod(shape)) * dtype.itemsize
    room = np.full(size + 192, FREE, np.uint8)
    start = 64 - room.ctypes.data % 64 + away
    return room, room[start : start + size].view(dtype).reshape(shape)


def view_of(draw, array):
    """The same numbers in memory that is strided, reversed or not aligned."""
    form = draw.randrange(4)
    if form == 0:
        return np.repeat(array, 2, axis=-1)[..., ::2]
    if form == 1:
        return array[::-1].copy()[::-1]
    held = memory(array.shape, array.dtype, draw.choice([0, 1, array.itemsize]))[1]
    held[...] = array
    return held


def hold(draw, program, exe, given):
    """One call agrees with the interpreter, and writes its results only."""
    want = program.interpret(given)
    want = want if isinstance(want, tuple) else (want,)
    rooms = [memory(w.shape, w.dtype, draw.choice([0, 0, 1, 8, 64 - w.itemsize])) for w in want]
    outs = tuple(out for _, out in rooms)
    exe(view_of(draw, given), out=outs if len(outs) > 1 else outs[0])
    for expected, (room, out) in zip(want, rooms, strict=True):
        np.testing.assert_array_equal(out, expected)
        out.reshape(-1).view(np.uint8)[...] = FREE
        assert (room == FREE).all()


@every_cpu
@pytest.mark.parametrize("known", [(), ("w",), ("h", "w")], ids=["unknown", "width", "all"])
@pytest.mark.parametrize("seed", range(3))
def test_streamed_stencils_are_what_the_interpreter_says(cpu, known, seed):
    draw = random.Random(f"{cpu} {known} {seed}")
    program, dtype = stencil(draw)
    width = draw.choice(draw.choice([*WIDTHS, (16, 64, 512)]))  # more often of whole lines
    sizes = {name: {"h": 5, "w": width}[name] for name in known}
    exe = program.compile(rd.Target("llvm", cpu=cpu), schedule=schedule(draw, program), sizes=sizes)
    for _ in range(6):
        shape = (sizes.get("h", draw.choice([1, 2, 3, 8])), sizes.get("w", draw.choice(draw.choice(WIDTHS))))
        hold(draw, program, exe, np.random.default_rng(seed).integers(0, 100, shape).astype(dtype))


@every_cpu
def test_a_result_that_begins_between_elements_is_stored_as_usual(cpu):
    """No element of it begins a line: nothing can be aligned, where stores past the cache have to be."""

    @rd.algorithm
    def doubled(a: rd.f64["h", "w"]):
        return rd.elementwise(lambda v: v * 2, a, name="out")

    s = doubled.schedule()
    s["out"].vectorize("x").stream_stores()
    exe = doubled.compile(rd.Target("llvm", cpu=cpu), schedule=s)
    assert "movnt" in exe.source("asm")
    given = np.random.default_rng(0).random((4, 1024))
    for away in (1, 4, 63):
        out = memory(given.shape, given.dtype, away)[1]
        np.testing.assert_array_equal(exe(given, out=out), given * 2)
