"""Few long folds side by side, such as the mean of points in space or of colours: one pass computes all of them.

    for ro in chunks by threads: for ri in lanes: for x in 0..3 unrolled: sum[x] += p[ri, x]

Each by itself would read every third element, and so all cache lines three times; and three tasks are few for threads. More sums than
registers hold, or more columns than are unrolled, go along the columns (`decide_column_folds`).
"""

from __future__ import annotations

from math import prod

from raido.algo.graph import index
from raido.algo.graph.expr import Axis
from raido.schedule.defaults.chains import MOST_ROWS
from raido.schedule.defaults.draft import Draft, known_extent
from raido.schedule.defaults.latency import gangs_of_sums
from raido.schedule.defaults.short import WRITTEN_OUT
from raido.schedule.stages.inline import is_short
from raido.schedule.stages.stage import Stage


def are_few_folds(stage: Stage, vector: Axis) -> bool:
    """Whether a stage is a few folds by a known monoid, with lanes along the reduction."""
    if stage.reduction is None or stage.outer or not stage.axes or vector is not stage.reduction_axes[-1]:
        return False
    plain = stage.reduction.commutative and bool(stage.reduction.monoid) and len(stage.bodies) == 1
    few = all(is_short(axis.extent) for axis in stage.axes) and _count(stage) <= WRITTEN_OUT // 2
    return plain and few and not any(is_short(axis.extent) for axis in stage.reduction_axes)


def decide_few_folds(draft: Draft, stage: Stage, vector: Axis) -> None:
    """Schedules chunks of the outermost reduction axis for threads, with all results unrolled inside lanes along the innermost."""
    name, (first, *rest) = stage.name, stage.reduction_axes
    rows = MOST_ROWS if rest else 1 << (2 * draft.machine.task // _count(stage)).bit_length() - 1
    count = known_extent(draft, first.extent)
    outer, inner = [], first.name
    if (count is None or count > rows) and draft.decide(name, "split", axis=first.name, factor=rows):
        outer, inner = [first.name + "o"], first.name + "i"
    results = [axis.name for axis in stage.axes]
    draft.decide(name, "reorder", axes=(*outer, inner, *(axis.name for axis in rest), *results))
    if outer:
        draft.decide(name, "parallel", axis=outer[0])
    gangs = gangs_of_sums(stage, vector, draft.machine, _count(stage) - 1)
    draft.decide(name, "vectorize", axis=vector.name if rest else inner, **({"interleave": gangs} if gangs > 1 else {}))
    for axis in results:
        draft.decide(name, "unroll", axis=axis)


def _count(stage: Stage) -> int:
    """Returns the number of results of a stage whose axes are short."""
    return prod(index.constant_value(axis.extent) or 1 for axis in stage.axes)
