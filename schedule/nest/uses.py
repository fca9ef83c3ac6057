"""Uses of statements: the free variables and buffers that become parameters of functions and kernels."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from raido.algo.graph.expr import Node, SizeVar, Var
from raido.algo.graph.rewrite import children
from raido.schedule.nest.effects import binds, binds_inside
from raido.schedule.nest.nodes import Alloc, Certificate, Check, Fold, Statement, While
from raido.schedule.nest.values import Buffer, VectorVar

_VARIABLES = (Var, SizeVar, VectorVar)
PLAIN = frozenset((str, int, bool, type(None)))  # types of fields that contain no nodes or statements


@functools.cache
def fields_of(kind: type) -> tuple[str, ...]:
    """Returns the names of the fields of a kind of statement."""
    return tuple(field.name for field in fields(kind))


def parts(s: Any) -> Iterator[Any]:
    """Yields the values of a statement's fields, tuples flattened."""
    for name in fields_of(type(s)):
        value = getattr(s, name)
        if isinstance(value, tuple):
            yield from value
        else:
            yield value


def may_fail(s: Statement) -> bool:
    """Whether a statement itself, without those inside it, can record faults."""
    return isinstance(s, Check) or (isinstance(s, While) and s.site >= 0)


def is_statement(part: Any) -> bool:
    """Whether a part of a statement is a statement, or a record with parts, such as a certificate."""
    return type(part) not in PLAIN and not isinstance(part, Node) and hasattr(part, "__dataclass_fields__")


class Uses:
    """The free variables and buffers of statements, in order of first use, and whether they may record a fault or allocate heap memory."""

    def __init__(self, *statements: Statement) -> None:
        self.variables: dict[Any, None] = {}
        self.buffers: dict[Buffer, None] = {}
        self.folded: set[Buffer] = set()  # free scalar accumulators that are folded into
        self.faults = False
        self._bound: set[Any] = set()
        self._seen: set[Node] = set()
        for s in statements:
            self._statement(s)

    def _statement(self, s: Any) -> None:
        self._bound.update(binds(s))
        self._bound.update(binds_inside(s))
        if isinstance(s, Fold) and not s.indices:
            self.folded.update(b for b in s.buffers if b not in self._bound)
        self.faults |= may_fail(s) or (isinstance(s, Alloc) and s.buffer.scope == "heap")
        seen = self._seen
        for name in fields_of(type(s)):
            value = getattr(s, name)
            if type(value) in PLAIN:
                continue
            for part in value if isinstance(value, tuple) else (value,):
                if isinstance(part, Node):
                    if part not in seen:
                        self._expression(part)
                elif is_statement(part) and not isinstance(part, Certificate):
                    self._statement(part)

    def _expression(self, e: Node) -> None:
        seen, stack = self._seen, [e]
        while stack:
            node = stack.pop()
            if node in seen:
                continue
            seen.add(node)
            if isinstance(node, Buffer):
                self._buffer(node)
                continue
            below = children(node)
            if below:
                stack += below
            elif isinstance(node, _VARIABLES) and node not in self._bound:
                self.variables[node] = None

    def _buffer(self, buffer: Buffer) -> None:
        if buffer not in self._bound:
            self.buffers[buffer] = None
        self._shape(buffer)

    def _shape(self, buffer: Buffer) -> None:
        for extent in (*buffer.shape, *buffer.strides):
            self._expression(extent)
