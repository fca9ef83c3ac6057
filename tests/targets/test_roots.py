"""Square roots by multiplications where a loop saturates the divider: the bits of the instruction, for every number."""

from __future__ import annotations

import numpy as np
import pytest
from processors import needs

import raido as rd
from raido.schedule.gang.vectorise import form_gangs
from raido.schedule.lower import lower
from raido.schedule.nest.nodes import For
from raido.schedule.nest.walk import statements_within
from raido.targets.compile import Compilation
from raido.targets.emit.divider import roots_by_products

CPU = "skylake-avx512"
WIDE = [needs(CPU)]


@rd.algorithm
def least(a: rd.f32["n"], scale: rd.f32["k"]):
    """The least root and the least quotient over all scales: in the loop over scales, four gangs of each wait for the divider."""

    def both(x):
        scaled = x * scale
        return rd.reduce(
            lambda p, q: (rd.minimum(p[0], q[0]), rd.minimum(p[1], q[1])),
            (np.inf, np.inf),
            rd.sqrt(scaled),
            1 / scaled,
        )

    return rd.map(both, a, name="out")


def side_by_side(gangs: int):
    s = least.schedule()
    s["out"].split("x", 1 << 14).parallel("xo").vectorize("xi", interleave=gangs)
    return s


def roots(numbers: np.ndarray) -> np.ndarray:
    exe = least.compile(rd.Target("llvm", cpu=CPU), schedule=side_by_side(4))
    return exe(numbers, np.ones(1, np.float32))[0]


@pytest.mark.parametrize("cpu", WIDE)
def test_every_root_is_rounded_to_nearest(cpu):
    """All numbers from 1 to 4 (other powers of 4 give the same digits), once in each of two gangs; then all exponents and kinds."""
    mantissas = np.arange(0x3F800000, 0x40800000, dtype=np.uint32).view(np.float32)
    chance = np.random.default_rng(0)
    bits = chance.integers(0, 1 << 32, 1 << 20, dtype=np.uint32)
    for numbers in (mantissas, np.roll(mantissas, 32), bits.view(np.float32)):
        with np.errstate(invalid="ignore"):
            want = np.sqrt(numbers)
        got = roots(numbers)
        different = got.view(np.uint32) != want.view(np.uint32)
        assert (np.isnan(got) & np.isnan(want))[different].all()


@pytest.mark.parametrize("number", [0.0, -0.0, 1e-45, 1.1754944e-38, 2.0**-100, np.inf, 3.4028235e38, -1.0, np.nan])
@pytest.mark.parametrize("cpu", WIDE)
def test_one_unusual_number_spoils_no_other(cpu, number):
    numbers = np.linspace(1, 9, 128, dtype=np.float32)
    numbers[::7] = number
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(roots(numbers), np.sqrt(numbers))


@pytest.mark.parametrize(("gangs", "made"), [(1, 0), (2, 1), (4, 3)])
def test_products_take_as_many_roots_as_the_divider_can_spare(gangs, made):
    schedule = side_by_side(gangs)
    nest = form_gangs(lower(schedule.graph, schedule.variants()), 512)
    loops = [s for s in statements_within(nest.body) if isinstance(s, For)]
    assert max(len(roots_by_products(loop.body.statements)) for loop in loops) == made


def test_loops_that_wait_for_memory_keep_the_instruction():
    program = rd.algorithm(lambda a: rd.map(lambda x: rd.sqrt(x) / 3, a, name="out"), a="f32[n]")
    assert "rsqrt14" not in Compilation(program.trace(), rd.Target("llvm", cpu=CPU), None, {}).source("asm")
