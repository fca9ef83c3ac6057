"""Sorts of which only some elements are read: finding these, turning such sorts into selections, and the sorts left unchanged."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import raido as rd
from raido.algo.graph import index
from raido.algo.interpreter.interpret import interpret
from raido.schedule.lower import lower
from raido.schedule.machine import Machine
from raido.schedule.oracles.count import count_work
from raido.schedule.oracles.interpret import interpret_nest
from raido.schedule.schedule import Schedule
from raido.schedule.stages.form_stages import form_stages
from raido.schedule.stages.reads import flatten
from raido.schedule.stages.stage import Stage


def sort_of(function: Any, **types: Any) -> Stage:
    """The only sort of a program of one array of one dimension, or of others."""
    graph = form_stages(rd.algorithm(**(types or {"a": rd.f32["n"]}))(function).trace())
    (sort,) = (stage for stage, _ in flatten(graph.stages) if isinstance(stage, Stage) and stage.sort)
    return sort


def positions_of(function: Any, **types: Any) -> list[str] | None:
    """The stretches that are read of the sort, as texts."""
    step = sort_of(function, **types).sort
    assert step is not None
    if step.positions is None:
        return None
    return [f"{index.text(first)} .. {index.text(last)}" for first, last in step.positions]


def test_places_follow_from_the_indices_that_stages_read():
    assert positions_of(lambda a: rd.sort(a)[:3]) == ["0 .. min(3, n) - 1"]
    assert positions_of(lambda a: rd.argsort(a)[2:7:2] + 1, a=rd.i32[100]) == ["2 .. 6"]
    assert positions_of(lambda a: rd.sort(a)[5], a=rd.i32[100]) == ["5 .. 5"]
    assert positions_of(lambda a: rd.median(a), a=rd.f64[101]) == ["100 .. 100", "50 .. 50"]
    found = positions_of(lambda a: rd.percentile(a, [25, 50, 75], method="lower"), a=rd.f64[101])
    assert found is not None and len(found) == 4  # one for each, and the last, which is NaN where there is one
    assert positions_of(lambda a: rd.sort(a, axis=0)[:2], a=rd.f32[500, 9]) == ["0 .. 1"]


WHOLE = {
    "a result": lambda a: (rd.sort(a), rd.sort(a)[:3]),
    "elements that data chooses": lambda a: rd.sort(a)[rd.sum(a).astype(rd.i64) % a.shape[0]],
    "the state of a loop": lambda a: rd.loop(3, lambda i, x: x + 1, rd.sort(a))[:3],
    "each element": lambda a: rd.sort(a) * 2,
    "a scan": lambda a: rd.scan(rd.add, 0, rd.sort(a))[:3],
    "a size that data decides": lambda a: rd.sort(a)[: rd.sum(a > 0)],
}


@pytest.mark.parametrize("why", WHOLE)
def test_other_sorts_are_wanted_whole(why):
    sort = sort_of(WHOLE[why])
    assert sort.sort is not None and sort.sort.positions is None


def strategy(function: Any, sizes: Any = None, **types: Any) -> str:
    """The default strategy of a program's sort."""
    graph = form_stages(rd.algorithm(**(types or {"a": rd.f32["n"]}))(function).trace())
    text = str(Schedule(graph).complete(Machine(), sizes))
    return text.partition('strategy("')[2].partition('"')[0]


def test_sorts_of_which_few_places_are_read_are_selections_by_default():
    assert strategy(lambda a: rd.sort(a)[:100]) == "quickselect"
    assert strategy(lambda a: rd.median(a)) == "quickselect"
    assert strategy(lambda a, k: rd.argsort(a)[:k], a=rd.f32["n"], k=rd.size) == "quickselect"
    assert strategy(lambda a: rd.sort(a)[:100], a=rd.i32[5000]) == "quickselect"
    assert strategy(lambda a: rd.sort(a)[: a.shape[0] // 2]) == "quicksort"
    assert strategy(lambda a: rd.sort(a)[:4000], a=rd.i32[5000]) != "quickselect"
    assert strategy(lambda a: rd.sort(a)[10:]) == "quicksort"


def test_only_sorts_with_places_that_nobody_reads_can_be_selections():
    whole = rd.algorithm(a=rd.f32["n"])(lambda a: rd.sort(a, name="ordered")).schedule()
    assert "quickselect" not in whole["ordered"].strategies()
    with pytest.raises(rd.ScheduleError, match="quickselect"):
        whole["ordered"].strategy("quickselect")


@pytest.mark.parametrize("code", ["i4", "f4", "f8", "u8", "i1"])
@pytest.mark.parametrize("count", [0, 1, 2, 33, 700])
def test_selections_keep_ties_in_order_and_put_nan_last(code, count):
    chance = np.random.default_rng(count)
    special = np.array([np.nan, np.inf, -0.0, 0.0, 1.5, -2.0])
    values = chance.integers(0, 20, count) if code[0] != "f" else chance.choice(special, count)
    row = values.astype(code)

    def both_ends(a: Any) -> Any:
        order = rd.argsort(a, name="order")
        return rd.concat([order[:5], order[-3:]]), rd.sort(-a, name="values")[:9]

    program = rd.algorithm(both_ends).trace(row)
    graph = form_stages(program)
    schedule = Schedule(graph)
    for name in ("order", "values"):
        schedule[name].strategy("quickselect", ranked=4)
    sizes = {"n": count}
    nest = lower(graph, schedule.variants())
    for got, wanted in zip(interpret_nest(nest, [row], sizes), interpret(program, [row], sizes), strict=True):
        np.testing.assert_array_equal(got, wanted)
        assert code[0] != "f" or (np.signbit(got) == np.signbit(wanted)).all()


def test_parts_without_a_place_are_left_as_they_are():
    graph = form_stages(rd.algorithm(a=rd.f32["n"])(lambda a: rd.sort(a, name="ordered")[:5]).trace())
    row = np.random.default_rng(0).random(4096, "f4")

    def work(strategy: str) -> float:
        schedule = Schedule(graph)
        schedule["ordered"].strategy(strategy)
        return count_work(lower(graph, schedule.variants()), [row], {"n": 4096})[0].total

    assert work("quickselect") < work("quicksort") / 3


def test_many_cores_sort_one_long_array_and_select_in_each_of_many_rows():
    one = rd.algorithm(a=rd.f32["n"])(lambda a: rd.sort(a)[:10])
    rows = rd.algorithm(a=rd.f32["n", "m"])(lambda a: rd.sort(a, axis=1)[:, :10])
    for algorithm, cores, chosen in ((one, 4, True), (one, 64, False), (rows, 64, True)):
        text = str(Schedule(form_stages(algorithm.trace())).complete(Machine(cores=cores)))
        assert ("quickselect" in text) == chosen


def test_no_copy_is_made_of_a_sort_of_which_some_places_are_read():
    smallest = rd.algorithm(a=rd.f32["n"])(lambda a: rd.sort(a)[:10] * 2)
    s = Schedule(form_stages(smallest.trace()))
    reader = next(name for name in s.stages if name != "sort_1")
    with pytest.raises(rd.ScheduleError, match="only some indices"):
        s[reader].cache("sort_1", reader, None)
