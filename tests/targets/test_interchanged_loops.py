"""Transpositions under their default schedule: every size, dtype and processor gives NumPy's results."""

import numpy as np
import pytest
from emission import every_cpu

import raido as rd

rng = np.random.default_rng(3)
SIDES = (0, 1, 7, 16, 17, 31, 130, 300)


@rd.algorithm
def doubled(a: rd.f32["h", "w"]):
    return a.T * 2


@rd.algorithm
def bytes_turned(a: rd.u8["h", "w"]):
    return a.T + 1


@rd.algorithm
def symmetric(a: rd.f64["n", "n"], b: rd.f64["n", "n"]):
    return (a + a.T) * b.T


@rd.algorithm
def reversed_axes(a: rd.f64["d", "h", "w"]):
    return rd.transpose(a, (2, 1, 0)) + 1


@every_cpu
def test_every_height_and_width(cpu):
    single, narrow = (each.compile(rd.Target("llvm", cpu=cpu)) for each in (doubled, bytes_turned))
    for h in SIDES:
        for w in SIDES:
            a = rng.random((h, w), dtype="f4")
            np.testing.assert_array_equal(single(a), a.T * 2)
            b = rng.integers(0, 255, (h, w), dtype="u1")
            np.testing.assert_array_equal(narrow(b), b.T + np.uint8(1))


@every_cpu
def test_two_squares_and_one_array_read_both_ways(cpu):
    exe = symmetric.compile(rd.Target("llvm", cpu=cpu))
    for n in SIDES:
        a, b = rng.random((2, n, n))
        np.testing.assert_array_equal(exe(a, b), (a + a.T) * b.T)


@every_cpu
def test_planes_and_strided_arguments(cpu):
    exe = reversed_axes.compile(rd.Target("llvm", cpu=cpu))
    for shape in ((3, 40, 70), (33, 2, 129), (17, 16, 15)):
        a = rng.random(shape)
        np.testing.assert_array_equal(exe(a), a.transpose(2, 1, 0) + 1)
        np.testing.assert_array_equal(exe(a[::-1, :, ::2]), a[::-1, :, ::2].transpose(2, 1, 0) + 1)


@pytest.mark.parametrize("threads", [1, 2])
def test_results_are_the_same_on_any_number_of_threads(threads):
    a = rng.random((700, 900), dtype="f4")
    np.testing.assert_array_equal(doubled.compile(rd.Target("llvm", threads=threads))(a), a.T * 2)
