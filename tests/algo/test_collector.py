"""Python's cycle collector while nodes are made."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from raido.algo.collector import YOUNG, seldom_collected


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
