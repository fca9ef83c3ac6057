"""Kernels in plain TIR to machine code: CUDA C, then NVRTC, for one architecture; all kernels of a program share one piece of code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from raido.targets.cuda.nvrtc import MachineCode, Resources, compile_source
from raido.targets.cuda.source.generate import Source, generate_source
from raido.targets.devices.kernel import Kernel


@dataclass(frozen=True, slots=True)
class CudaCode:
    """Compiled kernels by their names, with what each takes of the hardware (nothing is known of PTX) and the text that they come from."""

    architecture: str
    kernels: Mapping[str, Kernel]
    resources: Mapping[str, Resources]
    source: Source


def compile_kernels(functions: Sequence[Any], architecture: str) -> CudaCode:
    """Machine code of functions of plain TIR for an architecture ("sm_90"), or their PTX ("compute_75").

    TargetError when NVRTC is missing or does not know the architecture; CompileError for what kernels are not made of.
    """
    return make_kernels(generate_source(functions), architecture)


def make_kernels(source: Source, architecture: str) -> CudaCode:
    """Machine code of a text; without an architecture kernels that have none."""
    compiled = compile_source(source.text, architecture) if architecture else MachineCode("", b"", {})
    return CudaCode(architecture, kernels_of(source, compiled.code), compiled.resources, source)


def kernels_of(source: Source, code: bytes) -> dict[str, Kernel]:
    """The kernels of a text, by name, whose code is that."""
    return {
        k.name: Kernel(
            *(k.name, code, "addresses", k.arguments, k.argument_bytes, True, k.block, k.shared_bytes),
            narrow=code if k.narrow else b"",
            narrow_grid=k.narrow_grid,
            narrow_limits=k.narrow_limits,
        )
        for k in source.kernels
    }
