"""Stages of few elements, such as the next state of a filter of order two: unrolled, with lanes along an axis that fills them.

    for y in 0..2: for x in 0..2: for r in 0..2: p[y, x] += f[y, r] * q[r, x]        eight products, each at constant indices

They are no slower than a loop, and the states of a loop around them then stay in registers (`nest/passes/serial_loops.py`): no iteration waits
for a store and the load after it.
"""

from __future__ import annotations

from math import prod

from raido.algo.graph import index
from raido.algo.graph.expr import Axis, Cond, Loop, While
from raido.schedule.defaults.demand import has_ragged_folds
from raido.schedule.defaults.draft import Draft
from raido.schedule.defaults.joins import moves
from raido.schedule.defaults.queries import accesses_of, contiguity, vector_axis
from raido.schedule.defaults.short import WRITTEN_OUT
from raido.schedule.stages.inline import is_short
from raido.schedule.stages.reads import scalars_of
from raido.schedule.stages.stage import Stage


def decide_short_loops(draft: Draft, stage: Stage) -> bool:
    """Unrolls a stage whose axes are all short; returns whether it is one, of at most `WRITTEN_OUT` instances."""
    straight = not any(isinstance(node, Loop | While | Cond) for node in scalars_of(stage)) and not has_ragged_folds(
        stage
    )
    if not straight or not all(is_short(axis.extent) for axis in stage.all_axes):
        return False
    vector = full_lanes(draft, stage)
    written_out = [axis for axis in stage.all_axes if axis is not vector]
    if prod(index.constant_value(axis.extent) or 1 for axis in written_out) > WRITTEN_OUT:
        return False
    if vector is not None:
        draft.decide(stage.name, "vectorize", axis=vector.name, lanes=index.constant_value(vector.extent))
    for axis in written_out:
        draft.decide(stage.name, "unroll", axis=axis.name)
    return True


def full_lanes(draft: Draft, stage: Stage) -> Axis | None:
    """Returns the axis whose elements fill a register, or a half or a quarter of one, and are contiguous wherever each step reads them;
    else None.
    """
    vector = vector_axis(draft, stage)
    if vector is None or vector not in stage.axes:
        return None
    count = index.constant_value(vector.extent) or 0
    fills = (
        count > 1 and count & (count - 1) == 0 and all(count <= draft.machine.lanes(b.dtype.bits) for b in stage.bodies)
    )
    variables = {axis.var for axis in stage.reduction_axes}
    per_iteration = [
        p for p in accesses_of(draft, stage) if not variables or any(moves(e, var) for e in p for var in variables)
    ]
    return vector if fills and all(contiguity(vector.var, point) >= 0 for point in per_iteration) else None
