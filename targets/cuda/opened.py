"""CUDA devices that this process has open: each is opened once, at its first use, and shared.

A process that was forked from one that uses CUDA cannot use it; the driver reports that.
"""

from __future__ import annotations

import os
import threading

from raido.targets.cuda.library import find_device
from raido.targets.cuda.runtime import CudaDevice

_open: dict[int, CudaDevice] = {}
_lock = threading.Lock()


def open_device(which: int | str = "") -> CudaDevice:
    """The open device with an index or a part of a name ("": the first). A closed device is opened again.

    Raises `TargetError` when there is no driver, or no such device.
    """
    device = find_device(which)
    with _lock:
        found = _open.get(device.index)
        if found is None or not found.is_open:
            found = _open[device.index] = CudaDevice(device)
        return found


def _forget() -> None:
    """Abandons the parent's devices, in a forked process."""
    global _lock
    for device in _open.values():
        device.abandon()
    _open.clear()
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_forget)
