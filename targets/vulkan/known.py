"""Devices that schedules and kernels are made for where they are not: by name, with the limits that are documented for them."""

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
    """A device of this machine by its index or a part of its name ("": the one of most use), else a known one by its name.

    Where "" finds no device, kernels are made for what every device has.
    """
    try:
        return find_device(int(which) if which.isdigit() else which)
    except TargetError as error:
        if (which or ANY) in KNOWN:
            return KNOWN[which or ANY]
        raise TargetError(f"{error}; code can be made for these without one: {', '.join(KNOWN)}") from None


def is_here(device: Device) -> bool:
    """Whether a device is one of this machine's, and not only known."""
    return all(device is not known for known in KNOWN.values())
