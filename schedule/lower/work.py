"""The loops being emitted: a `Work`, in one of the phases of its stage."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from raido.algo.graph import index as ix
from raido.algo.graph.expr import Expr, Node, Op, Reduce, Var
from raido.schedule.lower.coordinates import Coordinates
from raido.schedule.lower.jobs import Job
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


def _never(work: Work, position: int) -> bool:
    return False


def _nothing(work: Work) -> None:
    """No statements."""


@dataclass(frozen=True, slots=True, eq=False)
class Phase:
    """One pass over the loops of a stage: the whole stage, or a part of a reduction, scan, update or filter.

    `element` emits the statements of one element (of each copy). `leaves_out`: whether the pass does not run through the loop at a
    position. `takes_over` emits everything from a position inwards by itself, or returns False. `shares`: whether stages that are fused
    with this one run along; `cuts`: whether loops are cut at boundaries; `reads`: whether elements read what the stage's bodies read,
    so that producers are placed at the loops.
    """

    element: Callable[[Work], None] = _nothing
    leaves_out: Callable[[Work, int], bool] = _never
    takes_over: Callable[[Work, int], bool] = _never
    shares: bool = False
    cuts: bool = False
    reads: bool = True


@dataclass(slots=True)
class Work:
    """Something to emit: loops of a stage, from some position on, in one phase. `rows`: set where they follow the rows of an array that is
    read flat. `tested`: how many iterations are written out behind tests, in all loops around. `own`: axes, and the first index along each that
    is stored, of tiles that others overlap.
    """

    job: Job
    copies: list[Coordinates]
    phase: Phase
    identity: frozenset[Node] = frozenset()
    versioned: bool = False
    accumulators: Accumulators | None = None
    origin_of: list[int] = field(default_factory=lambda: [0])
    rows: tuple[Rows, ...] = ()
    tested: int = 1
    own: tuple[tuple[str, Expr], ...] = ()


def accumulators_of(work: Work) -> Accumulators:
    """The accumulators of a phase that has some."""
    assert work.accumulators is not None
    return work.accumulators


def carried(work: Work) -> Reduce:
    """The fold of a phase's stage whose values go from one step to the next."""
    assert work.job.carried is not None
    return work.job.carried


def over_reduced(work: Work, position: int) -> bool:
    """Whether there is a loop at a position, and it runs over an axis of the stage's reduction."""
    loops = work.job.plan.loops
    return position < len(loops) and loops[position].name in work.job.reduced


def over_results(work: Work, position: int) -> bool:
    """Whether the steps of an update choose among the iterations of the loop at a position."""
    return work.job.chosen_by_steps(position)


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
