"""Software pipelining (Lam, 1988) of copies to shared memory, which run ahead of the loop that reads them, as `store(buffers=n)` says.

    for ro in 0..k step 8:                       ring: f32[2, 64, 8] shared
      tile: f32[64, 8] shared                    ring[0] = tile of 0 (asynchronous);  commit copies
      tile = a[.., ro..ro + 8]      becomes      for ro in 0..k step 8:
      … tile …                                     await copies
                                                   if ro + 8 < k: ring[(ro + 8)//8 % 2] = tile of ro + 8 (asynchronous)
                                                   commit copies
                                                   … ring[ro//8 % 2] …

With n buffers iteration i copies the tile that iteration i + n − 1 reads, into the buffer that iteration i − 1 has read, and awaits all
groups but those of the last n − 2 iterations. Copies of different stages that run ahead of one loop form one group.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from raido.algo.errors import CompileError
from raido.algo.graph import index as ix
from raido.algo.graph.dtypes import bool_
from raido.algo.graph.expr import Expr, Node, Op, Var, fresh
from raido.schedule.machine import WIDEST_ACCESS
from raido.schedule.nest.effects import bound_within, touched, written
from raido.schedule.nest.nodes import (
    Alloc,
    AwaitCopies,
    Block,
    CommitCopies,
    For,
    If,
    Let,
    Statement,
    Store,
)
from raido.schedule.nest.replace_buffers import map_expressions
from raido.schedule.nest.uses import Uses
from raido.schedule.nest.values import Buffer, Read, new_serial, replaced, strides_of
from raido.schedule.nest.walk import with_blocks


def run_copies_ahead(block: Block) -> Block:
    """Returns the statements with every buffer of several iterations as a ring, filled ahead of the loop around it.

    A loop with one iteration is no loop in the nest, and its buffer gets no ring.
    """
    return Block(tuple(made for s in block.statements for made in _statement(s)))


def _statement(s: Statement) -> Iterable[Statement]:
    if isinstance(s, For) and s.kind == "serial" and any(_is_ring(each) for each in s.body.statements):
        return _Pipeline(s).statements()
    if _is_ring(s):
        return (replace(s, buffers=1),)
    return (with_blocks(s, run_copies_ahead),)


def _is_ring(s: Statement) -> bool:
    return isinstance(s, Alloc) and s.buffers > 1


@dataclass(frozen=True, slots=True)
class _Ring:
    """The copies into one buffer: `copies`, in terms of the loop's variable and of `names`, and the ring `made` of `count` buffers."""

    buffer: Buffer
    made: Buffer
    count: int
    names: tuple[Let, ...]
    copies: tuple[Statement, ...]


class _Pipeline:
    """One loop, and the buffers into which copies run ahead of it."""

    def __init__(self, loop: For) -> None:
        self.loop = loop
        buffers = {s.buffer: s.buffers for s in loop.body.statements if isinstance(s, Alloc) and s.buffers > 1}
        self.rings = [self._ring(buffer, count) for buffer, count in buffers.items()]
        copied = {s for ring in self.rings for s in ring.copies}
        made = {ring.buffer for ring in self.rings}
        self.rest = [
            s for s in loop.body.statements if s not in copied and not (isinstance(s, Alloc) and s.buffer in made)
        ]

    def _ring(self, buffer: Buffer, count: int) -> _Ring:
        body = self.loop.body.statements
        copies = tuple(s for s in body if buffer in written(s))
        if any(written(s) != {buffer} or (isinstance(s, Store) and s.predicate is not None) for s in copies):
            raise CompileError(f"internal: {buffer.name} is made together with something else")
        changed = written(*body)
        names: dict[Node, Let] = {s.var: s for s in body if isinstance(s, Let)}
        needed: dict[Node, Let] = {}
        pending: list[Statement] = list(copies)
        while pending:
            for node in Uses(pending.pop()).variables:
                if node in names and node not in needed:
                    needed[node] = names[node]
                    pending.append(names[node])
        read = touched(*copies, *needed.values()) - {buffer}
        if not changed.isdisjoint(read):
            raise CompileError(f"internal: {buffer.name} is copied from what the loop around it changes")
        ordered = tuple(s for s in body if isinstance(s, Let) and s.var in needed)
        return _Ring(buffer, _memory(buffer, count), count, ordered, copies)

    def statements(self) -> Iterable[Statement]:
        """The allocations, the copies before the loop, and the loop."""
        loop, counts = self.loop, sorted({ring.count for ring in self.rings})
        yield from (Alloc(ring.made) for ring in self.rings)
        for group in range(1 - counts[-1], 0):
            for count in counts:
                if group + count > 0:
                    yield self._copies(count, ix.add(loop.low, (group + count - 1) * loop.step))
            yield CommitCopies()
        ahead = [self._copies(count, ix.add(loop.var, (count - 1) * loop.step)) for count in counts]
        slots = {count: self._slot(count, loop.var) for count in counts}
        rings = {ring.buffer: (ring.made, slots[ring.count].var) for ring in self.rings}
        used = [_in_rings(s, rings, asynchronous=False) for s in self.rest]
        rest = run_copies_ahead(Block(tuple(used)))
        body = (AwaitCopies(counts[0] - 2), *ahead, CommitCopies(), *slots.values(), *rest.statements)
        yield replace(loop, body=Block(body))

    def _slot(self, count: int, value: Expr) -> Let:
        """Names the index in rings of `count` buffers of the iteration at `value`."""
        iteration = ix.floordiv(ix.sub(value, self.loop.low), self.loop.step)
        return Let(fresh("slot"), ix.mod(iteration, count))

    def _copies(self, count: int, value: Expr) -> Statement:
        """The copies of the iteration at `value` to rings of `count` buffers, behind the test that there is such an iteration."""
        loop, begin, made = self.loop, fresh(self.loop.var.name), list[Statement]()
        slot = self._slot(count, begin)
        for ring in self.rings:
            if ring.count == count:
                statements = (*ring.names, *ring.copies)
                own = [v for v in bound_within(*statements) if isinstance(v, Var)]
                renamed: dict[Node, Node] = {loop.var: begin, **{v: fresh(v.name, v.dtype) for v in own}}
                made += [_in_rings(s, {ring.buffer: (ring.made, slot.var)}, True, renamed) for s in statements]
        return Block((Let(begin, value), If(Op("lt", bool_, (begin, loop.high)), Block((slot, *made)))))


def _memory(buffer: Buffer, count: int) -> Buffer:
    """The ring's buffer for several iterations, each beginning at a multiple of the widest access."""
    strides = strides_of(buffer)
    size = 1 + sum((_number(n) - 1) * _number(by) for n, by in zip(buffer.shape, strides, strict=True))
    together = WIDEST_ACCESS // buffer.dtype.itemsize
    apart = -(-size // together) * together
    shape = (ix.as_index(count), *buffer.shape)
    return replaced(buffer, shape=shape, strides=(ix.as_index(apart), *strides), serial=new_serial())


def _number(e: Expr) -> int:
    return ix.constant_value(ix.canonical(e)) or 0


def _without_names(block: Block) -> Iterable[Statement]:
    """The statements of a copy without names of elements that are stored at once: an asynchronous copy passes through no register."""
    kept: list[Statement] = []
    for s in block.statements:
        last = kept[-1] if kept else None
        if isinstance(s, Store) and isinstance(last, Let) and s.value is last.var:
            kept[-1] = replace(s, value=last.value)
        else:
            kept.append(s)
    return kept


def _in_rings(
    s: Any, rings: Mapping[Buffer, tuple[Buffer, Expr]], asynchronous: bool, known: Mapping[Node, Node] | None = None
) -> Any:
    """A statement with accesses to buffers redirected to their rings, given by buffer the ring and the index in it. asynchronous: stores of
    unpredicated reads become asynchronous copies."""

    def change(e: Node) -> Node:
        if isinstance(e, Read) and e.buffer in rings:
            made, slot = rings[e.buffer]
            return Read(made, (slot, *e.indices), e.predicate)
        return e

    def stores(s: Any) -> Any:
        if isinstance(s, Store) and s.buffer in rings:
            made, slot = rings[s.buffer]
            copies = asynchronous and isinstance(s.value, Read) and s.value.predicate is None and s.predicate is None
            return replace(s, buffer=made, indices=(slot, *s.indices), asynchronous=copies)
        return with_blocks(
            s, lambda block: Block(tuple(map(stores, _without_names(block) if asynchronous else block.statements)))
        )

    return stores(map_expressions(s, change, lambda b: b, known))
