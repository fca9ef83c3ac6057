"""What the kernels of an exported library need of a Vulkan device, as a table in C: raido_vulkan_program.c compares it with what there is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from raido.targets.devices.kernel import Kernel
from raido.targets.vulkan.device import FLOAT_WIDTHS
from raido.targets.vulkan.library import ATOMICS, FEATURES
from raido.targets.vulkan.spirv.grammar import Capability, Mode, Op, Storage
from raido.targets.vulkan.spirv.listing import read_instructions

SOURCES = tuple(
    f"raido_{part}" for part in ("program.c", "device.c", "plan.c", "vulkan.c", "vulkan_device.c", "vulkan_program.c")
)
"""The C that a library with Vulkan's programs is linked with, beside that of every library."""
_MODES: dict[int, str] = {
    Mode.DenormPreserve: "denormals",
    Mode.SignedZeroInfNanPreserve: "infinities",
    Mode.RoundingModeRTE: "round_to_even",
}
_FIELDS = (*("features", "threads", "block", "shared", "arguments", "bindings"), *_MODES.values())


@dataclass
class _Needs:
    """`RdVulkanNeeds` of raido_vulkan_program.h."""

    features: int = 0
    threads: int = 0
    block: list[int] = field(default_factory=lambda: [0, 0, 0])
    shared: int = 0
    arguments: int = 0
    bindings: int = 0
    denormals: int = 0
    infinities: int = 0
    round_to_even: int = 0


def write_needs(kernels: Iterable[Kernel]) -> str:
    """The C file with the needs of all kernels together."""
    needs = _Needs()
    for kernel in kernels:
        _add_kernel(needs, kernel)
    rows = [getattr(needs, name) for name in _FIELDS]
    texts = [f"{{{', '.join(map(str, row))}}}" if isinstance(row, list) else str(row) for row in rows]
    text = ", ".join(f".{name} = {value}" for name, value in zip(_FIELDS, texts, strict=True))
    return f'#include "raido_vulkan_program.h"\n\nconst RdVulkanNeeds rd_vulkan_needs = {{{text}}};\n'


def _add_kernel(needs: _Needs, kernel: Kernel) -> None:
    """Raises the needs to what a kernel has and its code declares."""
    x, y, z = kernel.block
    needs.threads = max(needs.threads, x * y * z)
    needs.block = [max(pair) for pair in zip(needs.block, kernel.block, strict=True)]
    needs.shared = max(needs.shared, kernel.shared_bytes)
    if kernel.inline:
        needs.arguments = max(needs.arguments, kernel.argument_bytes)
    if kernel.mode == "descriptors":
        pointers = sum(argument.pointer for argument in kernel.arguments)
        needs.bindings = max(needs.bindings, pointers + (not kernel.inline))
    bits = {capability: 1 << k for k, capability in enumerate(FEATURES)}
    instructions = [*read_instructions(kernel.code), *(read_instructions(kernel.narrow) if kernel.narrow else ())]
    shared_atomics = _updates_shared_memory(instructions)
    for k, capability in enumerate(ATOMICS):
        bits[capability] = 1 << len(FEATURES) + 2 * k | shared_atomics << len(FEATURES) + 2 * k + 1
    for op, operands in instructions:
        if op is Op.Capability:
            needs.features |= bits.get(Capability(operands[0]), 0)
        elif op is Op.ExecutionMode and operands[1] in _MODES:
            name = _MODES[operands[1]]
            setattr(needs, name, getattr(needs, name) | 1 << FLOAT_WIDTHS.index(operands[2]))


def _updates_shared_memory(instructions: Iterable[tuple[Op, list[int]]]) -> bool:
    """Whether an atomic update is of an element in shared memory."""
    pointers: set[int] = set()  # types of pointers there, and what has such a type
    for op, operands in instructions:
        if op is Op.TypePointer and operands[1] == Storage.Workgroup:
            pointers.add(operands[0])
        elif op in (Op.Variable, Op.AccessChain) and operands[0] in pointers:
            pointers.add(operands[1])
        elif op.name.startswith("Atomic") and operands[0 if op is Op.AtomicStore else 2] in pointers:
            return True
    return False
