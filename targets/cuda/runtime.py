"""An open CUDA device: it uses the primary context, which other libraries of the process share, and a stream of its own.

Events order that stream with those of other libraries, without waiting on the CPU.
"""

from __future__ import annotations

import ctypes
import threading
from collections import deque
from ctypes import c_uint64, c_void_p
from typing import Any

from raido.targets.cuda.device import CudaInfo
from raido.targets.cuda.library import runtime
from raido.targets.cuda.streams import stream_handle
from raido.targets.devices.library import BUSY
from raido.targets.devices.runtime import Memory, OpenDevice

_LAST_WAIT = 5_000_000_000
"""Nanoseconds that closing a device waits for running kernels, since a kernel may never end."""
_endless: list[Any] = []
"""Arrays of other libraries that kernels used when their device was closed, and may use to the end of the process."""


class CudaDevice(OpenDevice):
    """An open CUDA device. `memory`: the maximal number of bytes to allocate; 0 is the whole device's."""

    def __init__(self, device: CudaInfo, *, memory: int = 0) -> None:
        self.device = device
        self._held: deque[tuple[c_void_p, Any]] = deque()
        self._letting_go = threading.Lock()
        library, handle = runtime(), c_void_p()
        library.check(library.call.rd_cuda_open(device.index, memory, ctypes.byref(handle)))
        super().__init__(device.name, f"cuda:{device.index}", library, handle)

    def close(self) -> None:
        """Waits, and frees everything, unless kernels do not end: memory and kernels of the device may not be used any more."""
        if self.is_open and self._held:
            if self.call.rd_device_finish(self.handle, _LAST_WAIT) == BUSY:
                _endless.extend(self._held)
                self.abandon()
            else:
                self.let_go()
        super().close()
        self._held.clear()

    # --- streams

    @property
    def stream(self) -> int:
        """The handle of the device's own stream."""
        return self.call.rd_cuda_stream(self.handle)

    def stream_handle(self, stream: Any) -> int:
        return stream_handle(stream)

    def wait_for(self, stream: int) -> None:
        self.check(self.call.rd_cuda_wait_for(self.handle, stream))

    def let_wait(self, stream: int) -> None:
        self.check(self.call.rd_cuda_let_wait(self.handle, stream))

    def finish(self) -> None:
        super().finish()
        self.let_go()

    # --- memory that others have, or have had

    def adopt(self, argument: Any, streams: list[int]) -> Any:
        from raido.targets.cuda.foreign import adopt

        return adopt(self, argument, streams)

    def share(self, memory: Memory) -> int:
        """The address of an array's memory, for another library: the memory is not reused before the whole device has been waited for."""
        address = c_uint64()
        self.check(self.call.rd_cuda_share(memory.handle, ctypes.byref(address)))
        return address.value

    def overlap(self, first: Memory, second: Memory) -> bool:
        return first is second or bool(self.call.rd_cuda_overlap(first.handle, second.handle))

    def hold(self, owner: Any) -> None:
        """Keeps an object alive until all work enqueued so far has run."""
        moment = c_void_p()
        if self.call.rd_cuda_record(self.handle, ctypes.byref(moment)):
            super().finish()  # there is no room for a moment: it is waited for at once
        else:
            self._held.append((moment, owner))

    def let_go(self) -> None:
        """Drops held objects that no enqueued work needs any more. One thread does so at a time; others return at once."""
        if not self._letting_go.acquire(blocking=False):
            return
        try:
            while self._held and self.call.rd_cuda_passed(self.handle, self._held[0][0]) != BUSY:
                self._held.popleft()
        finally:
            self._letting_go.release()
