"""A CUDA device's properties, as the driver reports them to code generation and launches."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CudaInfo:
    """A device, by its index among the devices of this machine. Sizes are in bytes; `capability` is 90 for compute capability 9.0, and
    `architecture` the target of its code: "sm_90", or "compute_75" for PTX.

    `grid` and `block` bound blocks and threads along x, y and z, `threads` bounds the threads of a block, `shared` its shared memory;
    `driver` is the CUDA version that the driver belongs to.
    """

    name: str
    index: int
    identity: str
    capability: int
    architecture: str
    driver: str
    memory: int
    processors: int
    warp: int
    threads: int
    shared: int
    grid: tuple[int, int, int] = (2**31 - 1, 65535, 65535)
    block: tuple[int, int, int] = (1024, 1024, 64)

    @property
    def products(self) -> tuple[str, ...]:
        """Dtypes of the factors that `mma.sync` multiplies, with sums in f32 (PTX ISA: from sm_80 on)."""
        return ("f16", "bf16", "tf32") if self.capability >= 80 else ()

    @property
    def warpgroups(self) -> tuple[str, ...]:
        """Dtypes of the factors that `wgmma` multiplies (PTX ISA: in code for sm_90a, which no other architecture executes)."""
        return self.products if self.architecture == "sm_90a" else ()

    @property
    def asynchronous(self) -> bool:
        """Whether the device has `cp.async` (PTX ISA: from sm_80 on)."""
        return self.capability >= 80

    def describe(self) -> str:
        """One line of text with the limits that matter to schedules."""
        return (
            f"{self.name} ({self.architecture}), {self.memory / (1 << 30):.1f} GiB, {self.processors} processors, "
            f"{self.threads} threads a block, {self.shared >> 10} KiB shared, driver of CUDA {self.driver}"
        )
