"""What is interpreted but not compiled: asking for its machine code is one clear error that names the form and the user's line."""

from __future__ import annotations

from raido.algo.errors import CompileError, explain
from raido.algo.graph.expr import (
    Count,
    Filter,
    Node,
)
from raido.algo.graph.program import Program
from raido.algo.graph.rewrite import topological
from raido.algo.graph.scopes import open_variables


def require_compilable(program: Program) -> None:
    """CompileError for a form that has no loops yet."""
    nodes = topological(*program.results)
    for node in nodes:
        if isinstance(node, Count) and open_variables(node):
            _refuse(program, getattr(node.array, "form", node), "a size that depends on the data")
        if isinstance(node, Filter) and open_variables(node):
            _refuse(program, node, "rd.filter inside a function of elements")


def _refuse(program: Program, node: Node, what: str) -> None:
    site = program.sites.get(node)
    raise CompileError(
        explain(
            f"{program.name}: {what} has no machine code yet",
            **{"algorithm": None if site is None else str(site), "try": f"{program.name}.interpret(…)"},
        )
    )
