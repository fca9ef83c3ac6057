"""Finds choices between integers to be emitted as conditional moves rather than branches: those on which no load depends.

LLVM makes a branch of a choice in a scalar loop where its operands are available late. A correctly predicted branch lets later loads start
before the choice is known, as in a binary search of a large array; a misprediction costs some fifteen cycles, and the smallest of three
neighbours in a table is not predictable. So choices that decide the address of a load are left to LLVM, and all others are conditional
moves, one cycle each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from raido.algo.graph.expr import Op, Var
from raido.algo.graph.rewrite import children, topological
from raido.schedule.nest.nodes import Let, Store
from raido.schedule.nest.values import Buffer, Read, lanes_of
from raido.schedule.nest.walk import expressions_of

CHOICES = ("select", "minimum", "maximum")


def choices_without_loads(within: Sequence[Any]) -> frozenset[Op]:
    """Scalar integer choices in the values of these statements that no index of a memory read depends on."""
    made = [
        s.value for s in within if isinstance(s, Let | Store) and s.value.dtype.is_integer and lanes_of(s.value) == 1
    ]
    choices = {node for node in topological(*made) if isinstance(node, Op) and _is_choice(node)}
    if not choices:
        return frozenset()
    nodes = topological(*(e for s in within for e in expressions_of(s)))
    values: dict[Var | Buffer, list[Any]] = {}
    for s in within:
        if isinstance(s, Let):
            values.setdefault(s.var, []).append(s.value)  # type: ignore[arg-type]
        elif isinstance(s, Store) and s.buffer.scope == "register":
            values.setdefault(s.buffer, []).append(s.value)
    seen: set[Any] = set()
    stack: list[Any] = [e for node in nodes if isinstance(node, Read) for e in node.indices]
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        stack += children(node)
        if not isinstance(node, Read) or not node.indices or node.buffer.scope == "register":
            stack += values.pop(node.buffer if isinstance(node, Read) else node, ())  # type: ignore[arg-type]
    return frozenset(choices - seen)


def _is_choice(e: Op) -> bool:
    return e.name in CHOICES and e.dtype.is_integer and lanes_of(e) == 1
