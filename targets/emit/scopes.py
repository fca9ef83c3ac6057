"""Analyses and rewrites of memory scopes in functions: allocations hoisted, registers shared between threads, buffers swapped.

Nothing here emits code.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from operator import is_
from typing import Any

from raido.algo.graph.rewrite import topological
from raido.schedule.nest.effects import binds
from raido.schedule.nest.nodes import (
    Alloc,
    Block,
    For,
    If,
    Ordered,
    Produce,
    Swap,
    While,
)
from raido.schedule.nest.uses import Uses
from raido.schedule.nest.values import Buffer
from raido.schedule.nest.walk import blocks_of, statements_within


def is_ordered(block: Block) -> bool:
    """Whether a loop with this body has ordered sections of its own."""
    return any(
        isinstance(s, Ordered)
        or (not (isinstance(s, For) and s.kind == "parallel") and any(is_ordered(b) for b in blocks_of(s)))
        or (isinstance(s, Block) and is_ordered(s))
        for s in block.statements
    )


def hoist_heap(block: Block, repeated: bool = False) -> tuple[Block, list[Alloc]]:
    """Hoists heap allocations out of serial loops and nested blocks as far as their sizes are known; returns the rewritten block and the
    allocations that leave it.

    Allocations leave branches only if the block is `repeated`: otherwise a branch that is not taken allocates nothing. Blocks without
    allocations stay the same objects.
    """
    moved: list[Alloc] = []
    kept: list[Any] = []
    bound: set[Any] = set()
    for s in block.statements:
        if isinstance(s, Alloc) and s.buffer.scope == "heap" and not _mentions(s.buffer, bound):
            moved.append(s)
            continue
        bound.update(binds(s))
        rebuilt, found = _hoist_from(s, repeated)
        for alloc in found:
            (kept if _mentions(alloc.buffer, bound) else moved).append(alloc)
        kept.append(rebuilt)
    same = len(kept) == len(block.statements) and all(map(is_, kept, block.statements))
    return block if same else Block(tuple(kept)), moved


def _hoist_from(s: Any, repeated: bool) -> tuple[Any, list[Alloc]]:
    if isinstance(s, Block):
        return hoist_heap(s, repeated)
    if isinstance(s, For) and s.kind != "parallel":
        body, found = hoist_heap(s.body, True)
        here = [a for a in found if _mentions(a.buffer, {s.var})]
        body = Block((*here, *body.statements)) if here else body
        return s if body is s.body else replace(s, body=body), [a for a in found if a not in here]
    if isinstance(s, Produce):
        body, found = hoist_heap(s.body, repeated)
        return s if body is s.body else replace(s, body=body), found
    if isinstance(s, If):
        then, found = hoist_heap(s.then, repeated)
        orelse, more = hoist_heap(s.orelse, repeated) if s.orelse else (None, [])
        if not repeated:
            then, orelse = Block((*found, *then.statements)), orelse and Block((*more, *orelse.statements))
            return replace(s, then=then, orelse=orelse), []
        return s if then is s.then and orelse is s.orelse else replace(s, then=then, orelse=orelse), found + more
    if isinstance(s, While):
        body, found = hoist_heap(s.body, True)
        bound = {node for x in s.setup.statements for node in binds(x)}
        here = [a for a in found if _mentions(a.buffer, bound)]
        body = Block((*here, *body.statements)) if here else body
        return replace(s, body=body), [a for a in found if a not in here]
    return s, []


def _mentions(buffer: Buffer, variables: set[Any]) -> bool:
    return bool(variables) and any(
        node in variables for extent in (*buffer.shape, *buffer.strides) for node in topological(extent)
    )


def shared_registers(*statements: Any) -> set[Buffer]:
    """Register buffers that a parallel loop uses but does not allocate itself: they must be in memory."""
    every = [s for within in statements for s in statements_within(within)]
    loops = [s for s in every if isinstance(s, For) and s.kind == "parallel"]
    made = _registers_of(every) if loops else set()
    around = ((loop, made - _registers_of(statements_within(loop))) for loop in loops)
    return {buffer for loop, outside in around if outside for buffer in outside.intersection(Uses(loop.body).buffers)}


def _registers_of(statements: Iterable[Any]) -> set[Buffer]:
    """Register buffers that statements allocate."""
    return {s.buffer for s in statements if isinstance(s, Alloc) and s.buffer.scope == "register"}


def swapped_buffers(block: Block) -> dict[Buffer, None]:
    """Buffers whose contents are exchanged by `Swap`."""
    swaps = [s for s in statements_within(block) if isinstance(s, Swap)]
    return {buffer: None for s in swaps for buffer in (s.left, s.right)}
