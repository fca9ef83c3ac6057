"""Updates that become maps by default (strategy "gather"), because that moves fewer bytes.

Let the result have n elements, of which the steps set m. If each element is read as often as written, the elements moved are

    in place                                 2 m
    in place, values computed before         4 m     they are stored to memory of their own, and loaded
    after a copy of the old contents         2 n + 2 m, or 2 n + 4 m
    as a map                                 2 n     the map computes the new values; old elements are read where no step sets one

A map is chosen where it moves fewer bytes than the update, by more than the model's precision. A box that moves with loops around the stage
may be small in most iterations, and counts as empty; so does one of data-dependent size. Where each row of a loop's state is independent of
the others, the update stays: all iterations of a row then run while it is in the cache (`nest/passes/rows_outside.py`).
"""

from __future__ import annotations

from collections.abc import Collection
from math import prod

from raido.algo.graph.expr import Constant, Load, Parameter
from raido.algo.graph.rewrite import loads_in, scalar_nodes
from raido.schedule.defaults.demand import usual_size
from raido.schedule.defaults.draft import UNKNOWN, Draft, known
from raido.schedule.defaults.rows import EQUAL
from raido.schedule.stages.reads import array_name
from raido.schedule.stages.stage import Stage, initial_values
from raido.schedule.stages.updates.boxes import box_of
from raido.schedule.state import has_explicit_loops


def decide_gathers(draft: Draft) -> None:
    """Chooses "gather" for updates without directives, where it pays."""
    for name, stage in list(draft.state.uses.stages.items()):
        if not isinstance(stage, Stage) or stage.update is None or has_explicit_loops(draft.state, name):
            continue
        made = _made_before(draft, stage)
        if {(name, "strategy"), (name, "placement")} & draft.state.decided or not _pays(draft, stage, made):
            continue
        if _keeps_to_rows(draft, stage, made):
            continue
        trial = draft.trial()
        if trial.decide(name, "strategy", name="gather"):
            trial.renew_demand()
            if _pays(draft, stage, _made_before(draft, stage) & trial.demand.inlined):
                draft.adopt(trial)
                draft.renew_demand()


def _made_before(draft: Draft, stage: Stage) -> set[str]:
    """Returns the stages that compute the new values of an update before its first step; results of array loops stay in memory either way."""
    fold = stage.reduction
    assert fold is not None
    read = {array_name(load.array, draft.state.uses.names) for load in loads_in(*fold.values)}
    stages = draft.state.uses.stages
    return {name for name in read & stages.keys() if isinstance(stages[name], Stage)} - draft.demand.inlined


def _keeps_to_rows(draft: Draft, stage: Stage, made: Collection[str]) -> bool:
    """Whether an update of a loop's state, and the stages that compute its values before, read each row of the state at that row alone."""
    assert stage.reduction is not None
    starts = {e.array for e in initial_values(stage.reduction) if isinstance(e, Load)}
    states = {e.name for e in starts if isinstance(e, Parameter)} - {
        e.name for e in draft.state.graph.program.parameters
    }
    if not states or len(stage.axes) < 2:
        return False
    for reader in (stage, *map(draft.state.stage, made)):
        rows = {axis.var for axis in (*reader.axes[:1], *reader.reduction_axes[:1])}
        reads = draft.demand.reads(reader.name)
        if any(point[0] not in rows for state in states for point in reads.get(state, ())):
            return False
    return True


def _pays(draft: Draft, stage: Stage, apart: Collection[str]) -> bool:
    """Whether an update moves fewer bytes as a map; `apart`: the stages that compute its values before, which a map inlines."""
    box = box_of(stage)
    if box is None:
        return False
    usual = lambda size: max(0, usual_size(known(draft, size), UNKNOWN, 0))
    whole = prod(usual(axis.extent) for axis in stage.axes)
    own = {node for axis in stage.axes for node in scalar_nodes(axis.extent)}
    counted = {each.size for each in draft.state.graph.counts} - own  # data-dependent sizes of boxes
    part = prod(0 if counted & {*scalar_nodes(side.count)} else usual(side.count) for side in box)
    update = (0 if _takes_over(draft, stage) else 2 * whole) + (4 if apart else 2) * part
    return update > EQUAL * 2 * whole


def _takes_over(draft: Draft, stage: Stage) -> bool:
    """Whether an update may overwrite its initial array, as far as the graph shows."""
    assert stage.reduction is not None
    starts = initial_values(stage.reduction)
    own = all(isinstance(e, Load) and not isinstance(e.array, Constant) for e in starts)
    arguments = draft.state.graph.program.parameters
    taken = {e.array for e in starts if isinstance(e, Load) and isinstance(e.array, Parameter)}
    return own and taken.isdisjoint(arguments) and stage.form not in draft.state.graph.copies
