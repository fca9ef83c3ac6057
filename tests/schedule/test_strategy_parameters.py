"""Parameters of strategies that sizes decide: texts over sizes and axes, omitted ones, of parallel reductions too, older names."""

from __future__ import annotations

import numpy as np
import pytest

import raido as rd
from raido.schedule.lower import lower
from raido.schedule.machine import Machine
from raido.schedule.nest.printer import print_nest
from raido.schedule.oracles.interpret import interpret_nest
from raido.schedule.schedule import Schedule
from raido.schedule.stages.form_stages import form_stages


@rd.algorithm
def into_bins(values: rd.i64["n"], bins: rd.i64["n"], start: rd.i64["m"]):
    return rd.reduce_by_index(start, rd.add, 0, bins, values, name="sums")


@rd.algorithm
def running(a: rd.i64["n"]):
    return rd.scan(rd.add, 0, a, name="sums")


@rd.algorithm
def ordered(a: rd.i64["n"]):
    return rd.sort(a)


@rd.algorithm
def added(a: rd.i64["n"]):
    return rd.reduce(rd.add, 0, a, name="sum")


def ran(schedule: Schedule, n: int, m: int) -> None:
    """Holds the nest of a schedule, run by the interpreter, against NumPy."""
    draw = np.random.default_rng(n * 31 + m)
    values, start = draw.integers(-9, 9, n), draw.integers(-9, 9, m)
    bins = draw.integers(0, m, n) if m else np.zeros(0, "i8")
    expected = start.copy()
    np.add.at(expected, bins, values)
    complete = schedule.complete(Machine())
    (found,) = interpret_nest(lower(complete.graph, complete.variants()), [values, bins, start])
    assert (found == expected).all()


@pytest.mark.parametrize("chunks", [1, 3, "n // 4", "min(7, r // (2 * replicas * x))", "r - 2 * x", "r // x % 3"])
def test_chunks_follow_from_sizes_and_axes(chunks):
    schedule = into_bins.schedule()
    schedule["sums"].strategy("private", chunks=chunks, replicas=2)
    for n, m in ((0, 0), (0, 3), (5, 1), (24, 3)):
        ran(schedule, n, m)


def test_steps_into_bins_are_a_part_with_the_loops_of_the_stage():
    schedule = Schedule(form_stages(into_bins.trace()))
    steps = schedule["sums"].strategy("private", chunks=3).part("bins")
    assert steps.axes == ("r", "x")
    steps.split("r", 4).vectorize("ri")
    ran(schedule, 21, 5)


def test_numbers_that_are_left_out_are_written_down():
    schedule = into_bins.schedule()
    schedule["sums"].strategy("private")
    assert 'strategy("private", chunks="min(64, r // (8 * replicas * x))", replicas=1)' in str(
        schedule.complete(Machine())
    )
    scanned = running.schedule()
    scanned["sums"].strategy("chain")
    assert 'strategy("chain", block=65536)' in str(scanned.complete(Machine()))


def test_defaults_take_the_numbers_that_suit_the_machine():
    sorted_ = Schedule(form_stages(ordered.trace()))
    assert 'chunks="min(64, x // 65536)"' in str(sorted_.complete(Machine()))
    assert 'chunks="min(64, x // 1024)"' in str(sorted_.complete(Machine(task=512)))


def test_a_parallel_reduction_states_the_iterations_of_its_partials():
    schedule = Schedule(form_stages(added.trace()))
    schedule["sum"].parallel("r", dynamic=True)
    complete = schedule.complete(Machine())
    assert '["sum"].parallel("r", grain=4096, dynamic=True)' in str(complete)
    array = np.arange(10000)
    nest = lower(complete.graph, complete.variants())
    assert "parallel r in 0..n step 4096 dynamic" in print_nest(nest)
    assert interpret_nest(nest, [array])[0] == array.sum()


def test_iterations_over_chunks_have_a_partial_each():
    schedule = Schedule(form_stages(added.trace()))
    schedule["sum"].split("r", 64).parallel("ro")
    assert '.parallel("ro")' in str(schedule.complete(Machine()))


def test_schedules_written_with_older_names_are_read():
    schedule = into_bins.schedule()
    schedule["sums"].strategy("private", replicas=4)
    text = schedule.to_json()
    assert (
        Schedule.from_json(text.replace("replicas", "copies"), schedule).complete().directives
        == schedule.complete().directives
    )
    assert "replicas=4" in str(Schedule.from_json(text.replace("replicas", "copies"), schedule).complete())


@pytest.mark.parametrize(
    ("numbers", "why"),
    [
        ({"chunks": "min(4, k)"}, 'there is no size "k"'),
        ({"chunks": "r //"}, "it is not an expression"),
        ({"chunks": "r // 0"}, "divides by zero"),
        ({"chunks": "max(1, 2, r)"}, "is not arithmetic on sizes"),
        ({"chunks": 0}, "`chunks` is 0; it must be 1 … 4096"),
        ({"replicas": "r"}, "`replicas` is a whole number, not 'r'"),
    ],
)
def test_what_is_no_number_over_sizes_is_refused(numbers, why):
    with pytest.raises(rd.ScheduleError, match="cannot choose strategy") as error:
        into_bins.schedule()["sums"].strategy("private", **numbers)
    assert why in str(error.value)
