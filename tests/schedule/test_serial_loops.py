"""Array loops run by one thread are one kernel, whose scalar states are in registers: random recurrences against plain Python."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import raido as rd

_N = 23


def _ema() -> rd.Algorithm:
    @rd.algorithm
    def ema(x: rd.f64["n"]):
        def body(i, state):
            level, out = state
            level = level + 0.25 * (x[i] - level)
            return level, out.at[i].set(level)

        return rd.loop(x.shape[0], body, (0.0, rd.zeros_like(x)))[1]

    return ema


def test_a_recurrence_runs_in_one_kernel_with_its_level_in_a_register() -> None:
    text = _ema().compile().source("nest")
    assert "swap" not in text and "produce loop_1:\n" in text
    loop = text[text.index("produce loop_1:\n") :]
    assert "register" in loop and "heap" not in loop


def test_threads_in_an_iteration_keep_the_loop_on_the_hosts_level() -> None:
    @rd.algorithm
    def steps(x: rd.f64["n"], k: rd.size):
        def body(i, state):
            level, rows = state
            return level * 0.5 + i, rows * 2.0 + level

        return rd.loop(k, body, (1.0, x))

    assert "produce loop_1:\n" not in steps.compile().source("nest")
    level, rows = steps(np.ones(5), 3)
    assert (level, rows.tolist()) == (2.625, [8 + 4.0 + 1.0 + 1.25] * 5)


@pytest.mark.parametrize("at", [0, 7, _N - 1])
def test_a_failing_check_is_reported_and_nothing_after_it_is_relied_on(at: int) -> None:
    @rd.algorithm
    def hops(x: rd.i64["n"]):
        def body(i, state):
            place, seen = state
            place = x[place]
            return place, seen.at[place].add(1)

        return rd.loop(x.shape[0], body, (0, rd.zeros_like(x)))[1]

    x = np.arange(1, _N + 1) % _N
    assert hops(x).tolist() == [1] * _N
    x[at] = _N + 5
    with pytest.raises(rd.IndexOutOfRange, match=f"index {_N + 5}"):
        hops(x)


def _roots() -> rd.Algorithm:
    @rd.algorithm
    def roots(parents: rd.i32["n"], nodes: rd.i32["m"]):
        def halved(state):
            parents, node = state
            above = parents[parents[node]]
            return parents.at[node].set(above), above

        def root(k, state):
            parents, found = state
            parents, node = rd.while_loop(lambda s: s[0][s[1]] != s[1], halved, (parents, nodes[k]))
            return parents, found.at[k].set(node)

        return rd.loop(nodes.shape[0], root, (parents, rd.zeros_like(nodes)))

    return roots


def test_loops_that_data_ends_are_kernels_though_their_checks_may_fail() -> None:
    roots = _roots()
    text = roots.compile().source("nest")
    assert "while" in text and "check" in text and "swap" not in text
    assert "heap" not in text[text.index("while") :]
    parents = np.array([0, 0, 1, 2, 3, 5], np.int32)
    now, found = roots(parents, np.array([4, 5, 3], np.int32))
    assert now.tolist() == [0, 0, 0, 0, 2, 5] and found.tolist() == [0, 5, 0]


@pytest.mark.parametrize(("at", "parent"), [(0, 9), (1, -1), (2, 6)])
def test_a_failing_check_ends_a_loop_that_would_not_end_by_itself(at: int, parent: int) -> None:
    parents = np.array([0, 0, 1, 2, 3, 5], np.int32)
    parents[at] = parent
    with pytest.raises(rd.IndexOutOfRange, match=f"index {parent}"):
        _roots()(parents, np.array([5, 4, 3], np.int32))


def test_the_outer_of_two_loops_has_registers_too() -> None:
    @rd.algorithm
    def distance(a: rd.u8["n"], b: rd.u8["m"]):
        def row(i, state):
            before, _ = state

            def column(j, inner):
                left, now = inner
                step = before[j] + rd.where(a[i] == b[j], 0, 1)
                best = rd.minimum(rd.minimum(before[j + 1] + 1, left + 1), step)
                return best, now.at[j + 1].set(best)

            best, now = rd.loop(b.shape[0], column, (i + 1, before.at[0].set(i + 1)))
            return now, best

        return rd.loop(a.shape[0], row, (rd.iota(b.shape[0] + 1), 0))

    rng = np.random.default_rng(3)
    a, b = rng.integers(0, 3, 17).astype(np.uint8), rng.integers(0, 3, 12).astype(np.uint8)
    table = np.zeros((18, 13), np.int64)
    table[:, 0], table[0] = np.arange(18), np.arange(13)
    for i in range(17):
        for j in range(12):
            table[i + 1, j + 1] = min(table[i, j + 1] + 1, table[i + 1, j] + 1, table[i, j] + (a[i] != b[j]))
    rows, last = distance(a, b)
    assert rows.tolist() == table[-1].tolist() and last == table[-1, -1]
    assert (distance.interpret(a, b)[0] == rows).all()


class _Recurrence:
    """A random loop over some integers and an array: its algorithm, and what plain Python makes of it."""

    def __init__(self, seed: int) -> None:
        chance = random.Random(seed)
        self.count = chance.randint(1, 4)
        self.orders = [chance.choices(range(self.count), k=2) for _ in range(self.count)]
        self.kinds = [chance.choice(("take", "sum", "least", "read", "walk")) for _ in range(self.count)]
        self.stores = [
            (chance.randrange(self.count), chance.choice(("set", "add"))) for _ in range(chance.randint(0, 2))
        ]
        self.inner, self.early = chance.random() < 0.3, chance.random() < 0.4
        self.start = [chance.randint(0, 5) for _ in range(self.count)]
        self.ends = chance.random() < 0.25

    def value(self, lib: Any, k: int, old: Any, row: Any, x: Any, i: Any) -> Any:
        one, other = (old[j] for j in self.orders[k])
        if self.kinds[k] == "take":
            return one
        if self.kinds[k] == "sum":
            return one + other + x[i]
        if self.kinds[k] == "least":
            return lib.minimum(one * 2 - other, x[i] + 1)
        if self.kinds[k] == "read":
            return row[(one + i) % _N] + other
        return lib.where(one % 2 == 0, one // 2, 3 * one + 1)

    def algorithm(self) -> rd.Algorithm:
        def iterated(x: Any) -> Any:
            def body(i: Any, state: Any) -> Any:
                *old, row = state
                new = [self.value(rd, k, old, row, x, i) for k in range(self.count)]
                if self.inner:
                    new[0] = rd.loop(3, lambda j, s: s + new[-1] * j, new[0])
                for k, how in self.stores:
                    values = old if self.early else new
                    row = getattr(row.at[(i + k) % _N], how)(values[k] % 1000)
                return (*(v % 100003 for v in new), row)

            init = (*(rd.i64(v) + x[0] for v in self.start), x)
            if not self.ends:
                return rd.loop(_N - 1, body, init)
            going = lambda s: (s[1] < _N - 1) & (s[0][0] != 77)
            return rd.while_loop(going, lambda s: (body(s[1], s[0]), s[1] + 1), (init, rd.i64(0)))[0]

        return rd.algorithm(x=f"i64[{_N}]", name="iterated")(iterated)

    def expected(self, x: np.ndarray) -> list[Any]:
        state, row = [int(v) + int(x[0]) for v in self.start], x.copy()
        for i in range(_N - 1):
            if self.ends and state[0] == 77:
                break
            new = [int(self.value(np, k, state, row, x, i)) for k in range(self.count)]
            if self.inner:
                new[0] += 3 * new[-1]
            for k, how in self.stores:
                value = (state if self.early else new)[k] % 1000
                at = (i + k) % _N
                row[at] = value if how == "set" else row[at] + value
            state = [v % 100003 for v in new]
        return [*state, row.tolist()]


@pytest.mark.parametrize("seed", range(40))
def test_random_recurrences_give_what_plain_python_gives(seed: int) -> None:
    program = _Recurrence(seed)
    x = np.random.default_rng(seed).integers(0, 50, _N)
    algorithm = program.algorithm()
    *scalars, row = algorithm(x)
    assert [*map(int, scalars), row.tolist()] == program.expected(x)
    *scalars, row = algorithm.interpret(x)
    assert [*map(int, scalars), row.tolist()] == program.expected(x)


def test_extremes_combine_the_value_of_the_iteration_before_last() -> None:
    """As the distances of time warping do: an iteration waits for one operation, not for two."""

    @rd.algorithm
    def warped(x: rd.f32["n"], y: rd.f32["m"]):
        def row(i, costs):
            def step(j, costs):
                nearest = rd.minimum(rd.minimum(costs[i, j + 1], costs[i + 1, j]), costs[i, j])
                return costs.at[i + 1, j + 1].set(nearest + rd.abs(x[i] - y[j]))

            return rd.loop(y.shape[0], step, costs)

        return rd.loop(x.shape[0], row, rd.ones((x.shape[0] + 1, y.shape[0] + 1), rd.f32))

    assert "min(out[t, t_2 + 1], out[t, t_2], out[t + 1, t_2])" in warped.compile().source("nest")
    x, y = np.float32([0.0, 3.0, -0.0, np.nan, 1.0]), np.float32([2.0, 0.0, 1.0])
    np.testing.assert_array_equal(warped(x, y), warped.interpret(x, y))
