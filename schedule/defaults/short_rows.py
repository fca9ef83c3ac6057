"""Folds of short rows by operators that are dear to combine lanes with: the greatest of eight floats, and where it stands.

A row that lies in one or two registers is folded into a register of partial results, and these into one by as many further steps as
lanes can be halved, none of which has work for all lanes. Where a step is one operation, as of a sum, that hides behind the loads.
The extremes of floats, which look for NaN, and operators of several operations take longer for it than for the row (4 to 10 times,
of rows of 8). So lanes lie across rows: each of them folds a row of its own, whose elements are picked out of whole vectors.
"""

from __future__ import annotations

from raido.algo.graph import index
from raido.algo.graph.expr import Reduce
from raido.schedule.defaults.draft import Draft, extent
from raido.schedule.stages.reads import loads_of
from raido.schedule.stages.stage import Stage

LONGEST = 32  # elements: the steps that combine lanes are few beside the operations of longer rows
WIDEST = 1024  # bits, of rows whose extreme is looked for: four registers of 256 bits or two of 512
PICKED_BITS = 32  # narrower elements are gathered by no instruction
GATHERING_BITS = 256  # processors with narrower vectors have no gathers


def folds_short_rows(draft: Draft, stage: Stage) -> bool:
    """Whether each result of a stage is the fold of a short row, which lanes across rows fold sooner than lanes along it."""
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
    """Elements of the longest row that lanes across rows fold sooner."""
    return min(LONGEST, WIDEST // fold.combine[0].dtype.bits) if fold.monoid else LONGEST


def is_one_operation(fold: Reduce) -> bool:
    """Whether a step of a fold is one operation of the processor; the extremes of floats are several."""
    extreme = fold.monoid in ("minimum", "maximum") and fold.combine[0].dtype.is_float
    return bool(fold.monoid) and not extreme
