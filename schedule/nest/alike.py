"""Keys of statements with names left out: equal keys are of statements that become each other by renaming variables and buffers.

A key is everything that code depends on: statements and expressions, with variables, buffers and shared expressions numbered in the
order in which they are met. Names of stages, loops and variables decide nothing but names.
"""

from __future__ import annotations

import functools
from typing import Any

from raido.algo.graph.expr import SizeVar, Var
from raido.algo.graph.node import Node, field_names
from raido.algo.graph.rewrite import children
from raido.schedule.nest.uses import fields_of, is_statement
from raido.schedule.nest.values import Buffer, VectorVar

_NAMES = ("name", "serial", "stage", "loop")
_GIVEN = ("parameter", "result", "heap")  # memory that a kernel is given by its address, wherever it comes from


class KeyRows:
    """The rows of a key: one for each statement, variable, buffer and different expression, which later rows call by its number."""

    def __init__(self) -> None:
        self.rows: list[tuple[Any, ...]] = []
        self.numbers: dict[Node, int] = {}

    def add(self, *row: Any) -> int:
        """The number of a new row."""
        self.rows.append(row)
        return len(self.rows) - 1

    def statement(self, s: Any) -> int:
        """The number of a statement, whose parts come before it."""
        return self.add(type(s), *[self._part(getattr(s, name)) for name in _nameless_fields(type(s))])

    def expression(self, root: Node) -> int:
        """The number of an expression or a buffer."""
        stack = [root]
        while stack:
            node = stack[-1]
            below = [] if node in self.numbers else [child for child in children(node) if child not in self.numbers]
            if below:
                stack += reversed(below)
                continue
            stack.pop()
            if node not in self.numbers:
                self.numbers[node] = self._row(node)
        return self.numbers[root]

    def _row(self, node: Node) -> int:
        if not isinstance(node, (Var, VectorVar, SizeVar, Buffer)):
            return self.add(type(node), *[self._part(getattr(node, name)) for name in field_names(type(node))])
        fields = [name for name in field_names(type(node)) if name not in _NAMES]
        values = [getattr(node, name) for name in fields]
        if isinstance(node, Buffer) and node.scope in _GIVEN:
            values[fields.index("scope")] = _GIVEN
        return self.add(type(node), *map(self._part, values))

    def _part(self, value: Any) -> Any:
        if isinstance(value, Node):
            number = self.numbers.get(value)
            return self.expression(value) if number is None else number
        if isinstance(value, tuple):
            return tuple([self._part(each) for each in value])
        return self.statement(value) if is_statement(value) else value


@functools.cache
def _nameless_fields(kind: type) -> tuple[str, ...]:
    """The fields of a kind of statement that code depends on."""
    return tuple(name for name in fields_of(kind) if name not in _NAMES)
