"""What is interpreted but not compiled: asking for its machine code is one clear error that names the form and the user's line."""

from __future__ import annotations

from raido.algo.errors import CompileError, explain
from raido.algo.graph.expr import (
    Count,
    Filter,
    Node,
)
from raido.algo.graph.program import Program
from raido.algo.graph.rewrite import scalar_nodes, topological
from raido.algo.graph.scopes import open_variables


def require_compilable(program: Program) -> None:
    """CompileError for a form that has no loops yet."""
    nodes = topological(*program.results)
    for node in nodes:
        if isinstance(node, Count):
            owners = [form for form in program.order if node.array in getattr(form, "state", ())]
            if owners or open_variables(node):
                _refuse(program, (*owners, getattr(node.array, "form", node))[0], "a size that depends on the data")
        if isinstance(node, Filter) and open_variables(node):
            _refuse(program, node, "rd.filter inside a function of elements")
    for result in program.results:
        for node in scalar_nodes(*result.shape):
            if isinstance(node, Count) and node.bound is None:
                _refuse(program, getattr(node.array, "form", node), "a result whose size nothing bounds before it runs")


def _refuse(program: Program, node: Node, what: str) -> None:
    site = program.sites.get(node)
    raise CompileError(
        explain(
            f"{program.name}: {what} has no machine code yet",
            **{"algorithm": None if site is None else str(site), "try": f"{program.name}.interpret(…)"},
        )
    )
