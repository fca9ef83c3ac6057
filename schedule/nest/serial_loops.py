"""Array loops that one thread runs: one kernel each, with their scalar states in registers.

    s: f64 heap;  s_next: f64 heap                      produce loop_1:
    for t in 0..n:                                        s, s_next: f64 register
      produce loop_1/elementwise_1: s_next = f(s)          s = (memory of s)
      produce loop_1/update_1: out[t] = f(s)      becomes  for t in 0..n:
      swap s, s_next                                         produce …: s_next = f(s)
                                                             produce …: out[t] = f(s)
                                                             s = s_next

A recurrence then waits for its arithmetic alone: not for a call of a kernel for each stage, nor for a store and the load after it, and
LLVM sees that two stages make the same value. This holds for loops without loops over threads, in which only scalars change places. A check
that fails ends loops that data ends, in a kernel as on the host's level (`targets/emit/statements`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence, Set
from dataclasses import replace
from operator import is_

from raido.algo.graph.expr import fresh
from raido.schedule.nest.effects import buffers_read, touched, written
from raido.schedule.nest.nodes import (
    Alloc,
    Block,
    Copy,
    For,
    If,
    Let,
    Nest,
    Produce,
    Statement,
    Store,
    Swap,
    View,
    While,
)
from raido.schedule.nest.replace_buffers import replace_buffers
from raido.schedule.nest.values import Buffer, Read, new_serial, replaced
from raido.schedule.nest.walk import expressions_of, statements_within, with_blocks, with_statements


def serial_loops(nest: Nest) -> Nest:
    """The nest with each array loop that one thread runs as a stage of its own."""
    if not any(isinstance(s, (For, While)) for s in _on_host(nest.body)):
        return nest
    viewed = {b for s in statements_within(nest.body) if isinstance(s, View) for b in (s.source, s.buffer)}
    body = _block(nest.body, viewed, frozenset(nest.inputs))
    return nest if body is nest.body else replace(nest, body=body)


def _block(block: Block, viewed: Set[Buffer], before: frozenset[Buffer]) -> Block:
    """A block of the host's level; `before`: the buffers that hold something when it begins."""
    statements: list[Statement] = []
    made = {s.buffer for s in block.statements if isinstance(s, Alloc)}
    for k, s in enumerate(block.statements):
        new = _statement(s, viewed, before)
        if isinstance(new, (For, While)):
            later = touched(*block.statements[k + 1 :]) if k + 1 < len(block.statements) else set()
            new = _as_stage(new, viewed, before, later | (touched(new) - made)) or new
        statements.append(new)
        before |= written(s)
    if all(map(is_, statements, block.statements)):
        return block
    used = touched(*statements)
    return Block(tuple(s for s in statements if not isinstance(s, Alloc) or s.buffer in used))


def _statement(s: Statement, viewed: Set[Buffer], before: frozenset[Buffer]) -> Statement:
    """A statement of the host's level, with the loops inside it as stages."""
    if not isinstance(s, (If, While)) and not (isinstance(s, For) and s.kind == "serial"):
        return s
    if isinstance(s, While):
        before |= written(s.setup)
    return with_blocks(s, lambda block: _block(block, viewed, before), setups=False)


def _as_stage(
    loop: For | While, viewed: Set[Buffer], before: Collection[Buffer], needed: Collection[Buffer]
) -> Produce | None:
    """A loop as one stage; None where threads share its work, or memory changes hands in it."""
    within = list(statements_within(loop))
    if not any(isinstance(s, Produce) for s in within) or not viewed.isdisjoint(touched(loop)):
        return None
    if any(isinstance(s, View) or (isinstance(s, For) and s.kind == "parallel") for s in within):
        return None
    if any(isinstance(s, Copy) and s.source.shape for s in within):
        return None
    if any(isinstance(s, Swap) and (s.left.shape or s.left.scope != "heap" or s.right.scope != "heap") for s in within):
        return None
    if any(isinstance(s, Alloc) and s.buffer.scope == "heap" and s.buffer.shape for s in _on_host(loop.body)):
        return None
    moved = _with_moves(loop)
    own = {s.buffer for s in within if isinstance(s, Alloc)}
    scalars = [b for b in written(moved) if not b.shape and b.scope in ("heap", "parameter")]
    registers: dict[Buffer, Buffer] = {}
    first: list[Statement] = []
    last: list[Statement] = []
    for buffer in sorted(scalars, key=lambda b: (b.name, b.serial)):
        held = replaced(buffer, scope="register", serial=new_serial())
        if buffer in own:
            registers[buffer] = held
            continue
        begins = buffer in before
        if not begins and not (buffer not in needed and _is_stored_first(buffer, loop)):
            continue
        registers[buffer] = held
        first.append(Alloc(held))
        if begins:
            first.append(Store(held, (), Read(buffer, (), None)))
        if buffer in needed:
            last.append(Store(buffer, (), Read(held, (), None)))
    body = replace_buffers(Block((moved,)), registers).statements
    return Produce(loop.stage if isinstance(loop, For) else "", Block((*first, *body, *last)))


def _on_host(block: Block) -> list[Statement]:
    """The statements of the host's level in a block, those inside stages left out."""
    found: list[Statement] = []
    for s in block.statements:
        found.append(s)
        if isinstance(s, Block):
            found += _on_host(s)
        elif isinstance(s, (For, While)):
            found += _on_host(s.body)
        elif isinstance(s, If):
            found += [*_on_host(s.then), *(_on_host(s.orelse) if s.orelse else ())]
    return found


def _is_stored_first(buffer: Buffer, loop: For | While) -> bool:
    """Whether every iteration stores a scalar before it reads it."""
    stack: list[Statement] = [loop.body, *((loop.setup,) if isinstance(loop, While) else ())]
    while stack:
        s = stack.pop()
        if isinstance(s, Block):
            stack += reversed(s.statements)
        elif isinstance(s, Produce):
            stack.append(s.body)
        elif buffer in touched(s):
            return (
                isinstance(s, Store)
                and s.buffer is buffer
                and s.predicate is None
                and not buffers_read(expressions_of(s)) & {buffer}
            )
    return False


def _with_moves(loop: For | While) -> For | While:
    """A loop in which scalars are moved where their memory was swapped or copied."""

    def block(b: Block) -> Block:
        statements: list[Statement] = []
        for s in b.statements:
            if isinstance(s, Swap):
                statements += _moved(s)
            elif isinstance(s, Copy):
                statements.append(Store(s.destination, (), Read(s.source, (), None)))
            else:
                statements.append(inside(s))
        return with_statements(b, statements)

    def inside(s: Statement) -> Statement:
        return with_blocks(s, block, setups=False) if isinstance(s, (For, If, While)) else s

    return with_blocks(loop, block, setups=False)


def _moved(swap: Swap) -> Sequence[Statement]:
    """What moves a scalar, or exchanges two, in place of their memory."""
    left, right = Read(swap.left, (), None), Read(swap.right, (), None)
    if not swap.needed:
        return (Store(swap.left, (), right),)
    kept = fresh("kept", swap.left.dtype)
    return Let(kept, left), Store(swap.left, (), right), Store(swap.right, (), kept)
