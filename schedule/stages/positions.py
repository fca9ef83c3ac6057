"""Elements that are chosen by their position: by a rule for what lies outside an array, or by a comparison of indices alone.

Loops of maps, stencils and reductions are cut where such a choice begins and ends to vanish; those of scans, filters, sorts and updates
are not, and would ask at every element.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set

from raido.algo.graph.expr import Cond, Expr, Load, Node, Op, Var
from raido.algo.graph.index import BOUNDARY_OPS
from raido.algo.graph.rewrite import scalar_nodes


def is_bounded(indices: Sequence[Expr | None]) -> bool:
    """Whether an index is brought inside an array by a rule for what lies outside."""
    nodes = scalar_nodes(*(e for e in indices if e is not None))
    return any(isinstance(node, Op) and node.name in BOUNDARY_OPS for node in nodes)


def is_chosen(nodes: Iterable[Node], variables: Set[Var]) -> bool:
    """Whether scalars of elements, whose indices are these variables, are chosen by position, or read by a rule for what lies outside."""
    nodes = list(nodes)
    return chooses_by_position(nodes, variables) or any(is_bounded(n.indices) for n in nodes if isinstance(n, Load))


def chooses_by_position(nodes: Iterable[Node], variables: Set[Var]) -> bool:
    """Whether a choice between two values depends on these variables, and on nothing that is loaded."""
    predicates: list[Node] = []
    for node in nodes:
        if isinstance(node, Cond):
            predicates.append(node.predicate)
        elif isinstance(node, Op) and node.name == "select":
            predicates.append(node.args[0])
    for predicate in predicates:
        below = scalar_nodes(predicate)
        mentioned = {node for node in below if isinstance(node, Var)}
        if mentioned and mentioned <= variables and not any(isinstance(node, Load) for node in below):
            return True
    return False
