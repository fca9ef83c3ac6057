"""Rows of one array loop with different trip counts: each ends by itself, and does no work afterwards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import raido as rd
from raido.schedule.lower import lower
from raido.schedule.machine import Machine
from raido.schedule.nest.nodes import For, Nest, While
from raido.schedule.nest.walk import statements_within
from raido.schedule.oracles.count import count_work
from raido.schedule.oracles.interpret import interpret_nest
from raido.schedule.schedule import Schedule
from raido.schedule.stages.form_stages import form_stages


@rd.algorithm
def halved(a: rd.f32["n", "m"], counts: rd.i64["n"]):
    return rd.map(lambda row, k: rd.loop(k, lambda i, y: y * 0.5 + 1, row), a, counts)


@rd.algorithm
def written_one_by_one(a: rd.f32["n", "m"], counts: rd.i64["n"]):
    """A row and a number are the state, and iterations check their index."""

    def step(i: Any, s: Any) -> Any:
        return s[0].at[i].set(s[1]), s[1] * 2

    return rd.map(lambda row, k: rd.loop(k, step, (row, rd.f32(1)))[0], a, counts)


@rd.algorithm
def doubled(a: rd.f32["n", "m"], counts: rd.i64["n"]):
    return rd.map(lambda row, k: rd.while_loop(lambda y: y[0] < 2.0**k, lambda y: y * 2, row), a, counts)


@rd.algorithm
def scaled(a: rd.f32["n", "m"], counts: rd.i64["n"]):
    """The test is a sum of the row, and a number counts its iterations."""
    goes_on = lambda s: (rd.sum(s[0]) < 50.0) & (s[1] < 9)
    return rd.map(lambda row, k: rd.while_loop(goes_on, lambda s: (s[0] * 1.5, s[1] + 1), (row, k)), a, counts)


@rd.algorithm
def rotated(a: rd.f32["n", "m"], counts: rd.i64["n"]):
    """An iteration needs the whole row as it was: states are swapped for all rows at once."""
    return rd.map(lambda row, k: rd.loop(k, lambda i, y: rd.roll(y, 1, 0), row), a, counts)


@rd.algorithm
def as_often_as_data_say(a: rd.f32["n", "m"], counts: rd.i64["n"]):
    return rd.map(lambda row: rd.loop(rd.max(counts, initial=0), lambda i, y: y * 0.5 + 1, row), a)


@rd.algorithm
def of_rows_that_are_kept(a: rd.f32["n", "m"], counts: rd.i64["n"]):
    """Data decide how many rows there are."""
    kept = rd.filter(lambda row: row[0] > 1, a)
    return rd.map(lambda row: rd.loop(5, lambda i, y: y.at[i + 1].set(y[i] * 0.5 + counts.shape[0]), row), kept)


def nest_of(algorithm: Any) -> Nest:
    complete = Schedule(form_stages(algorithm.trace())).complete(Machine())
    return lower(complete.graph, complete.variants())


def iterations_of(nest: Nest) -> tuple[bool, bool]:
    """Whether the array loop stands inside a loop over rows, and whether rows are handed out as threads become free."""
    for outer in statements_within(nest.body):
        if isinstance(outer, For) and outer.kind == "parallel" and outer.stage.startswith(("loop_1", "while_1")):
            inside = [s for s in statements_within(outer.body) if isinstance(s, While) or getattr(s, "loop", "") == "t"]
            if inside:
                return True, outer.dynamic
    return False, False


@pytest.mark.parametrize(
    ("algorithm", "inside", "dynamic"),
    [
        (halved, True, True),
        (written_one_by_one, True, True),
        (doubled, True, True),
        (scaled, True, True),
        (rotated, False, False),
        (as_often_as_data_say, True, False),
        (of_rows_that_are_kept, True, False),
    ],
)
def test_rows_end_by_themselves(algorithm: Any, inside: bool, dynamic: bool) -> None:
    nest = nest_of(algorithm)
    assert iterations_of(nest) == (inside, dynamic)
    draw = np.random.default_rng(5)
    for n in (0, 1, 7, 40):
        arguments = [draw.uniform(0.5, 3, (n, 9)).astype(np.float32), draw.integers(0, 9, n)]
        wanted = algorithm.interpret(*arguments)
        for got in (interpret_nest(nest, arguments, seed=3), algorithm(*arguments)):
            pairs = (
                zip(got, wanted, strict=True)
                if isinstance(wanted, tuple)
                else [(np.asarray(got).reshape(wanted.shape), wanted)]
            )
            for one, other in pairs:
                np.testing.assert_allclose(one, other, rtol=1e-5)


@pytest.mark.parametrize("algorithm", [halved, written_one_by_one, doubled])
def test_a_long_row_does_not_make_the_others_work(algorithm: Any) -> None:
    """The iterations of all rows together are as many in both cases."""
    nest, rows = nest_of(algorithm), np.ones((64, 64), np.float32)
    even, uneven = np.full(64, 1), np.eye(1, 64, dtype=np.int64)[0] * 64
    work = [count_work(nest, [rows, counts], {})[0].total for counts in (even, uneven)]
    assert work[1] < 1.3 * work[0]


@pytest.mark.parametrize("run", [lambda a: interpret_nest(nest_of(searched), [a]), lambda a: searched(a)])
def test_rows_whose_checks_fail_end(run: Callable[[Any], object]) -> None:
    """Beyond its end a row is 0, so the search would go on for ever."""
    with pytest.raises(rd.IndexOutOfRange):
        run(np.array([[1, 2, 9], [1, 2, 3]], np.float32))


@rd.algorithm
def searched(a: rd.f32["n", "m"]):
    step = lambda s: (s[0].at[0].add(1), s[1] + 1)
    return rd.map(lambda row: rd.while_loop(lambda s: s[0][s[1]] < 9, step, (row, rd.i64(0)))[1], a)
