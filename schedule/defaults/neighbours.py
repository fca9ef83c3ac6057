"""Queries about the neighbours that stencils read, in other rows and in other planes."""

from __future__ import annotations

from itertools import product
from math import prod

from raido.algo.graph import index
from raido.algo.graph.expr import Expr, Var
from raido.algo.graph.rewrite import substitute
from raido.schedule.cost.rows import affine_of
from raido.schedule.defaults.demand import Point
from raido.schedule.defaults.draft import Draft
from raido.schedule.defaults.short import WRITTEN_OUT
from raido.schedule.stages.inline import is_short
from raido.schedule.stages.stage import Stage


def reads_rows(draft: Draft, stage: Stage) -> bool:
    """Whether a stage reads neighbouring rows of an array."""
    if len(stage.axes) < 2:
        return False
    return any(are_apart(points, stage.axes[-2].var) for points in reads_of_taps(draft, stage).values())


def is_sum_of_taps(stage: Stage) -> bool:
    """Whether a stage folds a few elements that are written out, as a convolution of each channel by itself does."""
    return stage.reduction is not None and stage.scan is None and len(steps_of_taps(stage)) > 1


def steps_of_taps(stage: Stage) -> list[dict[Var, Expr]]:
    """Returns the indices of each step of a fold along axes that are written out; one step without indices for other stages."""
    axes = stage.reduction_axes
    counts = [index.constant_value(axis.extent) or 0 for axis in axes]
    if not all(is_short(axis.extent) for axis in axes) or prod(counts) > WRITTEN_OUT:
        return [{}]
    steps = product(*(range(count) for count in counts))
    return [dict(zip((axis.var for axis in axes), map(index.as_index, each), strict=True)) for each in steps]


def reads_of_taps(draft: Draft, stage: Stage) -> dict[str, set[Point]]:
    """Returns the access maps of a stage's reads, those of a fold along axes that are written out for each step."""
    steps = steps_of_taps(stage)
    return {
        array: {tuple(None if e is None else substitute(e, step) for e in point) for point in points for step in steps}
        for array, points in draft.demand.reads(stage.name).items()
    }


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
