"""Indices computed in narrow integers, which wrap: a producer computed at a loop of its reader covers the wrapped indices."""

from __future__ import annotations

import numpy as np
import pytest

import raido as rd

INDICES = {
    "a byte": lambda i: i.astype(rd.u8),
    "below a byte": lambda i: rd.minimum(i.astype(rd.u8) - 1, rd.u8(7)),
    "a negative byte": lambda i: -(i.astype(rd.u8)),
    "halves of doubled bytes": lambda i: (i.astype(rd.i8) * 2) // 2 + 64,
    "a product of 32 bits": lambda i: i.astype(rd.i32) * 65536 * 65536,
    "a choice of bytes": lambda i: rd.where(i > 3, i.astype(rd.u8) + 100, rd.u8(0)),
    "through 64 bits without a sign": lambda i: (i.astype(rd.u64) - 1).astype(rd.u8),
    "a test": lambda i: (i > 3).astype(rd.i64) * 2,
    "bits of a byte": lambda i: rd.popcount((i * 255).astype(rd.u8)),
}


@pytest.mark.parametrize("name", INDICES)
def test_what_is_computed_inside_loops_is_computed_where_indices_lead(name: str) -> None:
    @rd.algorithm
    def read(a: rd.f64["n"]):
        doubled = rd.map(lambda v: v * 2, a).named("doubled")
        return rd.tabulate(600, lambda i: rd.gather(doubled, INDICES[name](i), mode="clamp")).named("out")

    a = np.arange(1000.0)
    expected = read.interpret(a)
    for loops in ("i", "io"):
        schedule = read.schedule()
        if loops == "io":
            schedule["out"].split("i", 100)
        schedule["doubled"].compute_at("out", loops)
        np.testing.assert_array_equal(read.compile(schedule=schedule)(a), expected)
