"""Memory bandwidth of this machine, to which timings are compared. No table has it, so a copy is measured, once in a process."""

from __future__ import annotations

import functools
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from raido.targets.native import allocate_array, get_threads
from raido.targets.target import host_cpu

_LEAST = 32 << 20  # bytes to copy: a millisecond and more
_SPARE = 8  # times the memory that is used must be there, so that a container without it is left alone
_TURNS = 4


@functools.cache
def memory_speed() -> float | None:
    """Bytes per second that a copy reads and writes, by all threads of the process; source and target together are 1.5 times the last-level
    cache. Takes some tenths of a second. None where there is too little memory to measure it."""
    size, threads = max(3 * host_cpu().l3 // 4, _LEAST), get_threads()
    try:
        room = allocate_array((_SPARE * 2 * size,), np.dtype(np.uint8))
    except MemoryError:
        return None
    sources, targets = (np.array_split(part, threads) for part in (room[:size], room[size : 2 * size]))
    seconds = []
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(np.copyto, sources, [1] * threads))  # pages never written are all one page, in a cache
        for _ in range(_TURNS):
            start = time.perf_counter()
            list(pool.map(np.copyto, targets, sources))
            seconds.append(time.perf_counter() - start)
    return 2 * size / min(seconds)


def measured_speed() -> float | None:
    """`memory_speed` if this process has measured it, else None; measures nothing."""
    return memory_speed() if memory_speed.cache_info().currsize else None
