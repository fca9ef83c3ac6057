"""The baseline schedule for differential tests of work: nothing is computed twice, and nothing is kept longer than needed.

A pointwise stage that is read once for each element is inlined; a stage inside mapped functions is computed at the innermost loop that
determines its region; every other stage is computed whole. Loops are serial, and so are strategies; rows that depend on themselves alone
run through the iterations of an array loop one by one, so that each ends by itself.
"""

from __future__ import annotations

from raido.schedule.defaults.array_loops import decide_array_loops
from raido.schedule.defaults.complete import nested_site
from raido.schedule.defaults.demand import Demand, is_pointwise, iterations, may_inline, walk_demand
from raido.schedule.defaults.draft import Draft
from raido.schedule.machine import Machine
from raido.schedule.schedule import Schedule
from raido.schedule.stages.stage import Stage, StageGraph
from raido.schedule.state import State, initial_state


def baseline(graph: StageGraph) -> Schedule:
    """Returns the baseline of a program's stages as a complete schedule.

    >>> from raido.schedule.stages.form_stages import form_stages
    >>> print(baseline(form_stages(blur.trace(np.zeros((8, 8), "f4")))))
    s = blur.schedule()
    s["cols"].root()
    s["rows"].root()
    """
    state = initial_state(graph)
    draft = Draft(state, Machine(), {}, walk_demand(state, lambda demand, stage: _reads_once(state, demand, stage)))
    for name in reversed(list(state.uses.stages)):
        if not isinstance(state.uses.stages[name], Stage) or (
            name in draft.demand.inlined and draft.decide(name, "inline")
        ):
            continue
        at = nested_site(draft, name)
        if at is None or not draft.decide(name, "compute_at", stage=at.stage, axis=at.loop):
            draft.decide(name, "root")
    decide_array_loops(draft)
    return Schedule.trusted(graph, tuple(draft.directives), draft.state, None)


def _reads_once(state: State, demand: Demand, stage: Stage) -> bool:
    """Whether a stage is pointwise, may be inlined, and has each element read at most once."""
    readers = demand.readers(stage.name)
    reads = [iterations(state.stage(reader), point) for reader, points in readers.items() for point in points]
    return may_inline(state, stage.name) and is_pointwise(stage) and reads == [1]
