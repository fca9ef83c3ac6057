"""The cost of expressions for one element, computed alone or as a lane of a gang: arithmetic by its throughput, memory by its accesses.

In lanes, accesses at an index of each lane's own are gathers and scatters, one lane at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import prod

from raido.algo.graph import index
from raido.algo.graph.expr import Changed, Element, Expr, Fill, Load, Loop, Op, While
from raido.algo.graph.node import Node
from raido.algo.graph.rewrite import free_variables
from raido.schedule.cost.operations import cost_of
from raido.schedule.machine import Machine

GATHERED = 1.0  # cycles for each lane of a gather, or of a scatter instruction
BY_ITSELF = 5.0  # cycles for each lane of a scatter without an instruction: extract, test, store
EXTRACTED = 2.0  # cycles for each lane of a store at a stride, without a scatter instruction: extract, store
SCATTERING_BITS = 512  # of the shortest vectors that have a scatter instruction
UNFORESEEN = 7.0  # cycles of a branch on average: half of a misprediction
ACCESS = 0.5  # cycles of a load or a store

Indices = tuple[Expr, ...]


def element_cycles(
    nodes: Iterable[Node], machine: Machine, in_lanes: bool, is_gathered: Callable[[Indices], bool]
) -> float:
    """Returns the cycles of nodes, each computed once for an element. is_gathered: whether lanes access memory at indices of their own."""
    total = 0.0
    for node in nodes:
        if isinstance(node, Op):
            cost = cost_of(node.name, node.dtype, node.args[0].dtype)
            total += cost.vector * node.args[0].dtype.bits / machine.vector_bits if in_lanes else cost.scalar
        elif isinstance(node, (Element, Load)):
            total += GATHERED if in_lanes and is_gathered(node.indices) else ACCESS
        elif isinstance(node, Changed):
            by_lane = GATHERED if machine.vector_bits >= SCATTERING_BITS else BY_ITSELF
            total += len(node.values) * (by_lane if in_lanes and is_gathered(node.indices) else ACCESS)
        elif isinstance(node, Fill):
            total += ACCESS * prod(index.constant_value(axis.extent) or 1 for axis in node.axes)
    return total


def each_time(form: Loop | While) -> tuple[Expr, ...]:
    """Returns the expressions that every iteration computes."""
    return (*form.body, form.condition) if isinstance(form, While) else form.body


def depends_on(variables: Iterable[Node]) -> Callable[[Indices], bool]:
    """Returns the test whether indices depend on any of some variables, which differ between lanes."""
    apart = frozenset(variables)
    return lambda indices: any(not apart.isdisjoint(free_variables(i)) for i in indices)
