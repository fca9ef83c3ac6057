"""A loop whose state changes its type: the error names the line in which the other type arises."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import raido as rd

WEIGHTS = np.ones(3)


def body_with_an_array(i: Any, s: Any) -> Any:
    doubled = s * 2
    moved = doubled + rd.array(WEIGHTS)  # here
    return moved - 1


def body_with_a_cast(i: Any, s: Any) -> Any:
    wide = s.astype(rd.f64)  # here
    return rd.where(s > 0, wide, 0.0)


def body_with_a_mean(i: Any, s: Any) -> Any:
    middle = rd.mean(s)  # here
    return s - middle


def body_with_a_literal(i: Any, s: Any) -> Any:
    half = s * 0.5  # here
    return half


@pytest.mark.parametrize(
    ("body", "state"),
    [
        (body_with_an_array, "f32[3]"),
        (body_with_a_cast, "f32[3]"),
        (body_with_a_mean, "i32[3]"),
        (body_with_a_literal, "i32[3]"),
        (body_with_a_literal, "i32"),
    ],
)
def test_the_line_is_named(body: Any, state: str) -> None:
    with pytest.raises(rd.DTypeError) as caught:
        rd.algorithm(lambda a: rd.loop(3, body, a)).trace(state)
    text = str(caught.value)
    assert "f64 arises in" in text and "# here" in text
    assert f"the loop's state is {state.split('[')[0]}, its body returns f64" in text


def test_a_literal_is_not_taken_for_an_equal_one_of_another_line() -> None:
    def body(i: Any, s: Any) -> Any:
        shifted = s << 1
        return shifted + rd.where(s > 0, 1, 0)  # here

    with pytest.raises(rd.DTypeError, match=r"i64 arises in (.|\n)*# here"):
        rd.algorithm(lambda a: rd.loop(3, body, a)).trace("i32")


def test_while_loops_name_it_too() -> None:
    with pytest.raises(rd.DTypeError, match=r"f64 arises in (.|\n)*# here"):
        rd.algorithm(lambda a: rd.while_loop(lambda s: rd.all(s > 0), lambda s: body_with_a_cast(0, s), a)).trace(
            "f32[3]"
        )


def test_the_program_is_as_before_once_it_is_right() -> None:
    f = rd.algorithm(lambda a: rd.loop(3, lambda i, s: body_with_an_array(i, s).astype(rd.f32), a))
    assert f.interpret(np.float32([0, 0, 0])).tolist() == [0, 0, 0]
