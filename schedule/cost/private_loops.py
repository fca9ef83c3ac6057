"""The cost of per-element loops with private arrays: the cycles of one iteration, for elements alone and in lanes.

Alone, an element runs branches that data decide, of which every other one is mispredicted.
"""

from __future__ import annotations

from math import prod

from raido.algo.graph import index
from raido.algo.graph.dtypes import i64
from raido.algo.graph.expr import Loop, Op, Private, Var, While
from raido.algo.graph.rewrite import free_variables, scalar_nodes
from raido.schedule.cost.elements import UNFORESEEN, depends_on, each_time, element_cycles
from raido.schedule.machine import Machine
from raido.schedule.stages.reads import scalars_of
from raido.schedule.stages.stage import Stage


def private_loops(stage: Stage) -> list[Loop | While]:
    """Returns the loops of a stage's elements that have private arrays."""
    forms = [node for node in scalars_of(stage) if isinstance(node, (Loop, While))]
    return [form for form in forms if any(isinstance(state, Private) for state in form.state)]


def gangs_of_private_loops(stage: Stage, lane: Var, machine: Machine) -> int | None:
    """Returns the most interleaved gangs whose private arrays fit L1; 0 where elements alone are faster, None where no such loop is in
    lanes.
    """
    loops = [form for form in private_loops(stage) if lane in free_variables(form)]
    if not loops:
        return None
    states = {state for form in loops for state in form.state if isinstance(state, Private)}
    size = sum(state.dtype.itemsize * prod(index.constant_value(n) or 1 for n in state.shape) for state in states)
    width = machine.lanes(stage.bodies[0].dtype.bits) * size
    alone, in_lanes = (sum(_cycles(form, lane, machine, lanes) for form in loops) for lanes in (False, True))
    return 0 if alone < in_lanes or width > machine.l2 else max(1, machine.l1 // width)


def _cycles(form: Loop | While, lane: Var, machine: Machine, in_lanes: bool) -> float:
    """Returns the cycles of one iteration of one element; loops inside count as one iteration. Index arithmetic is part of addresses."""
    inner = [node for node in scalar_nodes(*form.body) if isinstance(node, (Loop, While))]
    apart = depends_on([lane, *form.state, *(state for node in inner for state in node.state)])
    nodes = [node for node in scalar_nodes(*each_time(form)) if not (isinstance(node, Op) and node.dtype is i64)]
    return element_cycles(nodes, machine, in_lanes, apart) + (0.0 if in_lanes else UNFORESEEN)
