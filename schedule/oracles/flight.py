"""Asynchronous copies in the interpreters: elements arrive as late as allowed, and cannot be read before."""

from __future__ import annotations

from typing import Any

import numpy as np

from raido.schedule.oracles.memory import Memory


class Flight:
    """The asynchronous copies under way of a thread, or of a nest: groups in order, the last of which is open."""

    __slots__ = ("groups",)

    def __init__(self) -> None:
        self.groups: list[list[tuple[Memory, tuple[Any, ...], Any]]] = [[]]

    def begin(self, memory: Memory, indices: tuple[Any, ...], value: Any, predicate: Any = None) -> None:
        """Begins a copy of one element, in the open group."""
        if predicate is None or predicate:
            memory.expect(indices)
            self.groups[-1].append((memory, indices, value))

    def begin_several(self, memory: Memory, indices: tuple[Any, ...], values: np.ndarray) -> None:
        """Begins a copy of consecutive elements."""
        for k, value in enumerate(values):
            self.begin(memory, (*indices[:-1], indices[-1] + k), value)

    def commit(self) -> None:
        """Ends the open group."""
        self.groups.append([])

    def arrive(self, left: int) -> None:
        """Completes the copies of all ended groups but the last `left`."""
        ended = max(0, len(self.groups) - 1 - left)
        for group in self.groups[:ended]:
            for memory, indices, value in group:
                memory.write(indices, value)
        del self.groups[:ended]
