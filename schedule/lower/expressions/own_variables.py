"""Renames the variables of scalar loops that occur twice, because assumptions about a loop are recorded by its variables.

    t = while_loop(…, start of y) < while_loop(…, start of x)        one state s in both, unless one of them is renamed

A stage that is inlined at two indices leaves its loops in two places, with different initial values and trip counts. So do folds whose
length depends on an index.
"""

from __future__ import annotations

from collections.abc import Iterator

from raido.algo.graph.expr import Expr, Loop, Node, Reduce, Var, While, fresh
from raido.algo.graph.rewrite import scalar_nodes
from raido.schedule.stages.tables import Tables


def with_own_variables(bodies: tuple[Expr, ...], tables: Tables) -> tuple[Expr, ...]:
    """The expressions of a stage with each variable bound by one loop."""
    while True:
        nodes = scalar_nodes(*bodies)
        twice = _second_binder(nodes)
        if twice is None:
            return bodies
        names: dict[Node, Node] = {var: fresh(var.name, var.dtype) for var, _ in _bound(twice)}
        apart = tables.renew(scalar_nodes(twice), names)[twice]
        memo = tables.renew(nodes, {twice: apart})
        bodies = tuple(memo[body] for body in bodies)


def _second_binder(nodes: list[Node]) -> Node | None:
    """A loop that binds a variable of an earlier loop; None if there is none."""
    first: dict[Var, Node] = {}
    for node in nodes:
        if any(first.setdefault(var, owner) is not owner for var, owner in _bound(node)):
            return node
    return None


def _bound(node: Node) -> Iterator[tuple[Var, Node]]:
    """The variables that a node binds, each with its owner: the loop, or the axis of a fold, which folds of the same length share."""
    if isinstance(node, (Loop, While)):
        yield from ((var, node) for var in node.state)
    if isinstance(node, Loop):
        yield node.index, node
    if isinstance(node, Reduce):
        yield from ((axis.var, axis) for axis in node.axes)
