"""Rewriting of expressions and buffers inside statements."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from operator import is_
from typing import Any

from raido.algo.graph.expr import Node
from raido.algo.graph.rewrite import transform
from raido.schedule.nest.nodes import Alloc, Block
from raido.schedule.nest.uses import PLAIN, fields_of
from raido.schedule.nest.values import Buffer
from raido.schedule.nest.walk import map_block, with_blocks


def map_expressions(
    s: Any,
    change: Callable[[Node], Node],
    allocate: Callable[[Buffer], Buffer],
    known: Mapping[Node, Node] | None = None,
) -> Any:
    """Applies `change` bottom-up to every expression of a statement, and `allocate` to every buffer that it allocates.

    known: replacements of some expressions, to which, and to whose operands, `change` is not applied.
    """
    memo: dict[Node, Node] = dict(known or {})

    def expression(e: Node) -> Node:
        return transform(e, change, memo)

    def statement(s: Any) -> Any:
        if isinstance(s, Alloc):
            made = allocate(s.buffer)
            return s if made is s.buffer else replace(s, buffer=made)
        changed = {}
        for name in fields_of(type(s)):
            value = getattr(s, name)
            new = value if type(value) in PLAIN else convert(value)
            if new is not value:
                changed[name] = new
        return replace(s, **changed) if changed else s

    def convert(value: Any) -> Any:
        if isinstance(value, Node):
            return expression(value)
        if isinstance(value, tuple):
            new = tuple([convert(v) for v in value])
            return value if all(map(is_, new, value)) else new
        if hasattr(value, "__dataclass_fields__"):
            return statement(value)
        return value

    return statement(s)


def replace_buffers(block: Block, buffers: Mapping[Buffer, Buffer]) -> Block:
    """Returns the block with some buffers replaced, in their allocations and uses."""
    if not buffers:
        return block
    return map_expressions(block, lambda e: buffers.get(e, e), lambda b: buffers.get(b, b))  # type: ignore[call-overload]


def replace_allocations(block: Block, buffers: Mapping[Buffer, Buffer]) -> Block:
    """Returns the block with some buffers replaced in their allocations; nothing in it uses them."""

    def inside(b: Block) -> Block:
        return map_block(b, statement)

    def statement(s: Any) -> Any:
        if not isinstance(s, Alloc):
            return with_blocks(s, inside)
        return replace(s, buffer=buffers[s.buffer]) if s.buffer in buffers else s

    return inside(block)
