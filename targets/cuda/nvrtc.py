"""NVRTC: compiles CUDA C to machine code of an architecture, or to PTX, in this process; needs no driver, header or CUDA toolkit.

The library comes with the extra `raido[cuda]`, or with an installed toolkit. Version 13.0 is required, since PTX of a newer one is refused
by older drivers, while machine code of any 13.x loads. Functions here release the interpreter lock, and any thread may call.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import re
from collections.abc import Mapping
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_void_p
from dataclasses import dataclass
from pathlib import Path

from raido.algo.errors import CompileError, TargetError

_OPTIONS = ("-fmad=false", "-std=c++17", "--ptxas-options=-v", "-w")
_ENTRY = re.compile(r"Compiling entry function '(\w+)' for")
_SPILLS = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers")
_SHARED = re.compile(r"(\d+) bytes smem")


@dataclass(frozen=True, slots=True)
class Resources:
    """Resources of a compiled kernel: registers per thread, bytes of local memory and of spills per thread, and bytes of shared memory per
    block."""

    registers: int
    local_bytes: int
    spill_bytes: int
    shared_bytes: int


@dataclass(frozen=True, slots=True)
class MachineCode:
    """Machine code (`sm_…`) or PTX (`compute_…`) with the resources of each kernel; for PTX these are unknown."""

    architecture: str
    code: bytes
    resources: Mapping[str, Resources]


def compile_source(text: str, architecture: str) -> MachineCode:
    """Compiles CUDA C to machine code for "sm_90" and its like, or to PTX for "compute_75".

    Raises `TargetError` when NVRTC is missing or does not know the architecture; `CompileError`, with the beginning of NVRTC's log, when it
    refuses the text.
    """
    library, program = load_nvrtc(), c_void_p()
    if (asked := re.sub(r"^compute_", "sm_", architecture).rstrip("af")) not in (there := supported_architectures()):
        raise TargetError(f'NVRTC {version()} compiles for no "{asked}"; for {", ".join(there)}')
    _check(library.nvrtcCreateProgram(byref(program), text.encode(), b"kernels.cu", 0, None, None), "begins no program")
    try:
        options = [f"--gpu-architecture={architecture}".encode(), *(option.encode() for option in _OPTIONS)]
        code = library.nvrtcCompileProgram(program, len(options), (c_char_p * len(options))(*options))
        log = _text(program, "ProgramLog")
        if code:
            raise CompileError(f"NVRTC refuses what raido generated:\n{log.strip()[:2000]}")
        return MachineCode(
            architecture,
            _bytes(program, "PTX" if architecture.startswith("compute_") else "CUBIN"),
            read_resources(log),
        )
    finally:
        library.nvrtcDestroyProgram(byref(program))


def read_resources(log: str) -> dict[str, Resources]:
    """The resources of each kernel, parsed from the log of ptxas."""
    found = {}
    parts = _ENTRY.split(log)
    for name, words in zip(parts[1::2], parts[2::2], strict=True):
        frame, used, shared = _SPILLS.search(words), _USED.search(words), _SHARED.search(words)
        local, stores, loads = (int(n) for n in frame.groups()) if frame else (0, 0, 0)
        registers = int(used.group(1)) if used else 0
        found[name] = Resources(registers, local, stores + loads, int(shared.group(1)) if shared else 0)
    return found


@functools.cache
def supported_architectures() -> tuple[str, ...]:
    """Architectures that NVRTC compiles for, "sm_75" and so on; raises `TargetError` when it is missing."""
    library, count = load_nvrtc(), c_int()
    _check(library.nvrtcGetNumSupportedArchs(byref(count)), "lists no architectures")
    found = (c_int * count.value)()
    _check(library.nvrtcGetSupportedArchs(found), "lists no architectures")
    return tuple(f"sm_{number}" for number in found)


@functools.cache
def version() -> str:
    """NVRTC's version, "13.0"."""
    major, minor = c_int(), c_int()
    _check(load_nvrtc().nvrtcVersion(byref(major), byref(minor)), "has no version")
    return f"{major.value}.{minor.value}"


@functools.cache
def load_nvrtc() -> ctypes.CDLL:
    """The loaded library; raises `TargetError`, with the command that installs it, when there is none."""
    library = None
    for path in _candidates():
        try:
            builtins = sorted(Path(path).parent.glob("libnvrtc-builtins.so.13*")) if "/" in path else []
            for file in builtins:  # 13.0 does not find them by itself
                ctypes.CDLL(str(file), mode=ctypes.RTLD_GLOBAL)
            library = ctypes.CDLL(path)
            break
        except OSError:
            continue
    if library is None:
        raise TargetError('compiling for CUDA needs NVRTC, which is not installed: pip install "raido[cuda]"')
    for name, arguments in _FUNCTIONS.items():
        function = getattr(library, name)
        function.restype, function.argtypes = c_int, arguments
    library.nvrtcGetErrorString.restype, library.nvrtcGetErrorString.argtypes = c_char_p, (c_int,)
    return library


def _candidates() -> list[str]:
    """Paths where NVRTC may be: in NVIDIA's wheels, then wherever the loader looks."""
    spec = importlib.util.find_spec("nvidia")
    folders = list(spec.submodule_search_locations or ()) if spec else []
    return [*(str(Path(folder) / "cu13" / "lib" / "libnvrtc.so.13") for folder in folders), "libnvrtc.so.13"]


_FUNCTIONS: dict[str, tuple[object, ...]] = {
    "nvrtcVersion": (POINTER(c_int), POINTER(c_int)),
    "nvrtcGetNumSupportedArchs": (POINTER(c_int),),
    "nvrtcGetSupportedArchs": (POINTER(c_int),),
    "nvrtcCreateProgram": (POINTER(c_void_p), c_char_p, c_char_p, c_int, c_void_p, c_void_p),
    "nvrtcCompileProgram": (c_void_p, c_int, POINTER(c_char_p)),
    "nvrtcDestroyProgram": (POINTER(c_void_p),),
    **{f"nvrtcGet{what}Size": (c_void_p, POINTER(c_size_t)) for what in ("CUBIN", "PTX", "ProgramLog")},
    **{f"nvrtcGet{what}": (c_void_p, c_char_p) for what in ("CUBIN", "PTX", "ProgramLog")},
}


def _check(code: int, doing: str) -> None:
    if code:
        reason = load_nvrtc().nvrtcGetErrorString(code).decode()
        raise TargetError(f"NVRTC {doing}: {reason}")


def _bytes(program: c_void_p, what: str) -> bytes:
    library, size = load_nvrtc(), c_size_t()
    _check(getattr(library, f"nvrtcGet{what}Size")(program, byref(size)), f"gives no {what}")
    data = ctypes.create_string_buffer(size.value)
    _check(getattr(library, f"nvrtcGet{what}")(program, data), f"gives no {what}")
    return data.raw


def _text(program: c_void_p, what: str) -> str:
    return _bytes(program, what).rstrip(b"\0").decode(errors="replace")
