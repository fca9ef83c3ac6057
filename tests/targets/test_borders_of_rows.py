"""Borders along the vectorised axis: clamped neighbours without a gather, and short rows that are streamed line by line."""

import numpy as np
import pytest
from emission import assembly_of, every_cpu

import raido as rd

WIDTHS = [16, 64, 100, 512]
PROGRAMS = [(rd.u8, 3), (rd.i16, 1), (rd.f32, 3), (rd.f64, 1)]


def neighbours(dtype, radius):
    """The sum of a row's elements and their neighbours as far as `radius`, and of those above and below."""

    @rd.algorithm
    def taps(a: dtype["h", "w"]):
        along = lambda p: sum((p[0, d] for d in range(-radius, radius + 1)), p[-1, 0] + p[1, 0])
        return rd.stencil(along, a, boundary="clamp", name="out")

    return taps


def streamed(algorithm, interleave=1):
    s = algorithm.schedule()
    s["out"].vectorize("x", interleave=interleave).partition_boundaries().stream_stores()
    return s


def values(dtype, shape):
    return np.random.default_rng(0).integers(0, 100, shape).astype(dtype.numpy)


def room(shape, dtype, away):
    """An array whose first element lies `away` bytes behind the begin of a line."""
    size = int(np.prod(shape)) * dtype.numpy.itemsize
    memory = np.full(size + 128, 77, np.uint8)
    start = -memory.ctypes.data % 64 + away
    return memory[start : start + size].view(dtype.numpy).reshape(shape)


@every_cpu
@pytest.mark.parametrize(("dtype", "radius"), PROGRAMS, ids=str)
def test_rows_of_every_width_are_right_wherever_they_begin(cpu, dtype, radius):
    algorithm = neighbours(dtype, radius)
    for width in WIDTHS:
        sizes = {"h": 5, "w": width}
        exe = algorithm.compile(rd.Target("llvm", cpu=cpu), schedule=streamed(algorithm, 1 + width % 3), sizes=sizes)
        check_wherever_results_begin(exe, algorithm, dtype, width)


@every_cpu
@pytest.mark.parametrize(("dtype", "radius"), PROGRAMS, ids=str)
def test_one_executable_is_right_for_rows_of_every_width(cpu, dtype, radius):
    algorithm = neighbours(dtype, radius)
    exe = algorithm.compile(rd.Target("llvm", cpu=cpu), schedule=streamed(algorithm, 2))
    for width in (1, 5, 48, 63, 65, 129, 192, *WIDTHS):
        check_wherever_results_begin(exe, algorithm, dtype, width)


def check_wherever_results_begin(exe, algorithm, dtype, width):
    given = values(dtype, (5, width))
    want = algorithm(given)
    for away in (0, 8, 64 - dtype.numpy.itemsize):
        out = room((5, width), dtype, away)
        exe(given, out=out)
        np.testing.assert_array_equal(out, want)


def test_all_lines_of_short_rows_are_streamed_without_a_gather():
    algorithm = neighbours(rd.f32, 1)
    assembly = lambda **sizes: assembly_of(algorithm, "skylake-avx512", streamed(algorithm), **sizes)
    for text in (assembly(h=64, w=512), assembly(h=64)):
        assert "gather" not in text
        assert text.count("vmovnt") >= 3  # the first line, those between, the last
    assert "vmovnt" not in assembly(h=64, w=500)  # rows of 2000 bytes begin anywhere in a line


def test_what_clamps_in_lanes_is_a_vector_and_two_elements():
    """Borders of 20 elements are wider than a gang: lanes clamp there."""
    algorithm, sizes = neighbours(rd.f32, 20), {"h": 8, "w": 100}
    assert "gather" not in assembly_of(algorithm, "skylake-avx512", streamed(algorithm), **sizes)
    exe = algorithm.compile(schedule=streamed(algorithm), sizes=sizes)
    given = values(rd.f32, (8, 100))
    np.testing.assert_array_equal(exe(given), algorithm(given))
