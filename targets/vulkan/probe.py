"""Device properties that no driver reports, found by running kernels.

Vulkan lets a device compute fma(a, b, c) as a product and a sum, and some do: `examine` tests one case of each width. Mesa's llvmpipe,
lavapipe's compiler, ends the loops of a thread after 65,535 iterations (LP_MAX_TGSI_LOOP_ITERATIONS): `examine` runs more.
"""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import TypeAlias

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
    """The device with `fused` and `iterations` as measured by running kernels, once in a process."""
    widths = (f32, f64) if Capability.Float64 in device.capabilities else (f32,)
    with VulkanDevice(device, validate=validate) as opened:
        probes = {dtype.bits: fusing_probe(device, dtype) for dtype in widths}
        fused = frozenset(bits for bits, probe in probes.items() if _left(opened, probe) == probe[2])
        done = int(_left(opened, loop_probe(device))[0])
        return replace(device, fused=fused, iterations=0 if done == MANY else done)


MANY = 100_000
"""Iterations of the probing loop: more than the limit of any device that is known to have one."""


Probe: TypeAlias = "tuple[Kernel, np.ndarray, np.ndarray]"
"""A kernel of one thread over two arrays, its input, and its output on a device with the property that is probed."""


def fusing_probe(device: Device, dtype: DType) -> Probe:
    """Probe: whether the device rounds (1 + e)² - (1 + 2 e) = e² once, where e² is half a unit in the last place of the product."""
    e = 2.0 ** -{32: 12, 64: 27}[dtype.bits]
    native = replace(device, fused=frozenset({32, 64}))
    given = np.array([1 + e, 1 + e, -(1 + 2 * e)], dtype.numpy)
    return generate_kernel(_multiply_add(dtype), native), given, np.array([e * e], dtype.numpy)


def loop_probe(device: Device) -> Probe:
    """Probe: whether a loop of `MANY` iterations runs to its end."""
    many = np.array([MANY], np.int32)
    return generate_kernel(_count(), device), many, many


def _left(opened: VulkanDevice, probe: Probe) -> np.ndarray:
    """The output of a probe's kernel on a device."""
    kernel, given, expected = probe
    first, second = Memory(opened, given.nbytes), Memory(opened, expected.nbytes)
    first.write(given)
    LoadedKernel(opened, kernel).launch((1, 1, 1), [first, second])
    return second.read(np.empty_like(expected))


def _count() -> object:
    """A kernel of one thread: out[0] is the number of iterations of a loop over given[0]."""
    from raido.targets import tvm_corner as T

    pointers = [T.pointer(name, i32) for name in ("given", "out")]
    given, out = (T.flat_buffer(p.name, i32, 1, p) for p in pointers)
    index, zero = T.variable("index", "int32"), T.IntImm("int32", 0)
    more = T.Add(T.BufferLoad(out, [zero]), T.IntImm("int32", 1))
    body = [
        *(T.DeclBuffer(buffer, data=pointer) for buffer, pointer in zip((given, out), pointers, strict=True)),
        T.BufferStore(out, zero, [zero]),
        T.For(index, zero, T.BufferLoad(given, [zero]), T.ForKind.SERIAL, T.BufferStore(out, more, [zero])),
    ]
    return T.PrimFunc(pointers, T.sequence(body)).with_attr("global_symbol", "count")


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
