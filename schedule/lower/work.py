"""What is being emitted: a `Work`, and what the emitters of loops, producers and guests ask of each other."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from raido.algo.graph import index as ix
from raido.algo.graph.expr import Expr, Node, Op, Var
from raido.schedule.lower.coordinates import Coordinates
from raido.schedule.lower.jobs import Job
from raido.schedule.lower.regions import Box
from raido.schedule.nest.values import Buffer


@dataclass(slots=True)
class Accumulators:
    """The running values of a reduction: a buffer for each, and how an element's indices follow from its coordinates.

    `lengths`: how much of each dimension is in use (of the first copy, which others do not exceed). `prefix` and `suffix`: indices
    before and after those of the axes.
    """

    buffers: tuple[Buffer, ...]
    axes: tuple[str, ...]
    origins: tuple[dict[str, Expr], ...]
    copied: bool
    lengths: tuple[Expr, ...] = ()
    prefix: tuple[Expr, ...] = ()
    suffix: tuple[Expr, ...] = ()


@dataclass(slots=True)
class Rows:
    """An axis that runs through the rows of an array one by one: (x + offset) // length is `row`, the remainder what is left."""

    axis: str
    nodes: tuple[Op, ...]
    length: Expr
    offset: Expr
    row: Var


@dataclass(slots=True)
class Work:
    """Something to emit. `mode`: "compute", or the part of a reduction: "start", "fold", "finish"; of a scan: "start", "scan".

    A scan in blocks (`scans`) has more parts: "block total", "block scan", "block chain" of a block, whose total is made by "first", the
    first value alone (where no neutral element is known), and "total".

    `rows`: set where the loops follow the rows of an array that is read flat.
    """

    job: Job
    copies: list[Coordinates]
    mode: str = "compute"
    identity: frozenset[Node] = frozenset()
    versioned: bool = False
    accumulators: Accumulators | None = None
    origin_of: list[int] = field(default_factory=lambda: [0])
    rows: Rows | None = None


class Placer(Protocol):
    """What is computed inside a loop besides the stage itself."""

    def inside(self, work: Work, position: int) -> None:
        """Emits the producers placed at the loop at `position`."""

    def places(self, job: Job, position: int) -> bool:
        """Whether any producer is placed or kept there."""
        ...

    def begin_pass(self) -> None:
        """Says that loops which may have run already are about to run again from their beginning."""


class Guests(Protocol):
    """Stages that share the loops of the one being emitted: what they do before, in and after each of its loops."""

    boxes: dict[str, Box]

    def forwards(self, job: Job) -> bool: ...
    def sharers(self, job: Job, position: int) -> list[Job]: ...
    def running_inside(self, work: Work, position: int) -> list[Work]: ...
    def before(self, work: Work, position: int) -> None: ...
    def enter(self, work: Work, position: int) -> None: ...
    def inside(self, work: Work, position: int) -> None: ...
    def leave(self, work: Work, position: int) -> None: ...
    def after(self, work: Work, position: int) -> None: ...


def ranges_of(work: Work) -> dict[Var, tuple[Expr, Expr]]:
    """Inclusive bounds of every axis of the stage, over all copies, and of the variables bound in its expressions."""
    found: dict[Var, tuple[Expr, Expr]] = dict(work.job.reads.inner)
    for name, variable in work.job.variables.items():
        boxes = [c.box(name) for c in work.copies]
        low, high = boxes[0]
        for other_low, other_high in boxes[1:]:
            low, high = ix.minimum(low, other_low), ix.maximum(high, other_high)
        found[variable] = (low, high)
    return found
