"""Kernels that are alike: one function serves all of them, called with the memory and the numbers of each.

Programs repeat themselves (sweeps, layers, levels of a pyramid), and LLVM takes its time for every copy of a kernel. Two kernels are
alike where each becomes the other by renaming variables and buffers. `kernel_key` is everything that the emitter looks at: statements
and expressions, with variables, buffers and shared expressions numbered in the order in which they are met, and what is known outside
of the variables that are not the kernel's own. Names of stages, loops and variables decide nothing but names.
"""

from __future__ import annotations

from typing import Any

from raido.algo.graph.expr import SizeVar, Var
from raido.algo.graph.node import Node, field_names
from raido.algo.graph.rewrite import children
from raido.schedule.nest.nodes import Block
from raido.schedule.nest.uses import Uses, fields_of
from raido.schedule.nest.values import Buffer, VectorVar
from raido.targets.emit.unit import Unit

_NAMES = ("name", "serial", "stage", "loop")
_GIVEN = ("parameter", "result", "heap")  # memory that a kernel is given by its address, wherever it comes from


def kernel_key(body: Block, uses: Uses, outer: Unit) -> tuple[Any, ...]:
    """The key of a kernel of the host plan, equal for those that are alike: as `uses` lists what they are given, in the same order."""
    rows = _Rows()
    rows.statement(body)
    for variable in uses.variables:
        term, known = outer.variables.get(variable), outer.known.get(variable)
        number = term if isinstance(term, int) else None
        indexes = variable in outer.index_like
        rows.add(rows.expression(variable), indexes, number, None if known is None else rows.expression(known))
    return tuple(rows.rows)


class _Rows:
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
        parts = [self._part(getattr(s, name)) for name in fields_of(type(s)) if name not in _NAMES]
        return self.add(type(s), *parts)

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
        named = isinstance(node, (Var, VectorVar, SizeVar, Buffer))
        fields = [name for name in field_names(type(node)) if not (named and name in _NAMES)]
        values = [getattr(node, name) for name in fields]
        if isinstance(node, Buffer) and node.scope in _GIVEN:
            values[fields.index("scope")] = _GIVEN
        return self.add(type(node), *map(self._part, values))

    def _part(self, value: Any) -> Any:
        if isinstance(value, Node):
            return self.expression(value)
        if isinstance(value, tuple):
            return tuple(map(self._part, value))
        return self.statement(value) if hasattr(value, "__dataclass_fields__") else value
