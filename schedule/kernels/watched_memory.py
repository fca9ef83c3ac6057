"""Memory that finds races: two threads of a launch at one element, one of them writing, without a barrier between."""

from __future__ import annotations

from typing import Any

import numpy as np

from raido.schedule.nest.memory import Memory, NestError


class Clock:
    """Which thread runs: `block` and `thread` name it, `phase` counts the barriers that its block has passed."""

    __slots__ = ("block", "phase", "thread")

    def __init__(self) -> None:
        self.block: Any = None
        self.thread: Any = None
        self.phase = 0

    def now(self) -> tuple[Any, Any, int]:
        """The thread and its phase."""
        return (self.block, self.thread, self.phase)


class WatchedMemory(Memory):
    """Memory that remembers who last wrote each element, and who has read it since. Atomic updates go through `update`."""

    __slots__ = ("clock", "readers", "writers")
    clock: Clock
    readers: dict[int, set[tuple[Any, Any, int]]]
    writers: dict[int, tuple[Any, Any, int]]

    def watch(self, clock: Clock) -> WatchedMemory:
        """The memory itself, watched from here on."""
        self.clock, self.readers, self.writers = clock, {}, {}
        return self

    def read(self, indices: tuple[Any, ...], predicate: Any = None) -> Any:
        """One element."""
        if predicate is None or predicate:
            at, now = self.place(indices), self.clock.now()
            writer = self.writers.get(at)
            if writer is not None and _meet(writer, now):
                self._race(indices, "written", writer, "read", now)
            self.readers.setdefault(at, set()).add(now)
        return super().read(indices, predicate)

    def write(self, indices: tuple[Any, ...], value: Any, predicate: Any = None) -> None:
        """Stores one element."""
        if predicate is None or predicate:
            at, now = self.place(indices), self.clock.now()
            writer = self.writers.get(at)
            if writer is not None and _meet(writer, now):
                self._race(indices, "written", writer, "written", now)
            for reader in self.readers.pop(at, ()):
                if _meet(reader, now):
                    self._race(indices, "read", reader, "written", now)
            self.writers[at] = now
        super().write(indices, value, predicate)

    def vector_read(
        self, indices: tuple[Any, ...], stride: int, lanes: int, mask: Any = None, across: bool = False
    ) -> np.ndarray:
        """Neighbouring elements."""
        for place in _neighbours(indices, stride, lanes):
            self.read(place)
        return super().vector_read(indices, stride, lanes, mask, across)

    def vector_write(
        self, indices: tuple[Any, ...], value: Any, stride: int, mask: Any = None, across: bool = False
    ) -> None:
        """Stores neighbouring elements."""
        for place, element in zip(_neighbours(indices, stride, len(value)), value, strict=True):
            self.write(place, element)

    def _race(self, indices: Any, first: str, one: Any, second: str, other: Any) -> None:
        raise NestError(f"race: {self.name}{list(map(int, indices))} is {first} by {one} and {second} by {other}")


def _neighbours(indices: tuple[Any, ...], stride: int, lanes: int) -> list[tuple[Any, ...]]:
    return [(*indices[:-1], indices[-1] + k * stride) for k in range(lanes)]


def _meet(a: tuple[Any, Any, int], b: tuple[Any, Any, int]) -> bool:
    """Whether nothing orders two threads: they are of different blocks, or of one and no barrier stands between."""
    return a[0] != b[0] or (a[1] != b[1] and a[2] == b[2])
