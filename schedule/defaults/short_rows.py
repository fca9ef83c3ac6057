"""Folds of short rows whose lanes are expensive to combine, such as the argmax of eight floats: lanes across rows fold them.

A row of one or two registers is folded into a register of partial results, and these are combined in log2(lanes) steps, none of which has
work for all lanes. Where a step is one operation, as of a sum, its latency hides behind the loads. The extremes of floats, which check for
NaN, and operators of several operations take longer for the combination than for the row (4 to 10 times, of rows of 8). So lanes lie across
rows: each folds a row of its own, whose elements are extracted from whole vectors by shuffles.
"""

from __future__ import annotations

from raido.algo.graph import index
from raido.algo.graph.expr import Reduce
from raido.schedule.defaults.draft import Draft, extent
from raido.schedule.stages.reads import loads_of
from raido.schedule.stages.stage import Stage

LONGEST = 32  # elements of a row: for longer rows the combination of lanes costs little beside the fold
WIDEST = 1024  # bits of a row whose extreme is computed: four registers of 256 bits or two of 512
PICKED_BITS = 32  # bits: no instruction gathers narrower elements
GATHERING_BITS = 256  # bits: processors with narrower vectors have no gathers


def folds_short_rows(draft: Draft, stage: Stage) -> bool:
    """Whether each result of a stage is the fold of a short row that lanes across rows compute faster than lanes along it."""
    if draft.machine.gpu is not None or stage.reduction is None or len(stage.reduction_axes) != 1 or not stage.axes:
        return False
    length = index.constant_value(stage.reduction_axes[0].extent)
    if length is None or length > longest_row(stage.reduction) or draft.machine.vector_bits < GATHERING_BITS:
        return False
    if any(load.dtype.bits < PICKED_BITS for load in loads_of(stage)):
        return False
    many = extent(draft, stage.axes[-1].extent) >= 2 * draft.machine.lanes(PICKED_BITS)
    return many and not is_one_operation(stage.reduction)


def longest_row(fold: Reduce) -> int:
    """Returns the most elements of a row that lanes across rows fold faster."""
    return min(LONGEST, WIDEST // fold.combine[0].dtype.bits) if fold.monoid else LONGEST


def is_one_operation(fold: Reduce) -> bool:
    """Whether a step of a fold is one machine operation; the extremes of floats are several."""
    extreme = fold.monoid in ("minimum", "maximum") and fold.combine[0].dtype.is_float
    return bool(fold.monoid) and not extreme
