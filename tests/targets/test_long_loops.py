"""Loops that data ends, on a device that ends loops by itself: their limits, and which kernels look for ended ones."""

from __future__ import annotations

from typing import Any

import pytest

import raido as rd

LIMIT = 65_535


def down(x: Any) -> Any:
    return rd.while_loop(lambda s: s > 0, lambda s: s - 1, x)


def up_by(n: int, x: Any) -> Any:
    return rd.loop(n, lambda i, s: s * 3 + 1, x)


CHAINS = {
    "alone": (lambda x: down(x), LIMIT - 2),
    "behind a short loop": (lambda x: down(up_by(1000, x)), LIMIT - 2 * (1 + 1024)),
    "behind a long loop": (lambda x: down(up_by(40_000, x)), None),
    "behind another": (lambda x: down(1000 - down(x)), None),
    "in a loop": (lambda x: rd.loop(10, lambda i, s: down(s) + 1, x), None),
    "around a loop": (lambda x: rd.while_loop(lambda s: s > 0, lambda s: up_by(10, s) - s, x), None),
}


@pytest.mark.parametrize("where", CHAINS)
def test_a_loop_that_data_ends_stays_below_the_devices_limit_or_its_kernel_looks_for_ended_loops(where: str) -> None:
    chain, limit = CHAINS[where]

    @rd.algorithm(a="i32[n]")
    def chains(a: rd.Array) -> rd.Array:
        return rd.map(chain, a)

    source = chains.compile(rd.Target("vulkan", device="lavapipe")).source("tir")
    looks = "fault_record[T.int64(0)] < 0" in source
    assert looks == (limit is None)
    assert (f"= {limit}\n" in source) == (limit is not None)


def test_no_limit_but_that_of_steps_where_loops_do_not_end_by_themselves() -> None:
    @rd.algorithm(a="i32[n]")
    def counts(a: rd.Array) -> rd.Array:
        return rd.map(down, a)

    source = counts.compile(rd.Target("cuda", arch="sm_90")).source("tir")
    assert f"= {1 << 30}\n" in source
