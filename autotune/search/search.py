"""The interface of a search: it proposes candidates, each once, and is told their times.

All searches follow one protocol, so that they can be compared: the default schedule comes first unless it was measured before, a candidate
is proposed once, and one that lowering refuses never. A search is deterministic for a seed and measurements.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Protocol

from raido.algo.errors import RaidoError
from raido.autotune.space import Candidate, Space
from raido.schedule.lower import lower

TRIES = 100


class Search(Protocol):
    """Interface of search strategies."""

    def propose(self, count: int) -> list[Candidate]:
        """At most `count` candidates that were never proposed; none when the space is exhausted."""
        ...

    def tell(self, candidate: Candidate, seconds: float | None) -> None:
        """Reports a candidate's time in seconds, or None if it failed."""
        ...


class Proposals:
    """The candidates of a space that were proposed, and an iterator over the rest."""

    def __init__(self, space: Space) -> None:
        self.space = space
        self.keys: set[str] = set()
        self._rest: Iterator[Candidate] = space.grid()

    def add(self, candidate: Candidate) -> bool:
        """Marks a candidate as proposed; returns whether it was new."""
        new = candidate.key not in self.keys
        self.keys.add(candidate.key)
        return new

    def take(self, candidate: Candidate) -> bool:
        """Marks a candidate as proposed; returns whether it was new and can be lowered."""
        return self.add(candidate) and can_lower(candidate)

    def next_of_grid(self) -> Candidate | None:
        """The next candidate of the grid that was not proposed, now marked; None at its end."""
        return next((each for each in self._rest if self.take(each)), None)

    def fill(self, found: list[Candidate], count: int, rng: random.Random) -> list[Candidate]:
        """`count` candidates: those found, then new draws, then the rest of the grid, when draws yield nothing new."""
        while len(found) < count:
            drawn = (self.space.sample(rng) for _ in range(TRIES))
            new = next((each for each in drawn if self.take(each)), None) or self.next_of_grid()
            if new is None:
                break
            found.append(new)
        return found[:count]


def can_lower(candidate: Candidate) -> bool:
    """Whether lowering accepts a candidate: the last of the checks on a schedule."""
    try:
        lower(candidate.schedule.graph, candidate.schedule.variants())
    except RaidoError:
        return False
    return True
