"""Requirements of an exported library's kernels on a Vulkan device, as a table in C, which raido_vulkan_program.c checks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from raido.algo.graph.dtypes import f32, f64
from raido.targets.c_text import c_string
from raido.targets.devices.code import DeviceCode
from raido.targets.devices.export import DevicePart, words_of, write_kernels, write_table
from raido.targets.devices.kernel import Kernel
from raido.targets.vulkan.device import FLOAT_WIDTHS, Device
from raido.targets.vulkan.library import ATOMICS, EXCHANGES, FEATURES
from raido.targets.vulkan.probe import MANY, fusing_probe, loop_probe
from raido.targets.vulkan.spirv.grammar import Capability, Glsl, Mode, Op, Storage
from raido.targets.vulkan.spirv.listing import read_instructions

_SOURCES = ("program", "device", "plan", "vulkan", "vulkan_device", "vulkan_pipelines", "vulkan_program")
_MODES: dict[int, str] = {
    Mode.DenormPreserve: "denormals",
    Mode.SignedZeroInfNanPreserve: "infinities",
    Mode.RoundingModeRTE: "round_to_even",
}
_FIELDS = (*("features", "threads", "block", "shared", "arguments", "bindings", "subgroup"), *_MODES.values())


@dataclass
class _Needs:
    """`RdVulkanNeeds` of raido_vulkan_program.h; also whether kernels take addresses, the float widths at which they use the device's
    multiply-add, and whether they have loops that must run to their end."""

    features: int = 0
    threads: int = 0
    block: list[int] = field(default_factory=lambda: [0, 0, 0])
    shared: int = 0
    arguments: int = 0
    bindings: int = 0
    subgroup: int = 0
    denormals: int = 0
    infinities: int = 0
    round_to_even: int = 0
    addresses: bool = False
    fused: set[int] = field(default_factory=set)
    loops: bool = False


def write_needs(programs: Iterable[DeviceCode]) -> str:
    """The C file with the joint requirements of all kernels."""
    needs = _Needs()
    for code in programs:
        for kernel in code.kernels.values():
            _add_kernel(needs, kernel)
            needs.loops |= not code.iterations and any(op is Op.LoopMerge for op, _ in read_instructions(kernel.code))
    rows = [getattr(needs, name) for name in _FIELDS]
    texts = [f"{{{', '.join(map(str, row))}}}" if isinstance(row, list) else str(row) for row in rows]
    text = ", ".join(f".{name} = {value}" for name, value in zip(_FIELDS, texts, strict=True))
    parts = [f'#include "raido_vulkan_program.h"\n\nconst RdVulkanNeeds rd_vulkan_needs = {{{text}}};\n']
    return "\n".join([*parts, *_write_probes(needs)])


def _write_probes(needs: _Needs) -> list[str]:
    """C tables of probe kernels: for multiply-adds that the kernels leave to the device, and for loops."""
    rows, parts = [], []
    asked = Device("a probe", "other", frozenset(Capability), addresses=needs.addresses)
    probes = {
        f"{dtype.bits}-bit multiply-adds that are rounded once": fusing_probe(asked, dtype)
        for dtype in (f32, f64)
        if dtype.bits in needs.fused
    }
    if needs.loops:
        probes[f"loops of {MANY:,} iterations"] = loop_probe(asked)
    tables, infos = write_kernels([kernel for kernel, _, _ in probes.values()])
    for k, (lacking, (_, given, expected)) in enumerate(probes.items()):
        parts.append(write_table("uint32_t", f"given_{k}", words_of(given.tobytes())))
        parts.append(write_table("uint32_t", f"expected_{k}", words_of(expected.tobytes())))
        sizes = f"{given.nbytes}, {expected.nbytes}"
        rows.append(f"{{{infos[k]}, given_{k}, expected_{k}, {sizes}, {c_string(lacking)}}}")
    return [*tables, *parts, f"const RdVulkanProbe rd_vulkan_probes[] = {{{', '.join([*rows, '{{0}}'])}}};\n"]


def _add_kernel(needs: _Needs, kernel: Kernel) -> None:
    """Raises the requirements to a kernel's resources and its code's declarations."""
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
    bits[Capability.GroupNonUniformShuffleRelative] = EXCHANGES
    needs.subgroup = max(needs.subgroup, kernel.subgroup)
    instructions = [*read_instructions(kernel.code), *(read_instructions(kernel.narrow) if kernel.narrow else ())]
    needs.addresses |= kernel.mode == "addresses"
    needs.fused |= _fused_widths(instructions)
    shared_atomics = _updates_shared_memory(instructions)
    for k, capability in enumerate(ATOMICS):
        bits[capability] = 1 << len(FEATURES) + 2 * k | shared_atomics << len(FEATURES) + 2 * k + 1
    for op, operands in instructions:
        if op is Op.Capability:
            needs.features |= bits.get(Capability(operands[0]), 0)
        elif op is Op.ExecutionMode and operands[1] in _MODES:
            name = _MODES[operands[1]]
            setattr(needs, name, getattr(needs, name) | 1 << FLOAT_WIDTHS.index(operands[2]))


def _fused_widths(instructions: Iterable[tuple[Op, list[int]]]) -> set[int]:
    """Float widths for which the code uses the device's own multiply-add."""
    widths: dict[int, int] = {}  # by type
    found = set()
    for op, operands in instructions:
        if op is Op.TypeFloat:
            widths[operands[0]] = operands[1]
        elif op is Op.TypeVector:
            widths[operands[0]] = widths.get(operands[1], 0)
        elif op is Op.ExtInst and operands[3] == Glsl.Fma:
            found.add(widths[operands[0]])
    return found


def _updates_shared_memory(instructions: Iterable[tuple[Op, list[int]]]) -> bool:
    """Whether the code has an atomic access to shared memory."""
    pointers: set[int] = set()  # types of pointers there, and what has such a type
    for op, operands in instructions:
        if op is Op.TypePointer and operands[1] == Storage.Workgroup:
            pointers.add(operands[0])
        elif op in (Op.Variable, Op.AccessChain) and operands[0] in pointers:
            pointers.add(operands[1])
        elif op.name.startswith("Atomic") and operands[0 if op is Op.AtomicStore else 2] in pointers:
            return True
    return False


PART = DevicePart(
    tuple(f"raido_{part}.c" for part in _SOURCES),
    lambda code: code,
    write_needs,
    "any device of Vulkan 1.2",
    "the first discrete one, else an integrated one, else any",
    "radeon",
)
