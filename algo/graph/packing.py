"""A program as flat data for `pickle`: its nodes in postorder, so that deep graphs need no deep recursion.

Serial numbers of variables mean nothing in another process: `unpack` gives every variable a new one, in the old order.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, TypeAlias

from raido.algo.graph.expr import Parameter, Var, new_serial
from raido.algo.graph.node import Node, field_names
from raido.algo.graph.program import Program, SizeCheck
from raido.algo.graph.rewrite import topological

Row: TypeAlias = "tuple[type[Node], tuple[Any, ...]]"


@dataclass(frozen=True, slots=True)
class NodeAt:
    """A reference to a node of a program, by its position in the rows."""

    position: int


def pack(program: Program) -> tuple[list[Row], list[Any]]:
    """The rows of a program's nodes, and the program's fields with `NodeAt` for nodes."""
    positions: dict[Node, int] = {}
    for node in topological(*_roots(program)):
        positions[node] = len(positions)

    def flat(value: Any) -> Any:
        if isinstance(value, Node):
            return NodeAt(positions[value])
        return tuple(map(flat, value)) if isinstance(value, tuple) else value

    rows = [(type(node), tuple(flat(getattr(node, name)) for name in field_names(type(node)))) for node in positions]
    values = []
    for each in fields(program):
        value = getattr(program, each.name)
        if each.name == "size_checks":
            value = tuple(tuple(flat(getattr(check, part.name)) for part in fields(check)) for check in value)
        elif each.name in _TABLES:
            value = [(positions[node], entry) for node, entry in value.items()]
        elif each.name == "named_axes":
            value = [positions[node] for node in value]
        else:
            value = flat(value)
        values.append(value)
    return rows, values


def unpack(rows: list[Row], values: list[Any]) -> Program:
    """The inverse of `pack`, with fresh variables."""
    numbered = sorted({arguments[-1] for kind, arguments in rows if kind in _NUMBERED})
    serials = {old: new_serial() if old else 0 for old in numbered}  # 0: a parameter of the program, known by its name
    nodes: list[Node] = []

    def built(value: Any) -> Any:
        if isinstance(value, NodeAt):
            return nodes[value.position]
        return tuple(map(built, value)) if isinstance(value, tuple) else value

    for kind, arguments in rows:
        if kind in _NUMBERED:
            arguments = (*arguments[:-1], serials[arguments[-1]])
        nodes.append(kind(*map(built, arguments)))
    made: dict[str, Any] = {}
    for each, value in zip(fields(Program), values, strict=True):
        if each.name == "size_checks":
            made[each.name] = tuple(SizeCheck(*built(check)) for check in value)
        elif each.name in _TABLES:
            made[each.name] = {nodes[position]: entry for position, entry in value}
        elif each.name == "named_axes":
            made[each.name] = frozenset(nodes[position] for position in value)
        else:
            made[each.name] = built(value)
    return Program(**made)


_TABLES = ("names", "kinds", "sites")
_NUMBERED = (Var, Parameter)  # their last field is the serial number


def _roots(program: Program) -> list[Node]:
    """Every node in a field of the program."""
    checked = [side for check in program.size_checks for side in (check.left, check.right)]
    tables = [node for name in _TABLES for node in getattr(program, name)]
    return [
        *program.parameters,
        *program.sizes,
        *program.results,
        *program.order,
        *program.named_axes,
        *checked,
        *tables,
    ]
