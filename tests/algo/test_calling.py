"""Functions passed to combinators with another signature than the one called: the message names the expected form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import raido as rd

TABLE = np.ones(3)
MISTAKES: dict[str, tuple[Callable[[Any], Any], str, str]] = {
    "a body without the counter": (
        lambda x: rd.loop(3, lambda s: s, x),
        "a function that takes (s) is called as body(i, state)",
        "",
    ),
    "a state of two values spread": (
        lambda x: rd.loop(3, lambda i, a, b: (b, a), (x, x)),
        "a function that takes (i, a, b) is called as body(i, state)",
        "lambda s: s[0] + s[1]",
    ),
    "a state spread in while_loop": (
        lambda x: rd.while_loop(lambda a, b: a < 3, lambda s: s, (0, x)),
        "a function that takes (a, b) is called as condition(state)",
        "one parameter for the state",
    ),
    "a state before the functions": (
        lambda x: rd.while_loop((0, x), lambda s: s[0] < 3, lambda s: s),
        "a function where a value is expected",
        "rd.loop(n, body, init)",
    ),
    "a condition of many elements": (
        lambda x: rd.while_loop(lambda s: s < 3, lambda s: s + 1, x),
        "must return one bool, not bool_[n]",
        "rd.any",
    ),
    "values as branches": (lambda x: rd.cond(x[0] > 0, x, -x), "a function without parameters, not Array", "rd.where"),
    "branches with operands": (
        lambda x: rd.cond(x[0] > 0, lambda v: v, lambda v: -v),
        "a function that takes (v) is called as then()",
        "",
    ),
    "an array before the function": (lambda x: rd.map(x, lambda v: v), "a function where", "rd.map(f, a)"),
    "too few arrays": (
        lambda x: rd.map(lambda p, q: p + q, x),
        "a function that takes (p, q) is called with 1 argument",
        "",
    ),
    "an array before its neutral element": (
        lambda x: rd.reduce(rd.add, x, 0.0),
        "rd.reduce over a scalar",
        "rd.reduce(op, neutral, array)",
    ),
    "a neutral element before its operator": (
        lambda x: rd.reduce(0.0, rd.add, x),
        "must be a function, not float",
        "rd.reduce(op, neutral, a)",
    ),
    "a generator of values": (lambda x: rd.array(v for v in (1.0, 2.0)) + x[0], "generator", "rd.array([*values])"),
    "a recurrence as a scan": (
        lambda x: rd.scan(lambda c, v: (c + v, c * v), 0.0, x),
        "returns another structure",
        "out.at[i].set(v)",
    ),
    "a NumPy array looked up": (
        lambda x: rd.map(lambda i: TABLE[i], rd.iota(3)),
        "is not a NumPy array",
        "rd.array(values)[i]",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_message_says_how_a_function_is_called(mistake: str) -> None:
    function, headline, remedy = MISTAKES[mistake]
    with pytest.raises(rd.RaidoError) as error:
        rd.algorithm(function, name="f").trace(rd.f32["n"])
    assert headline in str(error.value).splitlines()[0]
    assert remedy in str(error.value)
    assert "algorithm" in str(error.value)


def test_an_error_inside_a_function_stays_as_it_is() -> None:
    with pytest.raises(TypeError, match="unsupported operand"):
        rd.algorithm(lambda x: rd.map(lambda v: v + None, x)).trace(rd.f32["n"])


def test_a_function_without_annotations_may_be_an_algorithm() -> None:
    assert rd.algorithm(abs).interpret(np.array([-1.0, 2.0])).tolist() == [1.0, 2.0]
