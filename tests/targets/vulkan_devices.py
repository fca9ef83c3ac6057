"""The Vulkan device for tests, with the validation layer on; without one, tests are skipped with the reason."""

from __future__ import annotations

import pytest

from raido.algo.errors import TargetError
from raido.targets.vulkan.device import Device
from raido.targets.vulkan.library import find_device
from raido.targets.vulkan.spirv.grammar import Capability

PACKAGES = "apt-get install mesa-vulkan-drivers libvulkan1 vulkan-validationlayers spirv-tools"

ANYTHING = Device(
    "a device with everything",
    "cpu",
    frozenset(Capability),
    buffer_atomics=frozenset(Capability),
    shared_atomics=frozenset(Capability),
    bindings=64,
)
"""Code is generated and validated for this one, whatever this machine has."""


def validated_device() -> Device:
    """The device of this machine; the test is skipped where there is none, or no validation layer."""
    try:
        return find_device(validate=True)
    except TargetError as error:
        pytest.skip(f"{error}; {PACKAGES}")
