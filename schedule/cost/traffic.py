"""The bytes that each loop moves into each cache, and the time that takes, from the innermost loop outwards.

A loop's footprint is a box for each buffer, widened from loop to loop. While the boxes of *one* iteration fit a cache, the loop moves each
element in once, however often it is read again (consecutive iterations share elements); where they do not fit, every iteration pays for
itself. This is reuse distance in the sense of Mattson et al. (IBM Systems Journal, 1970), for boxes instead of addresses.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from raido.schedule.cost.tree import Access, Loop
from raido.schedule.machine import LINE, Machine

LAUNCH = 6000.0  # cycles to start all threads
ALLOCATION = 300.0


@dataclass(slots=True)
class Box:
    """The footprint of an access: an index range in each dimension, and the most elements of it that are touched."""

    access: Access
    low: list[float]
    high: list[float]
    touched: float


class Bytes(NamedTuple):
    """The bytes of cache lines under boxes: `held` in caches, and `moved`, twice where ordinary stores write them."""

    held: float
    moved: float


@dataclass(slots=True)
class Cost:
    """The cost of one run of a loop.

    cycles: of arithmetic and accesses, with threads; steady: the same without loop-carried dependences. bytes: moved into L1, L2 and L3.
    time: cycles with the caches. round_bytes: the footprint of one iteration; touched_bytes: that of all iterations.
    """

    cycles: float
    steady: float
    bytes: tuple[float, float, float]
    time: float
    iteration_bytes: float
    touched_bytes: float


class Traffic:
    """The costs of all loops of a tree. middles: the mean value of each loop's variable, by number. shape_of: returns the extents of a
    buffer.
    """

    def __init__(
        self, machine: Machine, middles: Sequence[float], shape_of: Callable[[Any], tuple[float, ...]]
    ) -> None:
        self.machine = machine
        self.middles = middles
        self.shape_of = shape_of
        self.costs: dict[Loop, Cost] = {}
        self._shapes: dict[Hashable, tuple[float, ...]] = {}

    def analyse(self, root: Loop) -> Cost:
        """Returns the cost of the nest with warm caches: data that fits a cache as a whole is already there."""
        self._loop(root, 1.0, False)
        return self.costs[root]

    def _loop(self, loop: Loop, speed: float, threaded: bool) -> tuple[list[Box], Bytes]:
        """Computes the costs of a loop and of the loops inside; returns the boxes of all its iterations, and their bytes."""
        threads = self._threads(loop) if loop.kind == "parallel" and not threaded else 1.0
        inside = threaded or loop.kind == "parallel"
        boxes = [self._point(access) for access in loop.accesses.values()]
        parts: list[tuple[float, Cost]] = []
        round_sizes: Bytes | None = None
        for child in loop.loops:
            below, sizes = self._loop(child, speed * threads, inside)
            round_sizes = None if boxes else sizes  # a loop around a single loop and nothing else
            boxes += below
            parts.append((child.weight, self.costs[child]))
        if round_sizes is None:
            round_sizes = self._bytes_of(boxes)
        wide, wide_sizes = boxes, round_sizes
        if loop.span or loop.kind == "while":
            wide = [self._widen(box, loop) for box in boxes]
            wide_sizes = self._bytes_of(wide)
        iteration_bytes, touched = round_sizes.held, wide_sizes.moved
        cores = self.machine.cores if inside else 1
        capacities = (self.machine.l1, self.machine.l2, self.machine.l3 / cores)
        own = sum(min(box.touched, box.access.times) * LINE for box in boxes[: len(loop.accesses)])
        moved: list[float] = []
        for level, capacity in enumerate(capacities):
            each = own + sum(weight * cost.bytes[level] for weight, cost in parts)
            fits = iteration_bytes <= 0.8 * capacity
            moved.append(min(touched, loop.iterations * each) if fits else loop.iterations * each)
        if loop.kind == "root":
            moved = [0.0 if touched <= 0.8 * c else b for c, b in zip(capacities, moved, strict=True)]
        steady = loop.cycles + loop.branches * 1.0 + loop.allocations * ALLOCATION
        body = steady + sum(weight * cost.cycles for weight, cost in parts)
        smooth = steady + sum(weight * cost.steady for weight, cost in parts)
        overhead = 0.0 if loop.kind in ("unroll", "root") else 1.0
        chain = max(loop.chains.values(), default=0.0)
        cycles = loop.runs_of_body * max(body + overhead, chain) / threads
        smooth = loop.runs_of_body * (smooth + overhead) / threads
        if loop.kind == "parallel" and not threaded:
            cycles, smooth = cycles + LAUNCH, smooth + LAUNCH
            moved = [moved[0] / threads, moved[1] / threads, moved[2]]
        if loop.host:
            time = loop.iterations * (loop.cycles + sum(weight * cost.time for weight, cost in parts))
        else:
            time = self._roofline(cycles, moved, inside)
        self.costs[loop] = Cost(cycles, smooth, (moved[0], moved[1], moved[2]), time, iteration_bytes, touched)
        return wide, wide_sizes

    def _threads(self, loop: Loop) -> float:
        """Returns the speedup of a parallel loop, with an uneven last share."""
        chunks = max(loop.iterations / loop.grain, 1.0)
        cores = self.machine.cores
        return chunks / math.ceil(chunks / cores)

    def _point(self, access: Access) -> Box:
        shift = [sum(slope * self.middles[loop] for loop, slope in form.terms.items()) for form in access.forms]
        low = [a + s for a, s in zip(access.low, shift, strict=True)]
        high = [a + s for a, s in zip(access.high, shift, strict=True)]
        return Box(access, low, high, max(access.times, 1.0))

    def _widen(self, box: Box, loop: Loop) -> Box:
        """Returns the box of all iterations of a loop, given that of one."""
        access, number, bit = box.access, loop.number, loop.bit
        low, high, depends = box.low, box.high, False
        for k, form in enumerate(access.forms):
            slope = form.terms.get(number)
            if slope is None and not form.rough & bit:
                continue
            if not depends:
                low, high, depends = list(low), list(high), True
            if slope is not None:
                reach = abs(slope) * loop.span / 2
                low[k] -= reach
                high[k] += reach
            else:
                low[k], high[k] = 0.0, self._shape(access.buffer)[k] - 1.0
        return Box(access, low, high, box.touched * loop.iterations) if depends else box

    def _shape(self, buffer: Hashable) -> tuple[float, ...]:
        known = self._shapes.get(buffer)
        if known is None:
            known = self.shape_of(buffer)
            self._shapes[buffer] = known
        return known

    def _bytes_of(self, boxes: Sequence[Box]) -> Bytes:
        """Returns the bytes of the lines under all boxes; boxes of one buffer are merged."""
        joined: dict[Hashable, tuple[int, list[float], list[float], float, bool, bool]] = {}
        for box in boxes:
            access = box.access
            known = joined.get(access.buffer)
            stored = access.stored and not access.streamed
            fetched = access.read or stored
            if known is None:
                joined[access.buffer] = (access.itemsize, box.low, box.high, box.touched, fetched, stored)
            else:
                size, low, high, touched, before, twice = known
                low, high = list(map(min, low, box.low)), list(map(max, high, box.high))
                joined[access.buffer] = (size, low, high, touched + box.touched, before or fetched, twice or stored)
        held = moved = 0.0
        for buffer, (itemsize, low, high, touched, fetched, twice) in joined.items():
            size = self._bytes(buffer, itemsize, low, high, touched)
            held += size if fetched else 0.0  # other lines are stored past the caches
            moved += size * 2 if twice else size
        return Bytes(held, moved)

    def _bytes(self, buffer: Hashable, size: int, low: list[float], high: list[float], touched: float) -> float:
        shape = self._shape(buffer)
        extents = [min(to - at + 1.0, n) for at, to, n in zip(low, high, shape, strict=True)]
        last, rows = max(extents[-1], 1.0), max(math.prod(extents[:-1]), 1.0)
        in_row = touched / rows
        if in_row < 1.0:
            rows, in_row = touched, 1.0
        run = last * size if last >= shape[-1] else last * size + LINE - size  # on average over alignments
        return rows * max(min(run, in_row * LINE), size)

    def _roofline(self, cycles: float, moved: Sequence[float], all_cores: bool) -> float:
        """Returns the greatest of the times of arithmetic and of each cache, plus a quarter of the others, which overlap in part."""
        machine = self.machine
        memory = machine.from_memory if all_cores else machine.from_memory_alone
        bounds = (cycles, moved[0] / machine.from_l2, moved[1] / machine.from_l3, moved[2] / memory)
        slowest = max(bounds)
        return slowest + 0.25 * (sum(bounds) - slowest)
