"""The host plan: the statements around the launches of kernels, as data that every device API executes.

A statement names arrays of the device, numbers (sizes, and scalars that are given or read back) and arrays of the caller. A number is an
int, a name, or `(op, left, right)` with op one of + - * // % min max, or a comparison (< <= == !=), which gives 0 or 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from raido.algo.graph.dtypes import DType

Number: TypeAlias = "int | str | tuple[str, Number, Number]"


@dataclass(frozen=True, slots=True)
class Let:
    """Assigns a number, for the first time or again."""

    name: str
    value: Number


@dataclass(frozen=True, slots=True)
class Allocate:
    """Allocates uninitialised device memory for an array that has none."""

    array: str
    nbytes: Number


@dataclass(frozen=True, slots=True)
class Free:
    array: str


@dataclass(frozen=True, slots=True)
class Upload:
    """Copies an array of the caller to the device."""

    array: str
    source: str
    nbytes: Number


@dataclass(frozen=True, slots=True)
class Download:
    """Waits for the device, and copies an array to one of the caller's."""

    target: str
    array: str
    nbytes: Number


@dataclass(frozen=True, slots=True)
class Copy:
    """Copies `nbytes` on the device, from byte `offset` of one array to byte `at` of another."""

    target: str
    source: str
    nbytes: Number
    at: Number = 0
    offset: Number = 0


@dataclass(frozen=True, slots=True)
class Launch:
    """Launches a kernel on a grid of blocks along x, y and z. Arguments in the order of the kernel's parameters: names of arrays, and
    numbers; a float is given by its bits. site: the number of the source line for which it runs (−1: unknown)."""

    kernel: str
    grid: tuple[Number, Number, Number]
    arguments: tuple[Number, ...]
    site: int = -1


@dataclass(frozen=True, slots=True)
class ReadBack:
    """Waits for the device, and assigns to a number the integer at a byte offset of an array."""

    name: str
    array: str
    dtype: DType
    offset: Number = 0


@dataclass(frozen=True, slots=True)
class Swap:
    """Swaps the memory of two arrays."""

    first: str
    second: str


@dataclass(frozen=True, slots=True)
class If:
    condition: Number
    then: tuple[Statement, ...]
    otherwise: tuple[Statement, ...] = ()


@dataclass(frozen=True, slots=True)
class Loop:
    """Runs its body with `index` = 0 … count − 1; the count is evaluated once."""

    index: str
    count: Number
    body: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class While:
    """Runs its body while a condition, evaluated before each iteration, is not 0."""

    condition: Number
    body: tuple[Statement, ...]


Statement: TypeAlias = "Let | Allocate | Free | Upload | Download | Copy | Launch | ReadBack | Swap | If | Loop | While"
