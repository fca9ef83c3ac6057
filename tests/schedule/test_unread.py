"""Unread results of scans and filters are neither stored nor given memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import raido as rd
from raido.schedule.lower import lower
from raido.schedule.machine import Machine
from raido.schedule.nest.nodes import Alloc, Append, Nest, Store
from raido.schedule.nest.walk import statements_within
from raido.schedule.oracles.interpret import interpret_nest


def starts(a: rd.i32["n"]) -> Any:
    return rd.filter(lambda x, i: x > 0, a, rd.iota(a.shape[0]))[1]


def rest(a: rd.i32["n"]) -> Any:
    return rd.partition(lambda x, y: x > 0, a, a + 1)[1][0]


def second(a: rd.i32["n"]) -> Any:
    return rd.scan(lambda p, q: (p[0] + q[0], rd.maximum(p[1], q[1] + p[0])), (0, -9), a, a)[1]


def both(a: rd.i32["n"]) -> Any:
    return rd.filter(lambda x, i: x > 0, a, rd.iota(a.shape[0]))


STRATEGIES = ("serial", "count_write", "three_phase", "chain")


def nest_of(function: Any, strategy: str) -> Nest | None:
    """The nest of a program whose first stage goes by a strategy, if it has that."""
    schedule = rd.algorithm(function).schedule()
    stage = schedule[schedule.stages[0]]
    if strategy not in stage.strategies():
        return None
    stage.strategy(strategy)
    complete = schedule.complete(Machine())
    return lower(complete.graph, complete.variants())


def given(nest: Nest) -> set[int]:
    """How many arrays each step that appends gives an element."""
    return {len(s.buffers) for s in statements_within(nest.body) if isinstance(s, Append)}


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("function", [starts, rest, second, both])
def test_nobody_stores_what_nobody_reads(function, strategy):
    nest = nest_of(function, strategy)
    if nest is None:
        return
    row = np.random.default_rng(0).integers(-9, 9, 100).astype("i4")
    wanted = rd.algorithm(function).interpret(row)
    found = interpret_nest(nest, [row], seed=1)
    for got, each in zip(found, wanted if isinstance(wanted, tuple) else (wanted,), strict=False):
        np.testing.assert_array_equal(got[: len(each)], each)
    statements = list(statements_within(nest.body))
    own = {s.buffer for s in statements if isinstance(s, Alloc) and s.buffer.scope == "heap" and s.buffer.shape}
    stored = {s.buffer for s in statements if isinstance(s, Store)} | {
        b for s in statements if isinstance(s, Append) for b in s.buffers
    }
    assert not {b.name for b in own & stored if "total" not in b.name and b.name.startswith(("filter", "scan"))}
    if function is starts:
        assert given(nest) == {1}
    if function is both:
        assert given(nest) == {2}
