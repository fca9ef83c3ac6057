"""Stages that read the old contents of arrays that other stages change in place: by default they are computed whole, before the change."""

from __future__ import annotations

from collections.abc import Iterable

from raido.algo.graph.expr import Array, ArrayLoop, ArrayWhile, Generate, Result, Update
from raido.algo.graph.rewrite import loads_in
from raido.schedule.remember import remembered
from raido.schedule.stages.reads import flatten, loads_of
from raido.schedule.stages.stage import ControlStage, Stage, StageGraph
from raido.schedule.stages.updates.reads_before import makes_in_place
from raido.schedule.state import State, reaches


def reads_old_contents(state: State, stage: Stage, readers: Iterable[str]) -> bool:
    """Whether a stage reads an array that another stage changes in place, for readers that run after the change or are it."""
    read = {load.array for load in loads_of(stage)}
    changes = [name for name, changed in changes_of(state.graph) if not read.isdisjoint(changed)]
    if reads_rows_before(state, stage, readers):
        return True
    return any(
        reader == name or reaches(state, reader, name) or changes_what_is_read(state, reader, name)
        for name in changes
        for reader in readers
    )


def changes_what_is_read(state: State, reader: str, name: str) -> bool:
    """Whether `reader` changes an array whose old contents stage `name`, of the same iteration, reads: it runs after that stage."""
    other = state.uses.stages[name]
    if not isinstance(other, Stage) or reader == name or state.uses.scope[reader] != state.uses.scope[name]:
        return False
    changed = {array for each, arrays in changes_of(state.graph) if each == reader for array in arrays}
    return any(load.array in changed for load in loads_of(other))


def reads_rows_before(state: State, stage: Stage, readers: Iterable[str]) -> bool:
    """Whether a stage reads rows or columns of a loop's state, for readers of the map that then changes the state in place, or for the map
    itself.

    On a GPU an additional stage would be a launch, and the state gets new memory instead.
    """
    read = {load.array for load in loads_of(stage) if len(stage.axes) < len(load.array.shape)}
    changes = [name for name, changed in states_in_place(state.graph) if changed in read] if state.gpu is None else []
    return any(reader == name or reaches(state, reader, name) for name in changes for reader in readers)


@remembered
def changes_of(graph: StageGraph) -> list[tuple[str, tuple[Array, ...]]]:
    """Returns the updates with the arrays that each changes, and nested loops with their initial arrays, which they may take over."""
    stages = [stage for stage, _ in flatten(graph.stages)]
    updates = ((stage.name, stage.form) for stage in stages if isinstance(stage, Stage) and stage.update is not None)
    found = [(name, form.dest) for name, form in updates if isinstance(form, Update)]
    loops = [
        stage for stage in stages if isinstance(stage, ControlStage) and isinstance(stage.form, (ArrayLoop, ArrayWhile))
    ]
    return found + [(loop.name, loop.init) for loop in loops if "/" in loop.name]


@remembered
def states_in_place(graph: StageGraph) -> list[tuple[str, Array]]:
    """Returns the maps that compute a loop's next state elementwise, each with the state that it may change in place."""
    names = {stage.form: stage.name for stage, _ in flatten(graph.stages) if isinstance(stage, Stage)}
    found: list[tuple[str, Array]] = []
    for loop, _ in flatten(graph.stages):
        if not isinstance(loop, ControlStage) or not loop.state:
            continue
        for array, result in zip(loop.state, loop.results, strict=True):
            form = result.form if isinstance(result, Result) else None
            while isinstance(form, Update) and len(form.dest) == 1 and isinstance(form.dest[0], Result):
                form = form.dest[0].form
            if isinstance(form, Generate) and form in names:
                loads = [load for load in loads_in(form) if load.array is array]
                found += [(names[form], array)] if makes_in_place(form, array, loads) else []
    return found
