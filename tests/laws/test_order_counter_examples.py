"""Schedules of reductions whose order matters that once gave wrong results, as small as they could be made; each says what was wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from counter_examples import agrees
from law import CPUS

import raido as rd
from raido.schedule.schedule import Schedule


def compose(p: Any, q: Any) -> Any:
    """The composition of x -> p0 x + p1 and x -> q0 x + q1: associative, and not commutative."""
    return p[0] * q[0], p[1] * q[0] + q[1]


@rd.algorithm
def composed(a: rd.i32["n", "k"]):
    return rd.reduce(compose, (1, 0), a, a, axis=1)[1].named("composed")


WAYS: dict[str, Callable[[Any], Any]] = {
    "nothing": lambda c: c,
    "lanes": lambda c: c.vectorize("r"),
    "four lanes, three gangs": lambda c: c.vectorize("r", lanes=4, interleave=3),
    "chunks": lambda c: c.parallel("r", grain=5),
    "chunks of lanes": lambda c: c.split("r", 19).parallel("ro").vectorize("ri"),
    "lanes in strips": lambda c: c.split("r", 19).vectorize("ri"),
    "unrolled strips": lambda c: c.split("r", 6).unroll("ri"),
    "rows inside": lambda c: c.reorder("r", "x").vectorize("x"),
    "rows inside, unrolled": lambda c: c.reorder("r", "x").unroll("r", 3).vectorize("x"),
    "rows of lanes": lambda c: c.parallel("x").vectorize("r"),
    "fused rows": lambda c: c.split("x", 2).fuse("xo", "xi").vectorize("r"),
    "tiles": lambda c: c.split("r", 8).split("x", 3).reorder("xo", "ro", "xi", "ri").vectorize("xi"),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("k", [0, 1, 7, 8, 40])
def test_folds_keep_their_order(way: str, k: int) -> None:
    agrees(
        composed, np.random.default_rng(k).integers(-3, 4, (3, k), np.int32), said=lambda s: WAYS[way](s["composed"])
    )


STARTS: dict[str, Callable[[Any], Any]] = {
    "nothing": lambda c: c,
    "lanes": lambda c: c.vectorize("r"),
    "chunks": lambda c: c.parallel("r", grain=5),
    "chunks of lanes": lambda c: c.split("r", 19).parallel("ro").vectorize("ri"),
    "unrolled strips": lambda c: c.split("r", 6).unroll("ri"),
}


@pytest.mark.parametrize("way", STARTS)
def test_a_start_that_is_not_neutral_takes_part_once(way: str) -> None:
    """Lanes and chunks begin with what changes nothing; the start comes in at the end."""

    @rd.algorithm
    def started(a: rd.i32["n"], k: rd.i32):
        both = rd.reduce(lambda p, q: (p[0] + q[0], rd.maximum(p[1], q[1])), (5, 3), a, a)
        last = rd.reduce(lambda p, q: rd.where(q == 0, p, q), 5, a, name="last")
        return rd.reduce(rd.add, k, a), both[0], last, rd.reduce(compose, (2, 3), a, a)[1]

    def said(s: Schedule) -> None:
        for stage in s.stages:
            STARTS[way](s[stage])

    for n in (0, 1, 40):
        agrees(started, np.arange(n, dtype=np.int32) % 3, np.int32(7), said=said, cpus=CPUS[1:2])
