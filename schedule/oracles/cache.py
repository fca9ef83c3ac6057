"""The traffic beyond a cache, simulated for a nest run in Python.

The cache is fully associative with least-recently-used replacement (Mattson et al. 1970), so a line is fetched again exactly where more
than a cacheful of other lines was accessed meanwhile. Freed memory is reused first for allocations of the same size.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Sequence
from typing import Any

from raido.algo.graph.dtypes import DType
from raido.schedule.machine import LINE
from raido.schedule.oracles.memory import Memory


class Cache:
    """A cache of `size` bytes; `brought`: bytes fetched into it."""

    def __init__(self, size: int) -> None:
        self.lines: OrderedDict[int, None] = OrderedDict()
        self.most, self.last = size // LINE, -1
        self.brought = 0
        self.end = 0
        self.free: defaultdict[int, list[int]] = defaultdict(list)

    def touch(self, line: int) -> None:
        """Accesses a line."""
        self.last, lines = line, self.lines
        if line in lines:
            lines.move_to_end(line)
            return
        lines[line] = None
        self.brought += LINE
        if len(lines) > self.most:
            lines.popitem(last=False)

    def allocate(self, size: int) -> int:
        """Allocates memory of `size` bytes; returns its first line."""
        count = -(-size // LINE)
        known = self.free[count]
        if known:
            return known.pop()
        self.end += count
        return self.end - count

    def give_back(self, line: int, size: int) -> None:
        """Frees memory of `size` bytes from a line on."""
        self.free[-(-size // LINE)].append(line)


class CachedMemory(Memory):
    """A buffer whose accesses go through a cache."""

    __slots__ = ("cache", "line", "per_line")

    def __init__(
        self, cache: Cache, name: str, dtype: DType, shape: Sequence[int], strides: Sequence[int], lanes: int
    ) -> None:
        super().__init__(name, dtype, shape, strides, lanes)
        self.cache, self.line, self.per_line = cache, cache.allocate(self.data.nbytes), max(1, LINE // dtype.itemsize)

    def view(self, shape: Sequence[int]) -> CachedMemory:
        """Returns the first rows of the buffer, at the same address."""
        new: Any = super().view(shape)
        new.cache, new.line, new.per_line = self.cache, self.line, self.per_line
        return new

    def copy(self, source: Memory) -> None:
        """Copies the contents of a buffer of the same shape into this one, line by line."""
        super().copy(source)
        assert isinstance(source, CachedMemory)
        for k in range(-(-self.data.nbytes // LINE)):
            self.cache.touch(source.line + k)
            self.cache.touch(self.line + k)

    def flat_index(self, indices: tuple[Any, ...]) -> int:
        """Returns the offset of an element, and accesses its line."""
        offset = super().flat_index(indices)
        line = self.line + offset // self.per_line
        if line != self.cache.last:
            self.cache.touch(line)
        return offset

    def give_back(self) -> None:
        """Frees the memory."""
        self.cache.give_back(self.line, self.data.nbytes)
