"""Rows that begin off cache lines are stored in whole lines (`targets/emit/line_loops.py`)."""

from __future__ import annotations

import numpy as np
import pytest

import raido as rd

TAPS = [(0, 0), (-1, 0), (1, 0), (0, -1), (0, 1)]


@rd.algorithm
def smooth(a: rd.f32["h", "w"]):
    return rd.stencil(
        lambda p: (p[0, 0] + p[-1, 0] + p[1, 0] + p[0, -1] + p[0, 1]) * 0.2, a, boundary="clamp", name="out"
    )


@rd.algorithm
def inner_sums(a: rd.i16["h", "w"]):
    return a.at[1:-1, 1:-1].set(a[1:-1, :-2] + a[1:-1, 2:])


@rd.algorithm
def doubled(a: rd.f32["n"]):
    return a * 2


@pytest.mark.parametrize("cpu", ["", "haswell"])
def test_every_width_and_every_place_of_the_result_agrees_with_the_interpreter(cpu: str) -> None:
    rng = np.random.default_rng(0)
    target = rd.Target("llvm", cpu=cpu) if cpu else rd.Target("llvm")
    smoothed, summed = smooth.compile(target=target), inner_sums.compile(target=target)
    for width in (1, 2, 17, 130, 255, 256, 257, 258, 259, 271, 272, 273, 300, 515, 530):
        a = rng.random((6, width)).astype("f4")
        b = rng.integers(-99, 99, (6, width)).astype("i2")
        wanted = smooth.interpret(a)
        for off in (0, 1, 4, 15):
            memory = np.full(a.size + 80, -1, "f4")
            start = off + -memory.ctypes.data // 4 % 16  # so many elements behind a line
            out = memory[start : start + a.size].reshape(a.shape)
            smoothed(a, out=out)
            assert (out == wanted).all()
            assert (memory[:start] == -1).all() and (memory[start + a.size :] == -1).all()
        assert (summed(b) == inner_sums.interpret(b)).all()


def test_rows_begin_on_lines_where_a_border_was_cut_off() -> None:
    assert "rd.misalignment" in smooth.compile(sizes={"h": 64, "w": 1024}).source("tir")
    assert "rd.misalignment" not in doubled.compile(sizes={"n": 4096}).source("tir")
