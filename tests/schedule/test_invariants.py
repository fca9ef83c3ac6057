"""Loop-invariant scalars of an array loop that read its initial state are read before the loop: nothing is copied."""

from __future__ import annotations

import numpy as np
import pytest

import raido as rd
from raido.schedule.lower import lower


def breadth_first(take, starts, ends, waiting, far):
    """A search from node 0: `take(there, far, here, s)` is what the edge to a node makes of `tail, waiting, now`, where `far` and `here` are
    the distances before the edges of a node, and that node."""

    def visit(s):
        head, tail, waiting, far = s
        here = waiting[head]
        edge = lambda j, s: take(ends[starts[here] + j], far, here, s)
        return head + 1, *rd.loop(starts[here + 1] - starts[here], edge, (tail, waiting, far))

    return rd.while_loop(lambda s: s[0] < s[1], visit, (0, 1, waiting, far))[3]


@rd.algorithm
def queue(starts: rd.i64["n + 1"], ends: rd.i64["k"]):
    n = starts.shape[0] - 1

    def take(there, _, here, s):
        tail, waiting, now = s
        new = now[there] < 0
        waiting = rd.where(new, waiting.at[rd.minimum(tail, n - 1)].set(there), waiting)
        return rd.where(new, tail + 1, tail), waiting, rd.where(new, now.at[there].set(now[here] + 1), now)

    return breadth_first(take, starts, ends, rd.zeros(n, rd.i64), rd.where(rd.iota(n) == 0, 0, -1))


@rd.algorithm
def distances(starts: rd.i64["n + 1"], ends: rd.i64["k"]):
    """As `queue`, but the distance of a node is asked for by what changes alone, and may be that of a node which there is not."""
    n = starts.shape[0] - 1

    def take(there, far, here, s):
        tail, waiting, now = s
        new = now[there] < 0
        waiting = rd.where(new, waiting.at[tail].set(there), waiting)
        return tail + rd.where(new, 1, 0), waiting, rd.where(new, now.at[there].set(far[here] + 1), now)

    return breadth_first(take, starts, ends, rd.zeros(n + 1, rd.i64), rd.full(n, -1).at[0].set(0))


@rd.algorithm
def in_branches(starts: rd.i64["n + 1"], ends: rd.i64["k"]):
    """As `queue`, with branches: what decides between them and the number of edges ask for the node as well."""
    n = starts.shape[0] - 1

    def take(there, _, here, s):
        tail, waiting, now = s
        put = lambda: (tail + 1, waiting.at[tail].set(there), now.at[there].set(now[here] + 1))
        return rd.cond(now[there] < 0, put, lambda: (tail, waiting, now))

    return breadth_first(take, starts, ends, rd.zeros(n, rd.i64), rd.full(n, -1).at[0].set(0))


@rd.algorithm
def marked(m: rd.i64["n"], rows: rd.i64["h", "w"], at: rd.i64):
    """A number that is asked for by the elements of an array alone, of which there may be none."""
    changed = lambda j, s: (s[0].at[0].set(j), s[1] + m[at])
    return rd.loop(2, lambda t, s: rd.loop(2, changed, s), (m, rows))[1]


@rd.algorithm
def rows_by_pivots(m: rd.i64["n"], place: rd.i64["steps"], counts: rd.i64["steps"]):
    def outer(t, m):
        pivot = m[place[t]] % 7
        inner = lambda j, s: (s[0] + pivot, s[1].at[j].set(s[1][j] + pivot * s[0]))
        return rd.loop(counts[t], inner, (rd.i64(1), m))[1]

    return rd.loop(place.shape[0], outer, m)


@rd.algorithm
def once(m: rd.i64["n"], k: rd.size):
    return rd.loop(k, lambda j, s: (s[0] + m[k], s[1].at[j].set(m[0] * s[0])), (rd.i64(0), m + 0))


def graph(n: int, seed: int) -> list[np.ndarray]:
    degrees = np.random.default_rng(seed).integers(0, 4, n)
    starts = np.concatenate([[0], np.cumsum(degrees)])
    return [starts, np.random.default_rng(seed + 1).integers(0, n, starts[-1])]


@pytest.mark.parametrize("algorithm", (queue, distances, in_branches, rows_by_pivots))
def test_the_loop_takes_over_what_it_begins_as(algorithm):
    complete = algorithm.schedule().complete()
    assert not lower(complete.graph, complete.variants()).copies


@pytest.mark.parametrize("n", (1, 2, 7, 40))
def test_results_are_the_same(n):
    for seed in range(5):
        arguments = graph(n, seed)
        assert (queue(*arguments) == queue.interpret(*arguments)).all()
        assert (distances(*arguments) == queue(*arguments)).all()
        assert (in_branches(*arguments) == queue(*arguments)).all()
        assert (distances.interpret(*arguments) == queue(*arguments)).all()
        places, counts = np.random.default_rng(seed).integers(0, n, (2, 6))
        arguments = [np.arange(n), places, counts]
        assert (rows_by_pivots(*arguments) == rows_by_pivots.interpret(*arguments)).all()


def test_what_fails_is_not_read_where_no_iteration_comes():
    m = np.arange(3)
    assert (rows_by_pivots(m, np.array([5]), np.array([0])) == m).all()
    with pytest.raises(rd.IndexOutOfRange):
        rows_by_pivots(m, np.array([5]), np.array([1]))
    assert once(m, 0)[0] == 0
    with pytest.raises(rd.IndexOutOfRange):
        once(m, 3)


def test_what_fails_is_not_read_where_no_element_asks_for_it():
    m = np.arange(3)
    for shape in ((0, 2), (2, 0)):
        assert marked(m, np.zeros(shape, np.int64), 7).shape == shape
        assert marked.interpret(m, np.zeros(shape, np.int64), 7).shape == shape
    rows = np.zeros((2, 2), np.int64)
    assert (marked(m, rows, 2) == marked.interpret(m, rows, 2)).all()
    for run in (marked, marked.interpret):
        with pytest.raises(rd.IndexOutOfRange):
            run(m, rows, 7)
