"""Removal of arrays that are never read: results passed in registers between fused stages, and unused results of scans and filters.

scan_1[x] = prefix;  out[x] = a[x] - prefix              becomes      out[x] = a[x] - prefix
append kept[n++], out[n++] = test, a[x] where test       becomes      append out[n++] = a[x] where test
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from raido.algo.graph.expr import Node
from raido.schedule.nest.effects import buffers_read
from raido.schedule.nest.nodes import Alloc, Append, Block, Certificate, For, Nest, Statement, Store
from raido.schedule.nest.uses import is_statement, parts
from raido.schedule.nest.values import Buffer
from raido.schedule.nest.walk import statements_within, with_blocks


def drop_unread(nest: Nest) -> Nest:
    """Removes the nest's own arrays that are stored or appended to, element by element, and not mentioned elsewhere."""
    statements = list(statements_within(nest.body))
    own = {s.buffer for s in statements if isinstance(s, Alloc) and s.buffer.scope == "heap"}
    unread = own & {buffer for s in statements for buffer in _given(s)}
    if unread:
        unread -= {buffer for s in statements for buffer in _mentioned(s)}
    for s in statements:
        if isinstance(s, Append) and unread.issuperset(s.buffers):
            unread.discard(s.buffers[0])  # one buffer stays, since the append also advances the position
    return replace(nest, body=_without(nest.body, unread)) if unread else nest


def _given(s: Statement) -> tuple[Buffer, ...]:
    """Returns the buffers to which a statement stores or appends an element."""
    return (s.buffer,) if isinstance(s, Store) else s.buffers if isinstance(s, Append) else ()


def _mentioned(s: Any) -> Iterator[Buffer]:
    """Yields the buffers that a statement mentions, apart from its allocations, certificates, and those it stores or appends to."""
    nodes: list[Any] = [part for part in parts(s) if isinstance(part, Node)]
    yield from buffers_read(nodes)
    if not isinstance(s, Alloc | Certificate):
        given = _given(s)
        yield from (node for node in nodes if isinstance(node, Buffer) and node not in given)
    for part in parts(s):
        if is_statement(part) and not isinstance(part, Statement):
            yield from _mentioned(part)


def _without(s: Any, unread: set[Buffer]) -> Any:
    """Returns a statement, or a block, without those arrays."""
    if isinstance(s, Block):
        rest = [each for each in s.statements if not (isinstance(each, Alloc | Store) and each.buffer in unread)]
        return Block(tuple(_without(each, unread) for each in rest))
    if isinstance(s, Append):
        pairs = [(b, v) for b, v in zip(s.buffers, s.values, strict=True) if b not in unread]
        return replace(s, buffers=tuple(b for b, _ in pairs), values=tuple(v for _, v in pairs))
    made = with_blocks(s, lambda block: _without(block, unread))
    if not isinstance(made, For) or not made.certificates:
        return made
    kept = [Certificate(c.by, tuple(b for b in c.buffers if b not in unread)) for c in made.certificates]
    return replace(made, certificates=tuple(kept))
