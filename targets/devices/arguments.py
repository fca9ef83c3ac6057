"""Arguments and results of a call that runs on a device: NumPy arrays are copied there and back, device arrays stay.

`bind_device_call` makes the checks of the CPU's `bind_arguments`, with the same messages, before anything runs. The results of a call are
device arrays if an argument or an array given as `out` is one, else NumPy arrays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, TypeAlias

import numpy as np

from raido.algo.errors import ArgumentError, explain
from raido.algo.graph.dtypes import numpy_dtype
from raido.algo.trace.arguments import match_arguments
from raido.targets.argument_sizes import solve_sizes
from raido.targets.devices.array import DeviceArray, upload
from raido.targets.devices.runtime import Memory, OpenDevice
from raido.targets.native import allocate_array
from raido.targets.outputs import check_given, line_of, output_shapes, overlapping, result_in, take_out
from raido.targets.signature import Signature, Value, evaluate_size

Given: TypeAlias = "np.ndarray | DeviceArray | None"


@dataclass(frozen=True, slots=True)
class DeviceCall:
    """Memory and sizes of one call, with a `Memory` for each input and output of the signature.

    No output shares memory with an input or another output; outputs that the program allocates are None. `shapes` are those of the outputs,
    with sizes that data decides at their bounds; `given` holds the user's `out` arrays, None where there is none. `streams` are the
    caller's and those of the libraries that arrays come from: work enqueued in them before the call precedes it, later work follows it.
    """

    signature: Signature
    device: OpenDevice
    inputs: tuple[Memory, ...]
    sizes: Mapping[str, int]
    outputs: tuple[Memory | None, ...]
    shapes: tuple[tuple[int, ...] | None, ...]
    given: tuple[Given, ...]
    stays: bool
    streams: tuple[int, ...] = ()
    out: Any = None

    @property
    def nbytes(self) -> int:
        """Compulsory traffic in bytes: every input read once and every output written once."""
        return sum(memory.nbytes for memory in (*self.inputs, *self.outputs) if memory is not None)

    def finish(self, counts: Mapping[str, int], made: Mapping[int, Memory] | None = None) -> Any:
        """The result in the user's structure, after the program has run.

        counts: the sizes that data has decided. made: the memory of outputs that the program has allocated, by their indices.
        """
        sizes = {**self.sizes, **counts}
        leaves = []
        for k, (value, memory) in enumerate(zip(self.signature.outputs, self.outputs, strict=True)):
            shape = tuple(evaluate_size(size, sizes) for size in value.shape)
            full = self.shapes[k]
            if memory is None or full is None:
                assert made is not None
                memory, full = made[k], shape
            leaves.append(_finish_output(value, memory, full, shape, self.given[k], self.stays))
        return result_in(self.signature, self.out, self.given, leaves)


def bind_device_call(
    signature: Signature, device: OpenDevice, arguments: Sequence[Any], out: Any = None, stream: Any = None
) -> DeviceCall:
    """Checks the arguments of a call, copies NumPy arrays to the device, and allocates the results.

    stream: a stream of the caller, in addition to those of the libraries that arrays come from. Raises `ArgumentError` or `SizeMismatch`
    when arguments do not fit, or are on another device; `MemoryError` where the device has no room.
    """
    streams: list[int] = []
    if stream is not None:
        streams.append(device.stream_handle(stream))
        device.wait_for(streams[0])

    def placing(argument: Any) -> DeviceArray | None:
        return argument if isinstance(argument, DeviceArray) else device.adopt(argument, streams)

    arrays, explicit = match_arguments(signature, arguments, placing)
    for value, array in zip(signature.inputs, arrays, strict=True):
        _require_device(signature, f'argument "{value.name}"', array, device)
    sizes = solve_sizes(signature, arrays, explicit)
    shapes, given = output_shapes(signature, sizes), take_out(signature, out, placing)
    for value, shape, array in zip(signature.outputs, shapes, given, strict=True):
        if array is not None and shape is not None:
            _require_device(signature, f'out for "{value.name}"', array, device)
            check_given(signature, value, array, shape)
            if isinstance(array, DeviceArray) and not array.memory.writeable:
                raise ArgumentError(f'{signature.name}: out for "{value.name}" is read-only')
    if any(_overlap(device, a, b) for i, a in enumerate(given) for b in given[:i]):
        raise overlapping(signature)
    stays = any(isinstance(array, DeviceArray) for array in (*arrays, *given))
    inputs = [_on_device(signature, value, a, device) for value, a in zip(signature.inputs, arrays, strict=True)]
    outputs: list[Memory | None] = []
    for value, shape, array in zip(signature.outputs, shapes, given, strict=True):
        if shape is None:
            outputs.append(None)
        elif isinstance(array, DeviceArray) and not any(device.overlap(array.memory, memory) for memory in inputs):
            outputs.append(array.memory)
        else:
            outputs.append(_allocate(signature, value, shape, device))
    return DeviceCall(
        signature, device, tuple(inputs), sizes, tuple(outputs), tuple(shapes), tuple(given), stays, tuple(streams), out
    )


def _require_device(signature: Signature, called: str, array: Any, device: OpenDevice) -> None:
    """Refuses an array of another device (`ArgumentError`), or of a closed one (`TargetError`)."""
    if not isinstance(array, DeviceArray) or array.memory.device is device:
        return
    array.memory.device.require_open()
    there = array.memory.device
    headline = (
        f"{signature.name}: {called} is on {there.target} ({there.name}), and the program runs on {device.target}"
    )
    raise ArgumentError(explain(f"{headline} ({device.name})", **{"try": f'.to("{device.target}"), which copies it'}))


def _overlap(device: OpenDevice, first: Given, second: Given) -> bool:
    if isinstance(first, DeviceArray) and isinstance(second, DeviceArray):
        return device.overlap(first.memory, second.memory)
    if isinstance(first, np.ndarray) and isinstance(second, np.ndarray):
        return bool(np.may_share_memory(first, second))
    return False


def _on_device(signature: Signature, value: Value, array: Any, device: OpenDevice) -> Memory:
    """Device memory of an argument, a copy for a NumPy array."""
    if isinstance(array, DeviceArray):
        return array.memory
    try:
        return upload(array, device).memory
    except MemoryError as error:
        raise MemoryError(f'{signature.name}: argument "{value.name}": {error}') from None


def _allocate(signature: Signature, value: Value, shape: tuple[int, ...], device: OpenDevice) -> Memory:
    try:
        return Memory(device, prod(shape) * numpy_dtype(value.dtype).itemsize)
    except MemoryError as error:
        raise MemoryError(explain(f"{signature.name}: {error}", **line_of(signature, value))) from None


def _finish_output(
    value: Value, memory: Memory, full: tuple[int, ...], shape: tuple[int, ...], given: Given, stays: bool
) -> Any:
    """A result of `shape`: the leading part along each dimension of the array of shape `full` in memory."""
    dtype = numpy_dtype(value.dtype)
    if isinstance(given, DeviceArray):
        if given.memory is not memory:
            given.memory.copy_from(memory, memory.nbytes)
        return given if shape == full else _cut(given, shape)
    if isinstance(given, np.ndarray):
        direct = given.dtype == dtype and given.flags.c_contiguous
        if direct:
            memory.read(given)
        else:
            given[...] = memory.read(np.empty(full, dtype))
        return given if shape == full else given[tuple(slice(size) for size in shape)]
    found = _cut(DeviceArray(memory, full, dtype), shape)
    return found if stays else _download(found)


def _cut(array: DeviceArray, shape: tuple[int, ...]) -> DeviceArray:
    """The leading part of an array along each dimension; in the same memory where it is contiguous there and at least half of it, else a
    copy."""
    if array.shape == shape:
        return array
    if array.shape[1:] != shape[1:] and prod(shape):
        device = array.memory.device
        return upload(np.asarray(array)[tuple(slice(size) for size in shape)], device)
    found = DeviceArray(array.memory, shape, array.dtype)
    if 2 * found.nbytes >= array.memory.nbytes:
        return found
    memory = Memory(array.memory.device, found.nbytes)
    memory.copy_from(array.memory, found.nbytes)
    return DeviceArray(memory, shape, array.dtype)


def _download(array: DeviceArray) -> Any:
    """A result as a NumPy array, or a NumPy scalar for rank 0."""
    result = array.memory.read(allocate_array(array.shape, array.dtype))
    return result if array.shape else result[()]
