"""Device arrays: results of executables stay on the device, and are arguments of later calls without a copy."""

from __future__ import annotations

import pickle
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from raido.algo.errors import ArgumentError, TargetError, explain
from raido.algo.graph.dtypes import dtype_of
from raido.algo.trace.arguments import read_array
from raido.algo.trace.attributes import NearAttributes
from raido.algo.trace.tracebacks import border, bordered
from raido.targets.devices.runtime import Memory, OpenDevice

if TYPE_CHECKING:
    from raido.targets.target import Target

_CPU, _CUDA = 1, 2  # types of devices in dlpack.h
_DLPACK = {"cuda": _CUDA, "vulkan": 7}
_LEGACY, _UNORDERED = 1, -1  # streams in DLPack: CUDA's default stream, and none at all
_COMPLEX = ("complex64", "complex128")


@bordered
class DeviceArray(NearAttributes):
    """An array on a device, dense and in row-major order. Only calls that are given it as `out` change it.

    `shape`, `dtype` (NumPy's), `ndim`, `size` and `nbytes` are those of the NumPy array that `.to("cpu")` or `np.asarray` make of it; both
    wait for its computation. Its memory is freed with the last reference, which may go while kernels still use it. Any thread may use it.
    It cannot be pickled.
    """

    __slots__ = ("__weakref__", "_memory", "dtype", "shape")
    _display_name = "array"

    def __init__(self, memory: Memory, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self._memory, self.shape, self.dtype = memory, shape, dtype

    @property
    def memory(self) -> Memory:
        """Its `Memory` on the device."""
        return self._memory

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.size * self.dtype.itemsize

    @property
    def device(self) -> str:
        """The device as a target: "vulkan:0"."""
        return self.memory.device.target

    def to(self, device: str | Target) -> Any:
        """A copy: a NumPy array for "cpu", else an array on another device (or the same). Raises `TargetError` where the device does not
        exist."""
        return self._read() if device == "cpu" else device_array(self, device)

    def _read(self) -> np.ndarray:
        return self.memory.read(np.empty(self.shape, self.dtype))

    def synchronize(self) -> None:
        """Waits for all work enqueued on its device: its own computation, and the calls that it was an argument of."""
        self.memory.device.finish()

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("an array of rank 0 has no length")
        return self.shape[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:
            raise ValueError(f"an array on {self.device} cannot be read without a copy")
        array = self._read()
        return array if dtype is None else array.astype(dtype, copy=False)

    def __dlpack_device__(self) -> tuple[int, int]:
        kind, _, index = self.device.partition(":")
        return _DLPACK[kind], int(index)

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A DLPack capsule: of a copy on the CPU where that is asked for (`dl_device=(1, 0)`), else of the memory of a CUDA device itself.

        Work enqueued in `stream` later follows the array's computation: None and 1 are CUDA's default stream, -1 means no ordering. Raises
        `BufferError` otherwise: memory of Vulkan is not shared, since DLPack's pointers are addresses, and other libraries cannot use
        Vulkan's.
        """
        asked = self.__dlpack_device__() if dl_device is None else (int(dl_device[0]), int(dl_device[1]))
        if asked[0] == _CPU and copy is not False:
            return self._read().__dlpack__(max_version=max_version)
        if asked[0] != _CUDA or asked != self.__dlpack_device__():
            forms = '.to("cpu"), or np.from_dlpack(array, device="cpu"), which copies'
            headline = f"the memory of an array on {self.device} cannot be shared with another library"
            raise BufferError(explain(headline, **{"try": forms}))
        from raido.targets.cuda.foreign import capsule_of

        array = device_array(self, self.device) if copy else self
        device: Any = array.memory.device
        if stream != _UNORDERED:
            device.let_wait(device.stream_handle(_LEGACY if stream is None else stream))
        return capsule_of(array, device, max_version)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Its memory for other libraries, version 3 of the interface; arrays on CUDA have it, except those of bf16."""
        if self.__dlpack_device__()[0] != _CUDA:
            raise AttributeError(f"an array on {self.device} has no __cuda_array_interface__")
        from raido.targets.cuda.foreign import interface_of

        device: Any = self.memory.device
        return interface_of(self, device)

    def __copy__(self) -> DeviceArray:
        return device_array(self, self.device)

    def __deepcopy__(self, memo: dict[int, Any]) -> DeviceArray:
        return device_array(self, self.device)

    def __reduce__(self) -> tuple[Any, ...]:
        labelled = {"why": f"its memory is on {self.device}", "try": '.to("cpu"), and rd.device_array there'}
        raise pickle.PicklingError(explain("cannot pickle an array of a device", **labelled))

    def __repr__(self) -> str:
        return f"<DeviceArray {self.dtype}[{', '.join(map(str, self.shape))}] on {self.device}>"


@border
def device_array(array: Any, target: str | Target = "vulkan") -> DeviceArray:
    """A copy of an array in the memory of a device.

    array: an array that `np.asarray` or DLPack can read, of any shape, of a dtype that raido has; or a device array. target: "vulkan" or
    "cuda" is the first device, "vulkan:1" the one with that index, "vulkan:radeon" the one with that part of its name. Raises
    `ArgumentError` for other arguments, `TargetError` where the device does not exist, `MemoryError` where it has no room.

    Example:

        >>> x = rd.device_array([[1.0, 2.0], [3.0, 4.0]], "vulkan")
        >>> x.shape, x.dtype, x.device
        ((2, 2), dtype('float64'), 'vulkan:0')
        >>> x.to("cpu")
        array([[1., 2.],
               [3., 4.]])
    """
    device = _open_device(target)
    if isinstance(array, DeviceArray):
        if array.memory.device is device:
            memory = Memory(device, array.nbytes)
            memory.copy_from(array.memory, array.nbytes)
            return DeviceArray(memory, array.shape, array.dtype)
        array = array.to("cpu")
    lent = device.adopt(array, [])
    if lent is not None:
        return device_array(lent, target)
    found = read_array(array)
    if found is None:
        raise ArgumentError(f"rd.device_array takes an array, not {type(array).__qualname__}")
    return upload(found, device)


@border
def from_dlpack(array: Any) -> DeviceArray:
    """An array of another library on a CUDA device as a device array over the same memory: changes to one are seen in the other.

    array: an object with `__dlpack__` or `__cuda_array_interface__`, dense and in row-major order, at an address that is a multiple of 16
    bytes, of a dtype that raido has. Calls wait for pending work on it in its library; the memory is held as long as raido uses it. Raises
    `ArgumentError` for arrays that cannot be shared, also for arrays on the CPU, which executables take as they are, and `TargetError`
    where the device does not exist.

    Example:

        >>> rd.from_dlpack(np.zeros(3))
        Traceback (most recent call last):
        ...
        raido.ArgumentError: rd.from_dlpack takes an array on a CUDA device, and not a ndarray
          try       np.from_dlpack for arrays of the CPU, rd.device_array for a copy on a device
    """
    from raido.targets.cuda.opened import open_device

    if isinstance(array, DeviceArray):
        return array
    kind, index = array.__dlpack_device__() if hasattr(array, "__dlpack_device__") else (_CUDA, 0)
    found = None
    if int(kind) != _CPU and (hasattr(array, "__dlpack__") or hasattr(array, "__cuda_array_interface__")):
        found = open_device(int(index)).adopt(array, [])
    if found is None:
        headline = f"rd.from_dlpack takes an array on a CUDA device, and not a {type(array).__qualname__}"
        forms = "np.from_dlpack for arrays of the CPU, rd.device_array for a copy on a device"
        raise ArgumentError(explain(headline, **{"try": forms}))
    return found


def upload(array: np.ndarray, device: OpenDevice) -> DeviceArray:
    """A copy of a NumPy array, of any strides and byte order, in the memory of an open device."""
    native = array.dtype.newbyteorder("=")
    if dtype_of(native) is None and native.name not in _COMPLEX:
        raise ArgumentError(f"arrays of dtype {array.dtype} cannot be on a device")
    array = np.asarray(array, dtype=native, order="C")
    memory = Memory(device, array.nbytes)
    memory.write(array)
    return DeviceArray(memory, array.shape, native)


def _open_device(target: str | Target) -> OpenDevice:
    """The open device of a target."""
    from raido.targets.target import Target

    if isinstance(target, Target):
        kind, which = target.kind, target.device
    else:
        kind, _, which = target.partition(":")
    if kind == "vulkan":
        from raido.targets.vulkan.opened import open_device
    elif kind == "cuda":
        from raido.targets.cuda.opened import open_device
    else:
        raise TargetError(explain(f'arrays cannot be kept on "{target}"', **{"try": '"vulkan", "vulkan:0", "cuda"'}))
    return open_device(int(which) if which.isdecimal() else which)
