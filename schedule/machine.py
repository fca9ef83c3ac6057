"""What a schedule may know of a machine: plain numbers. `targets` fills them in for the host or a named CPU."""

from __future__ import annotations

from dataclasses import dataclass

LINE = 64  # bytes of a line of the cache


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine as the default schedule sees it.

    vector_bits: width of a vector register. registers: how many of them. cores: threads that run at the same time. l1, l2, l3:
    bytes of cache, for one core, one core, and all cores. task: operations that are worth a thread's while, whose start takes some
    thousands. Defaults depend on these alone, and the code on the defaults; tests and chunks never read `cores`.
    """

    vector_bits: int = 256
    registers: int = 16
    cores: int = 1
    l1: int = 32 << 10
    l2: int = 1 << 20
    l3: int = 32 << 20
    task: int = 1 << 15

    def lanes(self, bits: int) -> int:
        """Elements of that many bits in a register."""
        return max(1, self.vector_bits // max(8, bits))
