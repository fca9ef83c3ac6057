"""Values and indices of an update's iterations, computed in lanes for a block of iterations at a time: same results, fewer scalar
operations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import raido as rd
from raido.algo.graph.expr import Op
from raido.algo.graph.rewrite import topological
from raido.schedule.lower import lower
from raido.schedule.machine import Machine
from raido.schedule.nest.nodes import Fold, For
from raido.schedule.nest.walk import expressions_of, statements_within
from raido.schedule.schedule import Schedule
from raido.schedule.stages.form_stages import form_stages

TILE = 512
LENGTHS = (0, 1, TILE - 1, TILE, TILE + 1, 3 * TILE + 7)
rng = np.random.default_rng(0)


@rd.algorithm
def exponentials(bins: rd.i32["n"], x: rd.f64["n"]):
    return rd.zeros(7).at[bins].add(rd.floor(rd.exp2(x)), name="sums")


@rd.algorithm
def cells(bins: rd.i32["n"], x: rd.f64["n"]):
    """What lies outside of the bins is left out."""
    return rd.reduce_by_index(rd.zeros(7, int), rd.add, 0, (x * 3).astype(int) - 2, bins.astype(int), name="sums")


@rd.algorithm
def last_of_each(bins: rd.i32["n"], x: rd.f64["n"]):
    return rd.scatter(rd.zeros(7), bins * 2 - rd.abs(bins - 1), rd.sqrt(x * x), name="sums")


@rd.algorithm
def in_iterations(bins: rd.i32["n"], x: rd.f64["n"]):
    """The array changes where it is, and steps read parts of it that none of them changes."""
    shift = lambda t, s: s.at[(bins * 3 + t) % 5].add(rd.floor(x * 2) + s[5 + bins % 2], name="sums")
    return rd.loop(3, shift, rd.ones(7))


@rd.algorithm
def planes(bins: rd.i32["n"], x: rd.f64["n"]):
    """Steps of two axes."""
    both = rd.tabulate((3, x.shape[0]), lambda i, j: (rd.rint(x[j]) + i).astype(int) % 7)
    return rd.zeros(7, int).at[both].add(both + 1, name="sums")


@rd.algorithm
def rows(bins: rd.i32["n"], x: rd.f64["n"]):
    return rd.zeros((7, 3)).at[bins].add(x[:, None] * rd.ones(3), name="sums")


@rd.algorithm
def plain(bins: rd.i32["n"], x: rd.f64["n"]):
    return rd.zeros(7).at[bins].add(x, name="sums")


PROGRAMS = (exponentials, cells, last_of_each, in_iterations, planes)


def in_tiles(algorithm: Any, strategy: str, **numbers: Any) -> rd.Schedule:
    schedule = algorithm.schedule()
    (name,) = (stage for stage in schedule.stages if stage.rpartition("/")[2] == "sums")
    schedule[name].strategy(strategy, **numbers).part("values").split("step", TILE).vectorize("stepi")
    return schedule


def of_nest(schedule: rd.Schedule, kind: type) -> list[Any]:
    complete = schedule.complete()
    nest = lower(complete.graph, complete.variants())
    return [s for outer in nest.body.statements for s in statements_within(outer) if isinstance(s, kind)]


@pytest.mark.parametrize("algorithm", PROGRAMS, ids=lambda a: a.name)
@pytest.mark.parametrize(("strategy", "numbers"), [("serial", {}), ("private", {"replicas": 3, "chunks": 2})])
def test_results_are_those_of_steps_one_by_one(algorithm, strategy, numbers):
    if algorithm is last_of_each and strategy == "private":
        pytest.skip("what is set is not folded")
    program = algorithm.compile(schedule=in_tiles(algorithm, strategy, **numbers))
    for n in LENGTHS:
        bins, x = rng.integers(1, 4, n).astype("i4"), np.round(rng.random(n) * 4, 1)
        np.testing.assert_array_equal(program(bins, x), algorithm.interpret(bins, x))


def test_a_step_only_reads_what_lanes_have_made():
    """The function stands in a loop in lanes, and the fold's step is a sum of what memory holds."""
    schedule = in_tiles(exponentials, "serial")
    lanes = [s for loop in of_nest(schedule, For) if loop.kind == "vector" for s in statements_within(loop.body)]
    assert "exp2" in operations(lanes)
    (step,) = of_nest(schedule, Fold)
    assert operations([step]) == {"add"}


def operations(statements: list[Any]) -> set[str]:
    roots = [e for s in statements for e in expressions_of(s)]
    return {node.name for node in topological(*roots) if isinstance(node, Op)}


def test_defaults_make_in_lanes_what_takes_operations_and_nothing_else():
    assert '.part("values").split("step", 512).vectorize("stepi"' in str(exponentials.schedule().complete())
    assert '.part("values").split("step", 512).vectorize("stepi"' in str(last_of_each.schedule().complete())
    for algorithm in (plain, rows):
        assert "values" not in str(algorithm.schedule().complete())


def test_an_index_out_of_range_is_told_of_and_changes_nothing_else():
    program = exponentials.compile(schedule=in_tiles(exponentials, "serial"))
    bins = np.zeros(TILE + 3, "i4")
    bins[TILE] = 7
    with pytest.raises(rd.IndexOutOfRange):
        program(bins, np.ones(TILE + 3))


def test_rows_lanes_and_other_stages_in_the_loop_are_refused():
    with pytest.raises(rd.ScheduleError, match="writes a row along"):
        in_tiles(rows, "serial")
    with pytest.raises(rd.ScheduleError, match="lanes of part"):
        in_tiles(exponentials, "serial")["sums"].vectorize("r")
    with pytest.raises(rd.ScheduleError, match="computed in order or in vector lanes"):
        exponentials.schedule()["sums"].strategy("serial").part("values").parallel("step")
    with pytest.raises(rd.ScheduleError, match="one block of updates at a time"):
        exponentials.schedule()["sums"].strategy("serial").part("values").vectorize("step")


def test_what_steps_of_a_plane_read_is_read_once_for_each_step():
    """A step does not run through the places that it chooses among: what it reads at its own place may be made in it."""

    @rd.algorithm
    def deposited(x: rd.f32["n"], y: rd.f32["n"]):
        row, column = (y * 7).astype(int).named("row"), (x * 7).astype(int).named("column")
        grid = rd.zeros((8, 8), rd.f32)
        return grid.at[row, column].add(x).at[row + 1, column].add(y)

    text = str(deposited.schedule().complete())
    assert 's["row"].inline()' in text and 's["column"].inline()' in text
    assert text.count('.part("values").split("step", 512).vectorize("stepi"') == 2


def test_searches_in_steps_have_several_gangs_on_their_way():
    """Each halving waits for what the one before has read: lanes of one gang would wait alone."""

    @rd.algorithm
    def merged(a: rd.f64["n"], b: rd.f64["m"]):
        return rd.zeros(2 * a.shape[0]).at[rd.arange(a.shape[0]) + rd.searchsorted(b, a)].set(a)

    text = str(Schedule(form_stages(merged.trace())).complete(Machine(vector_bits=512, registers=32)))
    assert '.part("values").split("step", 512).vectorize("stepi", interleave=4)' in text
