"""Dependences of a program's nodes on variables, which determine the frame in which a value is kept."""

from __future__ import annotations

from collections.abc import Container
from typing import cast

from raido.algo.graph.expr import Array, ArrayLoop, ArrayWhile, Node, Parameter, Var
from raido.algo.graph.program import Program
from raido.algo.graph.rewrite import bound_variables, children, topological
from raido.algo.interpreter.lanes import Bound

NOTHING: Bound = frozenset()


def dependencies(program: Program, binders: Container[type[Node]]) -> dict[Node, Bound]:
    """For each node, the variables and loop states that it mentions and does not bind."""
    table: dict[Node, Bound] = {}
    for node in topological(*cast("tuple[Array, ...]", program.results)):
        below = [table[child] for child in children(node)]
        distinct = set(below)
        found: Bound = next(iter(distinct)) if len(distinct) == 1 else NOTHING.union(*distinct)
        if isinstance(node, Var) or (isinstance(node, Parameter) and node.serial):
            found |= {node}
        elif type(node) in binders:
            found -= bound_variables(node)
            if isinstance(node, (ArrayLoop, ArrayWhile)):
                found -= frozenset(node.state)
        table[node] = found
    return table
