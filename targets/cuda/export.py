"""Programs for CUDA in exported libraries: machine code for several architectures, PTX for the others, and what kernels need of a device.

The text of a program is compiled anew, for each architecture; `raido_cuda.c` takes from the table what the device executes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import replace

from raido.algo.errors import ExportError, TargetError
from raido.targets.cuda.nvrtc import compile_source
from raido.targets.devices.code import DeviceCode
from raido.targets.devices.export import DevicePart

ARCHITECTURES = ("sm_75", "sm_80", "sm_90", "sm_100", "compute_75")
"""Machine code for every generation from Turing on, which later chips of it execute, and PTX for generations to come."""
_OLDEST = 75
_MAGIC = b"RaidoCU\0"
_SOURCES = ("program", "device", "plan", "cuda", "cuda_program")


def compile_for_all(code: DeviceCode) -> DeviceCode:
    """A program whose kernels have code for all of `ARCHITECTURES`; ExportError where it cannot be compiled."""
    try:
        table = write_code_table([(name, compile_source(code.text, name).code) for name in ARCHITECTURES])
    except TargetError as error:
        raise ExportError(str(error)) from error
    kernels = {
        name: replace(kernel, code=table, narrow=table if kernel.narrow_limits or any(kernel.narrow_grid) else b"")
        for name, kernel in code.kernels.items()
    }
    return replace(code, kernels=kernels)


def write_code_table(codes: Sequence[tuple[str, bytes]]) -> bytes:
    """Code for several architectures, each by its name, as `RdCudaTable` of raido_cuda.h.

    >>> len(write_code_table([("sm_90", b"1234"), ("compute_75", b"56789")]))
    77
    """
    rows, start = [], len(_MAGIC) + 8 + 24 * len(codes)
    for name, code in codes:
        kind, _, capability = name.partition("_")
        rows.append(struct.pack("<IIQQ", int(capability), kind == "compute", start, len(code)))
        start += -(-len(code) // 8) * 8
    padded = (code + bytes(-len(code) % 8) for _, code in codes[:-1])
    return b"".join([_MAGIC, struct.pack("<Q", len(codes)), *rows, *padded, *(code for _, code in codes[-1:])])


def write_needs(programs: Iterable[DeviceCode]) -> str:
    """The C file with the needs of all kernels together: `RdCudaNeeds` of raido_cuda_program.h."""
    kernels = [kernel for code in programs for kernel in code.kernels.values()]
    threads = max((x * y * z for x, y, z in (kernel.block for kernel in kernels)), default=1)
    block = [max((kernel.block[axis] for kernel in kernels), default=1) for axis in range(3)]
    shared = max((kernel.shared_bytes for kernel in kernels), default=0)
    rows = f"{_OLDEST}, {threads}, {{{', '.join(map(str, block))}}}, {shared}"
    return f'#include "raido_cuda_program.h"\n\nconst RdCudaNeeds rd_cuda_needs = {{{rows}}};\n'


PART = DevicePart(
    tuple(f"raido_{part}.c" for part in _SOURCES),
    compile_for_all,
    write_needs,
    "a CUDA device from compute capability 7.5 on, with a driver of CUDA 13.0 or newer",
    "the first",
    "H100",
)
