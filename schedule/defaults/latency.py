"""How many gangs run side by side where each operation waits for the one before.

Elements with loops of their own (`rd.while_loop`, `rd.loop`): each round waits for the one before. Its N operations, on paths of at
most D one after the other, leave units idle unless `IN_FLIGHT` are under way: that takes IN_FLIGHT · D / N gangs. They are the next
power of two, at most 4, and never more than registers hold: a gang needs one for each state, for each value from outside that differs
between lanes, and two for the rest.

Elements that are one long chain, as a weighted sum of many neighbours is: the next gang comes too late to fill the gaps, so as many
run side by side.
"""

from __future__ import annotations

from raido.algo.graph.expr import Axis, Cond, Expr, Load, Loop, Node, Op, Var, While
from raido.algo.graph.rewrite import children, free_variables, scalar_nodes
from raido.schedule.defaults.demand import CHEAP, cost
from raido.schedule.machine import Machine
from raido.schedule.stages.reads import scalars_of
from raido.schedule.stages.stage import Stage

IN_FLIGHT = 8  # two units, results after four cycles
MOST = 4
LONG = 48  # operations: two such chains fill the window in which a processor looks for work


def is_long_chain(stage: Stage) -> bool:
    """Whether an element is made by many cheap operations, most of them one after the other."""
    operations = cost(stage)
    if stage.reduction is not None or len(stage.bodies) != 1 or operations < LONG:
        return False
    depth: dict[Node, int] = {}
    for node in scalar_nodes(*stage.bodies):
        before = 0 if isinstance(node, Load) else max((depth.get(e, 0) for e in children(node)), default=0)
        depth[node] = before + _latency(node) * isinstance(node, Op)
    return 4 * depth[stage.bodies[0]] >= 3 * operations


def gangs_of_rounds(stage: Stage, vector: Axis, machine: Machine) -> int:
    """Gangs side by side for the innermost loops of the elements of a stage; 1 where they have none."""
    loops = [node for node in scalars_of(stage) if isinstance(node, (Loop, While))]
    inner = [node for node in loops if not any(other in loops for other in scalar_nodes(*_rounds(node)))]
    return min((_gangs(node, vector.var, machine) for node in inner), default=1)


def _rounds(loop: Loop | While) -> tuple[Expr, ...]:
    """What every round computes."""
    return (*loop.body, loop.condition) if isinstance(loop, While) else loop.body


def _gangs(loop: Loop | While, lane: Var, machine: Machine) -> int:
    states = set(loop.state)
    changing = states | ({loop.index} if isinstance(loop, Loop) else set())
    operations, longest = 0, 0
    depth: dict[Node, int] = {}
    held: set[Node] = set()
    for node in scalar_nodes(*_rounds(loop)):
        if free_variables(node).isdisjoint(changing):
            continue
        held |= {e for e in children(node) if free_variables(e).isdisjoint(changing) and lane in free_variables(e)}
        cost = _latency(node)
        operations += cost
        depth[node] = cost + max((depth.get(e, 0) for e in children(node)), default=0)
        longest = max(longest, depth[node])
    wanted = 1 << (IN_FLIGHT * longest // max(operations, 1)).bit_length()
    most = min(MOST, machine.registers // (len(states) + len(held) + 2))
    return min(wanted, 1 << max(most, 1).bit_length() - 1)


def _latency(node: Node) -> int:
    if isinstance(node, Load):
        return 2
    if isinstance(node, Cond):
        return IN_FLIGHT
    return 0 if not isinstance(node, Op) else 1 if node.name in CHEAP else 20
