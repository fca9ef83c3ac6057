"""Zero-copy exchange of CUDA arrays with other libraries, in both directions.

Both by DLPack, or by `__cuda_array_interface__` (version 3). An array of another library is held until the launches that may use it have
run; memory of raido's that another library has used is not reused before the whole device has been waited for.
"""

from __future__ import annotations

import contextlib
import ctypes
import weakref
from collections.abc import Sequence
from ctypes import POINTER, c_int32, c_int64, c_uint8, c_uint16, c_uint64, c_void_p
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from raido.algo.errors import ArgumentError, TargetError
from raido.algo.graph.dtypes import bf16, dtype_of
from raido.algo.trace.foreign import TENSOR_OFFSETS, capsule_content, sharing_error
from raido.targets.cuda.streams import stream_of
from raido.targets.cuda.where import TYPES
from raido.targets.devices.array import DeviceArray
from raido.targets.devices.runtime import Memory

if TYPE_CHECKING:
    from raido.targets.cuda.runtime import CudaDevice

_KINDS = "iuf?c?b"  # of NumPy, by the code of an element type in dlpack.h; 3 is a handle, 4 bf16
_BFLOAT = 4
_VERSION = (1, 0)
_READ_ONLY = 1  # a flag of DLManagedTensorVersioned, which stands in front of the tensor
_COMPLEX = ("complex64", "complex128")


class _Tensor(ctypes.Structure):
    """`DLTensor` of dlpack.h."""

    _fields_ = (
        *(("data", c_void_p), ("kind", c_int32), ("index", c_int32), ("ndim", c_int32)),
        *(("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16)),
        *(("shape", POINTER(c_int64)), ("strides", POINTER(c_int64)), ("offset", c_uint64)),
    )


@dataclass(frozen=True, slots=True)
class _Lent:
    """An array as its library describes it. `strides` are in elements, None if dense; `owner` keeps its memory alive."""

    address: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    strides: tuple[int, ...] | None
    index: int | None
    writeable: bool
    owner: Any


class LentMemory(Memory):
    """Memory of another library's array. Its owner is held until all work has run that was enqueued when the last reference went."""

    def __init__(self, device: CudaDevice, lent: _Lent, nbytes: int) -> None:
        self.device, self.nbytes, self.writeable = device, nbytes, lent.writeable
        self._handle = c_void_p()
        code = device.call.rd_cuda_adopt(device.handle, lent.address, nbytes, ctypes.byref(self._handle))
        device.check(code)
        self._free = weakref.finalize(self, _release, device, self._handle, lent.owner)


def _release(device: CudaDevice, handle: c_void_p, owner: Any) -> None:
    with contextlib.suppress(TargetError):
        device.require_open()
        device.call.rd_buffer_free(handle)
        device.hold(owner)


def adopt(device: CudaDevice, argument: Any, streams: list[int]) -> DeviceArray | None:
    """Another library's array as a device array over the same memory; None for objects that are no array of a CUDA device.

    Later launches wait for pending work on it. Its library's stream, where known, is appended to `streams`. Raises `ArgumentError` with the
    reason why an array cannot be shared: its device, dtype, strides or address.
    """
    if isinstance(argument, (np.ndarray, np.generic, int, float, complex, str, bytes, list, tuple, dict, type)):
        return None
    lent = _lent(argument, device)
    if lent is None:
        return None
    if lent.index is not None and lent.index != device.device.index:
        raise ArgumentError(f"it is on cuda:{lent.index}, and the program runs on {device.target}")
    if dtype_of(lent.dtype) is None and lent.dtype.name not in _COMPLEX:
        raise ArgumentError(f"its dtype is {lent.dtype}, which raido does not have in native byte order")
    if not _is_dense(lent.shape, lent.strides):
        strides = f"its strides are {lent.strides} elements, and arrays of a device are dense, in row-major order"
        raise ArgumentError(f"{strides}; a contiguous copy in its library is")
    stream = stream_of(argument, device.device.index)
    if stream is not None and stream not in streams:
        device.wait_for(stream)
        streams.append(stream)
    device.let_go()
    try:
        memory = LentMemory(device, lent, prod(lent.shape) * lent.dtype.itemsize)
    except TargetError as error:
        device.require_open()
        raise ArgumentError(str(error)) from None
    return DeviceArray(memory, lent.shape, lent.dtype)


def _lent(argument: Any, device: CudaDevice) -> _Lent | None:
    if hasattr(argument, "__dlpack_device__"):
        kind, index = argument.__dlpack_device__()
        if int(kind) not in TYPES:
            return None
        if int(index) != device.device.index:
            return _Lent(0, (), np.dtype("u1"), None, int(index), True, argument)
        return _by_dlpack(argument, device)
    interface = getattr(argument, "__cuda_array_interface__", None)
    return None if interface is None else _by_interface(argument, interface)


def _by_dlpack(argument: Any, device: CudaDevice) -> _Lent:
    """An array described by its DLPack capsule. The capsule is the owner: it is never consumed, so its library frees it with its last
    reference."""
    try:
        try:
            capsule = argument.__dlpack__(stream=device.stream, max_version=_VERSION)
        except TypeError:  # a producer of the protocol's first version
            capsule = argument.__dlpack__(stream=device.stream)
        name, content = capsule_content(capsule)
    except Exception as error:
        raise sharing_error(error) from error
    start = TENSOR_OFFSETS[name]
    tensor = _Tensor.from_address(content + start)
    read_only = start and c_uint64.from_address(content + start - 8).value & _READ_ONLY
    shape = tuple(tensor.shape[k] for k in range(tensor.ndim))
    strides = tuple(tensor.strides[k] for k in range(tensor.ndim)) if tensor.strides else None
    dtype = _dtype(tensor.code, tensor.bits, tensor.lanes)
    address = (tensor.data or 0) + tensor.offset
    return _Lent(address, shape, dtype, strides, None, not read_only, (capsule, argument))


def _dtype(code: int, bits: int, lanes: int) -> np.dtype[Any]:
    if lanes == 1 and (code, bits) == (_BFLOAT, 16):
        return bf16.numpy
    kind = _KINDS[code] if code < len(_KINDS) else "?"
    try:
        if lanes != 1 or kind == "?" or bits % 8:
            raise TypeError
        return np.dtype(f"{kind}{bits // 8}")
    except TypeError:
        said = f"its dtype is number {code} of DLPack, with {bits} bits in {lanes} lanes, which raido does not have"
        raise ArgumentError(said) from None


def _by_interface(argument: Any, interface: Any) -> _Lent:
    """An array described by `__cuda_array_interface__`, which does not keep it alive: the array object is the owner."""
    try:
        (address, read_only), shape = interface["data"], tuple(int(size) for size in interface["shape"])
        dtype, strides = np.dtype(interface["typestr"]), interface.get("strides")
        masked = interface.get("mask") is not None
    except (KeyError, TypeError, ValueError) as error:
        raise ArgumentError(f"its __cuda_array_interface__ cannot be read: {error!r}") from error
    if masked:
        raise ArgumentError("it is a masked array")
    if strides is not None:
        if any(stride % dtype.itemsize for stride in strides):
            raise ArgumentError(f"its strides are {tuple(strides)} bytes, and no multiples of an element's")
        strides = tuple(int(stride) // dtype.itemsize for stride in strides)
    return _Lent(int(address or 0), shape, dtype, strides, None, not read_only, argument)


def _is_dense(shape: Sequence[int], strides: Sequence[int] | None) -> bool:
    if strides is None or not prod(shape):
        return True
    expected = 1
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return True


# --- arrays of raido's for other libraries


class _Shown:
    """A device array presented to NumPy, which keeps its memory alive and never reads it."""

    def __init__(self, array: DeviceArray, address: int) -> None:
        dtype = np.dtype(np.uint16) if array.dtype == bf16.numpy else array.dtype
        self.memory = array.memory
        self.__array_interface__ = {
            "shape": array.shape,
            "typestr": dtype.str,
            "data": (address, not array.memory.writeable),
            "version": 3,
        }


def capsule_of(array: DeviceArray, device: CudaDevice, max_version: tuple[int, int] | None) -> Any:
    """A DLPack capsule of an array's own memory: NumPy's capsule of an array at that address, with device and element type then patched."""
    capsule = np.asarray(_Shown(array, device.share(array.memory))).__dlpack__(max_version=max_version)
    name, content = capsule_content(capsule)
    tensor = _Tensor.from_address(content + TENSOR_OFFSETS[name])
    tensor.kind, tensor.index = TYPES[0], device.device.index
    if array.dtype == bf16.numpy:
        tensor.code = _BFLOAT
    return capsule


def interface_of(array: DeviceArray, device: CudaDevice) -> dict[str, Any]:
    """`__cuda_array_interface__` of an array; raises `AttributeError` for bf16, for which it has no type."""
    if array.dtype == bf16.numpy:
        raise AttributeError("__cuda_array_interface__ has no type for bf16: DLPack does")
    data = (device.share(array.memory), not array.memory.writeable)
    described = {"shape": array.shape, "typestr": array.dtype.str, "data": data, "strides": None, "version": 3}
    return {**described, "stream": device.stream}
