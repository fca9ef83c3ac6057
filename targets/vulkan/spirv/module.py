"""A SPIR-V module under construction: identifiers, types, constants, decorations, capabilities, and finally its words.

Types and constants are declared once. A capability is declared when the first instruction needs it, so a module declares exactly those that
it uses, and one that the device lacks is an error that names the dtype or operation asking for it.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from raido.algo.errors import TargetError, explain
from raido.algo.graph.dtypes import DType, bool_, u8, u32
from raido.targets.vulkan.device import Device
from raido.targets.vulkan.spirv import grammar
from raido.targets.vulkan.spirv.grammar import BuiltIn, Capability, Decoration, Mode, Op, Storage

Instruction = list[int]
_ARITHMETIC = {("f", 16): Capability.Float16, ("f", 64): Capability.Float64}
for _kind in "iu":
    _ARITHMETIC |= {(_kind, 8): Capability.Int8, (_kind, 16): Capability.Int16, (_kind, 64): Capability.Int64}
_IN_BUFFERS = {8: Capability.StorageBuffer8BitAccess, 16: Capability.StorageBuffer16BitAccess}
_EXTENSIONS = {
    Capability.AtomicFloat32AddEXT: "SPV_EXT_shader_atomic_float_add",
    Capability.AtomicFloat64AddEXT: "SPV_EXT_shader_atomic_float_add",
}


def instruction(op: Op, *operands: int | str) -> Instruction:
    """The words of an instruction; text is zero-terminated UTF-8, padded to whole words."""
    words: list[int] = [0]
    for operand in operands:
        if isinstance(operand, str):
            data = operand.encode() + b"\0"
            data += b"\0" * (-len(data) % 4)
            words += struct.unpack(f"<{len(data) // 4}I", data)
        else:
            words.append(int(operand))
    words[0] = len(words) << 16 | op
    return words


def opcode(words: Instruction) -> int:
    """The opcode of an instruction."""
    return words[0] & 0xFFFF


class Module:
    """The parts of a module, each in order of creation. `known` has the bits of constants by identifier."""

    def __init__(self, kernel: str, device: Device) -> None:
        self.kernel, self.device = kernel, device
        self.capabilities: set[Capability] = set()
        self.float_widths: set[int] = set()
        self.interface: list[int] = []
        self._next = 1
        self.known: dict[int, int] = {}
        self._made: dict[tuple[Any, ...], int] = {}
        self._globals: list[Instruction] = []
        self._decorations: list[Instruction] = []
        self.glsl = self.fresh()
        self.require(Capability.Shader, "a kernel")

    def fresh(self) -> int:
        """A fresh identifier."""
        self._next += 1
        return self._next - 1

    def require(self, capability: Capability, reason: str, lacking: bool = False) -> None:
        """Declares a capability; raises `TargetError`, which names the reason, when the device lacks it (`lacking`: for this purpose)."""
        if lacking or capability not in self.device.capabilities:
            raise TargetError(
                explain(
                    f'kernel "{self.kernel}" cannot run on {self.device.name}: {reason} needs the capability '
                    f"{capability.name}, which the device lacks",
                    **{"try": 'another dtype, another device, or target="llvm"'},
                )
            )
        self.capabilities.add(capability)

    # --- types

    def declare(self, op: Op, *operands: int) -> int:
        """A type, declared once."""
        return self._once((op, *operands), lambda made: self._globals.append(instruction(op, made, *operands)))

    def scalar(self, dtype: DType) -> int:
        """The type of a dtype, for moving and converting; `compute` also requires arithmetic."""
        if dtype is bool_:
            return self.declare(Op.TypeBool)
        if not dtype.is_float:
            return self.declare(Op.TypeInt, dtype.bits, 0)
        return self.declare(Op.TypeFloat, dtype.bits)

    def can_compute(self, dtype: DType) -> bool:
        """Whether the device has arithmetic on a dtype."""
        capability = _ARITHMETIC.get((dtype.kind, dtype.bits))
        return capability is None or capability in self.device.capabilities

    def compute(self, dtype: DType) -> int:
        """The type of a dtype whose values are computed or stored; requires arithmetic."""
        if capability := _ARITHMETIC.get((dtype.kind, dtype.bits)):
            self.require(capability, f"arithmetic on {dtype}")
        if dtype.is_float:
            self.float_widths.add(dtype.bits)
        return self.scalar(dtype)

    def moved(self, dtype: DType) -> int:
        """The type of a dtype that only moves between memory and conversions, for which 8 and 16 bits need no arithmetic."""
        if dtype.bits > 16:
            return self.compute(dtype)
        if dtype.is_float:
            self.float_widths.add(dtype.bits)
        return self.scalar(dtype)

    def in_buffer(self, dtype: DType) -> int:
        """The type of elements in buffers; booleans are bytes."""
        if capability := _IN_BUFFERS.get(8 * dtype.itemsize):
            self.require(capability, f"an array of {dtype}")
        return self.moved(u8 if dtype is bool_ else dtype)

    def vector(self, element: int, lanes: int) -> int:
        return self.declare(Op.TypeVector, element, lanes)

    def pointer(self, storage: Storage, pointee: int) -> int:
        return self.declare(Op.TypePointer, storage, pointee)

    def array(self, element: int, length: int) -> int:
        """The type of an array of `length` elements in shared or thread memory."""
        return self.declare(Op.TypeArray, element, self.constant(u32, length))

    def buffer(self, dtype: DType, coherent: bool) -> int:
        """The structure type of a buffer's elements. `coherent`: threads of a block read elements that others wrote before a barrier."""

        def build(made: int) -> None:
            element, elements = self.in_buffer(dtype), self.fresh()
            self._globals.append(instruction(Op.TypeRuntimeArray, elements, element))
            self.decorate(elements, Decoration.ArrayStride, dtype.itemsize)
            self._globals.append(instruction(Op.TypeStruct, made, elements))
            self.decorate(made, Decoration.Block)
            self.decorate_member(made, 0, Decoration.Offset, 0)
            if coherent:
                self.decorate_member(made, 0, Decoration.Coherent)

        return self._once(("buffer", dtype.itemsize, self.in_buffer(dtype), coherent), build)

    def structure(self, members: Sequence[int], offsets: Sequence[int]) -> int:
        """The structure type of a launch's arguments, with their offsets in bytes."""
        made = self.fresh()
        self._globals.append(instruction(Op.TypeStruct, made, *members))
        self.decorate(made, Decoration.Block)
        for k, offset in enumerate(offsets):
            self.decorate_member(made, k, Decoration.Offset, offset)
        return made

    # --- constants and variables

    def constant(self, dtype: DType, value: Any) -> int:
        """A constant; integers wrap, floats are rounded to nearest even."""
        made_of = self.compute(dtype)
        if dtype is bool_:
            made = self._constant(Op.ConstantTrue if value else Op.ConstantFalse, made_of)
            self.known[made] = int(bool(value))
            return made
        if dtype.is_float:
            bits = int(dtype.numpy.type(value).view(f"u{dtype.itemsize}"))
        else:
            bits = int(value) & ((1 << dtype.bits) - 1)
        words = (bits & 0xFFFFFFFF, bits >> 32) if dtype.bits == 64 else (bits,)
        made = self._constant(Op.Constant, made_of, *words)
        self.known[made] = bits
        return made

    def variable(self, storage: Storage, pointee: int) -> int:
        """A variable of the module, in the interface of its entry point."""
        made = self.fresh()
        self._globals.append(instruction(Op.Variable, self.pointer(storage, pointee), made, storage))
        self.interface.append(made)
        return made

    def built_in(self, which: BuiltIn, made_of: int) -> int:
        """The variable of a built-in, such as the block's or the thread's index, with type `made_of`."""

        def build(made: int) -> None:
            pointer = self.pointer(Storage.Input, made_of)
            self._globals.append(instruction(Op.Variable, pointer, made, Storage.Input))
            self.decorate(made, Decoration.BuiltIn, which)
            self.interface.append(made)

        return self._once(("built in", which), build)

    def decorate(self, target: int, decoration: Decoration, *operands: int) -> None:
        self._decorations.append(instruction(Op.Decorate, target, decoration, *operands))

    def decorate_member(self, target: int, member: int, decoration: Decoration, *operands: int) -> None:
        self._decorations.append(instruction(Op.MemberDecorate, target, member, decoration, *operands))

    def _constant(self, op: Op, of: int, *words: int) -> int:
        return self._once((op, of, *words), lambda made: self._globals.append(instruction(op, of, made, *words)))

    def _once(self, key: tuple[Any, ...], build: Any) -> int:
        if key not in self._made:
            made = self.fresh()
            build(made)
            self._made[key] = made
        return self._made[key]

    def _enable_narrow(self, row: tuple[Any, ...]) -> None:
        """Declares the capability for a type of 8 or 16 bits that is only converted, neither computed with nor stored in an array."""
        if row[0] not in (Op.TypeInt, Op.TypeFloat) or row[1] not in _IN_BUFFERS:
            return
        letters = "f" if row[0] is Op.TypeFloat else "iu"
        enabling = {*(_ARITHMETIC[letter, row[1]] for letter in letters), _IN_BUFFERS[row[1]]}
        if not enabling & self.capabilities:
            self.require(_IN_BUFFERS[row[1]], f"a number of {row[1]} bits")

    # --- words

    def assemble(
        self, block: tuple[int, int, int], first: int, variables: list[Instruction], body: list[Instruction]
    ) -> bytes:
        """The words of the module with one function, named as the kernel, run by `block` threads; `first` labels its first basic block."""
        for row in [*self._made]:
            self._enable_narrow(row)
        void = self.declare(Op.TypeVoid)
        signature = self.declare(Op.TypeFunction, void)
        entry = self.fresh()
        modes = [instruction(Op.ExecutionMode, entry, Mode.LocalSize, *block), *self._float_modes(entry)]
        addressing = grammar.LOGICAL
        if Capability.PhysicalStorageBufferAddresses in self.capabilities:
            addressing = grammar.PHYSICAL_STORAGE_BUFFER_64
        extensions = sorted({_EXTENSIONS[c] for c in self.capabilities if c in _EXTENSIONS})
        parts = [
            *(instruction(Op.Capability, capability) for capability in sorted(self.capabilities)),
            *(instruction(Op.Extension, extension) for extension in extensions),
            instruction(Op.ExtInstImport, self.glsl, grammar.GLSL_SET),
            instruction(Op.MemoryModel, addressing, grammar.MEMORY_MODEL_GLSL450),
            instruction(Op.EntryPoint, grammar.MODEL_GLCOMPUTE, entry, self.kernel, *self.interface),
            *modes,
            *self._decorations,
            *self._globals,
            instruction(Op.Function, void, entry, 0, signature),
            instruction(Op.Label, first),
            *variables,
            *body,
            instruction(Op.FunctionEnd),
        ]
        words = [grammar.MAGIC, grammar.VERSION_1_5, 0, self._next, 0]
        for part in parts:
            words += part
        return struct.pack(f"<{len(words)}I", *words)

    def _float_modes(self, entry: int) -> list[Instruction]:
        """Execution modes for floats, as far as the device offers them: denormals, infinities and NaN, rounding to nearest even."""
        device, found = self.device, []
        for mode, offer in (
            (Mode.DenormPreserve, device.denormals),
            (Mode.SignedZeroInfNanPreserve, device.infinities),
            (Mode.RoundingModeRTE, device.round_to_even),
        ):
            for width in offer.request(self.float_widths):
                self.capabilities.add(Capability[mode.name])
                found.append(instruction(Op.ExecutionMode, entry, mode, width))
        return found
