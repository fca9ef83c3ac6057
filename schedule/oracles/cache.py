"""The traffic beyond a cache, of a nest that runs in Python: memory at addresses, and a cache that holds the lines touched last.

The cache is fully associative and forgets the line that was touched least recently (Mattson et al. 1970), so a line is brought in again
exactly where more than a cacheful of others was touched meanwhile. Memory that was given back is handed out again first, to what asks
for as much.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Sequence
from typing import Any

from raido.algo.graph.dtypes import DType
from raido.schedule.machine import LINE
from raido.schedule.oracles.memory import Memory


class Cache:
    """A cache of so many bytes; `brought`: bytes that came into it from beyond."""

    def __init__(self, size: int) -> None:
        self.lines: OrderedDict[int, None] = OrderedDict()
        self.most, self.last = size // LINE, -1
        self.brought = 0
        self.end = 0
        self.free: defaultdict[int, list[int]] = defaultdict(list)

    def touch(self, line: int) -> None:
        """A line is read or written."""
        self.last, lines = line, self.lines
        if line in lines:
            lines.move_to_end(line)
            return
        lines[line] = None
        self.brought += LINE
        if len(lines) > self.most:
            lines.popitem(last=False)

    def place(self, size: int) -> int:
        """The first line of that many bytes of fresh memory."""
        count = -(-size // LINE)
        known = self.free[count]
        if known:
            return known.pop()
        self.end += count
        return self.end - count

    def give_back(self, line: int, size: int) -> None:
        """Memory of that many bytes from a line on is free."""
        self.free[-(-size // LINE)].append(line)


class CachedMemory(Memory):
    """A buffer whose accesses go through a cache."""

    __slots__ = ("cache", "line", "per_line")

    def __init__(
        self, cache: Cache, name: str, dtype: DType, shape: Sequence[int], strides: Sequence[int], lanes: int
    ) -> None:
        super().__init__(name, dtype, shape, strides, lanes)
        self.cache, self.line, self.per_line = cache, cache.place(self.data.nbytes), max(1, LINE // dtype.itemsize)

    def view(self, shape: Sequence[int]) -> CachedMemory:
        """The first rows of the buffer, at the same place."""
        new: Any = super().view(shape)
        new.cache, new.line, new.per_line = self.cache, self.line, self.per_line
        return new

    def copy(self, source: Memory) -> None:
        """Takes over the contents of a buffer of the same shape, line by line."""
        super().copy(source)
        assert isinstance(source, CachedMemory)
        for k in range(-(-self.data.nbytes // LINE)):
            self.cache.touch(source.line + k)
            self.cache.touch(self.line + k)

    def place(self, indices: tuple[Any, ...]) -> int:
        """The offset of an element, whose line is touched."""
        offset = super().place(indices)
        line = self.line + offset // self.per_line
        if line != self.cache.last:
            self.cache.touch(line)
        return offset

    def give_back(self) -> None:
        """The memory is free."""
        self.cache.give_back(self.line, self.data.nbytes)
