"""Recurrences over few elements, with known trip count or not, and short loops over rows inside functions: the interpreter's values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import raido as rd


def _scores(observed: Any, start: Any, steps: Any, emitted: Any) -> Any:
    """The scores of the best paths through states, and for each observation which state came before."""

    def step(t: Any, state: Any) -> Any:
        score, back = state
        each = score[:, None] + steps
        return rd.max(each, axis=0) + emitted[:, observed[t]], back.at[t].set(rd.argmax(each, axis=0))

    return rd.loop(observed.shape[0], step, (start, rd.zeros((observed.shape[0], start.shape[0]), rd.i64)))


SCORES_OF_SOME = rd.algorithm(observed=rd.i64["t"], start=rd.i64["s"], steps=rd.i64["s", "s"], emitted=rd.i64["s", "m"])
SCORES_OF_FOUR = rd.algorithm(observed=rd.i64["t"], start=rd.i64[4], steps=rd.i64[4, 4], emitted=rd.i64[4, "m"])


def _observations(states: int, steps: int) -> list[np.ndarray]:
    g = np.random.default_rng(states)
    shapes = [(states,), (states, states), (states, 5)]
    return [g.integers(0, 5, steps), *(g.integers(-50, 50, shape) for shape in shapes)]


@pytest.mark.parametrize("steps", [0, 1, 2, 9])
@pytest.mark.parametrize("states", [1, 3, 4, 8, 9, 40, 300])
def test_scores_of_any_number_of_states(states: int, steps: int) -> None:
    scores, arguments = SCORES_OF_SOME(_scores), _observations(states, steps)
    for got, expected in zip(scores(*arguments), scores.interpret(*arguments), strict=True):
        assert np.array_equal(got, expected)


@pytest.mark.parametrize("steps", [0, 1, 2, 9])
def test_scores_of_four_states_stay_in_one_kernel(steps: int) -> None:
    scores, arguments = SCORES_OF_FOUR(_scores), _observations(4, steps)
    text = scores.compile().source("nest")
    loop = text[text.index("produce loop_1:") :]
    assert "swap" not in text and "heap" not in loop and "for r" not in loop.replace("for r in 0..4 by vector", "")
    for got, expected in zip(scores(*arguments), scores.interpret(*arguments), strict=True):
        assert np.array_equal(got, expected)


def test_an_observation_that_no_state_emits_is_reported() -> None:
    scores, arguments = SCORES_OF_SOME(_scores), _observations(3, 4)
    arguments[0][2] = 7
    with pytest.raises(rd.IndexOutOfRange, match="index 7"):
        scores(*arguments)


def test_two_small_states_that_change_places_keep_what_both_hold() -> None:
    @rd.algorithm
    def exchanged(a: rd.i64[3], b: rd.i64[3], n: rd.size):
        return rd.loop(n, lambda t, s: (s[1], s[0] * 2 + t + rd.sum(s[1])), (a, b))

    a, b = np.arange(3), np.arange(3) + 7
    for n in range(5):
        for got, expected in zip(exchanged(a, b, n), exchanged.interpret(a, b, n), strict=True):
            assert np.array_equal(got, expected)


@pytest.mark.parametrize("count", [0, 1, 5, 9, 30])
def test_least_sums_of_any_number_of_values(count: int) -> None:
    @rd.algorithm
    def fewest(coins: rd.i64["c"], target: rd.size):
        def step(k: Any, best: Any) -> Any:
            there = rd.where(coins <= k + 1, best[rd.maximum(k + 1 - coins, 0)], 1 << 30)
            return best.at[k + 1].set(rd.min(there, initial=1 << 30) + 1)

        return rd.loop(target, step, rd.full(target + 1, 1 << 30, dtype=rd.i64).at[0].set(0))

    coins = np.random.default_rng(count).integers(1, 12, count)
    assert np.array_equal(fewest(coins, 40), fewest.interpret(coins, 40))


def test_a_sum_that_divides_an_array_is_folded_once() -> None:
    @rd.algorithm
    def scaled(x: rd.f64["n"], k: rd.size):
        def step(t: Any, state: Any) -> Any:
            row, logs = state
            total = rd.sum(row)
            return row / total + 1.0, logs + rd.log(total)

        return rd.loop(k, step, (x, rd.f64(0.0)))

    assert sum(stage.startswith("loop_1/reduce") for stage in scaled.schedule().stages) == 1
    assert "compute_with" not in str(scaled.schedule().complete())
    x = np.arange(1.0, 6.0)
    for got, expected in zip(scaled(x, 4), scaled.interpret(x, 4), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-14)


def _cascade(c: Any, x: Any) -> Any:
    def sample(t: Any, state: Any) -> Any:
        first, second, out = state

        def section(k: Any, inner: Any) -> Any:
            u, first, second = inner
            v = c[k, 0] * u + first[k]
            return v, first.at[k].set(c[k, 1] * u - v + second[k]), second.at[k].set(c[k, 2] * u - v)

        u, first, second = rd.loop(c.shape[0], section, (x[t], first, second))
        return first, second, out.at[t].set(u)

    zeros = rd.zeros(c.shape[0], rd.i64)
    return rd.loop(x.shape[0], sample, (zeros, zeros, rd.zeros_like(x)))[2]


@pytest.mark.parametrize("sections", ["k", 3])
def test_filters_in_a_row_copy_nothing(sections: Any, recwarn: pytest.WarningsRecorder) -> None:
    cascade = rd.algorithm(c=rd.i64[sections, 3], x=rd.i64["t"])(_cascade)
    c, x = np.arange(9).reshape(3, 3) - 4, np.arange(7) - 3
    assert np.array_equal(cascade(c, x), cascade.interpret(c, x))
    assert not [each for each in recwarn if issubclass(each.category, rd.CopyWarning)]


def _eliminated(a: Any, y: Any) -> Any:
    def eliminate(k: Any, state: Any) -> Any:
        def row(i: Any, state: Any) -> Any:
            a, y = state
            f = a[i, k] / a[k, k]
            below = lambda: (a.at[i].set(a[i] - f * a[k]), y.at[i].set(y[i] - f * y[k]))
            return rd.cond(i > k, below, lambda: (a, y))

        return rd.loop(4, row, state)

    a, y = rd.loop(4, eliminate, (a, y))
    solve = lambda j, x: x.at[3 - j].set((y[3 - j] - rd.sum(a[3 - j] * x)) / a[3 - j, 3 - j])
    return rd.loop(4, solve, rd.zeros(4, rd.f64))


def test_systems_of_four_equations_are_solved_in_registers() -> None:
    solved = rd.algorithm(a=rd.f64["n", 4, 4], y=rd.f64["n", 4])(lambda a, y: rd.map(_eliminated, a, y))
    g = np.random.default_rng(4)
    a, y = g.random((37, 4, 4)) + 4 * np.eye(4), g.random((37, 4))
    text = solved.compile().source("nest")
    assert "stack" not in text and "heap" not in text and "for k" not in text
    got = solved(a, y)
    assert np.array_equal(got, solved.interpret(a, y))
    np.testing.assert_allclose(got, np.linalg.solve(a, y[..., None])[..., 0], rtol=1e-9)


def test_an_index_beyond_a_row_is_reported_where_the_loop_is_written_out() -> None:
    @rd.algorithm
    def shifted(x: rd.i64["n", 4]):
        return rd.map(lambda row: rd.loop(4, lambda k, r: r.at[k].set(r[k + 1]), row), x)

    with pytest.raises(rd.IndexOutOfRange, match="index 4"):
        shifted(np.zeros((3, 4), np.int64))
    assert shifted(np.zeros((0, 4), np.int64)).shape == (0, 4)


def test_branches_of_data_keep_the_loop() -> None:
    @rd.algorithm
    def sifted(x: rd.i64["n", 4]):
        def step(k: Any, row: Any) -> Any:
            return rd.cond(row[k] > row[0], lambda: row.at[0].set(row[k]).at[k].set(row[0]), lambda: row)

        return rd.map(lambda row: rd.loop(4, step, row), x)

    x = np.random.default_rng(1).integers(0, 99, (29, 4))
    assert "for k in 0..4" in sifted.compile().source("nest")
    assert np.array_equal(sifted(x), sifted.interpret(x))
