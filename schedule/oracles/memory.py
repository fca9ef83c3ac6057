"""Memory of the nest interpreter: every access is checked, and elements that were never written cannot be read.

An element of a lane-private buffer is a row of lanes. Lanes may hold anything before they are stored (lanes that are off do, in compiled
code), so fresh lane-private memory is filled with a pattern that spoils results when it leaks; other memory has a shadow mask.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, TypeVar

import numpy as np

from raido.algo.graph.dtypes import DType

Some = TypeVar("Some", bound="Memory")


class NestError(AssertionError):
    """The error for a nest that breaks its own rules: an access out of bounds, or a read of an element never written."""


class Memory:
    """One buffer at run time."""

    __slots__ = ("data", "lanes", "name", "shape", "strides", "valid")

    def __init__(self, name: str, dtype: DType, shape: Sequence[int], strides: Sequence[int], lanes: int) -> None:
        self.name, self.lanes = name, lanes
        self.shape = tuple(int(n) for n in shape)
        if any(n < 0 for n in self.shape):
            raise NestError(f"{name} has a negative size {self.shape}")
        self.strides = tuple(int(n) for n in strides) or _row_major(self.shape)
        size = 1 + sum((n - 1) * stride for n, stride in zip(self.shape, self.strides, strict=True))
        size = 0 if 0 in self.shape else size
        if lanes == 1:
            self.data = np.zeros(size, dtype.numpy)
            self.valid = np.zeros(size, bool)
        else:
            self.data = np.full((size, lanes), 0xA5, np.uint8 if dtype.itemsize == 1 else f"u{dtype.itemsize}")
            self.data = self.data.astype(bool) if dtype.kind == "b" else self.data.view(dtype.numpy)
            self.valid = np.ones(size, bool)

    def fill(self, array: np.ndarray) -> Memory:
        """Sets the buffer's contents; returns it."""
        if tuple(array.shape) != self.shape:
            raise NestError(f"{self.name} has shape {self.shape}, but the array has {array.shape}")
        flat_indices = np.zeros(self.shape, np.int64)
        for dimension, (n, stride) in enumerate(zip(self.shape, self.strides, strict=True)):
            view = [1] * len(self.shape)
            view[dimension] = n
            flat_indices = flat_indices + (np.arange(n, dtype=np.int64) * stride).reshape(view)
        self.data[flat_indices.reshape(-1)] = np.ascontiguousarray(array).reshape(-1)
        self.valid[flat_indices.reshape(-1)] = True
        return self

    def part(self, shape: Sequence[int]) -> np.ndarray:
        """Returns the first elements along each dimension, all of which must have been written. Only for compact buffers."""
        inside = tuple(slice(n) for n in shape)
        valid = self.valid.reshape(self.shape)[inside]
        if not valid.all():
            raise NestError(f"{self.name}: element {int(np.argmin(valid))} (of the flat array) was never written")
        return self.data.reshape(self.shape)[inside]

    def like(self, other: Memory) -> Memory:
        """Returns the buffer itself, which must have the other's shape."""
        if self.shape != other.shape:
            raise NestError(f"{self.name} has shape {self.shape}, {other.name} has {other.shape}")
        return self

    def view(self, shape: Sequence[int]) -> Memory:
        """Returns the buffer, or its first rows, in that shape, sharing the elements."""
        shape = tuple(int(n) for n in shape)
        rows = shape[:1] <= self.shape[:1] and shape[1:] == self.shape[1:]
        if 0 not in shape and not rows and prod(shape) != prod(self.shape):
            raise NestError(f"{self.name} has shape {self.shape}, of which {shape} is no part")
        new = object.__new__(type(self))
        new.name, new.lanes, new.shape, new.strides = self.name, self.lanes, shape, _row_major(shape)
        new.data, new.valid = self.data[: prod(shape)], self.valid[: prod(shape)]
        return new

    @classmethod
    def over(
        cls: type[Some], name: str, shape: Sequence[int], strides: Sequence[int], data: np.ndarray, valid: np.ndarray
    ) -> Some:
        """Returns a buffer whose elements are the first ones of an array, shared with it."""
        new = object.__new__(cls)
        new.name, new.lanes, new.shape = name, 1, tuple(int(n) for n in shape)
        new.strides = tuple(int(n) for n in strides) or _row_major(new.shape)
        size = 1 + sum((n - 1) * stride for n, stride in zip(new.shape, new.strides, strict=True))
        size = 0 if 0 in new.shape else size
        if size > len(data):
            raise NestError(f"{name} of shape {new.shape} has memory for {len(data)} elements")
        new.data, new.valid = data[:size], valid[:size]
        return new

    def copy(self, source: Memory) -> None:
        """Copies the contents of a buffer of the same shape into this one."""
        self.data[:], self.valid[:] = source.like(self).data, source.valid

    def flat_index(self, indices: tuple[Any, ...]) -> int:
        """Returns the offset of an element."""
        if len(indices) == len(self.shape) == 1 and 0 <= indices[0] < self.shape[0]:
            return int(indices[0]) * self.strides[0]  # the common case
        offset = 0
        for index, n, stride in zip(indices, self.shape, self.strides, strict=True):
            if not 0 <= index < n:
                raise NestError(f"{self.name}{list(map(int, indices))} is out of bounds {list(self.shape)}")
            offset += index * stride
        return int(offset)

    def flat_indices(self, indices: tuple[Any, ...], stride: int, lanes: int, mask: Any, across: bool) -> np.ndarray:
        """Returns the offsets of the lanes that are on, from `indices` on by `stride`; `across`: into other rows too."""
        k = np.arange(lanes)[slice(None) if mask is None else mask]
        if not len(k):
            return k
        last = int(indices[-1]) + k * stride
        start = [int(i) for i in indices]
        if not across and abs(stride) == 1 and self.shape[-1] > 1 and self.strides[-1] == 1:
            inside = bool((last >= 0).all() and (last < self.shape[-1]).all())
            inside &= all(0 <= i < n for i, n in zip(start[:-1], self.shape, strict=False))
        else:
            inside = True
        offset = sum(i * s for i, s in zip(start, self.strides, strict=True)) + k * stride
        if not inside or offset.min() < 0 or offset.max() >= len(self.data):
            raise NestError(f"{self.name}{start} +: {lanes} by {stride} is out of bounds {list(self.shape)}")
        return offset

    def lane_indices(self, indices: tuple[Any, ...], mask: Any) -> np.ndarray:
        """Returns the offsets of the lanes that are on, with indices of their own."""
        on = slice(None) if mask is None else mask
        offset: Any = 0
        for index, n, stride in zip(indices, self.shape, self.strides, strict=True):
            index = index[on]
            if len(index) and not (index.min() >= 0 and index.max() < n):
                raise NestError(f"a lane of {self.name} is out of bounds {list(self.shape)}: {index}")
            offset = offset + index * stride
        return np.asarray(offset, np.int64)

    def check(self, flat_indices: Any) -> None:
        """Raises `NestError` unless all elements at these offsets were written."""
        if not np.all(self.valid[flat_indices]):
            raise NestError(f"{self.name} is read at {flat_indices} before it is written")

    def read(self, indices: tuple[Any, ...], predicate: Any = None) -> Any:
        """Returns one element; of a lane-private buffer a row of lanes."""
        if predicate is not None and not np.any(predicate):
            return np.zeros(self.lanes, self.data.dtype) if self.lanes > 1 else self.data.dtype.type(0)
        at = self.flat_index(indices)
        if not self.valid[at]:
            raise NestError(f"{self.name}{list(map(int, indices))} is read before it is written")
        value = self.data[at]
        if self.lanes > 1:
            return value.copy() if predicate is None else np.where(predicate, value, value.dtype.type(0))
        return value

    def write(self, indices: tuple[Any, ...], value: Any, predicate: Any = None) -> None:
        """Stores one element."""
        if predicate is not None and not np.any(predicate):
            return
        at = self.flat_index(indices)
        if predicate is not None and np.ndim(predicate):
            self.data[at][predicate] = value[predicate]
        else:
            self.data[at] = value
        self.valid[at] = True

    def expect(self, indices: tuple[Any, ...]) -> None:
        """Marks an element as unwritten, since an asynchronous copy to it has begun."""
        self.valid[self.flat_index(indices)] = False

    def vector_read(
        self, indices: tuple[Any, ...], stride: int, lanes: int, mask: Any = None, across: bool = False
    ) -> np.ndarray:
        """Returns contiguous (or evenly spaced) elements, one for each lane."""
        return self._collect(self.flat_indices(indices, stride, lanes, mask, across), lanes, mask)

    def gather(self, indices: tuple[Any, ...], lanes: int, mask: Any = None) -> np.ndarray:
        """Returns an element for each lane; of a lane-private buffer, from the lane's own column."""
        return self._collect(self.lane_indices(indices, mask), lanes, mask)

    def _collect(self, flat_indices: np.ndarray, lanes: int, mask: Any) -> np.ndarray:
        on = np.arange(lanes)[slice(None) if mask is None else mask]
        values = np.zeros(lanes, self.data.dtype)
        if len(on):
            self.check(flat_indices)
            values[on] = self.data[flat_indices, on] if self.lanes > 1 else self.data[flat_indices]
        return values

    def vector_write(
        self, indices: tuple[Any, ...], value: Any, stride: int, mask: Any = None, across: bool = False
    ) -> None:
        """Stores contiguous (or evenly spaced) elements."""
        at = self.flat_indices(indices, stride, len(value), mask, across)
        self.data[at] = value if mask is None else value[mask]
        self.valid[at] = True

    def scatter(self, indices: tuple[Any, ...], value: Any, mask: Any = None) -> None:
        """Stores an element for each lane, in the order of the lanes."""
        at = self.lane_indices(indices, mask)
        on = np.arange(len(value))[slice(None) if mask is None else mask]
        for flat_index, lane in zip(at, on, strict=True):
            if self.lanes > 1:
                self.data[flat_index, lane] = value[lane]
            else:
                self.data[flat_index] = value[lane]
            self.valid[flat_index] = True


def _row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides: list[int] = []
    total = 1
    for n in reversed(shape):
        strides.append(total)
        total *= n
    return tuple(reversed(strides))
