"""The cost of per-element loops with private arrays: the cycles of one iteration, for elements alone and in lanes.

In lanes, elements at an index of each lane's own are gathered and scattered, one lane at a time; alone, an element runs branches that data
decide, of which every other one is mispredicted.
"""

from __future__ import annotations

from math import prod

from raido.algo.graph import index
from raido.algo.graph.dtypes import i64
from raido.algo.graph.expr import Changed, Element, Expr, Fill, Load, Loop, Op, Private, Var, While
from raido.algo.graph.rewrite import free_variables, scalar_nodes
from raido.schedule.cost.operations import cost_of
from raido.schedule.machine import Machine
from raido.schedule.stages.reads import scalars_of
from raido.schedule.stages.stage import Stage

GATHERED = 1.0  # cycles for each lane of a gather, or of a scatter instruction
BY_ITSELF = 5.0  # cycles for each lane of a scatter without an instruction: extract, test, store
UNFORESEEN = 7.0  # cycles of a branch on average: half of a misprediction
ACCESS = 0.5  # cycles of a load or a store


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
    alone, in_lanes = (sum(cycles(form, lane, machine, lanes) for form in loops) for lanes in (False, True))
    return 0 if alone < in_lanes or width > machine.l2 else max(1, machine.l1 // width)


def cycles(form: Loop | While, lane: Var, machine: Machine, in_lanes: bool) -> float:
    """Returns the cycles of one iteration of one element; loops inside count as one iteration."""
    apart = {
        lane,
        *(state for node in scalar_nodes(*form.body) if isinstance(node, Loop | While) for state in node.state),
    }
    apart |= {*form.state}
    total = 0.0 if in_lanes else UNFORESEEN
    for node in scalar_nodes(*each_time(form)):
        if isinstance(node, Op) and node.dtype is not i64:
            cost = cost_of(node.name, node.dtype, node.args[0].dtype)
            total += cost.vector * node.args[0].dtype.bits / 256 if in_lanes else cost.scalar
        elif isinstance(node, (Element, Load)):
            total += GATHERED if in_lanes and differs(node.indices, apart) else ACCESS
        elif isinstance(node, Changed):
            by_lane = GATHERED if machine.vector_bits >= 512 else BY_ITSELF
            total += len(node.values) * (by_lane if in_lanes and differs(node.indices, apart) else ACCESS)
        elif isinstance(node, Fill):
            total += ACCESS * prod(index.constant_value(axis.extent) or 1 for axis in node.axes)
    return total


def each_time(form: Loop | While) -> tuple[Expr, ...]:
    """Returns the expressions that every iteration computes."""
    return (*form.body, form.condition) if isinstance(form, While) else form.body


def differs(indices: tuple[Expr, ...], apart: set[Var]) -> bool:
    """Whether an index depends on variables that differ between lanes."""
    return any(not apart.isdisjoint(free_variables(i)) for i in indices)
