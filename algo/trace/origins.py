"""The user's line in which the element type of a value arose, for messages about types that change."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from raido.algo.graph.expr import Const, Generate, Load, Op, Result
from raido.algo.graph.program import Site
from raido.algo.trace.context import current
from raido.algo.trace.locations import user_site
from raido.algo.trace.value import COUNTER, Array


def type_origin(compute: Callable[[], Any]) -> Site | None:
    """Returns the line in which the type of the result of `compute` arose, by running it again with lines recorded; None where it is
    unknown.

    The search goes from the result back through operands of the same type, as far as `compute` made them.
    """
    trace = current()
    lines: dict[Any, Site] = {}

    def note(value: Array, given: bool = False) -> None:
        if value.weak != COUNTER:
            lines.setdefault(value.node, user_site())

    tables, before, trace.note = trace.snapshot(), trace.note, note
    try:
        value = compute()
        return _first(value.node, value.dtype, lines, set())
    finally:
        trace.note = before
        trace.restore(tables)


def _first(node: Any, dtype: Any, lines: Mapping[Any, Site], seen: set[Any]) -> Site | None:
    if node in seen or getattr(node, "dtype", None) is not dtype:
        return None
    seen.add(node)
    for operand in _operands(node):
        if isinstance(operand, Const):  # equal literals are one node, whose line is that of any of them
            continue
        found = _first(operand, dtype, lines, seen)
        if found is not None:
            return found
    return lines.get(node)


def _operands(node: Any) -> tuple[Any, ...]:
    """Returns the operands that may have determined a value's type: neither conditions nor indices."""
    if isinstance(node, Op):
        return node.args[1:] if node.name == "select" else node.args
    if isinstance(node, Load):
        return (node.array,)
    if isinstance(node, Result) and isinstance(node.form, Generate):
        return (node.form.bodies[node.index],)
    return ()
