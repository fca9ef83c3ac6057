"""An open device: memory, kernels, launches and timing.

Launches and copies run in order and asynchronously; `read` and `finish` wait. Objects of the device are freed with their last reference,
and all with the device. Every failure is a `TargetError`, or `MemoryError` where memory is exhausted. Any thread may call.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import time
import weakref
from collections.abc import Callable, Sequence
from ctypes import c_double, c_uint32, c_void_p
from typing import Any, TypeVar

import numpy as np

from raido.algo.errors import TargetError
from raido.algo.graph.dtypes import DType, bool_
from raido.targets.devices.kernel import Kernel
from raido.targets.devices.library import BUSY, LOST, DeviceLibrary, KernelInfo

_SLICE = 200_000_000
"""Nanoseconds of one wait, between checks for Python's signals."""


_COPIED = 64 << 20
_TURNS = 4


_Self = TypeVar("_Self", bound="OpenDevice")


class OpenDevice:
    """An open device of any API; `name` is for messages, `target` names it as a target ("vulkan:0"). A `with` block closes it."""

    def __init__(self, name: str, target: str, library: DeviceLibrary, handle: c_void_p) -> None:
        self.name, self.target, self.call = name, target, library.call
        self.is_lost = False
        self._library = library
        self._handle = handle
        self._close = weakref.finalize(self, library.call.rd_device_close, handle)

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def check(self, code: int) -> None:
        """Raises the error for a runtime status: `MemoryError` where memory is exhausted, else `TargetError`; returns for a non-negative
        status."""
        self.is_lost |= code == LOST
        self._library.check(code)

    def close(self) -> None:
        """Waits, and frees everything: memory and kernels of the device may not be used any more."""
        self._close()

    @property
    def is_open(self) -> bool:
        """Whether the device has neither been closed nor abandoned, nor been lost by the driver."""
        return self._close.alive and not self.is_lost

    def abandon(self) -> None:
        """Drops the device without freeing anything: for a forked process, in which the device does not work."""
        self._close.detach()

    @property
    def handle(self) -> c_void_p:
        """The runtime's handle of the device; raises `TargetError` after `close`."""
        self.require_open()
        return self._handle

    def require_open(self) -> None:
        """Raises `TargetError` after `close`, after the device was lost, and in a process forked since it was opened."""
        if self.is_lost:
            raise TargetError(f"{self.name} was lost by an earlier call, and its arrays with it")
        if not self.is_open:
            raise TargetError(
                f"{self.name} has been closed, or was opened by the process that this one was forked from"
            )

    @property
    def taken(self) -> int:
        """Bytes of device memory allocated from the driver, in use or kept for reuse."""
        return self.call.rd_device_taken(self.handle)

    def trim(self) -> None:
        """Waits, and returns memory that is kept for reuse to the driver."""
        self.check(self.call.rd_device_trim(self.handle))

    def finish(self) -> None:
        """Waits for all enqueued work; a keyboard interrupt ends the wait, not the kernels."""
        while (code := self.call.rd_device_finish(self.handle, _SLICE)) == BUSY:
            pass
        self.check(code)

    def stream_handle(self, stream: Any) -> int:
        """The handle of a caller's stream; raises `TargetError` on a device that is not CUDA's."""
        raise TargetError(f"a call on {self.target} takes no stream: CUDA's devices do, and that got {stream!r}")

    def wait_for(self, stream: int) -> None:
        """Orders later launches after the work that is in a stream now; the CPU does not wait."""
        self.stream_handle(stream)

    def let_wait(self, stream: int) -> None:
        """Orders work that is enqueued in a stream later after all launches so far; the CPU does not wait."""
        self.stream_handle(stream)

    def adopt(self, argument: Any, streams: list[int]) -> Any:
        """Another library's array as an array of this device, over the same memory; None for other objects.

        The streams of its library, where known, are appended to `streams`. Raises `ArgumentError` with the reason why it cannot be shared.
        """
        del argument, streams

    def overlap(self, first: Memory, second: Memory) -> bool:
        """Whether two arrays have bytes in common."""
        return first is second

    def mark(self) -> int:
        """Records a timestamp between launches; the last 64 are kept. Raises `TargetError` on a device without timestamps."""
        found = c_uint32()
        self.check(self.call.rd_device_mark(self.handle, ctypes.byref(found)))
        return found.value

    def elapsed(self, start: int, end: int) -> float:
        """Waits, and returns the seconds between two timestamps."""
        self.finish()
        seconds = c_double()
        self.check(self.call.rd_device_elapsed(self.handle, start, end, ctypes.byref(seconds)))
        return seconds.value

    def time(self, run: Callable[[], object]) -> float:
        """Waits, and returns the seconds that a function's launches and copies take, by the device's clock; on a device without one, by the
        CPU's, which includes the launch and the wait for the end."""
        self.finish()
        begun, start = self._moment(), time.perf_counter()
        run()
        ended = self._moment()
        self.finish()
        taken = time.perf_counter() - start
        return taken if begun is None or ended is None else self.elapsed(begun, ended)

    def _moment(self) -> int | None:
        """A timestamp between launches; None on a device without timestamps."""
        try:
            return self.mark()
        except TargetError:
            self.require_open()
            return None

    @functools.cached_property
    def copy_speed(self) -> float | None:
        """Bytes per second that a copy on the device reads and writes, of more than its caches hold; None where there is no room for it.
        Measured once, in some tenths of a second."""
        try:
            source, target = Memory(self, _COPIED), Memory(self, _COPIED)
        except MemoryError:
            return None
        seconds = min(self.time(lambda: target.copy_from(source, _COPIED)) for _ in range(_TURNS))
        return 2 * _COPIED / seconds if seconds else None


class Memory:
    """An array's memory on a device, uninitialised. Raises `MemoryError` when the device has no such block."""

    writeable = True
    """Whether a call may write to the array; memory of another library may be read-only."""

    def __init__(self, device: OpenDevice, nbytes: int) -> None:
        self.device, self.nbytes = device, nbytes
        self._handle = c_void_p()
        if not 0 <= nbytes < 1 << 63:
            raise MemoryError(f"{device.name} cannot hold an array of {nbytes:,} bytes")
        device.check(device.call.rd_buffer_new(device.handle, nbytes, ctypes.byref(self._handle)))
        self._free = weakref.finalize(self, _free, device, device.call.rd_buffer_free, self._handle)

    @staticmethod
    def adopt(device: OpenDevice, handle: int) -> Memory:
        """Memory that a plan has allocated, to be freed with its last reference; `nbytes` is 0, its size is known to the runtime alone."""
        made = object.__new__(Memory)
        made.device, made.nbytes, made._handle = device, 0, c_void_p(handle)
        made._free = weakref.finalize(made, _free, device, device.call.rd_buffer_free, made._handle)
        return made

    @property
    def handle(self) -> c_void_p:
        """The runtime's handle of the buffer; raises `TargetError` after its device was closed."""
        self.device.require_open()
        return self._handle

    def write(self, array: np.ndarray, offset: int = 0) -> None:
        """Copies an array to the device; the array may be changed at once."""
        array = np.ascontiguousarray(array)
        self.device.check(self.device.call.rd_buffer_write(self.handle, offset, array.ctypes.data, array.nbytes))

    def read(self, out: np.ndarray, offset: int = 0) -> np.ndarray:
        """Waits for enqueued work, and copies to a C-contiguous array, which is returned."""
        if not out.flags.c_contiguous:
            raise ValueError("memory of a device is read into C-contiguous arrays")
        self.device.finish()
        self.device.check(self.device.call.rd_buffer_read(self.handle, offset, out.ctypes.data, out.nbytes))
        return out

    def copy_from(self, source: Memory, nbytes: int, *, at: int = 0, offset: int = 0) -> None:
        """Enqueues a copy on the device of `nbytes`, from `offset` of another memory to `at` in this one."""
        self.device.check(self.device.call.rd_buffer_copy(self.handle, at, source.handle, offset, nbytes))


class LoadedKernel:
    """A kernel compiled by the driver. Raises `TargetError` when the driver refuses it."""

    def __init__(self, device: OpenDevice, kernel: Kernel) -> None:
        self.device, self.kernel = device, kernel
        pointers = [argument for argument in kernel.arguments if argument.pointer]
        self._scalars = [argument for argument in kernel.arguments if not argument.pointer]
        self._arrays = c_void_p * len(pointers)
        offsets = (c_uint32 * len(pointers))(*(argument.offset for argument in pointers))
        info = KernelInfo(
            kernel.name.encode(),
            kernel.code,
            len(kernel.code),
            kernel.mode == "addresses",
            kernel.inline,
            len(pointers),
            kernel.argument_bytes,
            (c_uint32 * 3)(*kernel.block),
            kernel.shared_bytes,
            offsets,
            (c_uint32 * len(pointers))(*kernel.widths),
            kernel.narrow or None,
            len(kernel.narrow),
            (c_uint32 * 3)(*kernel.narrow_grid),
            len(kernel.number_offsets),
            (c_uint32 * len(kernel.number_offsets))(*kernel.number_offsets),
            (c_uint32 * len(kernel.narrow_limits))(*kernel.narrow_limits),
        )
        self._handle = c_void_p()
        device.check(device.call.rd_kernel_new(device.handle, ctypes.byref(info), ctypes.byref(self._handle)))
        self._free = weakref.finalize(self, _free, device, device.call.rd_kernel_free, self._handle)

    @property
    def handle(self) -> c_void_p:
        """The runtime's handle of the kernel; raises `TargetError` after its device was closed."""
        self.device.require_open()
        return self._handle

    def launch(self, grid: Sequence[int], arguments: Sequence[Any]) -> None:
        """Enqueues a launch of grid[0] × grid[1] × grid[2] blocks. Arguments are in the order of the parameters: `Memory` for pointers,
        numbers for scalars."""
        given = self.kernel.arguments
        if len(arguments) != len(given):
            raise TargetError(f"kernel {self.kernel.name} takes {len(given)} arguments, not {len(arguments)}")
        if any(not 0 <= blocks < 1 << 32 for blocks in grid):
            raise TargetError(f"kernel {self.kernel.name} cannot be launched on {' × '.join(map(str, grid))} blocks")
        block = bytearray(self.kernel.argument_bytes)
        memories = []
        for argument, value in zip(given, arguments, strict=True):
            if argument.pointer:
                memories.append(value.handle)
            else:
                bits = _scalar_bytes(argument.dtype, value)
                block[argument.offset : argument.offset + len(bits)] = bits
        self.device.check(
            self.device.call.rd_kernel_launch(
                self.handle, (c_uint32 * 3)(*grid), bytes(block), self._arrays(*(h.value for h in memories))
            )
        )


def _scalar_bytes(dtype: DType, value: Any) -> bytes:
    """A scalar's bytes in the argument block, at least four."""
    data = np.asarray(value, np.uint32 if dtype is bool_ else dtype.numpy).tobytes()
    return data + bytes(max(0, 4 - len(data)))


def _free(device: OpenDevice, free: Any, handle: c_void_p) -> None:
    """Frees an object of a device, and releases the reference to the device; a closed device has freed all."""
    with contextlib.suppress(TargetError):
        device.require_open()
        free(handle)
