"""The host plan: what happens around the launches of kernels, as data that every device API executes.

A statement names arrays of the device, numbers (sizes, and scalars that are read back or given) and arrays of the caller. A number is an
int, a name, or `(op, left, right)` with op one of + - * // % min max, or a comparison (< <= == !=), which gives 0 or 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from raido.algo.graph.dtypes import DType

Number: TypeAlias = "int | str | tuple[str, Number, Number]"


@dataclass(frozen=True, slots=True)
class Let:
    """Gives a number a value, the first or another one."""

    name: str
    value: Number


@dataclass(frozen=True, slots=True)
class Allocate:
    """Memory of the device, uninitialised; the array must have none."""

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
    """Waits, and copies an array to the caller's."""

    target: str
    array: str
    nbytes: Number


@dataclass(frozen=True, slots=True)
class Copy:
    """Copies `nbytes` on the device, from `offset` in one array to `at` in another."""

    target: str
    source: str
    nbytes: Number
    at: Number = 0
    offset: Number = 0


@dataclass(frozen=True, slots=True)
class Launch:
    """Runs a kernel on blocks along x, y and z. Arguments in the order of its parameters: names of arrays, and numbers; a float is
    given by its bits. `site`: the number of the line for which it runs (-1: unknown)."""

    kernel: str
    grid: tuple[Number, Number, Number]
    arguments: tuple[Number, ...]
    site: int = -1


@dataclass(frozen=True, slots=True)
class ReadBack:
    """Waits, and makes the integer at an offset, in bytes, of an array a number."""

    name: str
    array: str
    dtype: DType
    offset: Number = 0


@dataclass(frozen=True, slots=True)
class Swap:
    """Two arrays exchange their memory."""

    first: str
    second: str


@dataclass(frozen=True, slots=True)
class If:
    condition: Number
    then: tuple[Statement, ...]
    otherwise: tuple[Statement, ...] = ()


@dataclass(frozen=True, slots=True)
class Loop:
    """Runs with `index` = 0 … count - 1; the count is computed once."""

    index: str
    count: Number
    body: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class While:
    """Runs while a condition is not 0, which is computed before each iteration."""

    condition: Number
    body: tuple[Statement, ...]


Statement: TypeAlias = "Let | Allocate | Free | Upload | Download | Copy | Launch | ReadBack | Swap | If | Loop | While"
