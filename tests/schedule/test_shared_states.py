"""Updates read the next states of their loop instead of evaluating them again: random filters of series against plain Python."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import raido as rd


def _levels(x: rd.f64["n"]):
    def body(i, state):
        level, out = state
        level = rd.sqrt(level * level * 0.5 + x[i] * x[i])
        return level, out.at[i].set(level)

    return rd.loop(x.shape[0], body, (0.0, rd.zeros_like(x)))[1]


def test_the_update_of_a_recurrence_reads_the_level_that_was_made() -> None:
    text = rd.algorithm(_levels).compile().source("nest")
    assert text.count("sqrt") == 1
    x = np.arange(1.0, 9.0)
    expected, level = [], 0.0
    for value in x:
        level = np.sqrt(level * level * 0.5 + value * value)
        expected.append(level)
    assert np.allclose(rd.algorithm(_levels)(x), expected)


def test_so_do_those_of_many_series() -> None:
    @rd.algorithm
    def each(x: rd.f64["m", "n"]):
        return rd.map(_levels, x)

    assert each.compile().source("nest").count("sqrt") == 1
    x = np.random.default_rng(0).random((37, 5))
    one = rd.algorithm(_levels)
    assert np.array_equal(each(x), np.stack([one(row) for row in x]))


def test_a_search_that_gives_a_state_and_an_element_runs_once() -> None:
    @rd.algorithm
    def prefixes(s: rd.u8["n"]):
        def step(i, state):
            k, found = state
            k = rd.while_loop(lambda k: (k > 0) & (s[i + 1] != s[k]), lambda k: found[k - 1], k)
            k = rd.where(s[i + 1] == s[k], k + 1, k)
            return k, found.at[i + 1].set(k)

        return rd.loop(s.shape[0] - 1, step, (0, rd.zeros(s.shape[0], rd.i64)))[1]

    assert prefixes.compile().source("nest").count("while:") == 1
    text = np.frombuffer(b"abacabadabacabacab", np.uint8)
    expected = [0] * len(text)
    for i in range(1, len(text)):
        expected[i] = max((k for k in range(i + 1) if bytes(text[:k]) == bytes(text[i - k + 1 : i + 1])), default=0)
    assert prefixes(text).tolist() == expected


class _Filter:
    """A random filter of series of integers, whose loop keeps some of its states in arrays."""

    def __init__(self, seed: int) -> None:
        chance = random.Random(seed)
        self.states = chance.randint(1, 3)
        self.weights = [[chance.randint(-3, 3) for _ in range(self.states + 1)] for _ in range(self.states)]
        self.kept = [(chance.randrange(self.states), chance.random() < 0.7) for _ in range(chance.randint(1, 2))]
        self.back, self.plus = chance.random() < 0.3, chance.randint(0, 2)

    def following(self, lib: Any, old: Any, value: Any) -> list[Any]:
        mixed = [sum((w * s for w, s in zip(row[1:], old, strict=True)), row[0] * value) for row in self.weights]
        return [lib.where(v > 50, v % 50 - lib.abs(v) // 7, v + 1) for v in mixed]

    def traced(self, x: Any) -> Any:
        n = x.shape[0]

        def body(i: Any, state: Any) -> Any:
            old, kept = state[: self.states], state[self.states :]
            new = self.following(rd, old, x[i])
            at = n - 1 - i if self.back else i
            values = [
                (new if late else old)[k] * 3 + self.plus if self.plus else (new if late else old)[k]
                for k, late in self.kept
            ]
            return (*new, *(array.at[at].set(value) for array, value in zip(kept, values, strict=True)))

        return rd.loop(n, body, (*(0,) * self.states, *(rd.zeros_like(x) for _ in self.kept)))

    def expected(self, x: np.ndarray) -> list[Any]:
        old, kept = [0] * self.states, [[0] * len(x) for _ in self.kept]
        for i, value in enumerate(x):
            new = [int(v) for v in self.following(np, old, int(value))]
            at = len(x) - 1 - i if self.back else i
            for array, (k, late) in zip(kept, self.kept, strict=True):
                chosen = (new if late else old)[k]
                array[at] = chosen * 3 + self.plus if self.plus else chosen
            old = new
        return [*old, *kept]


@pytest.mark.parametrize("seed", range(24))
def test_random_filters_give_what_plain_python_gives(seed: int) -> None:
    program = _Filter(seed)
    x = np.random.default_rng(seed).integers(-20, 20, (9, 13))
    alone = rd.algorithm(x="i64[n]", name="alone")(program.traced)
    every = rd.algorithm(x="i64[m, n]", name="every")(lambda x: rd.map(program.traced, x))
    expected = [program.expected(row) for row in x]
    assert [np.asarray(part).tolist() for part in alone(x[0])] == expected[0]
    assert [np.asarray(part).tolist() for part in every(x)] == [list(parts) for parts in zip(*expected, strict=True)]
