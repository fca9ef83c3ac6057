"""Streams: rows that a loop goes along side by side, and which of them get in each other's way.

Rows that begin a multiple of `l1 / l1_ways` bytes apart have their lines of the moment in one set of L1. Where those are more than its
ways, each takes the place of the one that is wanted next: all are gone before the next iteration reads the rest of them, and come again
from L2. Arrays count as beginning at the same place of their pages, as large ones do.

What is stored past the caches waits for the rest of its line in the buffers through which lines come.

Rows that are stored past the caches must lie `Machine.streams_apart` bytes from each other within their pages: loads near one of them are
taken for loads of another, and wait for its stores. Lines must begin at the same place of all of them, unless vectors are shifted into lines
(`shifts_into_lines`). The code generator tests both before each loop, and stores in the ordinary way where they do not hold
(`targets.emit.stream_loops`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from itertools import product
from math import prod

from raido.schedule.cost.tree import Access, Loop
from raido.schedule.machine import LINE, Machine

PAGE = 4096  # bytes: processors compare the places of loads and stores within their pages first


def may_be_streamed(pitch: int, rows: int, machine: Machine, shifted: bool) -> bool:
    """Whether so many neighbouring rows, `pitch` bytes from one to the next, are best stored past the caches side by side.

    shifted: whether vectors may be shifted into lines on their way.
    """
    if rows >= machine.streams or (rows > 1 and pitch % LINE and not shifted):
        return False
    apart = machine.streams_apart
    places = (k * pitch % PAGE for k in range(1, rows))
    return all(apart <= place <= PAGE - apart for place in places)


def shifts_into_lines(vector_bits: int, bytes_stored: Iterable[int]) -> bool:
    """Whether vectors of so many bytes can be stored as lines that begin anywhere in a row: they are as long as lines, and registers of that
    length are permuted in pairs."""
    return vector_bits == 8 * LINE and all(size == LINE for size in bytes_stored)


def crowded_bytes(loop: Loop, machine: Machine, shape_of: Callable[[Hashable], tuple[float, ...]]) -> float:
    """Bytes that one iteration of a vector loop brings into L1 again, since its streams are more than the ways of their set."""
    sets: dict[int, list[int]] = {}
    stride = machine.l1 // machine.l1_ways
    for access in loop.accesses.values():
        if abs(access.forms[-1].terms.get(loop.number, 0.0)) != 1.0 or (access.streamed and not access.read):
            continue
        again = _iterations_on_a_line(access, loop) - 1
        for place in _places(access, shape_of(access.buffer)):
            sets.setdefault(place % stride // LINE, []).append(again)
    step = loop.lanes * loop.interleave
    size = max((access.itemsize for access in loop.accesses.values()), default=1)
    lines = step * size / LINE
    return sum(sum(each) for each in sets.values() if len(each) > machine.l1_ways) * lines * LINE


def split_bytes(loop: Loop, machine: Machine) -> float:
    """Bytes that one iteration of a vector loop writes to memory again, since lines go there in parts.

    A line that is stored past the caches waits in a fill buffer until all of it is there. Where a vector is a part of a line, and all
    streams together are more than those buffers, it does not: each part is a transfer of its own.
    """
    streams = sum(map(_rows, loop.accesses.values()))
    again = 0.0
    for access in loop.accesses.values():
        size = access.itemsize * loop.lanes * loop.interleave
        if access.streamed and size < LINE and streams > machine.fill_buffers:
            again += _rows(access) * (LINE - size)
    return again


def touched_bytes(loop: Loop) -> float:
    """Bytes of L1 that one iteration of a vector loop touches for the first time, of rows that nobody touched before."""
    kept = [access for access in loop.accesses.values() if access.read or not access.streamed]
    return sum(_rows(access) * access.itemsize * (1 + access.stored) for access in kept) * loop.lanes * loop.interleave


def fetched_bytes(loop: Loop) -> float:
    """Bytes that one iteration of a vector loop stores in ordinary ways: their lines are fetched first."""
    stored = [access for access in loop.accesses.values() if access.stored and not access.streamed]
    return sum(_rows(access) * access.itemsize for access in stored) * loop.lanes * loop.interleave


def _rows(access: Access) -> float:
    return prod(high - low + 1.0 for low, high in zip(access.low[:-1], access.high[:-1], strict=True))


def _places(access: Access, shape: tuple[float, ...]) -> list[int]:
    """The offsets of an access's rows, in bytes from the first."""
    pitches, pitch = [], float(access.itemsize)
    for extent in reversed(shape[1:]):
        pitch *= extent
        pitches.append(int(pitch))
    rows = (range(int(high - low) + 1) for low, high in zip(access.low[:-1], access.high[:-1], strict=True))
    return [sum(k * p for k, p in zip(place, reversed(pitches), strict=True)) for place in product(*rows)]


def _iterations_on_a_line(access: Access, loop: Loop) -> int:
    """How many iterations one after another use a line of a row."""
    parts = max(1, LINE // (access.itemsize * loop.lanes * loop.interleave))
    return parts + (access.low[-1] < 0) + (access.high[-1] > 0)
