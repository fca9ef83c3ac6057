"""Python's interface to a device runtime in C: finds the library, loads it once, declares its functions' types, raises its errors.

One library serves one device API (`raido_device.h` is the common interface), and looks for a driver only when asked.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from ctypes import POINTER, c_char_p, c_double, c_int32, c_uint32, c_uint64, c_void_p
from pathlib import Path
from typing import Any

from raido.algo.errors import TargetError

DEVICE_VERSION = 8
BUSY, NO_MEMORY, LOST, BAD_DEVICE = 1, -2, -3, -4


class KernelInfo(ctypes.Structure):
    """`RdKernelInfo` of raido_device.h."""

    _fields_ = (
        *(("name", c_char_p), ("code", c_char_p), ("bytes", c_uint64)),
        *(("addresses", c_int32), ("inline_arguments", c_int32), ("pointers", c_uint32), ("argument_bytes", c_uint32)),
        *(("block", c_uint32 * 3), ("shared_bytes", c_uint32)),
        *(("offsets", POINTER(c_uint32)), ("widths", POINTER(c_uint32))),
        *(("narrow", c_char_p), ("narrow_bytes", c_uint64), ("narrow_grid", c_uint32 * 3)),
        *(("numbers", c_uint32), ("number_offsets", POINTER(c_uint32)), ("narrow_limits", POINTER(c_uint32))),
    )


_FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "rd_device_version": (c_int32,),
    "rd_error": (c_char_p,),
    "rd_device_close": (None, c_void_p),
    "rd_device_finish": (c_int32, c_void_p, c_uint64),
    "rd_device_taken": (c_uint64, c_void_p),
    "rd_device_trim": (c_int32, c_void_p),
    "rd_device_mark": (c_int32, c_void_p, POINTER(c_uint32)),
    "rd_device_elapsed": (c_int32, c_void_p, c_uint32, c_uint32, POINTER(c_double)),
    "rd_buffer_new": (c_int32, c_void_p, c_uint64, POINTER(c_void_p)),
    "rd_buffer_free": (None, c_void_p),
    "rd_buffer_write": (c_int32, c_void_p, c_uint64, c_void_p, c_uint64),
    "rd_buffer_read": (c_int32, c_void_p, c_uint64, c_void_p, c_uint64),
    "rd_buffer_copy": (c_int32, c_void_p, c_uint64, c_void_p, c_uint64, c_uint64),
    "rd_kernel_new": (c_int32, c_void_p, POINTER(KernelInfo), POINTER(c_void_p)),
    "rd_kernel_free": (None, c_void_p),
    "rd_kernel_launch": (c_int32, c_void_p, POINTER(c_uint32), c_char_p, POINTER(c_void_p)),
    "rd_plan_run": (c_int32, c_void_p, c_uint64),
}


class DeviceLibrary:
    """A loaded device runtime: `call` has its functions, those of raido_device.h and `functions`, each with the types of its result and
    arguments.

    Raises `TargetError` when this installation lacks it. `api` is the API's name in messages, `stem` that of the file.
    """

    def __init__(self, api: str, stem: str, functions: Mapping[str, tuple[Any, ...]]) -> None:
        folder = Path(__file__).parent.parent
        found = sorted(folder.glob(f"{stem}*.so"))
        if not found:
            raise TargetError(
                f"raido's runtime for {api} is missing: there is no {stem}*.so in {folder}. "
                "Install raido where a C compiler is present (pip install --force-reinstall raido)"
            )
        self.call = ctypes.CDLL(str(found[0]))
        for name, (result, *arguments) in {**_FUNCTIONS, **functions}.items():
            function = getattr(self.call, name)
            function.restype, function.argtypes = result, arguments
        if self.call.rd_device_version() != DEVICE_VERSION:
            raise TargetError(f"{found[0]} is of another raido version: reinstall raido")

    def check(self, code: int) -> None:
        """Raises the error for a runtime status: `MemoryError` where memory is exhausted, else `TargetError`; returns for a non-negative
        status."""
        if code < 0:
            message = self.call.rd_error().decode(errors="replace")
            raise MemoryError(message) if code == NO_MEMORY else TargetError(message)
