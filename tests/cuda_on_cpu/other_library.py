"""A stand-in for another library with arrays on CUDA devices, over the driver without a GPU: its own memory and stream, and both
protocols."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator
from typing import Any

import numpy as np
from fake_driver import FakeDriver

from raido.algo.trace.foreign import TENSOR_OFFSETS, capsule_content
from raido.targets.cuda.foreign import _Tensor


class OtherLibrary:
    """Works on one device, in a stream, whose commands run when somebody waits for them."""

    def __init__(self, driver: FakeDriver, device: int = 0) -> None:
        self.call, self.device = driver.library, device
        self.context, handle = ctypes.c_void_p(), ctypes.c_void_p()
        self.blocks: list[int] = []
        self.sources: list[np.ndarray] = []  # which the stream reads when it runs
        self.call.cuDevicePrimaryCtxRetain(ctypes.byref(self.context), device)
        with self.current():
            assert self.call.cuStreamCreate(ctypes.byref(handle), 1) == 0
        self.stream = handle.value or 0

    @contextlib.contextmanager
    def current(self) -> Iterator[None]:
        self.call.cuCtxPushCurrent_v2(self.context)
        yield
        self.call.cuCtxPopCurrent_v2(ctypes.byref(ctypes.c_void_p()))

    def close(self) -> None:
        with self.current():
            self.call.cuStreamDestroy_v2(ctypes.c_void_p(self.stream))
            for block in self.blocks:
                self.call.cuMemFree_v2(ctypes.c_uint64(block))
        self.call.cuDevicePrimaryCtxRelease_v2(self.device)

    def copy(self, array: np.ndarray) -> OtherArray:
        """An array that gets its elements when its stream runs."""
        address = ctypes.c_uint64()
        with self.current():
            assert self.call.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(max(1, array.nbytes + 64))) == 0
        self.blocks.append(address.value)
        made = OtherArray(self, address.value, array)
        made.write(array)
        return made

    def read(self, address: int, like: np.ndarray) -> np.ndarray:
        """The elements at an address once this library's stream has come to them: it waits for no other."""
        out, size = np.empty_like(like), ctypes.c_size_t(like.nbytes)
        with self.current():
            stream = ctypes.c_void_p(self.stream)
            assert (
                self.call.cuMemcpyDtoHAsync_v2(ctypes.c_void_p(out.ctypes.data), ctypes.c_uint64(address), size, stream)
                == 0
            )
            assert self.call.cuStreamSynchronize(stream) == 0
        return out


class OtherArray:
    """An array of that library, which describes it by `__cuda_array_interface__`."""

    def __init__(self, library: OtherLibrary, address: int, like: np.ndarray) -> None:
        self.library, self.address, self.like = library, address, np.array(like, order="C")
        self.described: dict[str, Any] = {}

    def write(self, array: np.ndarray) -> None:
        """Copies to it, when its stream runs."""
        kept = np.array(array, order="C")
        self.library.sources.append(kept)
        source, size = ctypes.c_void_p(kept.ctypes.data), ctypes.c_size_t(array.nbytes)
        with self.library.current():
            stream = ctypes.c_void_p(self.library.stream)
            assert self.library.call.cuMemcpyHtoDAsync_v2(ctypes.c_uint64(self.address), source, size, stream) == 0

    def read(self) -> np.ndarray:
        return self.library.read(self.address, self.like)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        shown = {"shape": self.like.shape, "typestr": self.like.dtype.str, "data": (self.address, False), "version": 3}
        return {**shown, "strides": None, "stream": self.library.stream, **self.described}


class DLPackArray:
    """The same array, described by DLPack alone, in either version; it knows which stream asked for it."""

    def __init__(self, array: OtherArray, versioned: bool = True, kind: int = 2) -> None:
        self.array, self.versioned, self.kind = array, versioned, kind
        self.asked: list[int] = []

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.kind, self.array.library.device

    def __dlpack__(self, *, stream: int, **options: Any) -> Any:
        if options and not self.versioned:
            raise TypeError("max_version")
        self.asked.append(stream)
        event, library = ctypes.c_void_p(), self.array.library
        with library.current():
            library.call.cuEventCreate(ctypes.byref(event), 2)
            library.call.cuEventRecord(event, ctypes.c_void_p(library.stream))
            library.call.cuStreamWaitEvent(ctypes.c_void_p(stream), event, 0)
            library.call.cuEventDestroy_v2(event)
        capsule = self.array.like.__dlpack__(**options)
        name, content = capsule_content(capsule)
        tensor = _Tensor.from_address(content + TENSOR_OFFSETS[name])
        tensor.data, tensor.kind, tensor.index = self.array.address, self.kind, library.device
        return capsule
