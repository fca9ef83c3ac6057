"""Array loops that one thread runs, as one kernel each, with their scalar states in registers and small arrays in its frame.

    s: f64 heap;  s_next: f64 heap                      produce loop_1:
    for t in 0..n:                                        s, s_next: f64 register
      produce loop_1/elementwise_1: s_next = f(s)          s = (memory of s)
      produce loop_1/update_1: out[t] = f(s)      becomes  for t in 0..n:
      swap s, s_next                                         produce …: s_next = f(s)
                                                             produce …: out[t] = f(s)
                                                             s = s_next

The latency of a recurrence is then that of its arithmetic, without a kernel call for each stage, or a store and a load, and LLVM sees
common subexpressions of stages. States of few numbers, such as a position or the scores of four letters, are likewise copied number by
number, in the frame of the kernel, and LLVM makes them registers where all indices are constants. It applies to loops without parallel
loops inside, in which no other memory is swapped. A failed check ends data-dependent loops in a kernel as on the host level
(`targets/emit/statements`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Set
from dataclasses import replace
from operator import is_

from raido.schedule.nest.effects import buffers_read, touched, viewed, written
from raido.schedule.nest.nodes import (
    Alloc,
    Block,
    Copy,
    For,
    If,
    Nest,
    Produce,
    Statement,
    Store,
    Swap,
    View,
    While,
)
from raido.schedule.nest.passes.rows_outside import FEW, exchange
from raido.schedule.nest.replace_buffers import replace_buffers
from raido.schedule.nest.values import Buffer, Read, elements_of, indices_of, new_serial, replaced
from raido.schedule.nest.walk import blocks_of, expressions_of, statements_within, with_blocks, with_statements


def serial_loops(nest: Nest) -> Nest:
    """Makes each array loop that one thread runs a stage of its own."""
    if not any(isinstance(s, (For, While)) for s in _on_host(nest.body)):
        return nest
    body = _block(nest.body, viewed(nest.body), frozenset(nest.inputs))
    return nest if body is nest.body else replace(nest, body=body)


def _block(block: Block, viewed: Set[Buffer], before: frozenset[Buffer]) -> Block:
    """Returns a block of the host level with such loops as stages; `before`: the buffers with contents when it begins."""
    statements: list[Statement] = []
    made = {s.buffer for s in block.statements if isinstance(s, Alloc)}
    for k, s in enumerate(block.statements):
        new = _statement(s, viewed, before)
        if isinstance(new, (For, While)):
            later = touched(*block.statements[k + 1 :]) if k + 1 < len(block.statements) else set()
            new = _as_stage(new, viewed, before, later | (touched(new) - made), made) or new
        statements.append(new)
        before |= written(s)
    if all(map(is_, statements, block.statements)):
        return block
    used = touched(*statements)
    return Block(tuple(s for s in statements if not isinstance(s, Alloc) or s.buffer in used))


def _statement(s: Statement, viewed: Set[Buffer], before: frozenset[Buffer]) -> Statement:
    """Returns a statement of the host level with the loops inside it as stages."""
    if not isinstance(s, (If, While)) and not (isinstance(s, For) and s.kind == "serial"):
        return s
    if isinstance(s, While):
        before |= written(s.setup)
    return with_blocks(s, lambda block: _block(block, viewed, before), setups=False)


def _as_stage(
    loop: For | While,
    viewed: Set[Buffer],
    before: Collection[Buffer],
    needed: Collection[Buffer],
    made: Collection[Buffer],
) -> Produce | None:
    """Returns a loop as one stage; None where it has parallel loops, or memory is swapped in it.

    needed: the buffers whose contents are read after the loop. made: memory allocated in the enclosing block, whose contents are undefined
    unless in `before`.
    """
    within = list(statements_within(loop))
    if not any(isinstance(s, Produce) for s in within) or not viewed.isdisjoint(touched(loop)):
        return None
    if any(isinstance(s, View) or (isinstance(s, For) and s.kind == "parallel") for s in within):
        return None
    if any(isinstance(s, Copy) and not (_is_few(s.source) and _is_few(s.destination)) for s in within):
        return None
    if any(isinstance(s, Swap) and not (_is_own(s.left) and _is_own(s.right)) for s in within):
        return None
    if any(isinstance(s, Alloc) and s.buffer.scope == "heap" and not _is_few(s.buffer) for s in _on_host(loop.body)):
        return None
    moved = _with_moves(loop)
    own = {s.buffer for s in within if isinstance(s, Alloc)}
    changed = [b for b in written(moved) if _is_few(b) and b.scope in ("heap", "parameter")]
    held: dict[Buffer, Buffer] = {}
    first: list[Statement] = []
    last: list[Statement] = []
    for buffer in sorted(changed, key=lambda b: (b.name, b.serial)):
        inside = replaced(buffer, scope="stack" if buffer.shape else "register", serial=new_serial())
        if buffer in own:
            held[buffer] = inside
            continue
        begins = buffer in before
        empty = buffer in made if buffer.shape else _is_stored_first(buffer, loop)
        if not begins and not (buffer not in needed and empty):
            continue
        held[buffer] = inside
        first.append(Alloc(inside))
        if begins:
            first += [Store(inside, at, Read(buffer, at, None)) for at in indices_of(buffer)]
        if buffer in needed:
            last += [Store(buffer, at, Read(inside, at, None)) for at in indices_of(buffer)]
    body = replace_buffers(Block((moved,)), held).statements
    return Produce(loop.stage if isinstance(loop, For) else "", Block((*first, *body, *last)))


def _is_few(buffer: Buffer) -> bool:
    """Whether a buffer is a scalar, or an array of few numbers."""
    numbers = elements_of(buffer)
    return numbers is not None and numbers <= FEW and not buffer.strides and buffer.lanes == 1


def _is_own(buffer: Buffer) -> bool:
    """Whether a buffer is an array of few numbers on the program's heap."""
    return _is_few(buffer) and buffer.scope == "heap"


def _on_host(block: Block) -> Iterator[Statement]:
    """Yields the statements of the host level in a block, without those inside stages."""
    for s in block.statements:
        yield s
        for inner in () if isinstance(s, Produce) else (s,) if isinstance(s, Block) else blocks_of(s):
            yield from _on_host(inner)


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
    """Returns a loop with swaps and copies of memory replaced by moves of the numbers."""

    def block(b: Block) -> Block:
        statements: list[Statement] = []
        for s in b.statements:
            if isinstance(s, Swap):
                statements += exchange(s, (), ())
            elif isinstance(s, Copy):
                statements += [Store(s.destination, at, Read(s.source, at, None)) for at in indices_of(s.source)]
            else:
                statements.append(inside(s))
        return with_statements(b, statements)

    def inside(s: Statement) -> Statement:
        return with_blocks(s, block, setups=False) if isinstance(s, (For, If, While)) else s

    return with_blocks(loop, block, setups=False)
