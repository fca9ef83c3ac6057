"""Compilation for CUDA: one text of CUDA C for all kernels, and one module of machine code for the target's device.

Where NVRTC is missing, only the text is made: `source("cuda")` works, and a call's error says what to install.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from raido.algo.errors import TargetError
from raido.targets.cuda.compile import make_kernels
from raido.targets.cuda.device import CudaInfo
from raido.targets.cuda.nvrtc import load_nvrtc, version
from raido.targets.cuda.opened import open_device
from raido.targets.cuda.runtime import CudaDevice
from raido.targets.cuda.source.generate import Source, generate_source
from raido.targets.devices.code import DeviceCode
from raido.targets.devices.compile import DeviceCompilation
from raido.targets.devices.executable import DeviceExecutable
from raido.targets.devices.kernel import Kernel
from raido.targets.signature import Signature


class CudaCompilation(DeviceCompilation):
    """One program being compiled for a CUDA device."""

    code_kind = "cuda"

    @property
    def device(self) -> CudaInfo:
        """The device as code generation sees it: of this machine, or an architecture's documented properties."""
        return self.target.cuda_device

    @property
    def described_target(self) -> str:
        """Text of everything about the target that code depends on, with the architecture and NVRTC's version."""
        return f"{super().described_target} {self.device.architecture} {_nvrtc()}"

    @functools.cached_property
    def text(self) -> Source:
        """The kernels in CUDA C."""
        return generate_source(list(self.functions.values()))

    @functools.cached_property
    def code(self) -> DeviceCode:
        return replace(super().code, text=self.text.text)

    def generate(self) -> dict[str, Kernel]:
        return dict(make_kernels(self.text, self.device.architecture if _nvrtc() else "").kernels)

    def listing(self) -> str:
        return self.text.text

    def open_device(self) -> CudaDevice:
        return open_device(self.device.index)

    def load(self, code: bytes, signature: Signature, sources: Mapping[str, Any]) -> DeviceExecutable:
        program = DeviceCode.from_bytes(code)
        whole = all(kernel.code for kernel in program.kernels.values())
        opener = self.open_device if whole else self.refuse_device
        return DeviceExecutable(signature, program, str(self.target), opener, sources)

    def refuse_device(self) -> CudaDevice:
        """Raises the error of a call without machine code: there is no device, or NVRTC is or was missing."""
        self.open_device()
        load_nvrtc()
        raise TargetError(f"{self.program.name} was compiled where NVRTC was missing: compile it again")


def _nvrtc() -> str:
    """NVRTC's version; "" where it is missing."""
    try:
        return version()
    except TargetError:
        return ""
