"""Short axes, of a few elements, which defaults unroll inside the loops over others."""

from __future__ import annotations

from math import prod

from raido.algo.graph import index
from raido.algo.graph.expr import Axis, Const, Loop, Op, While
from raido.algo.graph.rewrite import scalar_nodes
from raido.schedule.machine import INTERLEAVED
from raido.schedule.stages.inline import is_short
from raido.schedule.stages.reads import stage_roots
from raido.schedule.stages.stage import Stage

WRITTEN_OUT = 32  # bodies of short axes, at most: as many values as the largest files of vector registers hold, or half of a thread's


def is_stacked(stage: Stage, axis: Axis) -> bool:
    """Whether the index along an axis of known length selects among as many expressions as the axis has indices (`rd.stack`)."""
    count = index.constant_value(axis.extent)
    if count is None or count > WRITTEN_OUT:
        return False
    chosen = [
        node.args[0] for node in scalar_nodes(*stage_roots(stage)) if isinstance(node, Op) and node.name == "select"
    ]
    tests = {
        e for e in chosen if isinstance(e, Op) and axis.var in e.args and any(isinstance(a, Const) for a in e.args)
    }
    return len(tests) >= count - 1


def is_better_written_out(stage: Stage, axis: Axis) -> bool:
    """Whether the expressions of a stacked axis are computed in lanes along another axis: where their stores are shuffled together, or where
    they share a loop, which lanes along the stacked axis would all run alike.
    """
    if not is_stacked(stage, axis):
        return False
    shuffled = (index.constant_value(axis.extent) or 0) <= INTERLEAVED
    return shuffled or any(isinstance(node, Loop | While) for node in scalar_nodes(*stage_roots(stage)))


def written_out_axes(stage: Stage) -> tuple[Axis, ...]:
    """Returns the short axes of a map to unroll, whose unrolled instances share subexpressions; () for other stages."""
    if stage.reduction is not None or stage.scan or stage.filter or stage.sort or stage.update:
        return ()
    short = tuple(axis for axis in stage.axes if is_short(axis.extent))
    few = prod(index.constant_value(axis.extent) or 1 for axis in short) <= WRITTEN_OUT
    return short if few and len(short) < len(stage.axes) else ()


def shared_axes(stage: Stage) -> tuple[Axis, ...]:
    """Returns the short axes to unroll of a map, or of commutative folds along long axes, whose sums share what an iteration computes."""
    if stage.reduction is None or not stage.reduction.commutative:
        return written_out_axes(stage)
    short = tuple(axis for axis in stage.all_axes if is_short(axis.extent))
    few = prod(index.constant_value(axis.extent) or 1 for axis in short) <= WRITTEN_OUT
    long = any(axis not in short for axis in stage.reduction_axes)
    return tuple(axis for axis in short if axis in stage.axes) if few and long else ()
