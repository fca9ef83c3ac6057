"""Queries about the neighbours that stencils read, in other rows and in other planes."""

from __future__ import annotations

from raido.algo.graph.expr import Var
from raido.schedule.cost.rows import affine_of
from raido.schedule.defaults.demand import Point
from raido.schedule.defaults.draft import Draft
from raido.schedule.stages.stage import Stage


def reads_rows(draft: Draft, stage: Stage) -> bool:
    """Whether a stage reads neighbouring rows of an array."""
    if len(stage.axes) < 2:
        return False
    return any(are_apart(points, stage.axes[-2].var) for points in draft.demand.reads(stage.name).values())


def read_by_planes(draft: Draft, stage: Stage) -> list[str]:
    """Returns the arrays of which a stencil reads neighbouring planes."""
    planes = [axis.var for axis in stage.axes[:-2]]
    reads = draft.demand.reads(stage.name)
    found = [name for name, points in reads.items() if any(are_apart(points, var) for var in planes)]
    return [name for name in found if name not in draft.demand.inlined]


def are_apart(points: set[Point], var: Var) -> bool:
    """Whether reads are at several constant offsets along an axis."""
    return len(offsets(points, var)) > 1


def offsets(points: set[Point], var: Var) -> set[int]:
    """Returns the constant offsets of reads along a reader's axis."""
    return {offset for point in points if None not in point and (offset := _offset(point, var)) is not None}


def _offset(point: Point, var: Var) -> int | None:
    """Returns the constant offset of a read along an axis, boundary conditions ignored; None where there is none."""
    for e in point:
        affine = None if e is None else affine_of(e, {})
        if affine is not None and affine[1] == ((var, 1),):
            return affine[0]
    return None
