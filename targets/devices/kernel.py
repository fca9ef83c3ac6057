"""A compiled kernel: code for a device, and the block of arguments that a launch of it carries.

Arguments travel in one block of memory, each at a multiple of its size, scalars of fewer than 32 bits in 32. A pointer is a 64-bit address
there, or a descriptor and takes no place.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from raido.algo.graph.dtypes import DType, i64
from raido.targets.devices import tir

Mode = Literal["addresses", "descriptors"]


@dataclass(frozen=True, slots=True)
class Argument:
    """A parameter of a kernel: a pointer to elements, or a scalar; `offset` is its place in the block of arguments, in bytes."""

    name: str
    dtype: DType
    pointer: bool
    offset: int


@dataclass(frozen=True, slots=True)
class Kernel:
    """A compiled kernel: SPIR-V, or machine code of CUDA, which may hold other kernels too. `inline`: the block of arguments, of
    `argument_bytes`, is part of the launch. `capabilities` are those of SPIR-V that the code declares. `narrow`, if not empty, is the
    code for launches whose arrays and integers are small (`RdKernelInfo` of raido_device.h): indices have 32 bits. `subgroup`:
    how many threads exchange values, 0: none do."""

    name: str
    code: bytes
    mode: Mode
    arguments: tuple[Argument, ...]
    argument_bytes: int
    inline: bool
    block: tuple[int, int, int]
    shared_bytes: int
    capabilities: tuple[str, ...] = ()
    narrow: bytes = b""
    narrow_grid: tuple[int, int, int] = (0, 0, 0)
    narrow_limits: tuple[int, ...] = ()
    subgroup: int = 0

    @property
    def number_offsets(self) -> tuple[int, ...]:
        """The places of the integers of 64 bits that decide about the narrow code, where there is one."""
        numbers = (a.offset for a in self.arguments if not a.pointer and a.dtype is i64)
        return tuple(numbers) if self.narrow else ()


def lay_out_arguments(function: Any, mode: Mode = "addresses") -> tuple[tuple[Argument, ...], int]:
    """The parameters of a function of TIR with their places, and the bytes of the block."""
    found, size = [], 0
    for parameter in function.params:
        pointer = hasattr(parameter.ty, "element_type")
        dtype, _ = tir.read_type(str(parameter.ty.element_type.dtype if pointer else parameter.ty.dtype))
        width = 8 if pointer else max(4, dtype.itemsize)
        if pointer and mode == "descriptors":
            width = 0
        offset = -(-size // width) * width if width else 0
        size = max(size, offset + width)
        found.append(Argument(str(parameter.name), dtype, pointer, offset))
    return tuple(found), size
