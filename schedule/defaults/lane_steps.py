"""Lanes across the results of folds, or along each fold: the estimate of vector steps that decides between two contiguous axes.

Lanes across results fold one result each, and none is combined; where the results of a row are few, as the 17 displacements of a block
search, the last register is filled in part. Lanes along a fold fill registers where its rows do, and their partial results are combined once.
"""

from __future__ import annotations

from math import log2, prod

from raido.algo.graph.expr import Axis
from raido.schedule.defaults.draft import Draft, extent, known_extent
from raido.schedule.defaults.short_rows import is_one_operation
from raido.schedule.stages.stage import Stage

COMBINED = 2  # operations of a level of the tree that combines lanes: a shuffle and the operator


def is_faster_along(draft: Draft, fold: Stage, results: Axis, contiguous: bool = True) -> bool:
    """Whether lanes along the last axis of a commutative fold take fewer vector steps for a result than lanes across its results.

    results: the axis of the lanes across. contiguous: whether those read and store whole vectors, rather than element by element.
    """
    reduction, count = fold.reduction, known_extent(draft, results.extent)
    if (
        draft.machine.gpu is not None
        or reduction is None
        or not reduction.commutative
        or not is_one_operation(reduction)
    ):
        return False
    lanes = draft.machine.lanes(max(body.dtype.bits for body in fold.bodies))
    *outer, row = (extent(draft, axis.extent) for axis in fold.reduction_axes)
    rows = prod(outer)
    along = rows * -(-row // lanes) + COMBINED * log2(lanes)
    if not contiguous:
        return along < rows * row
    return count is not None and along * count < rows * row * -(-count // lanes)
