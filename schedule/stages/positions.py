"""Elements selected by their position: by a boundary condition, or by a comparison of indices alone.

Index-set splitting removes such selections from the loops of maps, stencils and reductions; scans, filters, sorts and updates are not
split, and would evaluate them at every element.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set

from raido.algo.graph.expr import Cond, Expr, Load, Node, Op, Var
from raido.algo.graph.index import BOUNDARY_OPS
from raido.algo.graph.rewrite import scalar_nodes


def is_bounded(indices: Sequence[Expr | None]) -> bool:
    """Whether an index has a boundary condition."""
    nodes = scalar_nodes(*(e for e in indices if e is not None))
    return any(isinstance(node, Op) and node.name in BOUNDARY_OPS for node in nodes)


def is_chosen(nodes: Iterable[Node], variables: Set[Var]) -> bool:
    """Whether scalars of elements, whose indices are these variables, are selected by position, or read by a boundary condition."""
    nodes = list(nodes)
    return chooses_by_position(nodes, variables) or any(is_bounded(n.indices) for n in nodes if isinstance(n, Load))


def chooses_by_position(nodes: Iterable[Node], variables: Set[Var]) -> bool:
    """Whether a condition between two values depends on these variables, and on nothing that is loaded."""
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
