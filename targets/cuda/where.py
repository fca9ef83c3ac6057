"""The CUDA device of another library's array, as the library reports it, without access to the array's memory."""

from __future__ import annotations

from typing import Any

from raido.algo.errors import TargetError

TYPES = (2, 13)
"""The types of devices in dlpack.h whose memory a CUDA device reads where it is: its own, and managed memory."""


def cuda_device_of(array: Any) -> str | None:
    """The device as a target, "cuda:0"; None for all other objects, and where there is no CUDA driver that could run anything on it.

    >>> cuda_device_of([1, 2]) is None
    True
    """
    if hasattr(array, "__dlpack_device__"):
        kind, index = array.__dlpack_device__()
        found = f"cuda:{int(index)}" if int(kind) in TYPES else None
    else:
        found = "cuda" if hasattr(array, "__cuda_array_interface__") else None
    return found if found is not None and _has_driver() else None


def _has_driver() -> bool:
    from raido.targets.cuda.library import list_devices

    try:
        return bool(list_devices())
    except TargetError:
        return False
