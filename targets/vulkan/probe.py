"""Questions about a device that no driver answers: kernels that find out.

Vulkan lets a device compute fma(a, b, c) as a product and a sum, and some do: `examine` runs one such case of each width. And Mesa's
llvmpipe, lavapipe's compiler, ends the loops of a thread after 65,535 iterations (LP_MAX_TGSI_LOOP_ITERATIONS): `examine` runs more.
"""

from __future__ import annotations

import functools
from dataclasses import replace

import numpy as np

from raido.algo.graph.dtypes import DType, f32, f64, i32
from raido.targets.devices.kernel import Kernel
from raido.targets.devices.runtime import LoadedKernel, Memory
from raido.targets.vulkan.device import Device
from raido.targets.vulkan.runtime import VulkanDevice
from raido.targets.vulkan.spirv.generate import generate_kernel
from raido.targets.vulkan.spirv.grammar import Capability


@functools.cache
def examine(device: Device, validate: bool = False) -> Device:
    """The device with `fused` and `iterations` as they are, found out by running kernels; once in a process."""
    widths = (f32, f64) if Capability.Float64 in device.capabilities else (f32,)
    with VulkanDevice(device, validate=validate) as opened:
        fused = frozenset(dtype.bits for dtype in widths if _fuses(opened, dtype))
        done = _iterate(opened, MANY)
        return replace(device, fused=fused, iterations=0 if done == MANY else done)


MANY = 100_000
"""Iterations: more than the limit of any device that is known to have one."""


def _fuses(opened: VulkanDevice, dtype: DType) -> bool:
    """Whether the device rounds (1 + e)² - (1 + 2 e) = e² once, where e² is half a unit in the last place of the product."""
    kernel, given, expected = fusing_probe(opened.device, dtype)
    operands, result = Memory(opened, given.nbytes), Memory(opened, expected.nbytes)
    operands.write(given)
    LoadedKernel(opened, kernel).launch((1, 1, 1), [operands, result])
    return bool(result.read(np.empty_like(expected)) == expected)


def fusing_probe(device: Device, dtype: DType) -> tuple[Kernel, np.ndarray, np.ndarray]:
    """A kernel of one thread, the operands that it is given, and its result on a device that rounds a multiply-add once."""
    e = 2.0 ** -{32: 12, 64: 27}[dtype.bits]
    native = replace(device, fused=frozenset({32, 64}))
    given = np.array([1 + e, 1 + e, -(1 + 2 * e)], dtype.numpy)
    return generate_kernel(_multiply_add(dtype), native), given, np.array([e * e], dtype.numpy)


def _iterate(opened: VulkanDevice, count: int) -> int:
    """The iterations that a loop of so many makes."""
    kernel, result = LoadedKernel(opened, generate_kernel(_count(), opened.device)), Memory(opened, 4)
    result.write(np.zeros(1, np.int32))
    kernel.launch((1, 1, 1), [result, count])
    return int(result.read(np.empty(1, np.int32))[0])


def _count() -> object:
    """A kernel of one thread that adds 1 to out[0] in each iteration of a loop over its second argument."""
    from raido.targets import tvm_corner as T

    pointer, count, index = T.pointer("out", i32), T.Var("count", "int32"), T.Var("index", "int32")
    out, zero = T.flat_buffer("out", i32, 1, pointer), T.IntImm("int32", 0)
    more = T.Add(T.BufferLoad(out, [zero]), T.IntImm("int32", 1))
    loop = T.For(index, zero, count, T.ForKind.SERIAL, T.BufferStore(out, more, [zero]))
    body = T.sequence([T.DeclBuffer(out, data=pointer), loop])
    return T.PrimFunc([pointer, count], body).with_attr("global_symbol", "count")


def _multiply_add(dtype: DType) -> object:
    """A kernel of one thread: out[0] = fma(given[0], given[1], given[2])."""
    from raido.targets import tvm_corner as T

    pointers = [T.pointer(name, dtype) for name in ("given", "out")]
    given, out = (T.flat_buffer(p.name, dtype, 3, p) for p in pointers)
    operands = [T.BufferLoad(given, [T.IntImm("int64", k)]) for k in range(3)]
    value = T.call("raido_fma", T.type_name(dtype), *operands)
    body = [
        *(T.DeclBuffer(buffer, data=pointer) for buffer, pointer in zip((given, out), pointers, strict=True)),
        T.BufferStore(out, value, [T.IntImm("int64", 0)]),
    ]
    return T.PrimFunc(pointers, T.sequence(body)).with_attr("global_symbol", "multiply_add")
