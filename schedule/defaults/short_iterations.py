"""Branches for small sizes, for stages of array loops' iterations whose sizes are unknown.

    s["loop_1/reduce_1"].when("x <= 8 and r <= 8").reorder("x", "r")        the scores of four states, from those of the step before

Chunks for threads, partial results of lanes and rows of sums in memory cost a stage of a few elements many times its own work, in every
iteration. In the branch a fold down columns that fits one chunk has a register for each of its sums, and axes shorter than a vector are
scalar.
"""

from __future__ import annotations

from raido.algo.graph import index
from raido.algo.graph.expr import Axis
from raido.schedule.defaults.chains import chain, is_line_of_folds
from raido.schedule.defaults.demand import is_dependent
from raido.schedule.defaults.draft import Draft, known
from raido.schedule.defaults.latency import gangs_of_sums
from raido.schedule.defaults.queries import is_made_for_elements
from raido.schedule.stages.inline import SHORT, is_short
from raido.schedule.stages.stage import ControlStage, Stage, is_array_loop


def decide_short_iterations(draft: Draft, stage: Stage, vector: Axis | None, chunk: int) -> None:
    """Records the branch of a stage for few elements.

    vector: the axis of lanes. chunk: steps that one thread folds at a time, down columns; 0 where the stage does not fold columns.
    """
    axes = [axis for axis in stage.all_axes if stage.update is None or axis not in stage.whole_axes]
    open_ = [axis for axis in axes if index.constant_value(known(draft, axis.extent)) is None]
    others = [axis for axis in axes if axis not in open_]
    names = [axis.name for axis in axes]
    if not open_ or not all(is_short(axis.extent) for axis in others) or not all(map(str.isidentifier, names)):
        return
    if not is_in_iterations(draft, stage) or not may_branch(draft, stage):
        return
    branch = draft.branch()
    said = False
    if chunk and vector is not None:
        gangs = gangs_of_sums(stage, vector, draft.machine)
        said = branch.decide(stage.name, "vectorize", axis=vector.name, interleave=gangs)
    if said or branch.decide(stage.name, "reorder", axes=tuple(names)):
        most = chunk if said else SHORT
        draft.accept(branch.when(stage.name, " and ".join(f"{axis.name} <= {most}" for axis in open_)))


def is_in_iterations(draft: Draft, stage: Stage) -> bool:
    """Whether a stage runs in every iteration of an array loop whose elements depend on a fold of the iteration, so that rows depend on one
    another.
    """
    uses, at = draft.state.uses, draft.state.uses.scope[stage.name]
    while at:
        loop = uses.stages[at]
        if isinstance(loop, ControlStage) and is_array_loop(loop) and folds_its_elements(draft, loop):
            return True
        at = uses.scope[at]
    return False


def folds_its_elements(draft: Draft, loop: ControlStage) -> bool:
    """Whether an iteration folds values of itself or of the iteration before, over all elements."""
    changed = {state.name for state, after in zip(loop.state, loop.results, strict=True) if state is not after}
    changed |= {stage.name for stage in loop.body}
    folds = [
        each
        for each in loop.body
        if isinstance(each, Stage) and each.reduction is not None and each.name not in draft.demand.inlined
    ]
    return any(
        array in changed and {axis.var for axis in fold.axes}.isdisjoint(point)
        for fold in folds
        if not is_dependent(fold)
        for array, points in draft.demand.reads(fold.name).items()
        for point in points
    )


def may_branch(draft: Draft, stage: Stage) -> bool:
    """Whether no other stage is to be fused into or placed in the loops of a stage, which would have to be the same for all sizes."""
    if stage.name in draft.demand.leaders.values() or stage.outer:
        return False
    tiled = chain(draft, stage)
    if not all(len(stage.axes) == 1 and is_line_of_folds(draft.state.stage(each)) for each in tiled):
        return False
    made = ((draft.state.uses.stages.get(array), points) for array, points in draft.demand.reads(stage.name).items())
    return not any(isinstance(each, Stage) and is_made_for_elements(draft, each, points) for each, points in made)
