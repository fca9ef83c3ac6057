"""Streams, the rows that a loop accesses concurrently: conflict misses in L1, and limits of non-temporal stores.

Rows that begin a multiple of `l1 / l1_ways` bytes apart have their current lines in one set of L1. Where those are more than its ways, each
evicts the line wanted next: all are gone before the next iteration reads the rest of them, and are fetched again.

A line stored past the caches waits in a fill buffer until it is complete. Rows stored so together must lie `Machine.streams_apart` bytes
from each other within their pages: loads near one of them are taken for loads of another, and wait for its stores (4K aliasing). Lines must
begin at the same element of all of them, unless vectors are shifted into lines (`shifts_into_lines`). The code generator tests both before
each loop, and uses ordinary stores where they do not hold (`targets.emit.stream_loops`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from itertools import product
from math import prod

from raido.schedule.cost.tree import Access, Loop
from raido.schedule.machine import LINE, Machine

PAGE = 4096  # bytes: processors first compare addresses of loads and stores within their pages


def may_be_streamed(pitch: int, rows: int, machine: Machine, shifted: bool) -> bool:
    """Whether `rows` neighbouring rows, `pitch` bytes apart, are best stored past the caches together. shifted: whether vectors may be
    shifted into lines.
    """
    if rows >= machine.streams or (rows > 1 and pitch % LINE and not shifted):
        return False
    apart = machine.streams_apart
    offsets = (k * pitch % PAGE for k in range(1, rows))
    return all(apart <= offset <= PAGE - apart for offset in offsets)


def shifts_into_lines(vector_bits: int, bytes_stored: Iterable[int]) -> bool:
    """Whether vectors can be stored as lines that begin anywhere in a row: vectors are as long as lines (AVX-512 permutes pairs of
    registers).
    """
    return vector_bits == 8 * LINE and all(size == LINE for size in bytes_stored)


def crowded_bytes(loop: Loop, machine: Machine, shape_of: Callable[[Hashable], tuple[float, ...]]) -> float:
    """Returns the bytes that one iteration of a vector loop fetches into L1 again because more streams than ways share a set."""
    sets: dict[int, list[int]] = {}
    stride = machine.l1 // machine.l1_ways
    for access in loop.accesses.values():
        if abs(access.forms[-1].terms.get(loop.number, 0.0)) != 1.0 or (access.streamed and not access.read):
            continue
        again = _iterations_on_a_line(access, loop) - 1
        for offset in _offsets(access, shape_of(access.buffer)):
            sets.setdefault(offset % stride // LINE, []).append(again)
    group = loop.lanes * loop.interleave
    size = max((access.itemsize for access in loop.accesses.values()), default=1)
    lines = group * size / LINE
    return sum(sum(each) for each in sets.values() if len(each) > machine.l1_ways) * lines * LINE


def split_bytes(loop: Loop, machine: Machine) -> float:
    """Returns the bytes that one iteration of a vector loop writes to memory again because lines are written in parts.

    A line stored past the caches waits in a fill buffer until it is complete. Where a vector is a part of a line, and there are more
    streams than fill buffers, lines are evicted incomplete: each part is a transfer of its own.
    """
    streams = sum(map(_rows, loop.accesses.values()))
    again = 0.0
    for access in loop.accesses.values():
        size = access.itemsize * loop.lanes * loop.interleave
        if access.streamed and size < LINE and streams > machine.fill_buffers:
            again += _rows(access) * (LINE - size)
    return again


def touched_bytes(loop: Loop) -> float:
    """Returns the bytes of rows new to L1 that one iteration of a vector loop accesses."""
    kept = [access for access in loop.accesses.values() if access.read or not access.streamed]
    return sum(_rows(access) * access.itemsize * (1 + access.stored) for access in kept) * loop.lanes * loop.interleave


def fetched_bytes(loop: Loop) -> float:
    """Returns the bytes that one iteration of a vector loop stores by ordinary stores, whose lines are fetched first."""
    stored = [access for access in loop.accesses.values() if access.stored and not access.streamed]
    return sum(_rows(access) * access.itemsize for access in stored) * loop.lanes * loop.interleave


def _rows(access: Access) -> float:
    return prod(high - low + 1.0 for low, high in zip(access.low[:-1], access.high[:-1], strict=True))


def _offsets(access: Access, shape: tuple[float, ...]) -> list[int]:
    """Returns the offsets of an access's rows in bytes, from the first."""
    pitches, pitch = [], float(access.itemsize)
    for extent in reversed(shape[1:]):
        pitch *= extent
        pitches.append(int(pitch))
    rows = (range(int(high - low) + 1) for low, high in zip(access.low[:-1], access.high[:-1], strict=True))
    return [sum(k * p for k, p in zip(offset, reversed(pitches), strict=True)) for offset in product(*rows)]


def _iterations_on_a_line(access: Access, loop: Loop) -> int:
    """Returns the number of consecutive iterations that access one line of a row."""
    parts = max(1, LINE // (access.itemsize * loop.lanes * loop.interleave))
    return parts + (access.low[-1] < 0) + (access.high[-1] > 0)
