"""Arrays of other libraries as NumPy arrays of the same memory: DLPack producers, and what offers `__array__` or a buffer."""

from __future__ import annotations

from typing import Any

import numpy as np

from raido.algo.errors import ArgumentError

_DEVICES = {1: "cpu", 2: "cuda", 3: "cuda_host", 4: "opencl", 7: "vulkan", 8: "metal", 10: "rocm", 11: "rocm_host"}
_DEVICES |= {12: "extension", 13: "cuda_managed", 14: "oneapi", 15: "webgpu"}
_READABLE = (1, 3, 11, 13)  # what the CPU can read


def is_foreign(argument: Any) -> bool:
    """Whether an object, not a class, says that it can be read as an array."""
    offers = ("__dlpack__", "__array__", "__array_interface__")
    return not isinstance(argument, type) and any(hasattr(argument, name) for name in offers)


def is_buffer(argument: Any) -> bool:
    """Whether an object shows its memory by Python's buffer protocol, as memoryview and array.array do; bytes are text to most."""
    if isinstance(argument, bytes):
        return False
    try:
        memoryview(argument)
    except TypeError:
        return False
    return True


def read_foreign(argument: Any) -> np.ndarray:
    """The array in the producer's memory; ArgumentError says why it cannot be read (it is on a GPU, the producer refuses)."""
    if not hasattr(argument, "__dlpack__"):
        try:
            return np.asarray(argument)
        except Exception as error:
            raise ArgumentError(f"it cannot be read as an array: {_reason(error)}") from error
    try:
        kind, number = argument.__dlpack_device__() if hasattr(argument, "__dlpack_device__") else (1, 0)
        if int(kind) in _READABLE:
            return np.from_dlpack(argument)
    except Exception as error:
        raise ArgumentError(f"its memory cannot be shared: {_reason(error)}") from error
    device = _DEVICES.get(int(kind), f"device type {int(kind)}")
    raise ArgumentError(f"it is on {device}:{number}; copy it to the CPU first")


def _reason(error: Exception) -> str:
    return f"{error}" if isinstance(error, (BufferError, RuntimeError)) and str(error) else repr(error)
