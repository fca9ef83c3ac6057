"""Folds inside mapped functions, one for each element of the stage that reads them, such as the costs of which a block search takes the least.

Lanes across elements fold one element each; where these are few, or lanes would gather, each fold has the lanes, along its own last axis.
"""

from __future__ import annotations

from raido.algo.graph.expr import Axis
from raido.schedule.defaults.demand import compose
from raido.schedule.defaults.draft import Draft
from raido.schedule.defaults.function_products import products_of_functions
from raido.schedule.defaults.lane_steps import is_faster_along
from raido.schedule.defaults.queries import contiguity
from raido.schedule.stages.stage import Stage


def are_folds_faster_along(draft: Draft, stage: Stage, vector: Axis) -> bool:
    """Whether a stage's elements are folds of their own, read once, for which lanes along each fold take fewer steps than lanes across the
    elements.
    """
    if products_of_functions(draft, stage):
        return False
    found = False
    for array, points in draft.demand.reads(stage.name).items():
        made = None if array in draft.demand.inlined else draft.state.uses.stages.get(array)
        if not isinstance(made, Stage) or made.reduction is None or len(points) != 1:
            continue
        if not 0 < made.outer == len(made.axes):
            continue
        (at,), reads = points, draft.demand.points_read(made.name)
        along = min((contiguity(made.reduction_axes[-1].var, point) for point in reads), default=-1)
        contiguous = all(contiguity(vector.var, compose(point, made, at)) >= 0 for point in reads)
        if along < 0 or not is_faster_along(draft, made, vector, contiguous):
            return False
        found = True
    return found
