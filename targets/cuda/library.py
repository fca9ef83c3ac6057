"""The C runtime for CUDA: its functions beyond those of any device, the loaded library, and the devices of this machine.

Nothing here looks for a driver before it is asked to.
"""

from __future__ import annotations

import ctypes
import functools
from ctypes import POINTER, c_char, c_int32, c_uint8, c_uint32, c_uint64, c_void_p

from raido.algo.errors import TargetError
from raido.targets.cuda.device import CudaInfo
from raido.targets.devices.library import DeviceLibrary


class Info(ctypes.Structure):
    """`RdCudaInfo` of raido_cuda.h."""

    _fields_ = (
        *(("name", c_char * 256), ("identity", c_uint8 * 16), ("memory", c_uint64)),
        *((name, c_uint32) for name in ("capability", "driver", "processors", "warp", "threads", "shared")),
        *(("grid", c_uint32 * 3), ("block", c_uint32 * 3)),
    )


_FUNCTIONS = {
    "rd_cuda_start": (c_int32,),
    "rd_cuda_count": (c_int32,),
    "rd_cuda_describe": (c_int32, c_int32, POINTER(Info)),
    "rd_cuda_open": (c_int32, c_int32, c_uint64, POINTER(c_void_p)),
    "rd_cuda_stream": (c_uint64, c_void_p),
    "rd_cuda_wait_for": (c_int32, c_void_p, c_uint64),
    "rd_cuda_let_wait": (c_int32, c_void_p, c_uint64),
    "rd_cuda_record": (c_int32, c_void_p, POINTER(c_void_p)),
    "rd_cuda_passed": (c_int32, c_void_p, c_void_p),
    "rd_cuda_adopt": (c_int32, c_void_p, c_uint64, c_uint64, POINTER(c_void_p)),
    "rd_cuda_share": (c_int32, c_void_p, POINTER(c_uint64)),
    "rd_cuda_overlap": (c_int32, c_void_p, c_void_p),
}


@functools.cache
def runtime() -> DeviceLibrary:
    """The loaded runtime, which needs no driver; raises `TargetError` when this installation lacks it."""
    return DeviceLibrary("CUDA", "_cuda", _FUNCTIONS)


def list_devices() -> tuple[CudaInfo, ...]:
    """The devices, in the driver's order; raises `TargetError` when there is no driver, an old one, or no device."""
    library, found = runtime(), []
    library.check(library.call.rd_cuda_start())
    for index in range(library.call.rd_cuda_count()):
        info = Info()
        library.check(library.call.rd_cuda_describe(index, ctypes.byref(info)))
        found.append(_describe(index, info))
    return tuple(found)


def find_device(which: int | str = "") -> CudaInfo:
    """A device by its index, or by a part of its name in any case; "" is the first.

    Raises `TargetError`, which lists the devices, when none matches.
    """
    devices = list_devices()
    for device in devices:
        if which in ("", device.index) or (isinstance(which, str) and which.lower() in device.name.lower()):
            return device
    there = ", ".join(f'{device.index} "{device.name}"' for device in devices)
    asked = f"number {which}" if isinstance(which, int) else f'called "{which}"'
    raise TargetError(f"there is no CUDA device {asked}; there is: {there}")


def _describe(index: int, info: Info) -> CudaInfo:
    return CudaInfo(
        name=info.name.decode(errors="replace"),
        index=index,
        identity=bytes(info.identity).hex(),
        capability=info.capability,
        architecture=f"sm_{info.capability}",
        driver=f"{info.driver // 1000}.{info.driver % 1000 // 10}",
        memory=info.memory,
        processors=info.processors,
        warp=info.warp,
        threads=info.threads,
        shared=info.shared,
        grid=(info.grid[0], info.grid[1], info.grid[2]),
        block=(info.block[0], info.block[1], info.block[2]),
    )
