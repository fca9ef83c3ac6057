"""A CUDA device as code generation and launches see it: what the driver says of it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CudaInfo:
    """A device, by its index among the devices of this machine. Sizes are in bytes; `capability` is 90 for compute capability 9.0.

    `grid` and `block` bound blocks and threads along x, y and z, `threads` bounds the threads of a block, `shared` its shared memory;
    `driver` is the version of CUDA that the driver belongs to.
    """

    name: str
    index: int
    identity: str
    capability: int
    driver: str
    memory: int
    processors: int
    warp: int
    threads: int
    shared: int
    grid: tuple[int, int, int]
    block: tuple[int, int, int]

    @property
    def architecture(self) -> str:
        """The architecture of its machine code, "sm_90"."""
        return f"sm_{self.capability}"

    def describe(self) -> str:
        """A line for people: the limits that schedules meet."""
        return (
            f"{self.name} ({self.architecture}), {self.memory / (1 << 30):.1f} GiB, {self.processors} processors, "
            f"{self.threads} threads a block, {self.shared >> 10} KiB shared, driver of CUDA {self.driver}"
        )
