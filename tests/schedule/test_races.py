"""Races between the iterations of parallel loops are found without running them, and disjoint writes are accepted.

    python tests/schedule/test_races.py --programs 1000

looks for races in the corpus, in the programs of tests/laws under every strategy, and in so many random programs under random schedules.
Its output is races, or iterations that no interval separates: of random schedules, about one in a thousand.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest

sys.path += [str(Path(__file__).resolve().parent.parent), str(Path(__file__).resolve().parent.parent / "laws")]
from law import random_schedule, shape_of
from nests import add_up, at, f, loop, n, nest, op, parameter, put, scalar_register, w
from random_programs import random_program
from scheduled_programs import scheduled, scheduled_programs

from raido.algo.graph import index as ix
from raido.algo.graph.dtypes import bool_, f32, i64
from raido.algo.graph.expr import fresh
from raido.schedule.lower import lower
from raido.schedule.machine import Machine
from raido.schedule.nest.nodes import AtomicUpdate, Block, Certificate, For, If, Let, Nest, Ordered
from raido.schedule.nest.walk import statements_within
from raido.schedule.oracles.races import Race, find_races
from raido.schedule.schedule import Schedule

v, x = fresh("v"), fresh("x")
one, two, most = ix.as_index(1), ix.as_index(2), ix.as_index(32)
y, grid, places = parameter("y", f32, n), parameter("grid", f32, n, w), parameter("places", i64, n)
flags = parameter("flags", bool_, n)


def parallel(*body, high=n, step=1, certificates=()) -> Nest:
    """A parallel loop over `v`."""
    made = loop(v, high, *body, kind="parallel", step=step)
    return nest([places], [y, grid], replace(made, certificates=certificates), sizes=(n, w))


def strip(reach: int) -> For:
    """A loop over a strip of so many elements from `v` on."""
    return loop(x, ix.minimum(ix.add(v, reach), n), put(y, x, f(1)), low=v)


def in_chunks() -> Nest:
    """Chunks of a length that is computed of their number."""
    chunks = ix.minimum(16, ix.maximum(ix.floordiv(n, 1024), 1))
    span = fresh("span")
    length = Let(span, ix.floordiv(ix.sub(ix.add(n, chunks), 1), chunks))
    low = ix.mul(v, span)
    inner = loop(x, ix.minimum(ix.add(low, span), n), put(y, x, f(1)), low=low)
    return nest([], [y], length, loop(v, chunks, inner, kind="parallel"))


APART = {
    "its own element": parallel(put(y, v, f(1))),
    "its own row": parallel(loop(x, w, put(grid, v, x, f(1)))),
    "its own column": parallel(loop(x, n, put(grid, x, v, f(1))), high=w),
    "from the end": parallel(put(y, ix.sub(ix.sub(n, v), 1), f(1))),
    "two elements each": parallel(put(y, ix.mul(v, 2), f(1)), put(y, ix.add(ix.mul(v, 2), 1), f(1))),
    "strips": parallel(strip(32), step=32),
    "the number of a strip": parallel(put(y, ix.floordiv(v, 32), f(1)), step=32),
    "fused axes": parallel(put(grid, ix.floordiv(v, w), ix.mod(v, w), f(1)), high=ix.mul(n, w)),
    "chunks": in_chunks(),
}

RACES = {
    "one element": parallel(put(y, ix.as_index(0), f(1))),
    "pairs": parallel(put(y, ix.floordiv(v, 2), f(1))),
    "neighbours": parallel(put(y, v, f(1)), put(y, ix.add(v, 1), f(1))),
    "remainders": parallel(put(y, ix.mod(v, 4), f(1))),
    "strips that overlap": parallel(strip(33), step=32),
    "half of fused axes": parallel(put(grid, ix.floordiv(v, w), ix.as_index(0), f(1)), high=ix.mul(n, w)),
    "where data says": parallel(put(y, at(places, v), f(1))),
    "a sum": parallel(add_up(y, (ix.as_index(0),), f(1))),
}


@pytest.mark.parametrize("program", APART.values(), ids=APART.keys())
def test_iterations_that_write_elements_of_their_own_do_not_race(program):
    assert not list(find_races(program))


@pytest.mark.parametrize("program", RACES.values(), ids=RACES.keys())
def test_iterations_that_may_write_one_element_race(program):
    (race,) = find_races(program)
    assert str(race) == f"two iterations of parallel v may write one element of {race.buffer.name}"


def test_a_register_from_outside_is_shared():
    total, *made = scalar_register("total", f(0))
    (race,) = find_races(nest([], [y], *made, loop(v, n, add_up(total, (), f(1)), kind="parallel")))
    assert race.buffer is total


def test_memory_of_an_iteration_is_its_own():
    total, *made = scalar_register("total", f(0))
    assert not list(find_races(parallel(*made, add_up(total, (), f(1)), put(y, v, at(total)))))


def updates(atomic: bool):
    left, right = fresh("left", f32), fresh("right", f32)
    other = AtomicUpdate(y, (at(places, v),), f(1), left, right, op("add", left, right), "add")
    return other if atomic else add_up(y, (at(places, v),), f(1))


def test_atomic_updates_do_not_race_with_each_other_but_with_stores():
    assert not list(find_races(parallel(updates(True))))
    assert not list(find_races(parallel(updates(True), updates(True))))
    assert list(find_races(parallel(updates(True), updates(False))))


def test_writes_in_an_ordered_section_do_not_race():
    total, *made = scalar_register("total", f(0))
    section = Ordered(Block((add_up(total, (), f(1)),)))
    assert not list(find_races(nest([], [y], *made, loop(v, n, section, kind="parallel"))))
    assert list(find_races(nest([], [y], *made, loop(v, n, section, add_up(total, (), f(1)), kind="parallel"))))


def test_writes_of_one_thread_alone_do_not_race():
    total, *made = scalar_register("total", f(0))
    alone = fresh("alone", bool_)
    for condition, races in ((alone, False), (op("logical_and", alone, at(flags, v)), False), (at(flags, v), True)):
        inside = If(condition, Block((add_up(total, (), f(1)),)))
        threads = replace(loop(v, n, inside, kind="parallel"), alone=alone)
        assert bool(list(find_races(nest([flags], [y], *made, threads)))) == races


def test_a_certificate_is_believed_for_its_buffers_alone():
    stores = put(y, at(places, v), f(1)), put(grid, at(places, v), ix.as_index(0), f(1))
    given = (Certificate("unique_indices", (y,)),)
    assert [race.buffer for race in find_races(parallel(*stores, certificates=given))] == [grid]


CERTIFIED = {
    "sorts/narrow_ones": {"radix", "quicksort"},  # quicksort where there are as many elements as values
    "sorts/unsigned_ones": {"quicksort"},  # where lanes are compressed by an instruction
    "updates/weights sorted": {"sorted"},
    "updates/inverse": {"unique_indices"},
    "filters/large_ones count_write": {"count_write"},
    "filters/whole_rows chain": {"chain"},
    "segments/sums flat": {"flat"},
}


@pytest.mark.parametrize("name", CERTIFIED)
def test_strategies_certify_what_indices_do_not_show(name):
    """Certificates are needed: without them there are races, and with them none."""
    schedule = scheduled(name)
    if name == "updates/inverse":
        schedule["scatter_1"].parallel("r")
    complete = schedule.complete(Machine())
    nest = lower(complete.graph, complete.variants())
    assert not list(find_races(nest))
    loops = [s for s in statements_within(nest.body) if isinstance(s, For)]
    assert {c.by for loop in loops for c in loop.certificates} == CERTIFIED[name]
    bare = [replace(loop, certificates=()) for loop in loops if loop.certificates]
    assert any(list(find_races(replace(nest, body=Block((loop,))))) for loop in bare)


def test_no_program_races():
    every = islice(scheduled_programs(), 0, None, 24)
    assert not [str(race) for name, _, schedule in every for race in races_of(schedule)]


def races_of(schedule: Schedule) -> Iterator[Race]:
    """The races of a schedule's nest on a machine of many cores."""
    complete = schedule.complete(Machine(vector_bits=512, registers=32, cores=64))
    return find_races(lower(complete.graph, complete.variants()))


def random_ones(count: int) -> Iterator[tuple[str, Schedule]]:
    """Random programs under random schedules."""
    for seed in range(count):
        shape = shape_of(seed)
        program = random_program(seed, shape.statements, shape.grammar)
        yield f"random {seed}", random_schedule(program.algorithm.trace(*program.arguments), seed, shape.steps)


def main() -> None:
    parser = argparse.ArgumentParser(description="Races between iterations of parallel loops.")
    parser.add_argument("--programs", type=int, default=100, help="random programs")
    listed = ((name, schedule) for name, _, schedule in scheduled_programs())
    looked = 0
    for name, schedule in (*listed, *random_ones(parser.parse_args().programs)):
        looked += 1
        for race in races_of(schedule):
            print(f"{name}: {race}")
    print(f"{looked} programs")


if __name__ == "__main__":
    main()
