"""Tiles of accumulators cut off by the edge of an array: in registers, some rows at a time, under masks along lanes."""

from collections.abc import Callable

import numpy as np
import pytest
from nests import at, f, hold, loop, n, nest, parameter, put, scratch
from random_schedules import check_same

import raido as rd
from raido.algo.graph.dtypes import f32
from raido.algo.graph.expr import fresh
from raido.algo.graph.index import as_index, minimum, sub
from raido.schedule.gang.vectorise import form_gangs
from raido.schedule.lower import lower
from raido.schedule.nest.nodes import Alloc, Nest
from raido.schedule.nest.printer import print_nest
from raido.targets.target import Target

rng = np.random.default_rng(3)


@rd.algorithm
def product(a: rd.f32["n", "k"], b: rd.f32["k", "m"]):
    return rd.matmul(a, b, name="c")


@rd.algorithm
def similar(a: rd.f32["n", "k"], b: rd.f32["m", "k"]):
    return rd.matmul(a, b.T, name="c")


@rd.algorithm
def added(a: rd.f32["n", "k"], b: rd.f32["k", "m"]):
    return rd.loop(3, lambda t, c: c + rd.matmul(a, b, name="c"), rd.zeros((a.shape[0], b.shape[1]), rd.f32))


def nest_of(algorithm: rd.Algorithm, directives: Callable[[rd.Schedule], object]) -> Nest:
    schedule = algorithm.schedule()
    directives(schedule)
    complete = schedule.complete(Target("llvm", cpu="haswell"))
    return lower(complete.graph, complete.variants())


def tiles(schedule: rd.Schedule) -> None:
    schedule["c"].tile(y=6, x=8).reorder("yo", "xo", "r", "yi", "xi").unroll("yi").vectorize("xi", interleave=2)


def squares(schedule: rd.Schedule) -> None:
    schedule["c"].tile(y=3, x=3).reorder("yo", "xo", "r", "yi", "xi").unroll("yi").unroll("xi").vectorize("r")


@pytest.mark.parametrize("rows, versions", [(4, 2), (6, 3)])
def test_a_tile_that_is_made_in_one_part_has_no_version_for_whole_rows_beside_it(rows, versions):
    """Tiles that are whole, those of whole rows that are cut off along lanes, and those that have fewer rows: at most four at a time."""

    def as_high(schedule: rd.Schedule) -> None:
        schedule["c"].tile(y=rows, x=8).reorder("yo", "xo", "r", "yi", "xi").unroll("yi").vectorize("xi", interleave=2)

    printed = print_nest(nest_of(product, as_high))
    assert printed.count(" register") == versions


@pytest.mark.parametrize("algorithm, directives", [(product, tiles), (similar, squares)])
def test_sums_at_the_edges_are_in_registers_and_right(algorithm, directives):
    nest = nest_of(algorithm, directives)
    assert " stack" not in print_nest(form_gangs(nest, 128))
    for rows, k, columns in ((0, 2, 3), (5, 3, 7), (6, 0, 9), (7, 5, 17)):
        second = (k, columns) if algorithm is product else (columns, k)
        arrays = [rng.random(shape, dtype=np.float32) for shape in ((rows, k), second)]
        check_same(nest, algorithm.trace(), arrays, {"n": rows, "k": k, "m": columns})


def test_rows_beyond_an_edge_are_not_added_twice():
    nest = nest_of(added, lambda schedule: schedule)
    n, k, m = 7, 2, 5
    arrays = [rng.random(shape, dtype=np.float32) for shape in ((n, k), (k, m))]
    check_same(nest, added.trace(), arrays, {"n": n, "k": k, "m": m})


def between(first: int, second: int) -> Nest:
    """Sums of a register array in two loops over as many lanes less so many."""
    a, out = parameter("a", f32, n), parameter("out", f32, n)
    held, x, y, z = scratch("held", f32, 16), fresh("x"), fresh("y"), fresh("z")
    most = minimum(n, as_index(16))
    clear = loop(x, as_index(16), put(held, x, f(7)), kind="vector", lanes=4)
    fill = loop(y, sub(most, first), put(held, y, at(a, y)), kind="vector", lanes=4)
    look = loop(z, sub(most, second), put(out, z, at(held, z)), kind="vector", lanes=4)
    return nest([a], [out], Alloc(held), clear, fill, look)


def test_lanes_that_are_off_keep_what_they_have_where_others_look_at_them():
    texts: list[str] = []
    for first, second in ((0, 0), (2, 0)):
        for length in (3, 9, 16):
            hold(between(first, second), [rng.random(length, dtype=np.float32)], (128,), look=texts.append, n=length)
    assert [" else held[" in text for text in texts] == [False] * 3 + [True] * 3
