"""A tree of loops with their work: the operations, reads and writes of each iteration.

Two builders make it: `rows` from the access maps of a stencil, for defaults, and `autotune.features.gather` from a lowered nest.
Loop-invariant work is counted where its operands last change, common subexpressions of a block once, as LLVM hoists and merges them. The
branches of an `If` are weighted by likelihood; the odds of data-dependent conditions are guessed, alike for all schedules of a program.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

from raido.schedule.cost.affine import Form
from raido.schedule.cost.operations import KINDS

# How an access depends on the lanes of the vector loop around it; "scalar" outside vector loops.
ACCESSES = ("scalar", "uniform", "vector", "strided", "gather")


@dataclass(slots=True, eq=False)
class Access:
    """The elements of one buffer that one iteration of a loop accesses: all accesses with equal coefficients, as the box from `low` to
    `high`.

    itemsize: bytes of an element. times: accesses of an iteration.
    """

    buffer: Hashable
    itemsize: int
    forms: tuple[Form, ...]
    low: list[float]
    high: list[float]
    times: float = 0.0
    read: bool = False
    stored: bool = False
    streamed: bool = False


@dataclass(slots=True, eq=False)
class Loop:
    """A loop, the whole nest (kind "root") or a `while`.

    iterations: the trip count of one run. runs_of_body: executions of the body's code in one run (vector loops: once for all interleaved
    gangs). span: the distance between the variable's first and last value. weight: runs of this loop in one execution of the enclosing
    body.
    """

    number: int
    kind: str
    parent: Loop | None
    iterations: float = 1.0
    runs_of_body: float = 1.0
    span: float = 0.0
    weight: float = 1.0
    lanes: int = 1
    interleave: int = 1
    used_lanes: float = 1.0
    masked: bool = False
    dynamic: bool = False
    grain: int = 1
    host: bool = False
    written: frozenset[Hashable] = frozenset()
    loops: list[Loop] = field(default_factory=list)
    accesses: dict[object, Access] = field(default_factory=dict)
    work: list[float] = field(default_factory=lambda: [0.0] * len(KINDS))
    cycles: float = 0.0
    vector_cycles: float = 0.0
    loads: list[float] = field(default_factory=lambda: [0.0] * len(ACCESSES))
    stores: list[float] = field(default_factory=lambda: [0.0] * len(ACCESSES))
    chains: dict[object, float] = field(default_factory=dict)
    allocated: float = 0.0
    allocations: float = 0.0
    waits: float = 0.0
    branches: float = 0.0
    predicated: float = 0.0
    code: float = 0.0
    registers: float = 0.0

    @property
    def bit(self) -> int:
        """The loop's bit in the mask of a form."""
        return 1 << self.number

    def add_access(
        self, buffer: Hashable, itemsize: int, forms: tuple[Form, ...], times: float, stored: bool, streamed: bool
    ) -> None:
        """Adds an access of one element, merged with accesses of equal coefficients."""
        constants = [f.constant for f in forms]
        self.add_box(buffer, itemsize, forms, (constants, list(constants)), times, stored, streamed)

    def add_box(
        self,
        buffer: Hashable,
        itemsize: int,
        forms: tuple[Form, ...],
        box: tuple[list[float], list[float]],
        times: float,
        stored: bool,
        streamed: bool,
    ) -> None:
        """Adds accesses to all elements of a box, (first element, last element), merged with accesses of equal coefficients."""
        key = (buffer, *((tuple(sorted(f.terms.items())), f.rough) for f in forms))
        known = self.accesses.get(key)
        low, high = box
        if known is None:
            known = self.accesses[key] = Access(buffer, itemsize, forms, low, high)
        else:
            known.low = list(map(min, known.low, low))
            known.high = list(map(max, known.high, high))
        known.times += times
        known.read |= not stored
        known.stored |= stored
        known.streamed |= streamed
