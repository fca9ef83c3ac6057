"""Arrays of other libraries as NumPy arrays of the same memory: DLPack producers, and objects with `__array__` or a buffer.

NumPy does not accept bf16 by DLPack. The descriptor of such an array is changed to 16-bit integers, and NumPy's array is viewed as bf16.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from raido.algo.errors import ArgumentError
from raido.algo.graph.dtypes import bf16

_DEVICES = {1: "cpu", 2: "cuda", 3: "cuda_host", 4: "opencl", 7: "vulkan", 8: "metal", 10: "rocm", 11: "rocm_host"}
_DEVICES |= {12: "extension", 13: "cuda_managed", 14: "oneapi", 15: "webgpu"}
_READABLE = (1, 3, 11, 13)  # what the CPU can read
_UNSIGNED, _BFLOAT = 1, 4  # codes of element types in dlpack.h
_TYPE_CODE = 20  # bytes into a DLTensor: behind a pointer, the device and the rank
TENSOR_OFFSETS = {b"dltensor": 0, b"dltensor_versioned": 32}
"""The offset of the tensor in a capsule's structure, in bytes, by the capsule's name."""


def is_foreign(argument: Any) -> bool:
    """Whether an object, not a class, has one of the protocols by which it can be read as an array."""
    offers = ("__dlpack__", "__array__", "__array_interface__")
    return not isinstance(argument, type) and any(hasattr(argument, name) for name in offers)


def is_elsewhere(argument: Any) -> bool:
    """Whether an object is an array with a NumPy dtype whose DLPack device is one that the CPU cannot read."""
    if isinstance(argument, (np.ndarray, np.generic)) or not isinstance(getattr(argument, "dtype", None), np.dtype):
        return False
    device = getattr(argument, "__dlpack_device__", None)
    return device is not None and int(device()[0]) not in _READABLE


def is_buffer(argument: Any) -> bool:
    """Whether an object supports Python's buffer protocol, as memoryview and array.array do; bytes do not count, as most users mean text by
    them."""
    if isinstance(argument, bytes):
        return False
    try:
        memoryview(argument)
    except TypeError:
        return False
    return True


def read_foreign(argument: Any) -> np.ndarray:
    """Returns the array in its producer's memory; raises `ArgumentError` where it is on a GPU or the producer refuses."""
    if not hasattr(argument, "__dlpack__"):
        try:
            return np.asarray(argument)
        except Exception as error:
            raise ArgumentError(f"it cannot be read as an array: {_reason(error)}") from error
    try:
        kind, number = argument.__dlpack_device__() if hasattr(argument, "__dlpack_device__") else (1, 0)
        if int(kind) in _READABLE:
            is_bf16 = str(getattr(argument, "dtype", "")).endswith(bf16.numpy_name)
            return np.from_dlpack(_AsIntegers(argument)).view(bf16.numpy) if is_bf16 else np.from_dlpack(argument)
    except Exception as error:
        raise sharing_error(error) from error
    device = _DEVICES.get(int(kind), f"device type {int(kind)}")
    raise ArgumentError(f"it is on {device}:{number}; copy it to the CPU first")


def sharing_error(error: Exception) -> ArgumentError:
    """Returns the `ArgumentError` for an array whose producer refuses to share its memory."""
    return ArgumentError(f"its memory cannot be shared: {_reason(error)}")


def capsule_content(capsule: Any) -> tuple[bytes, int]:
    """Returns the name of a DLPack capsule and the address of its contents."""
    api = ctypes.pythonapi
    api.PyCapsule_GetName.argtypes, api.PyCapsule_GetName.restype = (ctypes.py_object,), ctypes.c_char_p
    api.PyCapsule_GetPointer.argtypes = (ctypes.py_object, ctypes.c_char_p)
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    name = api.PyCapsule_GetName(capsule)
    return name, api.PyCapsule_GetPointer(capsule, name)


class _AsIntegers:
    """A DLPack producer that exports the memory of a bf16 array as unsigned 16-bit integers."""

    def __init__(self, array: Any) -> None:
        self._array = array

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._array.__dlpack_device__()

    def __dlpack__(self, **options: Any) -> Any:
        capsule = self._array.__dlpack__(**options)
        name, content = capsule_content(capsule)
        code = ctypes.c_uint8.from_address(content + TENSOR_OFFSETS[name] + _TYPE_CODE)
        if code.value != _BFLOAT:
            raise BufferError("its element type is not bfloat16")
        code.value = _UNSIGNED
        return capsule


def _reason(error: Exception) -> str:
    return f"{error}" if isinstance(error, (BufferError, RuntimeError)) and str(error) else repr(error)
