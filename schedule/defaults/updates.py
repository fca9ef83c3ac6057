"""The default loops of updates.

Many updates, side by side, are parallel over the outermost of the axes that steps share with the results. One update folds into bins
of its own, chunk by chunk: into four sets in turn where the bins are few (4096). Where they are known to be too many for half of the
last-level cache, its steps are sorted instead. Indivisible steps are for threads. What is set, and rows, run in lanes.
"""

from __future__ import annotations

from math import prod

from raido.algo.graph import index
from raido.schedule.defaults.draft import Draft, known
from raido.schedule.plan import At
from raido.schedule.stages.stage import Stage

FEW_BINS = 4096
TURNS = 4
CHUNK = 1 << 14


def say_update_loops(draft: Draft, stage: Stage) -> None:
    """The strategy and the loops of an update of which nothing was said."""
    assert stage.update is not None
    name, first = stage.name, stage.all_axes[0]
    placed = isinstance(draft.state.plan(name).compute, At)
    side_by_side = first not in stage.reduction_axes
    if side_by_side and not placed:
        draft.say(name, "parallel", axis=first.name)
    if not side_by_side and not placed and stage.update.mode == "combine" and draft.state.plan(name).strategy is None:
        beyond = bins_of(draft, stage) * sum(body.dtype.itemsize for body in stage.bodies) > draft.machine.l3 // 2
        if not beyond or not draft.say(name, "strategy", name="sorted"):
            draft.say(name, "strategy", name="private", copies=turns(draft, stage))
    chosen = draft.state.plan(name).strategy
    if not placed and not side_by_side and chosen is not None and chosen[0] == "atomic":
        draft.say(name, "parallel", axis=first.name)
    last = stage.axes[-1]
    if last is first or last in stage.reduction_axes:
        return
    count = index.constant_value(known(draft, last.extent))
    if len(stage.axes) == 1 and not placed and (count is None or count > CHUNK):
        draft.say(name, "split", axis=last.name, factor=CHUNK)
        draft.say(name, "parallel", axis=last.name + "o")
        draft.say(name, "vectorize", axis=last.name + "i")
        return
    draft.say(name, "vectorize", axis=last.name)


def turns(draft: Draft, stage: Stage) -> int:
    """Sets of bins that steps take in turn: several where all of them fit the first-level cache."""
    return TURNS if 0 < bins_of(draft, stage) <= FEW_BINS else 1


def bins_of(draft: Draft, stage: Stage) -> int:
    """The number of bins; 0 where it is not known."""
    counts = [index.constant_value(known(draft, axis.extent)) for axis in stage.axes]
    return prod(count or 0 for count in counts)
