"""A tree of loops with their work: what each iteration of a loop computes, reads and writes itself.

Two builders make it: `rows` from the reads of a stencil, for defaults, and `autotune.features.gather` from a lowered nest.
Loop-invariant work is counted where its operands last change, common subexpressions of a block once, as LLVM will have it. The
branches of an `If` count by how often they are likely taken; what data decides is guessed, alike for all schedules of a program.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

from raido.schedule.cost.affine import Form
from raido.schedule.cost.operations import KINDS

# How an access moves with the lanes of the vector loop around it; "scalar" where there is none.
ACCESSES = ("scalar", "uniform", "vector", "strided", "gather")


@dataclass(slots=True, eq=False)
class Access:
    """Elements of one buffer that one iteration of a loop touches: boxes with equal slopes are one, `low` to `high` in each dimension.

    itemsize: bytes of an element.
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

    iterations: iterations of one run. runs_of_body: how often the body's code then runs (vector loops: once for all gangs side by side).
    span: distance between the first and the last value of the variable. weight: how often it runs, for one run of the body around it.
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
        """One more access, joined with those that move alike."""
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
        """Accesses to all elements of a box (its first element and its last one), joined with those that move alike."""
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
