"""Python's cycle collector during compilation, and the lifetime of memoised results."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from raido.algo.collector import YOUNG, kept_meanwhile, seldom_collected
from raido.algo.graph import index as ix
from raido.algo.graph.expr import SizeVar, fresh


@pytest.fixture(autouse=True)
def thresholds() -> Iterator[tuple[int, int, int]]:
    """The thresholds of the process, there again after the test."""
    usual = gc.get_threshold()
    yield usual
    gc.set_threshold(*usual)


@seldom_collected
def inside(depth: int = 0, fails: bool = False) -> int:
    if fails:
        raise ValueError
    return inside(depth - 1) if depth else gc.get_threshold()[0]


def test_calls_raise_the_threshold_and_give_it_back(thresholds: tuple[int, int, int]) -> None:
    assert inside() == inside(depth=2) == YOUNG
    assert gc.get_threshold() == thresholds


def test_a_call_that_fails_gives_it_back(thresholds: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError):
        inside(fails=True)
    assert gc.get_threshold() == thresholds


@pytest.mark.parametrize("chosen", [0, 10 * YOUNG])
def test_a_collector_that_is_off_or_rarer_stays_so(chosen: int) -> None:
    gc.set_threshold(chosen, 10, 10)
    assert inside() == chosen
    assert gc.get_threshold() == (chosen, 10, 10)


def test_answers_are_kept_until_the_outermost_call_has_ended() -> None:
    asked: list[int] = []

    @kept_meanwhile
    def double(number: int) -> int:
        asked.append(number)
        return 2 * number

    @seldom_collected
    def twice(depth: int = 0) -> None:
        assert double(4) == double(4) == 8
        if depth:
            twice(depth - 1)
            twice(depth - 1)

    twice(depth=2)
    assert asked == [4]
    twice()
    assert asked == [4, 4]


def test_sums_of_indices_go_with_the_call_that_made_them() -> None:
    @seldom_collected
    def made() -> weakref.ref[object]:
        total = ix.add(fresh("y"), SizeVar("n"))
        return weakref.ref(total)

    assert made()() is None
