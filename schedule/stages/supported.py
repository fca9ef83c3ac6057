"""What is interpreted but not compiled: asking for its machine code is one clear error that names the form and the user's line."""

from __future__ import annotations

from raido.algo.errors import CompileError, explain
from raido.algo.expr import (
    Checked,
    Count,
    Filter,
    Node,
    Segmented,
    Sort,
)
from raido.algo.program import Program
from raido.algo.rewrite import topological
from raido.algo.scopes import open_variables

_INTERPRETED = (Segmented, Sort)


def require_compilable(program: Program) -> None:
    """CompileError for a form that has no loops yet."""
    nodes = topological(*program.results)
    for form in program.order:
        if isinstance(form, _INTERPRETED):
            _refuse(program, form, f"rd.{program.kinds.get(form, type(form).__name__.lower())}")
    for node in nodes:
        if isinstance(node, Count):
            owners = [form for form in program.order if node.array in getattr(form, "state", ())]
            if owners or node.bound is None or open_variables(node):
                _refuse(program, (*owners, getattr(node.array, "form", node))[0], "a size that depends on the data")
        if isinstance(node, Filter) and open_variables(node):
            _refuse(program, node, "rd.filter inside a function of elements")
        if isinstance(node, Checked):
            _refuse(program, node, "a checked size")


def _refuse(program: Program, node: Node, what: str) -> None:
    site = program.sites.get(node)
    raise CompileError(
        explain(
            f"{program.name}: {what} has no machine code yet",
            **{"algorithm": None if site is None else str(site), "try": f"{program.name}.interpret(…)"},
        )
    )
