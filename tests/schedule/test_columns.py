"""Columns read along the last axis of a form, once for each index along another, are first transposed to rows."""

from __future__ import annotations

import numpy as np
import pytest

import raido as rd
from raido.schedule.lower import lower
from raido.schedule.nest.printer import print_nest


@rd.algorithm
def triangular(m: rd.f64["n", "n"]):
    def step(k, m):
        m = m.at[k, k].set(rd.sqrt(m[k, k]))
        m = m.at[k + 1 :, k].set(m[k + 1 :, k] / m[k, k])
        return m.at[k + 1 :, k + 1 :].set(m[k + 1 :, k + 1 :] - m[k + 1 :, k][:, None] * m[k + 1 :, k][None, :])

    return rd.loop(m.shape[0], step, m)


@rd.algorithm
def two_columns(a: rd.i64["n", "w"]):
    return a[:, 0][:, None] * a[:, 1][None, :] + a[:, 1][None, :]


@rd.algorithm
def symmetric(a: rd.i64["n", "n"]):
    return rd.loop(3, lambda t, a: a + a[:, t][:, None] - a[:, t][None, :], a)


@rd.algorithm
def narrow_rows(a: rd.i64["n", 3]):
    return a[:, 0][:, None] * a[:, 1][None, :]


@rd.algorithm
def few_times(a: rd.i64["n", "w"], b: rd.i64[3]):
    return b[:, None] * a[:, 1][None, :]


@rd.algorithm
def transposed(a: rd.i64["n", "w"]):
    return a.T + 1


@rd.algorithm
def where_data_says(a: rd.i64["n", "w"], k: rd.i64):
    return rd.map(lambda x: rd.map(lambda y: a[y, k] * x, rd.iota(a.shape[0])), a[:, 0])


def nest_of(algorithm) -> str:
    complete = algorithm.schedule().complete()
    return print_nest(lower(complete.graph, complete.variants()))


@pytest.mark.parametrize(("algorithm", "columns"), [(triangular, 1), (two_columns, 1), (where_data_says, 1)])
def test_a_column_is_read_once(algorithm, columns):
    text = nest_of(algorithm)
    assert "column_1[" in text and f"column_{columns + 1}" not in text, text


def test_a_column_of_a_state_is_read_once():
    """Before the state changes where it is: all that reads it is the column and each element itself."""
    text = nest_of(symmetric)
    assert text.count("= out[xi, t]") == 1 and "swap" not in text, text


@pytest.mark.parametrize("algorithm", (narrow_rows, few_times, transposed), ids=lambda a: a.name)
def test_other_reads_stay_where_they_are(algorithm):
    assert "column_1" not in nest_of(algorithm)


def test_results_are_the_same():
    rng = np.random.default_rng(0)
    a = rng.integers(-9, 9, (19, 19))
    for each in (two_columns, symmetric, transposed):
        np.testing.assert_array_equal(each(a), each.interpret(a))
    np.testing.assert_array_equal(narrow_rows(a[:, :3].copy()), narrow_rows.interpret(a[:, :3].copy()))
    definite = a @ a.T + 99.0 * np.eye(19)
    np.testing.assert_allclose(np.tril(triangular(definite)), np.linalg.cholesky(definite))
    np.testing.assert_array_equal(where_data_says(a, 3), where_data_says.interpret(a, 3))
    with pytest.raises(rd.IndexOutOfRange):
        where_data_says(a, 19)
    assert two_columns(np.zeros((0, 5), np.int64)).shape == (0, 0)


def test_functions_of_the_index_along_lanes_are_made_once():
    """Whatever depends on x alone; what depends on y alone is made outside of the loop over x, and what depends on both is not moved."""

    def made(a):
        weight = lambda y, x: rd.exp(-((rd.f64(x) - 3) ** 2)) * rd.cos(rd.f64(y)) + rd.sin(rd.f64(x * y))
        return rd.tabulate(a.shape, lambda y, x: a[y, x] * weight(y, x))

    algorithm = rd.algorithm(a="f64[h, w]")(made)
    text = algorithm.compile().source("nest")
    assert text.count("exp(") == 1 and "row_1[x" in text.split("produce tabulate_1")[1], text
    assert "sin(" in text.split("by vector")[-1] and "exp(" not in text.split("produce tabulate_1")[1], text
    for h, w in ((0, 3), (1, 1), (5, 40), (33, 7)):
        a = np.random.default_rng(h).random((h, w))
        np.testing.assert_array_equal(algorithm(a), algorithm.interpret(a))


def test_functions_stay_where_rows_are_few_or_choices_are_lazy():
    few = rd.algorithm(lambda a: rd.tabulate((3, a.shape[1]), lambda y, x: a[y, x] * rd.exp(rd.f32(x))), a="f32[3, w]")
    assert "row_1" not in few.compile().source("nest")
    lazy = lambda a: rd.tabulate(a.shape, lambda y, x: rd.cond(a[y, x] > 0, lambda: rd.exp(rd.f32(x)), lambda: a[y, x]))
    assert "row_1" not in rd.algorithm(a="f32[h, w]")(lazy).compile().source("nest")
