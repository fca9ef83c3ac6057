"""Loops that data ends, on a device that ends loops by itself: their limits, and the kernels that check for ended ones."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import raido as rd

LIMIT = 65_535


def down(x: Any) -> Any:
    return rd.while_loop(lambda s: s > 0, lambda s: s - 1, x)


def up_by(n: int, x: Any) -> Any:
    return rd.loop(n, lambda i, s: s * 3 + 1, x)


def iterations_below(n: int, x: Any) -> Any:
    """Ends by its counter at the latest."""
    return rd.while_loop(lambda s: (s[0] > 0) & (s[1] < n), lambda s: (s[0] - 1, s[1] + 1), (x, rd.i32(0)))[1]


CHAINS = {
    "alone": (lambda x: down(x), LIMIT - 2),
    "behind a short loop": (lambda x: down(up_by(1000, x)), LIMIT - 2 * (1 + 1024)),
    "behind a long loop": (lambda x: down(up_by(40_000, x)), None),
    "behind another": (lambda x: down(1000 - down(x)), None),
    "in a loop": (lambda x: rd.loop(10, lambda i, s: down(s) + 1, x), None),
    "behind one that counts itself": (lambda x: down(iterations_below(1000, x)), LIMIT - 2 * (1 + 1001)),
    "behind one that counts itself for long": (lambda x: down(iterations_below(40_000, x)), None),
    "around a loop": (lambda x: rd.while_loop(lambda s: s > 0, lambda s: up_by(10, s) - s, x), None),
}


@pytest.mark.parametrize("where", CHAINS)
def test_a_loop_that_data_ends_stays_below_the_devices_limit_or_its_kernel_looks_for_ended_loops(where: str) -> None:
    chain, limit = CHAINS[where]

    @rd.algorithm(a="i32[n]")
    def chains(a: rd.Array) -> rd.Array:
        return rd.map(chain, a)

    source = chains.compile(rd.Target("vulkan", device="lavapipe")).source("tir")
    looks = "for again" in source
    assert looks == (limit is None)
    assert (f"= {limit}\n" in source) == (limit is not None)


def test_no_limit_but_that_of_steps_where_loops_do_not_end_by_themselves() -> None:
    @rd.algorithm(a="i32[n]")
    def counts(a: rd.Array) -> rd.Array:
        return rd.map(down, a)

    source = counts.compile(rd.Target("cuda", arch="sm_90")).source("tir")
    assert f"= {1 << 30}\n" in source


COUNTED = {
    "below": (lambda s: (s[0] > 0) & (s[1] < 7), lambda s: (s[0] - 1, s[1] + 2), 4),
    "at most": (lambda s: (s[1] <= 7) & (s[0] > 0), lambda s: (s[0] - 1, s[1] + 2), 4),
    "alone": (lambda s: s[1] < 7, lambda s: (s[0] - 1, s[1] + 3), 3),
    "never": (lambda s: s[1] < -7, lambda s: (s[0] - 1, s[1] + 3), 0),
    "downwards": (lambda s: s[1] > -7, lambda s: (s[0] - 1, s[1] - 1), None),
    "by what data says": (lambda s: (s[0] > 0) & (s[1] < 7), lambda s: (s[0] - 1, s[1] + s[0]), None),
    "up to what data says": (lambda s: s[1] < s[0], lambda s: (s[0], s[1] + 1), None),
    "or something else": (lambda s: (s[0] > 0) | (s[1] < 7), lambda s: (s[0] - 1, s[1] + 1), None),
    "beyond the largest number": (lambda s: s[1] < 2**31 - 1, lambda s: (s[0] - 1, s[1] + 2**28), None),
}


@pytest.mark.parametrize("name", COUNTED)
def test_loops_that_count_themselves_have_no_other_limit(name: str) -> None:
    """What they give is held against the interpreter, where a device is."""
    test, step, most = COUNTED[name]

    @rd.algorithm(a="i32[n]")
    def counts(a: rd.Array) -> rd.Array:
        return rd.map(lambda x: rd.while_loop(test, step, (x, rd.i32(0)))[1], a)

    source = counts.compile(rd.Target("vulkan", device="lavapipe")).source("tir")
    limits = [int(n) for n in re.findall(r"left_\d+\[T.int64\(0\)\] = (\d+)\n", source)]
    assert limits == ([most] if most is not None else [LIMIT - 2])
    if (
        any(target.name.startswith("vulkan") for target in rd.targets() if target.available)
        and name != "beyond the largest number"
    ):
        a = np.array([0, 1, 2, 3, 4, 5, 60, -3], np.int32)
        np.testing.assert_array_equal(counts.compile("vulkan")(a), counts.interpret(a))
