"""Documented properties of Vulkan devices, by name, for compiling schedules and kernels on machines without them."""

from __future__ import annotations

from raido.algo.errors import TargetError
from raido.targets.vulkan.device import ITERATIONS, Device
from raido.targets.vulkan.library import find_device
from raido.targets.vulkan.spirv.grammar import Capability

_NUMBERS = frozenset(
    (
        *(Capability.Shader, Capability.Int64, Capability.Int16, Capability.Int8, Capability.Float64),
        *(Capability.StorageBuffer16BitAccess, Capability.StorageBuffer8BitAccess),
        Capability.PhysicalStorageBufferAddresses,
    )
)

_EXCHANGE = {Capability.GroupNonUniform, Capability.GroupNonUniformShuffleRelative}

ANY = "any"
KNOWN = {
    # The limits that Vulkan 1.2 requires of every device (specification, "Required Limits"); number types are the device's choice, and
    # a kernel needs those that its program has. Subgroups of 32 are the most usual. Loops may end as early as lavapipe's.
    ANY: Device(
        ANY,
        "other",
        _NUMBERS,
        block=(128, 128, 64),
        threads=128,
        shared=16 << 10,
        subgroup=32,
        unified=False,
        iterations=ITERATIONS,
    ),
    # llvmpipe with 256-bit vectors, as Mesa's lavapipe describes itself.
    "lavapipe": Device(
        "lavapipe", "cpu", _NUMBERS | _EXCHANGE, block=(1024, 1024, 1024), subgroup=8, iterations=ITERATIONS
    ),
}


def device_for(which: str) -> Device:
    """A device of this machine by its index or a part of its name ("": the most useful one), else a known one by its name.

    Where "" finds no device, kernels are compiled for the limits that every device meets.
    """
    try:
        return find_device(int(which) if which.isdigit() else which)
    except TargetError as error:
        if (which or ANY) in KNOWN:
            return KNOWN[which or ANY]
        raise TargetError(f"{error}; code can be made for these without one: {', '.join(KNOWN)}") from None


def is_here(device: Device) -> bool:
    """Whether a description is of one of this machine's devices, rather than a documented one."""
    return all(device is not known for known in KNOWN.values())
