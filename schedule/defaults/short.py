"""Short axes, of a few elements, which defaults unroll inside the loops over others."""

from __future__ import annotations

from math import prod

from raido.algo.graph import index
from raido.algo.graph.expr import Axis, Expr
from raido.schedule.stages.inline import SHORT as SMALL
from raido.schedule.stages.stage import Stage

WRITTEN_OUT = 32  # instances of unrolled axes, at most: 32 vector registers, or half of a GPU thread's registers


def is_small(e: Expr) -> bool:
    """Whether a size is a constant below `SMALL`."""
    value = index.constant_value(e)
    return value is not None and value < SMALL


def written_out_axes(stage: Stage) -> tuple[Axis, ...]:
    """Returns the short axes of a map to unroll, whose unrolled instances share subexpressions; () for other stages."""
    if stage.reduction is not None or stage.scan or stage.filter or stage.sort or stage.update:
        return ()
    short = tuple(axis for axis in stage.axes if is_small(axis.extent))
    few = prod(index.constant_value(axis.extent) or 1 for axis in short) <= WRITTEN_OUT
    return short if few and len(short) < len(stage.axes) else ()


def shared_axes(stage: Stage) -> tuple[Axis, ...]:
    """Returns the short axes to unroll of a map, or of commutative folds along long axes, whose sums share what an iteration computes."""
    if stage.reduction is None or not stage.reduction.commutative:
        return written_out_axes(stage)
    short = tuple(axis for axis in stage.all_axes if is_small(axis.extent))
    few = prod(index.constant_value(axis.extent) or 1 for axis in short) <= WRITTEN_OUT
    long = any(axis not in short for axis in stage.reduction_axes)
    return tuple(axis for axis in short if axis in stage.axes) if few and long else ()
