"""Rows of a register tile that share more loads than there are registers are stored behind the values of all of them."""

import re

import numpy as np
import pytest
from emission import assembly_of

import raido as rd

TAPS = [(i - 2, j - 2, 0.01 * (1 + i * j)) for i in range(5) for j in range(5)]


def weighted(a: rd.f32["h", "w"]):
    return rd.stencil(lambda p: sum((w * p[y, x] for y, x, w in TAPS), rd.f32(0)), a, boundary="clamp")


@pytest.mark.parametrize("cpu, register", [("haswell", "ymm"), ("skylake-avx512", "zmm")])
def test_a_weighted_sum_spills_little(cpu, register):
    """155 spills with 32 registers and 103 with 16, and 1.4 times as long, with each row stored before the values of the next."""
    text = assembly_of(rd.algorithm(weighted), cpu)
    assert len(re.findall(rf"\(%rsp.*{register}|{register}.*\(%rsp", text)) < 50


@pytest.mark.parametrize("shape", [(1, 1), (5, 40), (37, 129)])
def test_rows_stored_late_are_the_same(shape):
    a = np.random.default_rng(0).random(shape, dtype=np.float32)
    np.testing.assert_allclose(rd.algorithm(weighted)(a), rd.algorithm(weighted).interpret(a), rtol=1e-5)
