"""Compiles kernels in plain TIR to machine code for one architecture, by CUDA C and NVRTC; all kernels of a program share one module."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from raido.targets.cuda.nvrtc import MachineCode, Resources, compile_source
from raido.targets.cuda.source.generate import Source, generate_source
from raido.targets.devices.kernel import Kernel


@dataclass(frozen=True, slots=True)
class CudaCode:
    """Compiled kernels by name, the hardware resources that each uses (unknown for PTX), and their source text."""

    architecture: str
    kernels: Mapping[str, Kernel]
    resources: Mapping[str, Resources]
    source: Source


def compile_kernels(functions: Sequence[Any], architecture: str) -> CudaCode:
    """Compiles functions of plain TIR to machine code for an architecture ("sm_90"), or to PTX ("compute_75").

    Raises `TargetError` when NVRTC is missing or does not know the architecture; `CompileError` for TIR that kernels cannot contain.
    """
    return make_kernels(generate_source(functions), architecture)


def make_kernels(source: Source, architecture: str) -> CudaCode:
    """Compiles a text to machine code; without an architecture the kernels have no code."""
    compiled = compile_source(source.text, architecture) if architecture else MachineCode("", b"", {})
    return CudaCode(architecture, kernels_of(source, compiled.code), compiled.resources, source)


def kernels_of(source: Source, code: bytes) -> dict[str, Kernel]:
    """The kernels of a text by name, all with the same module as their code."""
    return {
        k.name: Kernel(
            *(k.name, code, "addresses", k.arguments, k.argument_bytes, True, k.block, k.shared_bytes),
            narrow=code if k.narrow else b"",
            narrow_grid=k.narrow_grid,
            narrow_limits=k.narrow_limits,
        )
        for k in source.kernels
    }
