"""Generates a SPIR-V kernel from a function of plain TIR with typed pointers and scalars as parameters.

The argument block (`devices/kernel.py`) is part of the launch (push constants) where it fits, else in a buffer. With descriptors, binding k
is the k-th pointer, and the next one the block if it is too large for the launch. Descriptors are for devices without addresses, and for
checking: an access beyond a bound array does no harm where the device is opened with robust access.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from raido.algo.collector import seldom_collected
from raido.algo.errors import TargetError, explain
from raido.algo.graph.dtypes import DType, i64, u16, u32, u64
from raido.targets.devices import tir
from raido.targets.devices.kernel import Argument, Kernel, Mode, lay_out_arguments
from raido.targets.devices.strides import strides_of
from raido.targets.vulkan.device import Device
from raido.targets.vulkan.spirv.body import Body
from raido.targets.vulkan.spirv.grammar import ALIGNED, Capability, Decoration, Op, Storage
from raido.targets.vulkan.spirv.memory import Array
from raido.targets.vulkan.spirv.module import Module
from raido.targets.vulkan.spirv.operations import convert, write_native
from raido.targets.vulkan.spirv.statements import Statements
from raido.targets.vulkan.spirv.subgroups import Subgroups, threads_of


@seldom_collected
def generate_kernel(function: Any, device: Device, *, checked: bool = False) -> Kernel:
    """The kernel for a device; `checked` uses descriptors even where addresses are possible.

    Raises `TargetError`, with the reason, when the device lacks a capability, or has fewer threads, bytes of shared memory or descriptors.
    """
    mode: Mode = "addresses" if device.takes_addresses and not checked else "descriptors"
    kernel = _generate(function, device, mode, narrow=False)
    _check_limits(kernel, device)
    narrow = _generate(function, device, mode, narrow=True)
    same = narrow.code == kernel.code
    if same:
        return kernel
    return replace(kernel, narrow=narrow.code, narrow_grid=narrow.narrow_grid, narrow_limits=narrow.narrow_limits)


def _generate(function: Any, device: Device, mode: Mode, narrow: bool) -> Kernel:
    """A kernel with one code: for any launch, or (`narrow`) for launches whose indices have 32 bits."""
    name = str(function.attrs["global_symbol"])
    module = Module(name, device)
    statements = Statements(Body(module), narrow)
    if narrow:
        statements.strides = strides_of(function)
    if mode == "addresses":
        module.require(Capability.PhysicalStorageBufferAddresses, "an array given by its address")
    arguments, size = lay_out_arguments(function, mode)
    inline = size <= device.arguments
    _receive(statements, function, arguments, mode, inline)
    width, block = threads_of(function)
    if width:
        statements.subgroups = Subgroups(statements.body, width, block)
    statements.write(function.body)
    x, y, z = statements.block
    words = statements.body.finish((x, y, z))
    used = tuple(sorted(capability.name for capability in module.capabilities))
    across, down, deep = statements.grid
    numbers = [p for p, a in zip(function.params, arguments, strict=True) if not a.pointer and a.dtype is i64]
    return Kernel(
        *(name, words, mode, arguments, size, inline, (x, y, z), statements.shared, used),
        subgroup=width,
        narrow_grid=(across, down, deep),
        narrow_limits=tuple(statements.limit(number) for number in numbers),
    )


# --- arguments


def _receive(statements: Statements, function: Any, arguments: tuple[Argument, ...], mode: Mode, inline: bool) -> None:
    """Declares the parameters: arrays by address or descriptor, scalars read from the argument block."""
    body, module, expressions = statements.body, statements.body.module, statements.expressions
    coherent = _exchanged(function)
    in_block = [argument for argument in arguments if not (argument.pointer and mode == "descriptors")]
    block = _block(body, in_block, mode, inline, sum(argument.pointer for argument in arguments)) if in_block else None
    bindings = 0
    for parameter, argument in zip(function.params, arguments, strict=True):
        if argument.pointer and mode == "descriptors":
            kept = module.variable(Storage.StorageBuffer, module.buffer(argument.dtype, parameter in coherent))
            _bind(body, kept, bindings)
            bindings += 1
            expressions.arrays[parameter] = Array(Storage.StorageBuffer, kept, argument.dtype)
            continue
        assert block is not None
        storage, pointer = block
        member = module.pointer(storage, _member_type(body, argument))
        field = body.value(Op.AccessChain, member, pointer, module.constant(u32, in_block.index(argument)))
        aligned = (ALIGNED, max(4, argument.dtype.itemsize)) if storage is Storage.PhysicalStorageBuffer else ()
        if argument.pointer:
            aligned = (ALIGNED, 8) if aligned else ()
            address = body.value(Op.Load, module.compute(u64), field, *aligned)
            whole = module.pointer(Storage.PhysicalStorageBuffer, module.buffer(argument.dtype, parameter in coherent))
            base = body.value(Op.ConvertUToPtr, whole, address)
            expressions.arrays[parameter] = Array(Storage.PhysicalStorageBuffer, base, argument.dtype)
        else:
            value = body.value(Op.Load, _member_type(body, argument), field, *aligned)
            statements.receive(parameter, argument.dtype, _narrowed(body, argument.dtype, value))


def _block(body: Body, members: list[Argument], mode: Mode, inline: bool, binding: int) -> tuple[Storage, int]:
    """The argument block: its storage class, and a pointer to it."""
    module = body.module
    made_of = module.structure([_member_type(body, a) for a in members], [a.offset for a in members])
    if inline:
        return Storage.PushConstant, module.variable(Storage.PushConstant, made_of)
    if mode == "descriptors":
        kept = module.variable(Storage.StorageBuffer, made_of)
        _bind(body, kept, binding)
        return Storage.StorageBuffer, kept
    launch = module.variable(Storage.PushConstant, module.structure([module.compute(u64)], [0]))
    pointer_type = module.pointer(Storage.PushConstant, module.compute(u64))
    address = body.value(
        Op.Load, module.compute(u64), body.value(Op.AccessChain, pointer_type, launch, module.constant(u32, 0))
    )
    pointer = module.pointer(Storage.PhysicalStorageBuffer, made_of)
    return Storage.PhysicalStorageBuffer, body.value(Op.ConvertUToPtr, pointer, address)


def _bind(body: Body, variable: int, binding: int) -> None:
    body.module.decorate(variable, Decoration.DescriptorSet, 0)
    body.module.decorate(variable, Decoration.Binding, binding)


def _member_type(body: Body, argument: Argument) -> int:
    """The type of an argument in the block: scalars of fewer than 32 bits are widened to 32, whatever the device supports."""
    if argument.pointer:
        return body.module.compute(u64)
    return body.module.compute(argument.dtype if argument.dtype.bits >= 32 else u32)


def _narrowed(body: Body, dtype: DType, value: int) -> int:
    """A scalar argument converted from its widened form in the block."""
    if dtype.bits >= 32:
        return value
    if not dtype.is_float:
        return convert(body, u32, dtype, value)
    return write_native(body, "bitcast", dtype, [(u16, convert(body, u32, u16, value))])


def _exchanged(function: Any) -> set[Any]:
    """Pointers through which threads of a block may read elements that other threads wrote before a barrier."""
    read, written, pointers = set(), set(), {}
    barrier = False
    for node in tir.walk(function.body):
        kind = tir.kind(node)
        if kind == "DeclBuffer":
            pointers[node.buffer] = node.data
        elif kind == "BufferLoad":
            read.add(tir.buffer_of(node))
        elif kind == "BufferStore":
            written.add(node.buffer)
        elif kind == "Call":
            barrier = barrier or tir.callee(node)[0] == "tvm_storage_sync"
    return {pointers[buffer] for buffer in read & written if buffer in pointers} if barrier else set()


# --- limits


def _check_limits(kernel: Kernel, device: Device) -> None:
    """Refuses a kernel beyond the device's limits (`TargetError`)."""
    threads = math.prod(kernel.block)
    if threads > device.threads:
        _refuse(kernel, device, f"a block of {threads:,} threads", f"{device.threads:,}", "split the axis by less")
    for axis, count, most in zip("xyz", kernel.block, device.block, strict=True):
        if count > most:
            _refuse(kernel, device, f"{count:,} threads along {axis}", f"{most:,}", "bind it to another axis")
    if kernel.shared_bytes > device.shared:
        asked = f"{kernel.shared_bytes:,} bytes of shared memory"
        _refuse(kernel, device, asked, f"{device.shared:,}", "smaller tiles")
    bindings = sum(argument.pointer for argument in kernel.arguments) + (not kernel.inline)
    if kernel.mode == "descriptors" and bindings > device.bindings:
        _refuse(kernel, device, f"{bindings} arrays as descriptors", f"{device.bindings}", "split the kernel")


def _refuse(kernel: Kernel, device: Device, asked: str, most: str, remedy: str) -> None:
    headline = (
        f'kernel "{kernel.name}" cannot run on {device.name}: it has {asked}, and the device takes at most {most}'
    )
    raise TargetError(explain(headline, **{"try": remedy}))
