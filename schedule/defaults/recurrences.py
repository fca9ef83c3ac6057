"""How many gangs run side by side in a loop over whole arrays whose iterations make each element of its own states alone.

    x, y = rd.loop(1000, lambda t, s: (s[0] + h * s[1], s[1] - h * s[0]), (x, y))

Such a loop goes by rows, with its iterations inside (`strategies/array_loops`): a gang's states stay in registers, and each iteration waits
for the one before, as those of elements with loops of their own do (`latency`).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from raido.algo.graph import index
from raido.algo.graph.expr import ArrayLoop, ArrayWhile, Load, Node, Op
from raido.algo.graph.rewrite import children, free_variables, scalar_nodes
from raido.schedule.defaults.latency import gangs_in_flight, latency
from raido.schedule.defaults.short import written_out_axes
from raido.schedule.machine import Machine
from raido.schedule.remember import remembered
from raido.schedule.stages.reads import flatten, loads_of
from raido.schedule.stages.stage import ControlStage, Stage, StageGraph


def gangs_of_states(graph: StageGraph, stage: Stage, machine: Machine) -> int:
    """Returns the number of interleaved gangs for a stage in such a loop; 1 for other stages."""
    for loop, stages in _recurrences(graph):
        if stage in stages:
            operations, longest, held = _of_an_iteration(loop, stages)
            short = written_out_axes(stage)
            numbers = prod(index.constant_value(axis.extent) or 1 for axis in short if axis is not stage.axes[0])
            return gangs_in_flight(numbers * operations, longest, numbers * (2 * len(loop.state) + held), machine)
    return 1


def is_recurrent(graph: StageGraph, stage: Stage) -> bool:
    """Whether a stage is in the body of such a loop."""
    return any(stage in stages for _, stages in _recurrences(graph))


@remembered
def _recurrences(graph: StageGraph) -> list[tuple[ControlStage, list[Stage]]]:
    """Returns the whole-array loops over independent elements, each with the stages of its body."""
    loops = [each for each, _ in flatten(graph.stages) if isinstance(each, ControlStage)]
    found = []
    for loop in loops:
        stages = [each for each in loop.body if isinstance(each, Stage)]
        if isinstance(loop.form, ArrayLoop | ArrayWhile) and len(stages) == len(loop.body) > 0 and not loop.setup:
            shapes = {tuple(axis.extent for axis in each.axes) for each in stages} | {s.shape for s in loop.state}
            made: set[Node] = {each.form for each in stages}
            if len(shapes) == 1 and all(_keeps_to_elements(each, loop, made) for each in stages):
                found.append((loop, stages))
    return found


def _keeps_to_elements(stage: Stage, loop: ControlStage, made: set[Node]) -> bool:
    """Whether a stage is a map that reads the loop's states and the body's results at its own index alone."""
    if not stage.axes or any((stage.reduction, stage.scan, stage.filter, stage.sort, stage.update, stage.outer)):
        return False
    own = tuple(axis.var for axis in stage.axes)
    return all(
        load.indices == own
        for load in loads_of(stage)
        if load.array in loop.state or getattr(load.array, "form", None) in made
    )


def _of_an_iteration(loop: ControlStage, stages: Sequence[Stage]) -> tuple[int, int, int]:
    """Returns the latencies of an iteration's operations in total and on the critical path, and the number of lane-dependent outside
    values.
    """
    counter = {loop.form.index} if isinstance(loop.form, ArrayLoop) else set()
    operations, longest = 0, 0
    depth: dict[Node, int] = {}
    made: dict[Node, int] = {}  # the longest path to what a stage makes
    held: set[Node] = set()
    for stage in stages:
        for node in scalar_nodes(*stage.bodies):
            if isinstance(node, Load):
                depth[node] = made.get(getattr(node.array, "form", node), 0)
                if node.array not in loop.state and not depth[node] and free_variables(node).isdisjoint(counter):
                    held.add(node)
                continue
            cost = latency(node) if isinstance(node, Op) else 0
            operations += cost
            depth[node] = cost + max((depth.get(e, 0) for e in children(node)), default=0)
        made[stage.form] = max(depth[body] for body in stage.bodies)
        longest = max(longest, made[stage.form])
    return operations, longest, len(held)
