"""Compilation for Vulkan: kernels as SPIR-V, for the target's device."""

from __future__ import annotations

import functools
from typing import Any

from raido.algo.errors import TargetError
from raido.targets.devices.compile import DeviceCompilation
from raido.targets.devices.kernel import Kernel
from raido.targets.vulkan.device import Device
from raido.targets.vulkan.known import ANY
from raido.targets.vulkan.spirv.generate import generate_kernel


class VulkanCompilation(DeviceCompilation):
    """One program being compiled to SPIR-V."""

    code_kind = "spirv"

    @property
    def described_target(self) -> str:
        """Text of everything about the target that code depends on, with the device and its driver, which determine capabilities and
        arithmetic."""
        device = self.target.vulkan_device
        return f"{super().described_target} {device.name} {device.identity} {device.driver}"

    @functools.cached_property
    def device(self) -> Device:
        """The device as code generation sees it: probed if it is present, else as documented."""
        from raido.targets.vulkan.opened import open_device

        described = self.target.vulkan_device
        try:
            return open_device(self._which).device
        except TargetError:
            return described

    @property
    def _which(self) -> int | str:
        """The target's device as an argument of `open_device`: an index, or a part of a name."""
        return int(self.target.device) if self.target.device.isdigit() else self.target.device

    @property
    def iterations(self) -> int:
        return self.device.iterations

    @property
    def largest_array(self) -> int:
        return self.device.allocation

    def generate(self) -> dict[str, Kernel]:
        return {name: generate_kernel(function, self.device) for name, function in self.functions.items()}

    def listing(self) -> str:
        from raido.targets.vulkan.spirv.listing import disassemble

        return "\n".join(disassemble(kernel.code) for kernel in self.kernels.values())

    def open_device(self) -> Any:
        from raido.targets.vulkan.opened import open_device

        return open_device("" if self._which == ANY else self._which)
