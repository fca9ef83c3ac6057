"""Folds of short rows whose lanes are expensive to combine, such as the argmax of eight floats: lanes across rows fold them.

A row of one or two registers is folded into a register of partial results, and these are combined in log2(lanes) steps, none of which has
work for all lanes. Where a step is one operation, as of a sum, its latency hides behind the loads. The extremes of floats, which check for
NaN, and operators of several operations take longer for the combination than for the row (4 to 10 times, of rows of 8). So lanes lie across
rows: each folds a row of its own, whose elements are extracted from whole vectors by shuffles. So do they where the rows are windows of
neighbouring elements, which begin at most a few elements apart: there any fold across windows takes fewer steps than a combination of lanes.
"""

from __future__ import annotations

from math import prod

from raido.algo.graph import index
from raido.algo.graph.expr import Axis, Reduce, Var
from raido.algo.graph.rewrite import free_variables
from raido.schedule.defaults.demand import Point
from raido.schedule.defaults.draft import Draft, extent
from raido.schedule.defaults.phases import NEAR
from raido.schedule.stages.inline import is_short
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


def writes_out_steps(draft: Draft, stage: Stage, vector: Axis) -> bool:
    """Whether the steps of a fold are written out in lanes across results: of short rows, and of windows that begin several elements apart,
    so that the vectors loaded for one step serve others.
    """
    if vector not in stage.axes or len(stage.reduction_axes) != 1 or computes_folds(draft, stage):
        return False
    if folds_short_rows(draft, stage):
        return True
    apart = (abs(_stride(vector.var, point)) > 1 for point in draft.demand.points_read(stage.name))
    return vector is windows_axis(draft, stage) and any(apart)


def computes_folds(draft: Draft, stage: Stage) -> bool:
    """Whether a stage reads folds of mapped functions, each a loop of its own."""
    read = (draft.state.uses.stages.get(array) for array in draft.demand.reads(stage.name))
    return any(isinstance(made, Stage) and made.outer and made.reduction is not None for made in read)


def windows_axis(draft: Draft, stage: Stage) -> Axis | None:
    """Returns the pure axis along which results fold short windows of neighbouring elements, as a filter that keeps every fourth result
    does; None for other folds.

    Lanes along it load whole vectors, where lanes along a window would be combined for each result.
    """
    along = next((axis for axis in reversed(stage.axes) if not is_short(axis.extent)), None)
    length = prod(index.constant_value(axis.extent) or LONGEST + 1 for axis in stage.reduction_axes)
    if along is None or length > LONGEST or extent(draft, along.extent) < 2 * draft.machine.lanes(PICKED_BITS):
        return None
    return along if all(_is_near(along.var, point) for point in draft.demand.points_read(stage.name)) else None


def _is_near(var: Var, point: Point) -> bool:
    """Whether an access moves along a variable by at most `NEAR` elements, within a row."""
    moving = [e is None or var in free_variables(e) for e in point]
    return not any(moving[:-1]) and (not any(moving) or 0 < abs(_stride(var, point)) <= NEAR)


def _stride(var: Var, point: Point) -> int:
    return 0 if not point or point[-1] is None else index.linear(point[-1])[1].get(var, 0)
