"""Axes that a stage traverses as memory lies: fused, they are one loop, however short the rows are.

    for z: for y: for x by vector: out[z, y, x] = a[z, y, x] * s[z]      →      for z: for yx by vector: out[z, yx] = a[z, yx] * s[z]

Rows of seven elements, those of an image deep in a network, would each be a masked gang. Lanes run on into the next row instead; indices
are never divided (`flat_offset`).
"""

from __future__ import annotations

from math import prod

from raido.algo.graph.expr import Axis, Expr, Var
from raido.algo.graph.rewrite import free_variables
from raido.schedule.defaults.chains import has_chain
from raido.schedule.defaults.demand import Point, is_divergent
from raido.schedule.defaults.draft import Draft, known_extent
from raido.schedule.defaults.pixels import shapes_read_alike
from raido.schedule.plan import At
from raido.schedule.stages.inline import is_short
from raido.schedule.stages.stage import Stage, is_array_loop

LONG = 16  # gangs a row: its last, partial one costs less than a sixteenth more


def flat_axes(draft: Draft, stage: Stage) -> tuple[Axis, ...]:
    """Returns the most last axes of a map, or of a fold's iterations, along which it reads arrays as they lie in memory, or not at all."""
    axes = stage.reduction_axes or stage.axes
    if stage.whole_axes or stage.update:
        return ()
    shapes, stages = shapes_read_alike(draft, stage), draft.state.uses.stages
    if shapes is None:
        return ()
    read: list[tuple[Point, tuple[Expr, ...]]] = []
    for array, points in draft.demand.reads(stage.name).items():
        made = stages.get(array)
        if array in draft.demand.inlined:
            continue
        if isinstance(made, Stage) and made.outer:
            return ()  # computed in the loops of its readers
        read += [(point, shapes.get(array, ())) for point in points]
    suffixes = (axes[k:] for k in range(len(axes)))
    return next((last for last in suffixes if all(_lies_along(point, shape, last) for point, shape in read)), ())


def _lies_along(point: Point, shape: tuple[Expr, ...], axes: tuple[Axis, ...]) -> bool:
    """Whether an access is contiguous along fused axes, or the same for all their iterations."""
    own, first = tuple(axis.var for axis in axes), len(point) - len(axes)
    if all(is_fixed(e, own) for e in point):
        return True
    rows = tuple(axis.extent for axis in axes[1:])
    return point[first:] == own and shape[first + 1 :] == rows and all(is_fixed(e, own) for e in point[:first])


def is_fixed(e: Expr | None, axes: tuple[Var, ...]) -> bool:
    """Whether an index is the same for all elements of a stage."""
    return e is not None and free_variables(e).isdisjoint(axes)


def axes_to_fuse(draft: Draft, stage: Stage, vector: Axis | None) -> tuple[Axis, ...]:
    """Returns the axes of a stage on a CPU that are fused, the last of them that of lanes; () where rows are long or whole vectors, where
    other stages are computed in its loops, and in array loops, which may go by rows, or where one begins with the results.
    """
    fold = stage.reduction
    axes = stage.reduction_axes or stage.axes
    if vector is None or vector is not axes[-1] or is_divergent(stage) or (fold is not None and not fold.commutative):
        return ()
    uses = draft.state.uses
    if uses.scope[stage.name] or any(is_array_loop(uses.stages[reader]) for reader in uses.readers[stage.name]):
        return ()
    if isinstance(draft.state.plan(stage.name).compute, At):
        return ()
    lanes = draft.machine.lanes(max(body.dtype.bits for body in stage.bodies))
    row = known_extent(draft, vector.extent)
    if is_short(vector.extent) or (row is not None and (row >= LONG * lanes or row % lanes == 0)):
        return ()
    flat = flat_axes(draft, stage)
    return flat if len(flat) > 1 and not has_chain(draft, stage) else ()


def length_of(draft: Draft, axes: tuple[Axis, ...]) -> int | None:
    """Returns the iterations of fused axes; None where they are unknown."""
    extents = [known_extent(draft, axis.extent) for axis in axes]
    return None if None in extents else prod(extents)  # type: ignore[arg-type]
