"""The C runtime for Vulkan: its functions beyond those of any device, the loaded library, and the devices of this machine.

Nothing here looks for a driver before it is asked to.
"""

from __future__ import annotations

import ctypes
import functools
from ctypes import POINTER, c_char, c_char_p, c_int32, c_int64, c_uint8, c_uint32, c_uint64, c_void_p

from raido.algo.errors import TargetError
from raido.targets.devices.library import DeviceLibrary
from raido.targets.vulkan.device import FLOAT_WIDTHS, ITERATIONS, Device, FloatMode
from raido.targets.vulkan.spirv.grammar import Capability

_API_1_2 = 1 << 22 | 2 << 12
_KINDS = {1: "integrated", 2: "discrete", 3: "virtual", 4: "cpu"}
# Bits of RdVulkanInfo.features, from the lowest.
FEATURES = (
    *(Capability.Float16, Capability.Float64, Capability.Int64, Capability.Int16, Capability.Int8),
    *(
        Capability.StorageBuffer16BitAccess,
        Capability.StorageBuffer8BitAccess,
        Capability.PhysicalStorageBufferAddresses,
    ),
)
ATOMICS = (Capability.Int64Atomics, Capability.AtomicFloat32AddEXT, Capability.AtomicFloat64AddEXT)
_UNIFIED = 1 << 15
EXCHANGES = 1 << 16


class Info(ctypes.Structure):
    """`RdVulkanInfo` of raido_vulkan.h."""

    _fields_ = (
        *(("name", c_char * 256), ("driver", c_char * 256), ("identity", c_uint8 * 48)),
        *((name, c_uint64) for name in ("memory", "allocation", "binding")),
        *((name, c_uint32) for name in ("features", "api", "type", "subgroup")),
        *(("grid", c_uint32 * 3), ("block", c_uint32 * 3)),
        *((name, c_uint32) for name in ("threads", "shared", "arguments", "bindings")),
        *((name, c_uint32) for name in ("denormals", "infinities", "round_to_even")),
        *((name, c_uint32) for name in ("denormals_together", "rounding_together")),
    )


class Options(ctypes.Structure):
    """`RdDeviceOptions` of raido_vulkan.h."""

    _fields_ = (
        *((name, c_int32) for name in ("index", "robust", "staging")),
        *(("memory", c_uint64), ("cache", c_char_p), ("cache_bytes", c_uint64)),
    )


_FUNCTIONS = {
    "rd_vulkan_open": (c_int32, c_int32, POINTER(c_void_p)),
    "rd_vulkan_close": (None, c_void_p),
    "rd_vulkan_count": (c_int32, c_void_p),
    "rd_vulkan_describe": (c_int32, c_void_p, c_int32, POINTER(Info)),
    "rd_vulkan_messages": (c_int64, c_void_p, c_char_p, c_uint64),
    "rd_device_open": (c_int32, c_void_p, POINTER(Options), POINTER(c_void_p)),
    "rd_device_cache": (c_int64, c_void_p, c_char_p, c_uint64),
}


@functools.cache
def runtime() -> DeviceLibrary:
    """The loaded runtime, which needs no driver; raises `TargetError` when this installation lacks it."""
    return DeviceLibrary("Vulkan", "_vulkan", _FUNCTIONS)


@functools.cache
def open_vulkan(validate: bool = False) -> c_void_p:
    """The Vulkan instance with its devices, for the life of the process; `validate` enables the validation layer, which reports every
    misuse.

    Raises `TargetError` when there is no Vulkan, no driver, or no validation layer.
    """
    handle = c_void_p()
    runtime().check(runtime().call.rd_vulkan_open(int(validate), ctypes.byref(handle)))
    return handle


def validation_messages() -> tuple[int, str]:
    """The number of messages of the validation layer in this process, and the first of them."""
    text = ctypes.create_string_buffer(8192)
    count = runtime().call.rd_vulkan_messages(open_vulkan(True), text, len(text))
    return count, text.value.decode(errors="replace")


def list_devices(validate: bool = False) -> tuple[Device, ...]:
    """The devices that can run kernels, in the driver's order; raises `TargetError` when there is no Vulkan."""
    vulkan, found = open_vulkan(validate), []
    for index in range(runtime().call.rd_vulkan_count(vulkan)):
        info = Info()
        runtime().check(runtime().call.rd_vulkan_describe(vulkan, index, ctypes.byref(info)))
        if info.api >= _API_1_2:
            found.append(_describe(index, info))
    return tuple(found)


def find_device(which: int | str = "", validate: bool = False) -> Device:
    """A device by its index, or by a part of its name in any case; "" is the first discrete one, else integrated, else any.

    Raises `TargetError`, which lists the devices, when none matches.
    """
    devices = list_devices(validate)
    if not devices:
        raise TargetError(
            "there is no Vulkan device on this machine: install a driver (Mesa's lavapipe runs on the CPU)"
        )
    if which == "":
        order = ("discrete", "integrated", "virtual", "other", "cpu")
        return min(devices, key=lambda device: order.index(device.kind))
    for device in devices:
        if device.index == which or (isinstance(which, str) and which.lower() in device.name.lower()):
            return device
    there = ", ".join(f'{device.index} "{device.name}"' for device in devices)
    asked = f"number {which}" if isinstance(which, int) else f'called "{which}"'
    raise TargetError(f"there is no Vulkan device {asked}; there is: {there}")


def _describe(index: int, info: Info) -> Device:
    """The `Device` that code generation uses, from the runtime's description."""
    features = info.features
    capabilities = {Capability.Shader}
    capabilities |= {capability for k, capability in enumerate(FEATURES) if features >> k & 1}
    first = len(FEATURES)
    capabilities |= {capability for k, capability in enumerate(ATOMICS) if features >> (first + 2 * k) & 1}
    shared = {capability for k, capability in enumerate(ATOMICS) if features >> (first + 2 * k + 1) & 1}
    if features & EXCHANGES:
        capabilities |= {Capability.GroupNonUniform, Capability.GroupNonUniformShuffleRelative}
    denormals = _float_mode(info.denormals, info.denormals_together)
    round_to_even = _float_mode(info.round_to_even, info.rounding_together)
    infinities = _float_mode(info.infinities, 0)
    offered = (
        ("DenormPreserve", denormals),
        ("SignedZeroInfNanPreserve", infinities),
        ("RoundingModeRTE", round_to_even),
    )
    capabilities |= {Capability[name] for name, mode in offered if mode.widths}
    kind = _KINDS.get(info.type, "other")
    return Device(
        name=info.name.decode(errors="replace"),
        kind=kind,
        capabilities=frozenset(capabilities | shared),
        index=index,
        driver=info.driver.decode(errors="replace"),
        identity=bytes(info.identity).hex(),
        addresses=Capability.PhysicalStorageBufferAddresses in capabilities,
        shared_atomics=frozenset(shared),
        buffer_atomics=frozenset(capabilities & set(ATOMICS)),
        iterations=ITERATIONS if kind == "cpu" else 0,
        unified=bool(features & _UNIFIED),
        grid=(info.grid[0], info.grid[1], info.grid[2]),
        block=(info.block[0], info.block[1], info.block[2]),
        threads=info.threads,
        shared=info.shared,
        subgroup=info.subgroup,
        arguments=min(info.arguments, 256),
        allocation=info.allocation,
        binding=info.binding,
        bindings=info.bindings,
        memory=info.memory,
        denormals=denormals,
        infinities=infinities,
        round_to_even=round_to_even,
    )


def _float_mode(mask: int, together: int) -> FloatMode:
    """A float control from the runtime's mask of widths; `together` encodes which widths must agree."""
    widths = frozenset(width for k, width in enumerate(FLOAT_WIDTHS) if mask >> k & 1)
    groups = (
        tuple(frozenset({width}) for width in FLOAT_WIDTHS),
        (frozenset({16, 64}), frozenset({32})),
        (frozenset(FLOAT_WIDTHS),),
    )
    return FloatMode(widths, groups[together])
