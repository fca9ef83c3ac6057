"""Arrays that are never alive at the same time share memory.

On the host level, an array's lifetime runs from the first statement that mentions it to the last. A later array of the same dtype and shape
takes over the memory of one that is dead by then. Buffers that are swapped or viewed keep their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from raido.schedule.nest.effects import touched
from raido.schedule.nest.nodes import Alloc, Block, For, If, Nest, Statement, Swap, View, While
from raido.schedule.nest.replace_buffers import replace_buffers
from raido.schedule.nest.values import Buffer
from raido.schedule.nest.walk import statements_within, with_statements


def share_buffers(nest: Nest) -> Nest:
    """Returns the nest with fewer allocations on the host level."""
    statements = list(statements_within(nest.body))
    swapped = {b for s in statements if isinstance(s, Swap) for b in (s.left, s.right)}
    swapped |= {s.source for s in statements if isinstance(s, View)}
    body = _share(nest.body, swapped)
    return nest if body is nest.body else replace(nest, body=body)


def _share(block: Block, swapped: set[Buffer]) -> Block:
    statements = [_inside(s, swapped) for s in block.statements]
    if not _some_alike(statements, swapped):
        return with_statements(block, statements)
    first: dict[Buffer, int] = {}
    last: dict[Buffer, int] = {}
    for k, statement in enumerate(statements):
        if not isinstance(statement, Alloc):
            for buffer in touched(statement):
                first.setdefault(buffer, k)
                last[buffer] = k
    kept: dict[Any, list[Buffer]] = {}
    renamed: dict[Buffer, Buffer] = {}
    rest: list[Statement] = []
    for statement in statements:
        buffer = _shareable(statement, swapped)
        if buffer is not None and buffer in first:
            same = kept.setdefault(_shape_of(buffer), [])
            dead = next((b for b in same if last[b] < first[buffer]), None)
            if dead is not None:
                renamed[buffer] = dead
                last[dead] = last[buffer]
                continue
            same.append(buffer)
        rest.append(statement)
    if not renamed:
        return with_statements(block, rest)
    return replace_buffers(Block(tuple(rest)), renamed)


def _some_alike(statements: Sequence[Statement], swapped: set[Buffer]) -> bool:
    """Whether the block allocates two arrays of one dtype and shape that may share memory."""
    found = [_shape_of(buffer) for s in statements if (buffer := _shareable(s, swapped)) is not None]
    return len(set(found)) < len(found)


def _shareable(statement: Statement, swapped: set[Buffer]) -> Buffer | None:
    """The array that a statement allocates, if it may share memory."""
    buffer = statement.buffer if isinstance(statement, Alloc) else None
    return buffer if buffer is not None and buffer.scope == "heap" and buffer not in swapped else None


def _shape_of(buffer: Buffer) -> tuple[Any, ...]:
    return buffer.dtype, buffer.shape, buffer.strides


def _inside(statement: Statement, swapped: set[Buffer]) -> Statement:
    """Applies `_share` to the blocks of the host's loops and branches, each a level of its own."""
    if isinstance(statement, For):
        body = _share(statement.body, swapped)
        return statement if body is statement.body else replace(statement, body=body)
    if isinstance(statement, If):
        orelse = statement.orelse and _share(statement.orelse, swapped)
        return replace(statement, then=_share(statement.then, swapped), orelse=orelse)
    if isinstance(statement, While):
        return replace(statement, body=_share(statement.body, swapped))
    return statement
