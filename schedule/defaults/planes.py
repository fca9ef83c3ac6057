"""Planes that a program processes one by one: colours of an image, images of a batch. Row tiles lie within one plane.

    for z, yo:                                      a row tile of a plane: threads share them all
      b[z, 32·yo − 2 … 32·yo + 33] = …              the region of the tile, of the same plane
      d[z, 32·yo … 32·yo + 31] = …

This holds where no stage reads another plane than its own, but some read neighbouring rows. Tiles along the outermost axis would hold whole
planes, which no cache keeps, and few planes leave threads without work.
"""

from __future__ import annotations

from raido.algo.graph import index
from raido.algo.graph.expr import Axis, Generate
from raido.schedule.defaults.draft import Draft
from raido.schedule.defaults.joins import moves
from raido.schedule.defaults.queries import row_axis
from raido.schedule.stages.stage import Stage


def row_tile_axis(draft: Draft, stage: Stage) -> Axis | None:
    """Returns the axis along which a stage is split into row tiles: the rows of a plane where planes are independent, else the outermost
    axis.
    """
    return stage.axes[-2] if planes_of(draft, stage) else row_axis(stage)


def planes_of(draft: Draft, stage: Stage) -> tuple[Axis, ...]:
    """Returns the axes of independent planes; () where planes depend on one another, or there are few."""
    if draft.apart is None:
        draft.apart = _are_apart(draft)
    return stage.axes[:-2] if draft.apart else ()


def is_in_planes(draft: Draft, stage: Stage) -> bool:
    """Whether the functions around a stage, if any, are mapped over planes, so that row tiles lie within one element of them."""
    return stage.outer <= len(planes_of(draft, stage))


def _are_apart(draft: Draft) -> bool:
    """Whether all stages have planes of one kind, each reads its own plane alone, and some reads other rows than its own."""
    stages = [each for name, each in draft.state.uses.stages.items() if name not in draft.demand.inlined]
    if draft.machine.gpu is not None or not stages or not all(map(_has_planes, stages)):
        return False
    if len({len(stage.axes) for stage in stages if isinstance(stage, Stage)}) > 1:
        return False
    others = False
    for stage in stages:
        assert isinstance(stage, Stage)
        (*planes, rows, _) = stage.axes
        for point in draft.demand.points_read(stage.name):
            for k, e in enumerate(point):
                if e is None or any(
                    moves(e, axis.var) and (e is not axis.var or axis is not stage.axes[k]) for axis in planes
                ):
                    return False
                others |= moves(e, rows.var) and index.canonical(e) is not rows.var
    return others


def _has_planes(stage: object) -> bool:
    """Whether a stage is a map over planes whose number is not known to be small."""
    return (
        isinstance(stage, Stage)
        and isinstance(stage.form, Generate)
        and len(stage.axes) > 2
        and row_axis(stage) is stage.axes[0]
        and stage.outer <= len(stage.axes) - 2  # functions of whole planes, if any
        and stage.axes == stage.all_axes
    )
