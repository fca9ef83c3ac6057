"""Structural keys of statements up to renaming: statements with equal keys become each other by renaming variables and buffers.

A key holds everything that code depends on: statements and expressions, with variables, buffers and common subexpressions numbered in the
order of their first use. Names of stages, loops and variables are left out. `LoopRows` also ignores differences of constants in
loop-invariant index expressions.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from raido.algo.graph.dtypes import DType, i64
from raido.algo.graph.expr import Const, Op, SizeVar, Var
from raido.algo.graph.node import Node, field_names
from raido.algo.graph.rewrite import children, post_order
from raido.schedule.nest.effects import bound_within
from raido.schedule.nest.nodes import For
from raido.schedule.nest.uses import PLAIN, fields_of, is_statement
from raido.schedule.nest.values import Buffer, VectorVar

_NEVER_FAULTING = (
    "add",
    "sub",
    "mul",
    "minimum",
    "maximum",
)  # operations that may be hoisted out of a loop speculatively
_NAMES = ("name", "serial", "stage", "loop")
_ATOMS = PLAIN | {DType}
_GIVEN = ("parameter", "result", "heap")  # scopes of buffers that are passed to a kernel by address


class KeyRows:
    """The rows of a key: one for each statement, variable, buffer and distinct expression; later rows refer to them by number."""

    def __init__(self) -> None:
        self.rows: list[tuple[Any, ...]] = []
        self.numbers: dict[Node, int] = {}

    def add(self, *row: Any) -> int:
        """Appends a row; returns its number."""
        self.rows.append(row)
        return len(self.rows) - 1

    def statement(self, s: Any) -> int:
        """Returns the number of a statement, whose parts have earlier rows."""
        values = [getattr(s, name) for name in _nameless_fields(type(s))]
        return self.add(type(s), *[value if type(value) in _ATOMS else self._part(value) for value in values])

    def expression(self, root: Node) -> int:
        """Returns the number of an expression or a buffer."""
        numbers = self.numbers
        if root not in numbers:
            below = self._below
            for node in post_order((root,), lambda node: [each for each in below(node) if each not in numbers]):
                numbers[node] = self._row(node)
        return numbers[root]

    def _below(self, node: Node) -> Sequence[Node]:
        """Returns the nodes whose rows precede that of a node."""
        return children(node)

    def _row(self, node: Node) -> int:
        if isinstance(node, Op):
            return self.add(Op, node.name, node.dtype, tuple(map(self.numbers.__getitem__, node.args)))
        if not isinstance(node, (Var, VectorVar, SizeVar, Buffer)):
            return self.add(type(node), *[self._part(getattr(node, name)) for name in field_names(type(node))])
        fields = [name for name in field_names(type(node)) if name not in _NAMES]
        values = [getattr(node, name) for name in fields]
        if isinstance(node, Buffer) and node.scope in _GIVEN:
            values[fields.index("scope")] = _GIVEN
        return self.add(type(node), *map(self._part, values))

    def _part(self, value: Any) -> Any:
        if type(value) in _ATOMS:
            return value
        if isinstance(value, Node):
            number = self.numbers.get(value)
            return self.expression(value) if number is None else number
        if isinstance(value, tuple):
            return tuple([self._part(each) for each in value])
        return self.statement(value) if is_statement(value) else value


class LoopRows(KeyRows):
    """The key of a loop up to constants in its free index expressions, and these expressions, `given`, in order.

    The loop takes as parameters its free variables and buffers, and every largest free i64 expression that contains a variable: bounds of
    the region that a stage is computed for differ in constants alone (`yo + 34`, `yo + 36`). The number of rows of a free buffer, which no
    address depends on, is no part of the key.
    """

    def __init__(self, loop: For) -> None:
        super().__init__()
        self.given: list[Node] = []
        self._bound = bound_within(loop)
        self._free: dict[Node, bool | None] = {}
        self.statement(loop)

    def _below(self, node: Node) -> Sequence[Node]:
        return () if self._is_given(node) else children(node)

    def _row(self, node: Node) -> int:
        if not self._is_given(node):
            return super()._row(node)
        self.given.append(node)
        if isinstance(node, Buffer):
            whole = node.strides or node.scope == "constant" or len(node.shape) < 2
            kept = node.shape if whole else node.shape[1:]
            scope = _GIVEN if node.scope in _GIVEN else node.scope
            rows = (self._part(kept), self._part(node.strides), len(node.shape))
            return self.add(Buffer, node.dtype, scope, node.lanes, node.data, *rows)
        if isinstance(node, Op) or (isinstance(node, Var) and node.dtype is i64):
            return self.add(Var, i64)
        return super()._row(node)

    def _is_given(self, node: Node) -> bool:
        if isinstance(node, (Var, VectorVar, SizeVar, Buffer)):
            return node not in self._bound
        return isinstance(node, Op) and node.dtype is i64 and bool(self._is_free(node))

    def _is_free(self, root: Node) -> bool | None:
        """Whether an index expression contains a variable, none of them bound in the loop; None for other kinds of expression."""
        known = self._free
        for node in post_order((root,), lambda e: () if e in known else children(e)):
            if node in known:
                continue
            known[node] = None
            if isinstance(node, (Const, SizeVar)):
                known[node] = False
            elif isinstance(node, Var):
                known[node] = True if node.dtype is i64 and node not in self._bound else None
            elif isinstance(node, Op) and node.dtype is i64 and node.name in _NEVER_FAULTING:
                below = [known[child] for child in node.args]
                known[node] = None if None in below else any(below)
        return known[root]


@functools.cache
def _nameless_fields(kind: type) -> tuple[str, ...]:
    """Returns the fields of a kind of statement that code depends on."""
    return tuple(name for name in fields_of(kind) if name not in _NAMES)
