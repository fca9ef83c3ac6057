"""The cost of per-element loops whose trip counts differ: the cycles of one iteration, for elements alone and in lanes.

    for r in rows:  for k in 0..counts[r]:  s = s + a[begin[r] + k] * x[column[begin[r] + k]]

In lanes a load at an index of a lane's own is a gather, one cycle a lane, unless lanes read neighbours, and a gang runs as long as the
longest of its elements. Trip counts that follow from the index, as those of a triangle, hardly differ within a gang.
Alone, an element's loads are cheap, and loads of later iterations do not wait for earlier ones where indices advance steadily. Where an
iteration computes the index of the next one's load (a binary search), each waits for memory, and lanes wait together.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from raido.algo.graph import index as ix
from raido.algo.graph.expr import Const, Count, Expr, Load, Loop, Op, Private, Var, While
from raido.algo.graph.faults import is_index_of
from raido.algo.graph.node import Node
from raido.algo.graph.rewrite import free_variables, scalar_nodes, unconditional_nodes
from raido.schedule.cost.elements import ACCESS, Indices, depends_on, each_time, element_cycles
from raido.schedule.machine import Machine
from raido.schedule.stages.reads import stage_roots
from raido.schedule.stages.stage import Stage

LONGEST = 2.0
"""The ratio of the longest to the mean trip count in one or two gangs, for Poisson-distributed trip counts."""


def is_faster_alone(stage: Stage, lane: Var, machine: Machine) -> bool:
    """Whether the elements of a stage whose loops differ in trip count are computed faster one by one than in lanes.

    Loops in branches are not counted: the number of elements that take the branch is unknown, and a gang skips a branch that no lane takes.
    """
    every = unconditional_nodes(*stage_roots(stage))
    loops = [node for node in every if isinstance(node, (Loop, While)) and lane in free_variables(node)]
    if not loops or any(isinstance(state, Private) for form in loops for state in form.state):
        return False
    if any(isinstance(form, Loop) and lane not in free_variables(form.count) for form in loops):
        return False
    if any(_finds_its_way(form) for form in loops):
        return False
    alone = sum(_cycles(form, lane, machine, False) for form in loops)
    return alone < sum(_cycles(form, lane, machine, True) * (1.0 if _follows(form) else LONGEST) for form in loops)


def _follows(form: Loop | While) -> bool:
    """Whether a trip count is arithmetic of indices and sizes."""
    return isinstance(form, Loop) and is_index_of(form.count, lambda node: isinstance(node, (Count, Var)))


def _cycles(form: Loop | While, lane: Var, machine: Machine, in_lanes: bool) -> float:
    """Returns the cycles of one iteration of one element."""
    nodes, is_gathered = list(scalar_nodes(*each_time(form))), depends_on([lane, *form.state])
    steady = in_lanes and isinstance(form, Loop)
    near = {node for node in nodes if steady and isinstance(node, Load) and _reads_neighbours(node, lane, is_gathered)}
    vectors = sum(ACCESS * node.dtype.bits / machine.vector_bits for node in near)
    return vectors + element_cycles([node for node in nodes if node not in near], machine, in_lanes, is_gathered)


def _reads_neighbours(load: Load, lane: Var, is_gathered: Callable[[Indices], bool]) -> bool:
    """Whether consecutive lanes read consecutive elements."""
    *rows, last = load.indices or (lane,)
    rest = ix.sub(last, lane)
    return lane not in free_variables(rest) and not is_gathered((*rows, rest))


def _finds_its_way(form: Loop | While) -> bool:
    """Whether an iteration reads at an index that the iteration before computed, other than as an induction variable."""
    found = {
        state for state, new in zip(form.state, form.body, strict=True) if not _is_steady(new, state, set(form.state))
    }
    loads = [node for node in scalar_nodes(*each_time(form)) if isinstance(node, Load)]
    return any(not found.isdisjoint(free_variables(i)) for load in loads for i in load.indices)


def _is_steady(e: Expr, state: Var, states: Collection[Node]) -> bool:
    """Whether a state is an induction variable: unchanged, or advanced by a loop-invariant amount."""
    if e is state or isinstance(e, Const):
        return True
    if not isinstance(e, Op):
        return False
    if e.name == "select":
        return all(_is_steady(arg, state, states) for arg in e.args[1:])
    if e.name in ("add", "sub") and e.args[0] is state:
        return free_variables(e.args[1]).isdisjoint(states)
    return e.name == "add" and e.args[1] is state and free_variables(e.args[0]).isdisjoint(states)
