"""Array loops whose rounds keep to rows run row by row; others stay as they are; results are those of the interpreter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import raido as rd
from raido.schedule.lower import lower
from raido.schedule.nest.interpret import interpret_nest


def recurrence(u: Any) -> Any:
    return rd.map(lambda row: rd.loop(row.shape[0] - 1, lambda i, y: y.at[i + 1].set(y[i + 1] - 0.5 * y[i]), row), u)


def prefix_sums(u: Any) -> Any:
    """The whole row changes, and every round reads one element of it."""
    return rd.map(lambda row: rd.loop(3, lambda i, y: y.at[3:].add(y[i]), row), u)


def neighbouring_rows(u: Any) -> Any:
    """Every row reads the one before, as it was."""
    return rd.loop(u.shape[1] - 1, lambda i, y: y.at[1:, i + 1].set(y[:-1, i]), u)


def columns(u: Any) -> Any:
    """Each round changes another row: rounds are no rows."""
    return rd.loop(u.shape[0] - 1, lambda i, y: y.at[i + 1].set(y[i] * 0.5 + y[i + 1]), u)


def halved_rows(u: Any) -> Any:
    """The loop over rows has rounds that depend on the round."""
    return rd.loop(u.shape[0], lambda i, y: y.at[i:, 0].add(1.0), u)


@pytest.mark.parametrize(
    ("function", "by_rows"),
    [
        (recurrence, True),
        (prefix_sums, True),
        (neighbouring_rows, False),
        (columns, False),
        (halved_rows, False),
    ],
)
def test_rounds_of_a_row_stay_together(function: Callable[[Any], Any], by_rows: bool) -> None:
    algorithm = rd.algorithm(function)
    u = np.arange(42, dtype=np.float32).reshape(6, 7) ** 1.5
    complete = algorithm.schedule(rd.f32["n", "m"]).complete()
    nest = lower(complete.graph, complete.variants())
    text = complete.nest_text()
    (rounds,) = [line for line in text.splitlines() if line.lstrip().startswith(("for k in", "for t in"))]
    assert (len(rounds) - len(rounds.lstrip()) > 2) == by_rows, text
    want = algorithm.interpret(u)
    np.testing.assert_array_equal(interpret_nest(nest, [u], seed=3)[0], want)
    np.testing.assert_array_equal(algorithm(u), want)
    np.testing.assert_array_equal(algorithm(u[:1]), algorithm.interpret(u[:1]))
