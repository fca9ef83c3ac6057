"""The loop cursor (`LoopCursor`): a position in the loops being emitted, in one of the phases of its stage."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from raido.algo.graph import index as ix
from raido.algo.graph.expr import Expr, Node, Op, Reduce, Var
from raido.schedule.lower.lowered_stage import LoweredStage
from raido.schedule.lower.regions.coordinates import Coordinates
from raido.schedule.nest.values import Buffer


@dataclass(slots=True)
class Accumulators:
    """The accumulators of a reduction: one buffer for each component, and how an element's indices follow from its coordinates.

    copied: the first dimension counts unrolled instances. lengths: how much of each dimension is in use, in the first instance, which no
    other exceeds. prefix, suffix: indices before and after those of the axes.
    """

    buffers: tuple[Buffer, ...]
    axes: tuple[str, ...]
    origins: tuple[dict[str, Expr], ...]
    per_instance: bool
    lengths: tuple[Expr, ...] = ()
    prefix: tuple[Expr, ...] = ()
    suffix: tuple[Expr, ...] = ()


@dataclass(slots=True)
class Rows:
    """An axis that is traversed row by row of a flat array: (x + offset) // length is `row`, the remainder is the index in the row."""

    axis: str
    nodes: tuple[Op, ...]
    length: Expr
    offset: Expr
    row: Var


def _never(cursor: LoopCursor, position: int) -> bool:
    return False


def _nothing(cursor: LoopCursor) -> None:
    """Emits no statements."""


@dataclass(frozen=True, slots=True, eq=False)
class Phase:
    """One pass over the loops of a stage: the whole stage, or a part of a reduction, scan, update or filter.

    element: emits the statements of one element of each unrolled instance. leaves_out: whether the pass skips the loop at a position.
    takes_over: emits everything from a position inwards itself, or returns False. shares: whether fused stages run along. cuts: whether
    loops are split at boundaries. reads: whether elements evaluate the stage's bodies, so that producers are placed at the loops.
    """

    element: Callable[[LoopCursor], None] = _nothing
    leaves_out: Callable[[LoopCursor, int], bool] = _never
    takes_over: Callable[[LoopCursor, int], bool] = _never
    shares: bool = False
    cuts: bool = False
    reads: bool = True


@dataclass(slots=True)
class LoopCursor:
    """The position in the loops of a stage that are being emitted, in one phase.

    instances: the coordinates of each unrolled instance. identity: boundary operations known to be the identity here. rows: set where loops
    follow the rows of an array that is read flat. tested: the number of iterations that the enclosing loops write out behind tests. own:
    axes, and the first index along each that is stored, of tiles that overlap others.
    """

    lowered: LoweredStage
    instances: list[Coordinates]
    phase: Phase
    identity: frozenset[Node] = frozenset()
    versioned: bool = False
    accumulators: Accumulators | None = None
    origin_of: list[int] = field(default_factory=lambda: [0])
    rows: tuple[Rows, ...] = ()
    tested: int = 1
    own: tuple[tuple[str, Expr], ...] = ()


def cloned(cursor: LoopCursor, **fields: Any) -> LoopCursor:
    """A loop cursor with coordinates of its own, and with other values of some fields."""
    return replace(cursor, instances=[c.copy() for c in cursor.instances], **fields)


def accumulators_of(cursor: LoopCursor) -> Accumulators:
    """The accumulators of a phase that has some."""
    assert cursor.accumulators is not None
    return cursor.accumulators


def carried(cursor: LoopCursor) -> Reduce:
    """The fold of the stage whose value goes from one iteration to the next."""
    assert cursor.lowered.carried is not None
    return cursor.lowered.carried


def over_reduced(cursor: LoopCursor, position: int) -> bool:
    """Whether there is a loop at a position, and it runs over an axis of the stage's reduction."""
    loops = cursor.lowered.plan.loops
    return position < len(loops) and loops[position].name in cursor.lowered.reduced


def over_results(cursor: LoopCursor, position: int) -> bool:
    """Whether the loop at a position runs over result elements that the iterations of an update choose."""
    return cursor.lowered.chosen_by_updates(position)


def ranges_of(cursor: LoopCursor) -> dict[Var, tuple[Expr, Expr]]:
    """Inclusive bounds of every axis of the stage, over all unrolled instances, and of the variables bound in its expressions."""
    found: dict[Var, tuple[Expr, Expr]] = dict(cursor.lowered.reads.inner)
    for name, variable in cursor.lowered.variables.items():
        boxes = [c.box(name) for c in cursor.instances]
        low, high = boxes[0]
        for other_low, other_high in boxes[1:]:
            low, high = ix.minimum(low, other_low), ix.maximum(high, other_high)
        found[variable] = (low, high)
    return found
