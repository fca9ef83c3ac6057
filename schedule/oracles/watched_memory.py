"""Memory that detects races: accesses of two threads of a launch to one element, at least one a write, without a barrier in between.

Threads of different blocks are ordered by publication: accesses of the first thread before it publishes, and those that it has seen
published, happen before all of the second's after it awaits the value, and before those of its block behind the next barrier.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from raido.schedule.oracles.memory import Memory, NestError

Moment: TypeAlias = tuple[Any, Any, int]
"""The time of an access: the block, the thread, and the number of barriers that the block has passed."""


class Clock:
    """The running thread: `block` and `thread` name it, `phase` counts the barriers that its block has passed. Blocks know moments of
    others, each since a moment of their own; a publication carries the moments known at the time."""

    __slots__ = ("block", "known", "phase", "published", "thread")

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Resets the clock for a new launch."""
        self.go(None, None, 0)
        self.known: dict[Any, set[tuple[Moment, Moment]]] = {}
        self.published: dict[Any, set[Moment]] = {}

    def go(self, block: Any, thread: Any, phase: int) -> None:
        """Switches to another thread."""
        self.block, self.thread, self.phase = block, thread, phase

    def now(self) -> Moment:
        """The current moment: the running thread and its phase."""
        return (self.block, self.thread, self.phase)

    def publish(self, index: Any) -> None:
        """Records that the running thread publishes a value at a place."""
        now = self.now()
        self.published[index] = {now} | {there for there, here in self.known.get(self.block, ()) if _before(here, now)}

    def learn(self, index: Any) -> None:
        """Records that the running thread has awaited the value at a place."""
        now = self.now()
        self.known.setdefault(self.block, set()).update((there, now) for there in self.published.get(index, ()))

    def meet(self, a: Moment, b: Moment) -> bool:
        """Whether a moment and a later one are concurrent: nothing orders them."""
        if a[0] == b[0]:
            return not _before(a, b)
        return not any(_before(a, there) and _before(here, b) for there, here in self.known.get(b[0], ()))


class WatchedMemory(Memory):
    """Memory that records the last writer of each element, and its readers since. Atomic updates go through `update`."""

    __slots__ = ("clock", "readers", "writers")
    clock: Clock
    readers: dict[int, set[Moment]]
    writers: dict[int, Moment]

    def watch(self, clock: Clock) -> WatchedMemory:
        """Starts watching, and returns the memory itself."""
        self.clock, self.readers, self.writers = clock, {}, {}
        return self

    def read(self, indices: tuple[Any, ...], predicate: Any = None) -> Any:
        """Reads one element."""
        if predicate is None or predicate:
            at, now = self.flat_index(indices), self.clock.now()
            writer = self.writers.get(at)
            if writer is not None and self.clock.meet(writer, now):
                self._race(indices, "written", writer, "read", now)
            self.readers.setdefault(at, set()).add(now)
        return super().read(indices, predicate)

    def write(self, indices: tuple[Any, ...], value: Any, predicate: Any = None) -> None:
        """Stores one element."""
        if predicate is None or predicate:
            self._note_write(indices)
        super().write(indices, value, predicate)

    def expect(self, indices: tuple[Any, ...]) -> None:
        """Records an asynchronous copy as a write from its start to its arrival."""
        self._note_write(indices)
        super().expect(indices)

    def _note_write(self, indices: tuple[Any, ...]) -> None:
        at, now = self.flat_index(indices), self.clock.now()
        writer = self.writers.get(at)
        if writer is not None and self.clock.meet(writer, now):
            self._race(indices, "written", writer, "written", now)
        for reader in self.readers.pop(at, ()):
            if self.clock.meet(reader, now):
                self._race(indices, "read", reader, "written", now)
        self.writers[at] = now

    def vector_read(
        self, indices: tuple[Any, ...], stride: int, lanes: int, mask: Any = None, across: bool = False
    ) -> np.ndarray:
        """Reads neighbouring elements."""
        for index in self._neighbours(indices, stride, lanes, across):
            self.read(index)
        return super().vector_read(indices, stride, lanes, mask, across)

    def vector_write(
        self, indices: tuple[Any, ...], value: Any, stride: int, mask: Any = None, across: bool = False
    ) -> None:
        """Stores neighbouring elements."""
        for index, element in zip(self._neighbours(indices, stride, len(value), across), value, strict=True):
            self.write(index, element)

    def _neighbours(self, indices: tuple[Any, ...], stride: int, lanes: int, across: bool) -> list[tuple[Any, ...]]:
        if not across:
            return [(*indices[:-1], indices[-1] + k * stride) for k in range(lanes)]
        return list(
            zip(*np.unravel_index(self.flat_indices(indices, stride, lanes, None, across), self.shape), strict=True)
        )

    def _race(self, indices: Any, first: str, one: Any, second: str, other: Any) -> None:
        raise NestError(f"race: {self.name}{list(map(int, indices))} is {first} by {one} and {second} by {other}")


def _before(a: Moment, b: Moment) -> bool:
    """Whether a moment of a block happens before another of the same block: they are of one thread, or separated by a barrier."""
    return a[0] == b[0] and (a[2] < b[2] or (a[1] == b[1] and a[2] == b[2]))
