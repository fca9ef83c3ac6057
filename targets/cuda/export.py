"""CUDA programs in exported libraries: machine code for several architectures, PTX for the others, and the kernels' requirements.

A program's text is compiled again for each architecture; `raido_cuda.c` chooses from the table the code that the device executes.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial

from raido.algo.errors import ExportError, TargetError, explain
from raido.targets.cuda.nvrtc import compile_source
from raido.targets.cuda.source.warpgroups import MULTIPLY
from raido.targets.devices.code import DeviceCode
from raido.targets.devices.export import DevicePart

ARCHITECTURES = ("sm_75", "sm_80", "sm_90", "sm_100", "compute_75")
"""Machine code for every generation from Turing on, which later chips of it execute, and PTX for generations to come."""
WARPGROUPS = "sm_90a"
"""The architecture that alone has the instructions of warpgroups; its code runs on no other one."""
_OLDEST = 75
_MAGIC = b"RaidoCU\0"
_SOURCES = ("program", "device", "plan", "cuda", "cuda_foreign", "cuda_repeat", "cuda_program")


def part_for(architectures: Sequence[str] | None = None) -> DevicePart:
    """The device part of an exported library with code for these architectures: machine code for "sm_90", PTX for "compute_75".

    Raises `ExportError` for an empty list and for names other than architectures from sm_75 on; `prepare` raises for those that NVRTC
    lacks.

    >>> part_for(["sm_80", "sm_90"]).devices
    'a CUDA device that executes code for sm_80 or sm_90, with a driver of CUDA 13.0 or newer'
    """
    names = tuple(dict.fromkeys(ARCHITECTURES if architectures is None else architectures))
    wrong = [name for name in names if not _is_architecture(name)]
    if isinstance(architectures, str) or wrong or not names:
        said = "none" if not names else repr(architectures if isinstance(architectures, str) else wrong[0])
        takes = 'a list of "sm_90" and its like for machine code, "compute_75" for PTX, from 75 on'
        raise ExportError(explain(f"architectures= has {said}", takes=takes))
    oldest = min(_capability(name) for name in names)
    everywhere = f"compute_{oldest}" in names
    devices = f"from compute capability {oldest // 10}.{oldest % 10} on"
    if not everywhere:
        devices = f"that executes code for {' or '.join(names)}"
    return DevicePart(
        tuple(f"raido_{part}.c" for part in _SOURCES),
        partial(compile_for, names, architectures is None),
        partial(write_needs, oldest),
        f"a CUDA device {devices}, with a driver of CUDA 13.0 or newer",
        "the first",
        "H100",
    )


def _is_architecture(name: object) -> bool:
    match = re.fullmatch(r"(?:sm|compute)_(\d{2,3})", name) if isinstance(name, str) else None
    return name == WARPGROUPS or (match is not None and int(match[1]) >= _OLDEST)


def _capability(name: str) -> int:
    return int(name.partition("_")[2].removesuffix("a"))


def compile_for(architectures: Sequence[str], by_default: bool, code: DeviceCode) -> DeviceCode:
    """A program whose kernels have code for all of these architectures; by default for sm_90a too, if its warpgroups multiply matrices.
    Raises `ExportError` where it cannot be compiled."""
    if by_default and MULTIPLY in code.text:
        architectures = (*architectures, WARPGROUPS)
    try:
        table = write_code_table([(name, compile_source(code.text, name).code) for name in architectures])
    except TargetError as error:
        raise ExportError(str(error)) from error
    kernels = {
        name: replace(kernel, code=table, narrow=table if kernel.narrow_limits or any(kernel.narrow_grid) else b"")
        for name, kernel in code.kernels.items()
    }
    return replace(code, kernels=kernels)


def write_code_table(codes: Sequence[tuple[str, bytes]]) -> bytes:
    """Codes for several architectures, by name, encoded as `RdCudaTable` of raido_cuda.h.

    >>> len(write_code_table([("sm_90", b"1234"), ("compute_75", b"56789")]))
    77
    """
    rows, start = [], len(_MAGIC) + 8 + 24 * len(codes)
    for name, code in codes:
        kind = 2 if name == WARPGROUPS else int(name.startswith("compute"))
        rows.append(struct.pack("<IIQQ", _capability(name), kind, start, len(code)))
        start += -(-len(code) // 8) * 8
    padded = (code + bytes(-len(code) % 8) for _, code in codes[:-1])
    return b"".join([_MAGIC, struct.pack("<Q", len(codes)), *rows, *padded, *(code for _, code in codes[-1:])])


def write_needs(oldest: int, programs: Iterable[DeviceCode]) -> str:
    """The C file with the joint requirements of all kernels, and the oldest compute capability: `RdCudaNeeds` of raido_cuda_program.h."""
    kernels = [kernel for code in programs for kernel in code.kernels.values()]
    threads = max((x * y * z for x, y, z in (kernel.block for kernel in kernels)), default=1)
    block = [max((kernel.block[axis] for kernel in kernels), default=1) for axis in range(3)]
    shared = max((kernel.shared_bytes for kernel in kernels), default=0)
    rows = f"{oldest}, {threads}, {{{', '.join(map(str, block))}}}, {shared}"
    return f'#include "raido_cuda_program.h"\n\nconst RdCudaNeeds rd_cuda_needs = {{{rows}}};\n'
