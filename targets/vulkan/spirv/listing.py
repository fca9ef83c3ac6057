"""Text of a module, for people: by `spirv-dis` where it is installed, else a plain listing."""

from __future__ import annotations

import shutil
import struct
import subprocess
from collections.abc import Iterator

from raido.targets.vulkan.spirv.grammar import Capability, Decoration, Glsl, Op

_WITHOUT_TYPE = {
    *(Op.ExtInstImport, Op.TypeVoid, Op.TypeBool, Op.TypeInt, Op.TypeFloat, Op.TypeVector, Op.TypeArray, Op.Label),
    *(Op.TypeRuntimeArray, Op.TypeStruct, Op.TypePointer, Op.TypeFunction),
}
_WITHOUT_RESULT = {
    *(Op.Extension, Op.MemoryModel, Op.EntryPoint, Op.ExecutionMode, Op.Capability, Op.FunctionEnd, Op.Store),
    *(Op.Decorate, Op.MemberDecorate, Op.ControlBarrier, Op.AtomicStore, Op.LoopMerge, Op.SelectionMerge),
    *(Op.Branch, Op.BranchConditional, Op.Return),
}


def disassemble(words: bytes) -> str:
    """The module's instructions, one a line, as `%result = Op… operands`."""
    tool = shutil.which("spirv-dis")
    if tool is None:
        return list_instructions(words)
    done = subprocess.run([tool, "--no-color", "-"], input=words, capture_output=True, check=True)
    return done.stdout.decode()


def list_instructions(words: bytes) -> str:
    """The module's instructions without `spirv-dis`: names of instructions, and operands as numbers."""
    return "\n".join(_line(op, operands) for op, operands in read_instructions(words)) + "\n"


def read_instructions(words: bytes) -> Iterator[tuple[Op, list[int]]]:
    """Instructions of a module with their operands, in order."""
    numbers, at = struct.unpack(f"<{len(words) // 4}I", words), 5
    while at < len(numbers):
        length, op = numbers[at] >> 16, Op(numbers[at] & 0xFFFF)
        yield op, list(numbers[at + 1 : at + length])
        at += length


def _line(op: Op, operands: list[int]) -> str:
    if op in _WITHOUT_RESULT:
        return " " * 10 + f"Op{op.name} {_operands(op, operands)}".rstrip()
    typed = op not in _WITHOUT_TYPE
    result, rest = operands[typed], [*operands[:typed], *operands[typed + 1 :]]
    return f"{f'%{result}':>7} = Op{op.name} {_operands(op, rest)}".rstrip()


def _operands(op: Op, operands: list[int]) -> str:
    texts = [str(number) for number in operands]
    if op is Op.Capability:
        texts = [Capability(operands[0]).name]
    elif op in (Op.Decorate, Op.MemberDecorate):
        k = 1 if op is Op.Decorate else 2
        texts[k] = Decoration(operands[k]).name
    elif op is Op.ExtInst:
        texts[2] = Glsl(operands[2]).name
    elif op in (Op.Extension, Op.ExtInstImport):
        texts = [struct.pack(f"<{len(operands)}I", *operands).rstrip(b"\0").decode()]
    return " ".join(texts)
