"""An open CUDA device: it works in its primary context, which other libraries of the process share, and in a stream of its own."""

from __future__ import annotations

import ctypes
from ctypes import c_void_p

from raido.targets.cuda.device import CudaInfo
from raido.targets.cuda.library import runtime
from raido.targets.devices.runtime import OpenDevice


class CudaDevice(OpenDevice):
    """A CUDA device, opened. `memory`: bytes to take at most; 0 is all that it has."""

    def __init__(self, device: CudaInfo, *, memory: int = 0) -> None:
        self.device = device
        library, handle = runtime(), c_void_p()
        library.check(library.call.rd_cuda_open(device.index, memory, ctypes.byref(handle)))
        super().__init__(device.name, f"cuda:{device.index}", library, handle)
