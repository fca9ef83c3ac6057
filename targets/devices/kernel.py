"""A compiled kernel: code for a device, and the layout of a launch's argument block.

Arguments are passed in one block of memory, each aligned to its size, scalars of fewer than 32 bits widened to 32. A pointer is a 64-bit
address in the block, or a descriptor, which takes no space in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from raido.algo.graph.dtypes import DType, i64, u32
from raido.targets.devices import tir

Mode = Literal["addresses", "descriptors"]


@dataclass(frozen=True, slots=True)
class Argument:
    """A parameter of a kernel: a pointer to elements, or a scalar; `offset` is its position in the argument block, in bytes."""

    name: str
    dtype: DType
    pointer: bool
    offset: int


@dataclass(frozen=True, slots=True)
class Kernel:
    """A compiled kernel: SPIR-V, or CUDA machine code, which may contain other kernels too. `inline`: the argument block, of
    `argument_bytes`, is part of the launch. `capabilities` are those of SPIR-V that the code declares. `narrow`, if not empty, is the code
    with 32-bit indices for launches whose arrays and integers are small (`RdKernelInfo` of raido_device.h). `subgroup`: the number of
    threads that exchange values, 0 for none."""

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
    def widths(self) -> tuple[int, ...]:
        """The least bytes of an element of each pointer's array; u32 may be words that several elements share."""
        return tuple(1 if a.dtype is u32 else a.dtype.itemsize for a in self.arguments if a.pointer)

    @property
    def number_offsets(self) -> tuple[int, ...]:
        """Offsets of the 64-bit integers that the choice of the narrow code depends on; empty without narrow code."""
        numbers = (a.offset for a in self.arguments if not a.pointer and a.dtype is i64)
        return tuple(numbers) if self.narrow else ()


def lay_out_arguments(function: Any, mode: Mode = "addresses") -> tuple[tuple[Argument, ...], int]:
    """The parameters of a TIR function with their offsets, and the size of the argument block in bytes."""
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
