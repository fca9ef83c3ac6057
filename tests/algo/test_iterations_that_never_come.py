"""Loops of zero iterations: nothing of their bodies is computed, wherever it would be placed, so nothing in them can fault."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import raido as rd


def prefixes(a: Any, d: Any, steps: Any) -> Any:
    """The scan does not depend on the iteration."""
    return rd.loop(steps, lambda i, x: rd.where(x > 3, x + rd.scan(rd.add, 0, a // d[0]), x), a)


def inner_loop(a: Any, d: Any, steps: Any) -> Any:
    """Nor on those of two loops."""
    sums = lambda x: rd.loop(steps - 1, lambda j, y: y + rd.scan(rd.add, 0, a // d[0]), x)
    return rd.loop(steps, lambda i, x: sums(x) * (i + 1), a)


def chosen(a: Any, d: Any, steps: Any) -> Any:
    """In a branch inside of an iteration."""
    return rd.loop(steps, lambda i, x: rd.cond(x[0] >= 0, lambda: x + rd.sort(a // d[0]), lambda: x), a)


def waiting(a: Any, d: Any, steps: Any) -> Any:
    """While a condition holds, which depends on the state alone."""
    body = lambda s: (s[0] + 1, s[1] + rd.scan(rd.add, 0, a // d[0]))
    return rd.while_loop(lambda s: s[0] < steps, body, (rd.i64(0), a))[1]


def gathered(a: Any, d: Any, steps: Any) -> Any:
    """An index that is out of range."""
    return rd.loop(steps, lambda i, x: x + rd.scan(rd.add, 0, a[d + 100 * (d == 0)]), a)


@pytest.mark.parametrize("function", [prefixes, inner_loop, chosen, waiting, gathered])
def test_nothing_fails_in_rounds_that_never_come(function: Callable[..., Any]) -> None:
    algorithm = rd.algorithm(function)
    a = np.arange(5)
    for run in (algorithm.interpret, algorithm):
        np.testing.assert_array_equal(run(a, np.zeros(5, np.int64), np.int64(0)), a)
        with pytest.raises((rd.ArithmeticFault, rd.IndexOutOfRange)):
            run(a, np.zeros(5, np.int64), np.int64(2))
    one = np.ones(5, np.int64)
    np.testing.assert_array_equal(algorithm(a, one, np.int64(2)), algorithm.interpret(a, one, np.int64(2)))
