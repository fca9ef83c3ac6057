"""Asynchronous copies in the interpreters: what is on its way to memory arrives as late as it may, and nobody can read it before."""

from __future__ import annotations

from typing import Any

import numpy as np

from raido.schedule.oracles.memory import Memory


class Flight:
    """The asynchronous copies of a thread, or of a nest, that have begun: groups of them in their order, the last of which is open."""

    __slots__ = ("groups",)

    def __init__(self) -> None:
        self.groups: list[list[tuple[Memory, tuple[Any, ...], Any]]] = [[]]

    def begin(self, memory: Memory, indices: tuple[Any, ...], value: Any, predicate: Any = None) -> None:
        """A copy of one element begins, into the open group."""
        if predicate is None or predicate:
            memory.expect(indices)
            self.groups[-1].append((memory, indices, value))

    def begin_several(self, memory: Memory, indices: tuple[Any, ...], values: np.ndarray) -> None:
        """A copy of neighbouring elements begins."""
        for k, value in enumerate(values):
            self.begin(memory, (*indices[:-1], indices[-1] + k), value)

    def commit(self) -> None:
        """Ends the open group."""
        self.groups.append([])

    def arrive(self, left: int) -> None:
        """The copies of all groups that have ended arrive, but for those of the last few."""
        ended = max(0, len(self.groups) - 1 - left)
        for group in self.groups[:ended]:
            for memory, indices, value in group:
                memory.write(indices, value)
        del self.groups[:ended]
