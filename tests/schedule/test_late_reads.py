"""Stages that read an array while an update changes it: those that observe no change, by indices or by the order of loops, and the
others."""

from __future__ import annotations

import numpy as np
import pytest

import raido as rd
from raido.schedule.gang.vectorise import form_gangs
from raido.schedule.lower import lower
from raido.schedule.oracles.checker import check_nest
from raido.schedule.oracles.interpret import interpret_nest

MATRIX = np.arange(42).reshape(6, 7) * 13 % 17


def less_sums(rows, of):
    """Some rows, each less the sum of a row, this one or the next."""

    @rd.algorithm
    def less(x: rd.i64["h", "w"]):
        return rd.loop(3, lambda t, m: m.at[rows].set(m[rows] - rd.sum(m[of], axis=1)[:, None]), x)

    return less


def placed(algorithm, loop, **said):
    """The schedule with the sums computed in a loop of the update, of which more is said."""
    schedule = algorithm.schedule()
    for directive, arguments in said.items():
        getattr(schedule["update_1"], directive)(*arguments)
    schedule["reduce_1"].compute_at("update_1", loop)
    return schedule


def copies_of(algorithm, schedule, *arguments):
    """The arrays that are copied in each iteration, once both interpreters and the graph's agree."""
    complete = schedule.complete()
    nest = check_nest(lower(complete.graph, complete.variants()), "scalar")
    expected = algorithm.interpret(*arguments)
    for each in (nest, check_nest(form_gangs(nest, 256), "gang")):
        for result, want in zip(interpret_nest(each, list(arguments)), _several(expected), strict=True):
            np.testing.assert_array_equal(result, want)
    return [copy.array for copy in nest.copies]


def _several(results):
    return results if isinstance(results, tuple) else (results,)


FIRST, LAST = slice(None, -1), slice(1, None)


@pytest.mark.parametrize(
    ("rows", "of", "loop", "said", "copied"),
    [
        (LAST, LAST, "r", {}, False),
        (LAST, LAST, "r", {"parallel": ("r",)}, False),
        (LAST, LAST, "ro", {"split": ("r", 2)}, False),
        (FIRST, LAST, "r", {}, False),
        (FIRST, LAST, "r", {"parallel": ("r",)}, True),
        (FIRST, LAST, "ro", {"split": ("r", 2)}, False),
        (LAST, FIRST, "r", {}, True),
        (LAST, FIRST, "ro", {"split": ("r", 2)}, True),
    ],
)
def test_rows_are_read_in_the_loops_that_change_them_where_none_has_changed_them_yet(rows, of, loop, said, copied):
    algorithm = less_sums(rows, of)
    schedule = placed(algorithm, loop, **(said or {"vectorize": ("x",)}))
    assert bool(copies_of(algorithm, schedule, MATRIX)) is copied


def test_blocks_of_the_old_array_are_read_after_and_inside_changes_that_leave_them_alone():
    @rd.algorithm
    def eliminated(m: rd.i64["n", "n", 3, 3]):
        def step(k, m):
            d = m[k, k]
            left = rd.map(lambda b: 2 * b - d, m[k + 1 :, k])
            inner = rd.map(lambda l, row: rd.map(lambda b: b - l @ d, row), left, m[k + 1 :, k + 1 :])
            return m.at[k + 1 :, k].set(left).at[k + 1 :, k + 1 :].set(inner)

        return rd.loop(m.shape[0] - 1, step, m)

    schedule = eliminated.schedule()
    schedule["map_2"].inline()
    schedule["matmul_1"].compute_at("update_2", "ry")
    assert not copies_of(eliminated, schedule, np.arange(144).reshape(4, 4, 3, 3) % 7)


@pytest.mark.parametrize("last", [False, True])
def test_no_order_of_a_tuple_makes_a_copy(last):
    @rd.algorithm
    def relaxed(source: rd.i64["m"], to: rd.i64["m"], start: rd.i64["n"]):
        def step(state):
            distance = state[last]
            through = distance[source] + 1
            changed = rd.any(through < distance[to])
            shorter = rd.reduce_by_index(distance, rd.minimum, 1 << 40, to, through)
            return (changed, shorter) if last else (shorter, changed)

        begin = (True, start) if last else (start, True)
        return rd.while_loop(lambda state: state[not last], step, begin)[last]

    edges = np.array([0, 1, 2, 0, 3, 4]), np.array([1, 2, 3, 4, 5, 5])
    assert not copies_of(relaxed, relaxed.schedule(), *edges, np.array([0, 90, 90, 90, 90, 90]))
