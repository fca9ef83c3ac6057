"""Python's interface to the C runtime beside this package: finds the library, loads it once, declares its functions' types.

The library is the extension `raido.targets._runtime` by build only: it contains no Python and is opened with ctypes, so calls into it
release the interpreter lock. The module also sets the number of threads, and makes arrays whose memory the runtime owns (2 MiB-aligned,
huge pages, recycled when the array dies): results of 4 MiB and more.
"""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from raido.algo.errors import TargetError

RUNTIME_VERSION = 1
THREADS = "RAIDO_NUM_THREADS"
LARGE_BLOCK = 4 << 20
RUNTIME_SOURCES = Path(__file__).parent / "runtime"


class Fault(ctypes.Structure):
    """`RdFault` of raido_runtime.h: the first failure of a call; kind 0 means no failure."""

    _fields_ = (("kind", ctypes.c_int32), ("site", ctypes.c_int32), ("values", ctypes.c_int64 * 4))


@functools.cache
def runtime_library() -> ctypes.CDLL:
    """The loaded runtime; raises `TargetError` when it is missing or of another version."""
    folder = Path(__file__).parent
    found = sorted(folder.glob("_runtime*.so"))
    if not found:
        raise TargetError(
            f"raido's C runtime is missing: there is no _runtime*.so in {folder}. "
            "Install raido where a C compiler is present (pip install --force-reinstall raido)"
        )
    check_number_of_threads()
    library = ctypes.CDLL(str(found[0]))
    library.rd_runtime_version.restype = ctypes.c_int32
    if library.rd_runtime_version() != RUNTIME_VERSION:
        raise TargetError(f"{found[0]} is of another raido version: reinstall raido")
    _declare(library.rd_alloc, ctypes.c_void_p, ctypes.c_uint64)
    _declare(library.rd_free, None, ctypes.c_void_p)
    _declare(library.rd_trim, None)
    _declare(library.rd_cached_bytes, ctypes.c_uint64)
    _declare(library.rd_set_threads, None, ctypes.c_int)
    _declare(library.rd_get_threads, ctypes.c_int)
    _declare(library.rd_set_thread_limit, ctypes.c_int, ctypes.c_int)
    _declare(library.rd_last_error, ctypes.c_char_p)
    _declare(library.rd_clear_error, None)
    return library


def _declare(function: Any, result: Any, *arguments: Any) -> None:
    function.restype = result
    function.argtypes = arguments


def check_number_of_threads() -> None:
    """Raises `TargetError` where RAIDO_NUM_THREADS in the environment is no number of threads; an empty text or 0 says nothing."""
    text = os.environ.get(THREADS, "")
    if text.strip() and not text.strip().isdecimal():
        raise TargetError(
            f"{THREADS}={text!r} in the environment is no number of threads: set it to 1, 2, …, or unset it"
        )


def set_threads(count: int | None = None) -> None:
    """Sets the number of threads of later launches in this process; None: RAIDO_NUM_THREADS, else the CPUs that this process may use."""
    if count is not None and count < 1:
        raise TargetError(f"the number of threads must be at least 1, not {count}")
    runtime_library().rd_set_threads(count or 0)


def get_threads() -> int:
    """The number of threads that a launch from this thread would use."""
    return runtime_library().rd_get_threads()


@dataclass(frozen=True, slots=True)
class RuntimeCalls:
    """Functions of the runtime that an executable calls: the shared runtime's, or those inside an exported library."""

    set_thread_limit: Callable[[int], int]
    last_error: Callable[[], bytes]
    clear_error: Callable[[], None]
    free: Callable[[int], None]


@functools.cache
def shared_calls() -> RuntimeCalls:
    """Functions of the shared runtime, beside this package."""
    library = runtime_library()
    return RuntimeCalls(library.rd_set_thread_limit, library.rd_last_error, library.rd_clear_error, library.rd_free)


def take_error(calls: RuntimeCalls) -> str:
    """Returns and clears the last error message of compiled code on this thread; "" when there is none."""
    message = calls.last_error().decode(errors="replace")
    calls.clear_error()
    return message


class _Block:
    """A block of the runtime's memory, exposed to NumPy by the array interface; freed with the last array on it."""

    __slots__ = ("__array_interface__", "address", "release")

    def __init__(self, address: int, nbytes: int, release: Any) -> None:
        self.address = address
        self.release = release
        self.__array_interface__ = {"version": 3, "shape": (nbytes,), "typestr": "|u1", "data": (address, False)}

    def __del__(self) -> None:
        self.release(self.address)


def allocate_array(shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
    """An uninitialised C-contiguous array; from 4 MiB on aligned to 2 MiB and on huge pages. Raises `MemoryError` when memory runs out."""
    nbytes = prod(shape) * dtype.itemsize
    if nbytes < LARGE_BLOCK:
        return np.empty(shape, dtype)  # ValueError for an empty array of sizes whose product overflows
    library = runtime_library()
    address = library.rd_alloc(nbytes) if nbytes < 1 << 62 else None
    if not address:
        raise MemoryError(f"cannot allocate {nbytes:,} bytes for an array of shape {shape} and dtype {dtype}")
    return adopt_array(address, shape, dtype, library.rd_free)


def adopt_array(
    address: int, shape: tuple[int, ...], dtype: np.dtype[Any], release: Callable[[int], None]
) -> np.ndarray:
    """A C-contiguous array over memory that compiled code has allocated; `release` frees it when the array dies."""
    nbytes = prod(shape) * dtype.itemsize
    block = _Block(address, nbytes, release)
    return np.asarray(block).view(dtype).reshape(shape) if nbytes else np.empty(shape, dtype)
