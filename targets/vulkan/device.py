"""A Vulkan device's properties, as code generation sees them: its limits, and the SPIR-V capabilities that it offers.

Every limit is reported by the device; nothing is assumed about vendors. Code is generated for a description, so it can be generated, and
tested, without the device.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from raido.targets.vulkan.spirv.grammar import Capability

FLOAT_WIDTHS = (16, 32, 64)
ITERATIONS = 65_535  # of llvmpipe, lavapipe's compiler (LP_MAX_TGSI_LOOP_ITERATIONS)


@dataclass(frozen=True, slots=True)
class FloatMode:
    """A float control: the float widths for which a device offers it, and the groups of widths that must agree on it."""

    widths: frozenset[int] = frozenset()
    groups: tuple[frozenset[int], ...] = tuple(frozenset({width}) for width in FLOAT_WIDTHS)

    def request(self, used: set[int]) -> list[int]:
        """The widths to request, ascending, so that the control holds for as many of the used widths as possible."""
        asked: set[int] = set()
        for group in self.groups:
            if group & used and group <= self.widths:
                asked |= group
        return sorted(asked)


@dataclass(frozen=True, slots=True)
class Device:
    """A device, by its index among the devices of this machine.

    Sizes are in bytes. `addresses`: kernels can take addresses of buffers. `grid` and `block` bound blocks and threads along x, y and z,
    `threads` bounds the threads of a block, `shared` its shared memory, `arguments` the arguments in a launch itself (push constants).
    Capabilities for atomic updates: `buffer_atomics` hold in device memory, `shared_atomics` in shared memory. `allocation` bounds one
    array, `binding` one array bound as a descriptor, and `bindings` their number in a kernel. `fused`: the float widths whose multiply-add
    the device rounds once; empty until `probe.py` has tested it. `iterations`: the number of iterations, over all its loops, after which a
    thread's loops end silently (lavapipe's do), with wrong results; 0 where loops run to their end, as is assumed of all but CPU devices
    until `probe.py` has tested it. `unified`: the CPU writes the device's memory directly.
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
        """Whether kernels access arrays by 64-bit addresses; otherwise each array is a descriptor."""
        return self.addresses and {Capability.Int64, Capability.PhysicalStorageBufferAddresses} <= self.capabilities

    @property
    def exchange(self) -> int:
        """The number of threads, those of a subgroup, that can shuffle values; 0 where none can."""
        return self.subgroup if Capability.GroupNonUniformShuffleRelative in self.capabilities else 0

    def describe(self) -> str:
        """One line of text with the limits that matter to schedules, and the number types that are missing."""
        optional = {"f64": "Float64", "f16": "Float16", "i64": "Int64", "i16": "Int16", "i8": "Int8"}
        lacking = [name for name, capability in optional.items() if Capability[capability] not in self.capabilities]
        without = f"; without {', '.join(lacking)}" if lacking else ""
        return (
            f"{self.name} ({self.kind}), {self.memory / (1 << 30):.1f} GiB, {self.threads} threads a block, "
            f"{self.shared >> 10} KiB shared, subgroups of {self.subgroup}{without}"
        )
