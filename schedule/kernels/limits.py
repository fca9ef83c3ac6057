"""The limits of a device that decide how a nest is cut into kernels: plain numbers, filled in by whoever knows the device."""

from __future__ import annotations

from dataclasses import dataclass

from raido.schedule.machine import Gpu


@dataclass(frozen=True, slots=True)
class Limits:
    """threads: those of a block where a schedule leaves that open; most_threads, along: most of them, and most along x, y and z. blocks:
    most along one axis of a launch. private, shared: most bytes of an array of a thread, of all arrays of a block. resident: threads in
    flight where each has memory of its own in device memory, and scratch: most bytes of that memory, unless one thread needs more.
    exchange: threads, neighbours along x, that hand each other values without memory (0: none do). branches: whether a branch costs
    threads the side alone that they take.
    steps: most iterations of a loop of the host plan whose end data decides, each of which takes some 20 us.
    """

    threads: int = 64
    most_threads: int = 1024
    along: tuple[int, int, int] = (1024, 1024, 64)
    blocks: int = 65_535
    private: int = 1 << 10
    shared: int = 16 << 10
    resident: int = 1 << 14
    scratch: int = 64 << 20
    exchange: int = 0
    branches: bool = True
    steps: int = 1 << 24


def limits_of(gpu: Gpu) -> Limits:
    """The limits of a GPU."""
    flight = max(gpu.threads, gpu.processors * gpu.resident)
    return Limits(
        most_threads=gpu.threads,
        along=gpu.along,
        shared=gpu.shared,
        resident=flight,
        exchange=gpu.exchange,
        branches=gpu.branches,
    )
