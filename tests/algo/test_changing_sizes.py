"""Loops and branches over arrays whose sizes change, at the top and inside functions of elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import raido as rd

Run = Callable[..., Any]


@pytest.fixture(params=["interpreted", "compiled"])
def run(request: pytest.FixtureRequest) -> Run:
    """Runs a program in one way or the other."""
    return lambda program, *arguments: (program.interpret if request.param == "interpreted" else program)(*arguments)


def test_a_loop_may_halve_and_double(run: Run) -> None:
    halved = rd.algorithm(lambda a, k: rd.loop(k, lambda t, x: x[::2] + 1, a))
    doubled = rd.algorithm(lambda a, k: rd.loop(k, lambda t, x: rd.concat([x, -x]), a))
    for n in (0, 1, 7):
        for iterations in range(4):
            small = large = np.arange(n)
            for _ in range(iterations):
                small, large = small[::2] + 1, np.concatenate([large, -large])
            np.testing.assert_array_equal(run(halved, np.arange(n), np.int64(iterations)), small)
            np.testing.assert_array_equal(run(doubled, np.arange(n), np.int64(iterations)), large)


def test_arrays_filtered_together_stay_of_one_size(run: Run) -> None:
    """The sieve of Eratosthenes, one prime an iteration, with the squares beside the numbers."""

    @rd.algorithm
    def sieve(n: rd.size):
        numbers = rd.iota(n, rd.i64) + 2

        def body(state):
            candidates, squares, primes = state
            prime = candidates[0]
            rest = rd.filter(lambda c, s: c % prime != 0, candidates, squares)
            assert rest[0].shape[0].node is rest[1].shape[0].node
            return rest[0], rest[1] + rest[0] * 0, rd.concat([primes, prime[None]])

        start = numbers, numbers * numbers, numbers[:0]
        return rd.while_loop(lambda s: s[0].shape[0] > 0, body, start)[2]

    primes = [p for p in range(2, 52) if all(p % q for q in range(2, p))]
    np.testing.assert_array_equal(run(sieve, 50), primes)
    np.testing.assert_array_equal(run(sieve, 0), [])


def test_the_size_afterwards_is_a_size_like_any_other(run: Run) -> None:
    @rd.algorithm
    def used(a: rd.i64["n"]):
        x = rd.while_loop(lambda s: rd.sum(s) > 10, lambda s: s[1:], a)
        return x.shape[0], x + rd.iota(x.shape[0]), rd.sum(x), rd.tabulate((x.shape[0], 2), lambda i, j: x[i] * j)

    size, shifted, total, table = run(used, np.array([9, 3, 5, 1, 4]))
    assert (size, total) == (3, 10)
    np.testing.assert_array_equal(shifted, [5, 2, 6])
    np.testing.assert_array_equal(table, np.outer([5, 1, 4], [0, 1]))


def test_state_of_every_element_of_a_map_has_its_own_size(run: Run) -> None:
    @rd.algorithm
    def rows(a: rd.f64["n", "m"], counts: rd.i64["n"]):
        def grown(row, k):
            long = rd.loop(k, lambda t, x: rd.concat([x, x[:2] + t]), row)
            return rd.sum(long * long), long.shape[0], rd.max(long[long.shape[0] - 1 :], initial=-1.0)

        return rd.map(grown, a, counts)

    a, counts = np.random.default_rng(1).random((5, 3)), np.array([0, 3, 1, 4, 1])
    sums, sizes, last = run(rows, a, counts)
    for row, k, total, size, final in zip(a, counts, sums, sizes, last, strict=True):
        long = row
        for t in range(k):
            long = np.concatenate([long, long[:2] + t])
        np.testing.assert_allclose(total, long @ long, rtol=1e-14)
        assert (size, final) == (len(long), long[-1])


def test_loops_that_change_sizes_inside_others(run: Run) -> None:
    inner = lambda s: rd.loop(2, lambda u, q: rd.concat([q, q[:1] + u]), s)
    nested = rd.algorithm(lambda a: rd.loop(2, lambda t, s: inner(s)[1:], a), a="i64[n]")
    for n in (1, 4):
        want = np.arange(n)
        for _ in range(2):
            for u in range(2):
                want = np.concatenate([want, want[:1] + u])
            want = want[1:]
        np.testing.assert_array_equal(run(nested, np.arange(n)), want)


def test_recurrences_by_updates_inside_maps(run: Run) -> None:
    """Fibonacci-like rows, element by element."""

    @rd.algorithm
    def rows(first: rd.i64["n"], m: rd.size):
        def row(start):
            fill = lambda t, x: x.at[t + 2].set(x[t] + x[t + 1])
            return rd.loop(m, fill, rd.replicate(m + 2, start))

        return rd.map(row, first)

    first = np.array([1, 5, -2])
    expected = np.repeat(first[:, None], 8, axis=1)
    for t in range(6):
        expected[:, t + 2] = expected[:, t] + expected[:, t + 1]
    np.testing.assert_array_equal(run(rows, first, 6), expected)


@pytest.mark.parametrize("taken", [True, False])
def test_branches_of_different_sizes(run: Run, taken: bool) -> None:
    @rd.algorithm
    def chosen(a: rd.i64["n"], p: rd.bool_):
        x, y = rd.cond(p, lambda: (a, a * 2), lambda: (a[a > 2], -a[a > 2]))
        return x, x + y, x.shape[0]

    a = np.array([3, 1, 2, 4])
    x = a if taken else a[a > 2]
    y = x * 2 if taken else -x
    for result, expected in zip(run(chosen, a, np.bool_(taken)), (x, x + y, len(x)), strict=True):
        np.testing.assert_array_equal(result, expected)


def test_the_branch_not_taken_is_not_evaluated(run: Run) -> None:
    @rd.algorithm
    def guarded(a: rd.i64["n"], k: rd.i64):
        return rd.cond(k < a.shape[0], lambda: a[k:], lambda: a), rd.map(
            lambda x: rd.sum(rd.cond(x < a.shape[0], lambda: a[x:], lambda: a[:1])), a
        )

    part, sums = run(guarded, np.array([3, 0, 1]), np.int64(5))
    np.testing.assert_array_equal(part, [3, 0, 1])
    np.testing.assert_array_equal(sums, [3, 4, 1])


def test_branches_of_different_sizes_inside_maps(run: Run) -> None:
    @rd.algorithm
    def rows(a: rd.i64["n", "m"]):
        def row(values):
            part = rd.cond(values[0] > 0, lambda: values, lambda: values[values > 2])
            return rd.sum(part), part.shape[0]

        return rd.map(row, a)

    a = np.array([[1, 2, 3], [0, 5, 1], [-1, 0, 0]])
    sums, sizes = run(rows, a)
    np.testing.assert_array_equal(sums, [6, 5, 0])
    np.testing.assert_array_equal(sizes, [3, 1, 0])
