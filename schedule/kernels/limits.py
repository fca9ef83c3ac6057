"""The limits of a device that decide how a nest is cut into kernels: plain numbers."""

from __future__ import annotations

from dataclasses import dataclass

from raido.schedule.machine import Gpu

INDICES = (1 << 31) - 1
"""The most blocks along an axis: kernels receive a block's index as an i32."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a device.

    threads: threads of a block where the schedule leaves that open. most_threads, along: the most threads of a block, and along x, y and z.
    blocks: the most of a launch along x, y and z. private: the most bytes of an array private to a thread. shared: the most bytes of all
    shared arrays of a block. resident: threads in flight where each has scratch in device memory. scratch: the most bytes of that memory,
    unless one thread needs more. exchange: the number of threads, neighbours along x, that exchange values without memory (0: none).
    branches: whether a branch costs threads only the side that they take.

    iterations: the most iterations of a loop of the host plan whose end is data-dependent, each of which takes some 20 us.
    """

    threads: int = 64
    most_threads: int = 1024
    along: tuple[int, int, int] = (1024, 1024, 64)
    blocks: tuple[int, int, int] = (65_535, 65_535, 65_535)
    private: int = 1 << 10
    shared: int = 16 << 10
    resident: int = 1 << 14
    scratch: int = 64 << 20
    exchange: int = 0
    branches: bool = True
    iterations: int = 1 << 24


def limits_of(gpu: Gpu) -> Limits:
    """The limits of a GPU."""
    flight = max(gpu.threads, gpu.processors * gpu.resident)
    return Limits(
        most_threads=gpu.threads,
        along=gpu.along,
        blocks=(min(gpu.blocks[0], INDICES), min(gpu.blocks[1], INDICES), min(gpu.blocks[2], INDICES)),
        shared=gpu.shared,
        resident=flight,
        exchange=gpu.exchange,
        branches=gpu.branches,
    )
