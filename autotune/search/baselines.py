"""Baseline searches that do not learn: random and grid."""

from __future__ import annotations

import random

from raido.autotune.search.search import Proposals
from raido.autotune.space import Candidate, Space


class RandomSearch:
    """Proposes candidates drawn by the weights of the space."""

    def __init__(self, space: Space, seed: int) -> None:
        self._space = space
        self._rng = random.Random(seed)
        self._proposals = Proposals(space)

    def propose(self, count: int) -> list[Candidate]:
        """New draws, the default schedule first; then the rest of the grid, when draws yield nothing new."""
        found: list[Candidate] = []
        if self._proposals.take(default := self._space.default()):
            found.append(default)
        return self._proposals.fill(found, count, self._rng)

    def tell(self, candidate: Candidate, seconds: float | None) -> None:
        """Marks the candidate as proposed; its time is ignored."""
        self._proposals.add(candidate)


class GridSearch:
    """Proposes every candidate, those nearest to the default schedule first."""

    def __init__(self, space: Space) -> None:
        self._proposals = Proposals(space)

    def propose(self, count: int) -> list[Candidate]:
        """The next candidates of the grid."""
        found = (self._proposals.next_of_grid() for _ in range(count))
        return [each for each in found if each is not None]

    def tell(self, candidate: Candidate, seconds: float | None) -> None:
        """Marks the candidate as proposed; its time is ignored."""
        self._proposals.add(candidate)
