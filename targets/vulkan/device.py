"""A Vulkan device as code generation sees it: its limits, and the capabilities of SPIR-V that it offers.

Every limit is the device's own answer; nothing is assumed of a vendor. Code is generated for a description, so it can be generated, and
tested, where there is no device.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from raido.targets.vulkan.spirv.grammar import Capability

FLOAT_WIDTHS = (16, 32, 64)
ITERATIONS = 65_535  # of llvmpipe, lavapipe's compiler (LP_MAX_TGSI_LOOP_ITERATIONS)


@dataclass(frozen=True, slots=True)
class FloatMode:
    """A float control: the widths that a device offers it for, and the groups of widths that must agree on it."""

    widths: frozenset[int] = frozenset()
    groups: tuple[frozenset[int], ...] = tuple(frozenset({width}) for width in FLOAT_WIDTHS)

    def request(self, used: set[int]) -> list[int]:
        """The widths to ask it for, in order, so that it holds for as many of the used ones as possible."""
        asked: set[int] = set()
        for group in self.groups:
            if group & used and group <= self.widths:
                asked |= group
        return sorted(asked)


@dataclass(frozen=True, slots=True)
class Device:
    """A device, by its index among the devices of this machine.

    Sizes are in bytes. `addresses`: kernels may be given addresses of buffers. `grid` and `block` bound blocks and threads along x, y
    and z, `threads` bounds the threads of a block, `shared` its shared memory, `arguments` what a launch carries itself. Of the
    capabilities that atomic updates need, `buffer_atomics` hold in device memory and `shared_atomics` in shared memory.
    `allocation` bounds one array, `binding` one array that is bound as a descriptor, and `bindings` their number in a kernel.
    `fused`: the widths of floats whose multiply-add the device rounds once; none is taken for granted, and `probe.py` finds out.
    `iterations`: after so many, of all its loops together, a thread's loops end by themselves (lavapipe's do), and results are wrong
    without a word; 0 where loops run to their end, or are taken to: those of a CPU are not, until `probe.py` has found out. `unified`:
    the CPU writes the device's memory directly.
    """

    name: str
    kind: str
    capabilities: frozenset[Capability]
    index: int = 0
    driver: str = ""
    identity: str = ""
    addresses: bool = True
    buffer_atomics: frozenset[Capability] = frozenset()
    shared_atomics: frozenset[Capability] = frozenset()
    fused: frozenset[int] = frozenset()
    iterations: int = 0
    unified: bool = True
    grid: tuple[int, int, int] = (65535, 65535, 65535)
    block: tuple[int, int, int] = (1024, 1024, 64)
    threads: int = 1024
    shared: int = 32 << 10
    subgroup: int = 32
    arguments: int = 128
    allocation: int = 1 << 30
    binding: int = 1 << 27
    bindings: int = 8
    memory: int = 1 << 30
    denormals: FloatMode = field(default_factory=FloatMode)
    infinities: FloatMode = field(default_factory=FloatMode)
    round_to_even: FloatMode = field(default_factory=FloatMode)

    @property
    def takes_addresses(self) -> bool:
        """Whether kernels reach arrays by 64-bit addresses; else each array is a descriptor."""
        return self.addresses and {Capability.Int64, Capability.PhysicalStorageBufferAddresses} <= self.capabilities

    @property
    def exchange(self) -> int:
        """How many threads, those of a subgroup, can hand each other values; 0 where they cannot."""
        return self.subgroup if Capability.GroupNonUniformShuffleRelative in self.capabilities else 0

    def describe(self) -> str:
        """A line for people: the limits that schedules meet, and the number types that are missing."""
        optional = {"f64": "Float64", "f16": "Float16", "i64": "Int64", "i16": "Int16", "i8": "Int8"}
        lacking = [name for name, capability in optional.items() if Capability[capability] not in self.capabilities]
        without = f"; without {', '.join(lacking)}" if lacking else ""
        return (
            f"{self.name} ({self.kind}), {self.memory / (1 << 30):.1f} GiB, {self.threads} threads a block, "
            f"{self.shared >> 10} KiB shared, subgroups of {self.subgroup}{without}"
        )
