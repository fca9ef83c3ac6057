"""Arrays that nothing reads: what stages in one set of loops hand on in registers need not be stored, nor have memory.

scan_1[x] = prefix;  out[x] = a[x] - prefix        becomes      out[x] = a[x] - prefix
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from raido.algo.graph.expr import Node
from raido.schedule.nest.effects import buffers_read
from raido.schedule.nest.nodes import Alloc, Block, Nest, Statement, Store
from raido.schedule.nest.uses import fields_of, is_statement, parts
from raido.schedule.nest.values import Buffer
from raido.schedule.nest.walk import statements_within


def drop_unread(nest: Nest) -> Nest:
    """The nest without the arrays of its own that are stored to, element by element, and not mentioned elsewhere."""
    statements = list(statements_within(nest.body))
    own = {s.buffer for s in statements if isinstance(s, Alloc) and s.buffer.scope == "heap"}
    unread = own & {s.buffer for s in statements if isinstance(s, Store)}
    if unread:
        unread -= {buffer for s in statements for buffer in _mentioned(s)}
    return replace(nest, body=_without(nest.body, unread)) if unread else nest


def _mentioned(s: Any) -> Iterator[Buffer]:
    """The buffers that a statement mentions, apart from where it is said that there is one, and from the target of a store."""
    nodes = [part for part in parts(s) if isinstance(part, Node)]
    yield from buffers_read(nodes)
    if not isinstance(s, Alloc | Store):
        yield from (node for node in nodes if isinstance(node, Buffer))
    for part in parts(s):
        if is_statement(part) and not isinstance(part, Statement):
            yield from _mentioned(part)


def _without(s: Any, unread: set[Buffer]) -> Any:
    """A statement, or a block, without those arrays."""
    if isinstance(s, Block):
        kept = [each for each in s.statements if not (isinstance(each, Alloc | Store) and each.buffer in unread)]
        return Block(tuple(_without(each, unread) for each in kept))
    inside = {name: getattr(s, name) for name in fields_of(type(s))}
    changed = {name: _without(part, unread) for name, part in inside.items() if isinstance(part, Block)}
    return replace(s, **changed) if changed else s
