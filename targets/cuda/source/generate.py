"""Generates CUDA C from functions of plain TIR: one text for all kernels of a program, and the launch interface of each.

A text is complete: it includes nothing, and NVRTC compiles it without any header. TVM's own generator of CUDA C is not used: it is silently
wrong where kernels need it right (f64 constants are cut to 15 decimals, 8- and 16-bit integers do not wrap, a NaN differs from nothing),
and working around that would take this walk over TIR anyway.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from raido.algo.errors import CompileError, TargetError
from raido.algo.graph.dtypes import i64
from raido.targets.cuda.source.expressions import BETWEEN_BLOCKS, COPY, WARPGROUP
from raido.targets.cuda.source.recipes import Functions
from raido.targets.cuda.source.statements import Statements, receive
from raido.targets.devices import tir
from raido.targets.devices.kernel import Argument, lay_out_arguments
from raido.targets.devices.narrow import limit_of
from raido.targets.devices.strides import Strides, strides_of

STATIC_SHARED = 48 << 10
"""Bytes of shared memory that a kernel declares itself; one with more is given it by the launch (CUDA C++ Programming Guide, 5.3)."""
MOST_SHARED = 227 << 10
"""Bytes of shared memory that a processor has, on any device. Of those that the launch gives ptxas knows nothing: it would keep registers for
more blocks than fit."""
REGISTER, REGISTERS = 4, 64 << 10
"""Bytes of a register, and the registers of a processor, on any device (CUDA C++ Programming Guide, "Compute capabilities")."""
OF_A_THREAD, OF_ADDRESSES = 255, 64
"""The most registers of a thread, on any device, and those of them left for addresses."""
NARROW = "raido_narrow_"
"""The beginning of the name of a kernel whose indices have 32 bits, as raido_cuda.c has it, too."""
MOST_THREADS = 1024
MOST_ARGUMENT_BYTES = 4096
"""Bytes of the arguments of a launch that every device takes."""


@dataclass(frozen=True, slots=True)
class Interface:
    """A kernel's launch interface: arguments in a block of `argument_bytes`, threads per block, bytes of shared memory. `narrow`, if not
    empty, is the name of the kernel with 32-bit indices, for launches within `narrow_grid` and `narrow_limits` (`RdKernelInfo`)."""

    name: str
    arguments: tuple[Argument, ...]
    argument_bytes: int
    block: tuple[int, int, int]
    shared_bytes: int
    narrow: str = ""
    narrow_grid: tuple[int, int, int] = (0, 0, 0)
    narrow_limits: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Source:
    """CUDA C: the prelude, which is the same for all programs, and `body`."""

    body: str
    kernels: tuple[Interface, ...]

    @property
    def text(self) -> str:
        return f"{prelude()}\n{self.body}"


@functools.cache
def prelude() -> str:
    """Text of the types and functions that kernels use."""
    return (Path(__file__).parent / "prelude.cuh").read_text()


def generate_source(kernels: Sequence[Any]) -> Source:
    """The text of kernels, whose names must differ.

    Raises `CompileError` for TIR that kernels cannot contain; `TargetError` for a kernel with more threads in a block, or more arguments,
    than any device takes.
    """
    functions, texts, interfaces = Functions(), [], []
    for function in kernels:
        text, interface = _write_kernel(function, functions)
        narrow, small = _write_kernel(function, functions, strides_of(function))
        if narrow.replace(small.narrow, interface.name) != text:
            texts.append(narrow)
            interface = replace(
                interface, narrow=small.narrow, narrow_grid=small.narrow_grid, narrow_limits=small.narrow_limits
            )
        texts.append(text)
        interfaces.append(interface)
    names = [name for interface in interfaces for name in (interface.name, interface.narrow) if name]
    if len(set(names)) < len(names):
        raise CompileError("two kernels of one text have the same name")
    return Source("\n\n".join([*functions.definitions.values(), *texts]) + "\n", tuple(interfaces))


def _write_kernel(function: Any, functions: Functions, strides: Strides | None = None) -> tuple[str, Interface]:
    """A kernel's text and interface; with `strides` those of the kernel with 32-bit indices."""
    name = str(function.attrs["global_symbol"])
    if not name.isidentifier() or not name.isascii():
        raise CompileError(f'"{name}" is no name for a kernel in CUDA C')
    arguments, size = lay_out_arguments(function)
    shared_bytes = _shared_bytes(function)
    carved = shared_bytes > STATIC_SHARED
    statements = Statements(name, functions, carved, strides)
    statements.warpgroups = any(name.startswith(WARPGROUP) for name in _callees(function))
    apart = "tirx.noalias" in function.attrs and bool(function.attrs["tirx.noalias"])
    written, shared = _written(function), _hands_on(function)
    given = [
        receive(
            statements,
            parameter,
            *(argument.dtype, argument.pointer, parameter in written),
            apart=apart and not (shared and parameter in written),
        )
        for parameter, argument in zip(function.params, arguments, strict=True)
    ]
    if carved:
        statements.line("extern __shared__ __align__(16) u8 raido_shared[];")
    statements.write(function.body)
    x, y, z = statements.block
    interface = Interface(name, arguments, size, (x, y, z), statements.shared)
    _check_limits(interface)
    if strides is not None:
        numbers = [p for p, a in zip(function.params, arguments, strict=True) if not a.pointer and a.dtype is i64]
        across, down, deep = statements.grid
        limits = tuple(limit_of(strides, number) for number in numbers)
        interface = replace(interface, narrow=NARROW + name, narrow_grid=(across, down, deep), narrow_limits=limits)
    symbol = interface.narrow or name
    threads = x * y * z
    bounds = f"{threads}, {_blocks_at_a_time(function, threads, shared_bytes)}" if carved else f"{threads}"
    head = f'extern "C" __global__ void __launch_bounds__({bounds}) {symbol}({", ".join(given)}) {{'
    return "\n".join([head, *(f"  {line}" for line in statements.writer.lines), "}"]), interface


def _shared_bytes(function: Any) -> int:
    """Bytes of a block's shared arrays, each aligned to 16."""
    total = 0
    for node in tir.walk(function.body):
        if tir.kind(node) == "AllocBuffer" and str(node.buffer.scope()).startswith("shared"):
            dtype, _ = tir.read_type(str(node.buffer.dtype))
            total = -(-total // 16) * 16 + math.prod(int(extent.value) for extent in node.buffer.shape) * dtype.itemsize
    return total


def _blocks_at_a_time(function: Any, threads: int, shared_bytes: int) -> int:
    """The number of blocks per multiprocessor, which bounds a thread's registers: as many as its shared memory holds, and no more than
    leave a thread twice the registers of its largest array and those for addresses, within the limit per thread."""
    words = [1]
    for node in tir.walk(function.body):
        if tir.kind(node) == "AllocBuffer" and not str(node.buffer.scope()).startswith("shared"):
            dtype, _ = tir.read_type(str(node.buffer.dtype))
            words.append(math.prod(int(extent.value) for extent in node.buffer.shape) * dtype.itemsize // REGISTER)
    wanted = min(OF_A_THREAD, 2 * max(words) + OF_ADDRESSES)
    return max(1, min(MOST_SHARED // shared_bytes, REGISTERS // (threads * wanted)))


def _written(function: Any) -> set[Any]:
    """The pointer parameters through which the kernel stores or updates."""
    changed, pointers = set(), {}
    for node in tir.walk(function.body):
        kind = tir.kind(node)
        if kind == "DeclBuffer":
            pointers[node.buffer] = node.data
        elif kind == "BufferStore":
            changed.add(node.buffer)
        elif kind == "Call":
            name, arguments = tir.callee(node)
            addresses = [e for e in arguments if tir.kind(e) == "Call" and tir.callee(e)[0] == "address_of"]
            changed |= {tir.buffer_of(address.args[0]) for address in (addresses[:1] if name == COPY else addresses)}
    return {pointers[buffer] for buffer in changed if buffer in pointers}


def _hands_on(function: Any) -> bool:
    """Whether blocks read memory that other blocks write meanwhile; such arrays must not be `__restrict__`."""
    return any(name in BETWEEN_BLOCKS for name in _callees(function))


def _callees(function: Any) -> Iterator[str]:
    """Names of the operations that a kernel calls."""
    return (tir.callee(node)[0] for node in tir.walk(function.body) if tir.kind(node) == "Call")


def _check_limits(kernel: Interface) -> None:
    threads = math.prod(kernel.block)
    if threads > MOST_THREADS or kernel.block[2] > 64:
        along = " × ".join(map(str, kernel.block))
        raise TargetError(
            f"kernel {kernel.name} has blocks of {along} threads, and a device of CUDA takes 1024, 64 along z"
        )
    if kernel.argument_bytes > MOST_ARGUMENT_BYTES:
        raise TargetError(
            f"kernel {kernel.name} has {kernel.argument_bytes:,} bytes of arguments, and a launch carries {MOST_ARGUMENT_BYTES:,}"
        )
