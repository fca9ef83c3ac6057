"""Directives on array loops: rows one by one, in chunks, in lanes, or whole; results are the interpreter's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import raido as rd
from raido.algo.errors import ScheduleError
from raido.schedule.lower import lower
from raido.schedule.nest.nodes import For
from raido.schedule.nest.walk import statements_within
from raido.schedule.oracles.interpret import interpret_nest
from raido.schedule.schedule import Schedule
from raido.schedule.strategies.array_loops import row_order


@rd.algorithm
def recurrence(u: rd.f32["n", "m"]):
    step = lambda i, y: y.at[i + 1].set(y[i + 1] - 0.5 * y[i])
    return rd.map(lambda row: rd.loop(row.shape[0] - 1, step, row), u)


@rd.algorithm
def columns(u: rd.f32["n", "m"]):
    return rd.loop(u.shape[0] - 1, lambda i, y: y.at[i + 1].set(y[i] * 0.5 + y[i + 1]), u)


@rd.algorithm
def neighbours(u: rd.f32["n"]):
    return rd.loop(4, lambda i, v: rd.stencil(lambda w: w[-1] + w[1], v, boundary="clamp"), u)


@rd.algorithm
def uneven(x: rd.i64["n", "m"]):
    halved = lambda v: rd.where(v % 2 == 0, v // 2, 3 * v + 1)
    return rd.map(lambda row: rd.while_loop(lambda r: r[0] > 1, lambda r: r.at[0].set(halved(r[0])), row), x)


def by_rows(s: Schedule) -> None:
    s["loop_1"].strategy("rows")


ORDERS: dict[str, Callable[[Schedule], object]] = {
    "whole": lambda s: s["loop_1"].strategy("whole"),
    "rows": lambda s: s["loop_1"].strategy("rows"),
    "serial": lambda s: s["loop_1"].strategy("rows").split("row", 3),
    "threads": lambda s: s["loop_1"].strategy("rows").split("row", 3).parallel("rowo", dynamic=True),
    "between": lambda s: s["loop_1"].strategy("rows").split("row", 5).reorder("t", "rowi"),
    "between by threads": lambda s: (
        s["loop_1"].strategy("rows").split("row", 5).reorder("t", "rowi").parallel("rowo", grain=2)
    ),
}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("algorithm", [recurrence, columns])
def test_orders_change_no_result(algorithm: Any, order: str) -> None:
    schedule = algorithm.schedule()
    ORDERS[order](schedule)
    complete = schedule.complete()
    nest = lower(complete.graph, complete.variants())
    u = np.arange(42, dtype=np.float32).reshape(6, 7) ** 1.5
    for values in (u, u[:1], u[:0], np.tile(u, (30, 3))):
        want = algorithm.interpret(values)
        np.testing.assert_allclose(interpret_nest(nest, [values], seed=3)[0], want, rtol=1e-5)
        np.testing.assert_allclose(algorithm.compile(schedule=schedule)(values), want, rtol=1e-5)


def test_the_loops_that_are_said_are_those_of_the_nest() -> None:
    schedule = recurrence.schedule()
    schedule["loop_1"].strategy("rows").split("row", 3).reorder("t", "rowi").parallel("rowo", grain=2, dynamic=True)
    assert schedule["loop_1"].axes == ("rowo", "t", "rowi")
    complete = schedule.complete()
    loops = [s for s in statements_within(lower(complete.graph, complete.variants()).body) if isinstance(s, For)]
    pieces = next(s for s in loops if s.loop == "rowo")
    assert (pieces.kind, pieces.step, pieces.grain, pieces.dynamic) == ("parallel", 3, 2, True)
    inside = [s.loop for s in statements_within(pieces.body) if isinstance(s, For)]
    assert inside[0] == "t"


@pytest.mark.parametrize("algorithm", [recurrence, columns, uneven])
def test_defaults_are_stated_once_and_travel(algorithm: Any) -> None:
    complete = algorithm.schedule().complete()
    assert '_1"].strategy("rows", depth=1' in str(complete)
    assert str(complete.complete()) == str(complete)
    assert Schedule.from_json(complete.to_json(), algorithm) == complete


def test_loops_are_chosen_where_the_strategy_alone_is_said() -> None:
    schedule = recurrence.schedule()
    by_rows(schedule)
    assert schedule.complete().state.array_loops == recurrence.schedule().complete().state.array_loops
    schedule["loop_1"].split("row", 8)
    order = row_order(schedule.complete().state.array_loops["loop_1"])
    assert order.piece == 8 and order.loops[0].kind == "serial", "what was said stays as it is"


def test_rows_that_end_by_themselves() -> None:
    x = np.array([[27, 3], [1, 4], [6, 5], [97, 6], [0, 7]], np.int64)
    want = uneven.interpret(x)
    np.testing.assert_array_equal(uneven(x), want)
    schedule = uneven.schedule()
    schedule["while_1"].strategy("rows").split("row", 2).parallel("rowo")
    np.testing.assert_array_equal(uneven.compile(schedule=schedule)(x), want)


def test_iterations_that_do_not_keep_to_rows_are_refused_where_the_program_is_lowered() -> None:
    schedule = neighbours.schedule()
    by_rows(schedule)
    with pytest.raises(ScheduleError, match=r'iterations of "loop_1" depend on other rows(.|\n)*strategy\("whole"\)'):
        neighbours.compile(schedule=schedule)
    assert "strategy" not in str(neighbours.schedule().complete())


REFUSED: dict[str, tuple[Callable[[Any], object], str]] = {
    "no strategy of it": (lambda loop: loop.strategy("lines"), "strategies +whole, rows"),
    "no number of it": (lambda loop: loop.strategy("rows", block=3), '"rows" has no parameter "block"'),
    "twice": (lambda loop: loop.strategy("rows").strategy("whole"), "already names a strategy"),
    "loops before": (lambda loop: loop.split("t", 4), r'strategy\("rows"\) first'),
    "loops of whole rows": (
        lambda loop: loop.strategy("whole").split("t", 4),
        "runs whole stages and has no axes",
    ),
    "iterations in pieces": (lambda loop: loop.strategy("rows").split("t", 4), "in one loop that cannot be split"),
    "iterations outside": (lambda loop: loop.strategy("rows").reorder("t", "row"), "in the order row, t"),
    "threads inside": (lambda loop: loop.strategy("rows").split("row", 4).parallel("rowi"), r'parallel\("rowo"\)'),
    "pieces of several": (lambda loop: loop.strategy("rows", depth=2).split("row1", 4), "allows a single split"),
    "lanes": (lambda loop: loop.strategy("rows").vectorize("row"), "runs whole stages and has no axes"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name: str) -> None:
    act, text = REFUSED[name]
    with pytest.raises(ScheduleError, match=text):
        act(recurrence.schedule()["loop_1"])


def test_lanes_of_rows_are_in_pieces_for_threads() -> None:
    @rd.algorithm
    def elements(u: rd.f32["n"]):
        return rd.loop(3, lambda i, v: v * 0.5 + i, u)

    schedule = elements.schedule()
    schedule["loop_1/elementwise_1"].vectorize("x")
    schedule["loop_1"].strategy("rows").parallel("row")
    with pytest.raises(ScheduleError, match=r'split\("row", 256\) first'):
        elements.compile(schedule=schedule)


def test_a_gpu_has_rows_in_threads() -> None:
    schedule = recurrence.schedule(target=rd.Target("cuda", arch="sm_90"))
    with pytest.raises(ScheduleError, match=r'strategy\("whole"\)'):
        schedule["loop_1"].strategy("rows")
