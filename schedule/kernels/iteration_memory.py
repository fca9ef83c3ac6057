"""Memory that the iterations of a loop allocate: private to the thread where it is small, else a slot of an array in device memory.

    for x in 0..n by threads:                 for x in 0..n by threads:
      row: f32[w] heap            becomes       row[slot, y] = …            row: f32[slots, w] in device memory
      row[y] = …

Sizes must be known before the launch, or bounded by values known there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import prod

from raido.algo.graph import index as ix
from raido.algo.graph.assumptions import Interval, interval
from raido.algo.graph.expr import Expr, Node, Var
from raido.algo.graph.rewrite import free_variables, substitute
from raido.schedule.kernels.limits import Limits
from raido.schedule.kernels.thread_code import thread_memory
from raido.schedule.nest.effects import bound_within, reads_memory
from raido.schedule.nest.nodes import Alloc, AtomicUpdate, Block, For, Let, Statement, Store
from raido.schedule.nest.replace_buffers import map_expressions
from raido.schedule.nest.values import Buffer, Read, replaced
from raido.schedule.nest.walk import blocks_of, map_statements


@dataclass(slots=True)
class IterationMemory:
    """The arrays that statements allocate: those private to the thread (`own`), and those in device memory with upper
    bounds of their shapes (`slots`).

    unbounded: an array whose size has no bound that is known before the statements run, if there is one.
    """

    own: list[Buffer] = field(default_factory=list)
    slots: dict[Buffer, tuple[Expr, ...]] = field(default_factory=dict)
    unbounded: Buffer | None = None


def iteration_memory(statement: Statement, limits: Limits) -> IterationMemory:
    """Classifies the arrays that a statement, or those inside it, allocate."""
    found = IterationMemory()
    _look(statement, {}, {}, frozenset(bound_within(statement)), limits, found)
    return found


def _look(
    s: Statement,
    known: dict[Node, Expr],
    ranges: dict[Var, Interval],
    inside: frozenset[Node],
    limits: Limits,
    found: IterationMemory,
) -> None:
    if isinstance(s, Alloc):
        sizes = [ix.constant_value(ix.canonical(e)) for e in s.buffer.shape]
        private = limits.private if s.buffer.scope == "heap" else limits.scratch
        if None not in sizes and prod(n or 0 for n in sizes) * s.buffer.dtype.itemsize <= private:
            found.own.append(s.buffer)
            return
        bounds = [_largest(substitute(e, known), ranges, inside) for e in s.buffer.shape]
        extents = tuple(e for e in bounds if e is not None)
        if len(extents) < len(bounds):
            found.unbounded = s.buffer
        found.slots[s.buffer] = extents
        return
    if isinstance(s, Let) and isinstance(s.var, Var) and ix.counts((substitute(s.value, known),)):
        known[s.var] = substitute(s.value, known)
    if isinstance(s, For):
        ranges = {**ranges, s.var: (substitute(s.low, known), ix.sub(substitute(s.high, known), 1))}
    for block in (s,) if isinstance(s, Block) else blocks_of(s):
        inner = dict(known)
        for each in block.statements:
            _look(each, inner, ranges, inside, limits, found)


def _largest(e: Expr, ranges: Mapping[Var, Interval], inside: frozenset[Node]) -> Expr | None:
    """An upper bound of a size, in terms of values known outside the statements; None where there is none."""
    for _ in range(len(ranges) + 1):
        if inside.isdisjoint(free_variables(e)):
            break
        bounds = interval(e, ranges)
        if bounds is None or bounds[1] is e:
            return None
        e = bounds[1]
    if not inside.isdisjoint(free_variables(e)) or reads_memory(e):
        return None
    return ix.maximum(e, 0)


def place_memory(block: Block, memory: IterationMemory, slot: Expr, slots: Expr) -> tuple[Block, list[Buffer]]:
    """The code of a thread with its arrays in their memory; and the buffers in device memory, with a leading axis, of which the thread uses
    index `slot` of `slots`."""
    own = {buffer: thread_memory(buffer) for buffer in memory.own}
    given = {
        buffer: replaced(buffer, shape=(slots, *shape), strides=(), scope="heap")
        for buffer, shape in memory.slots.items()
    }

    def expression(e: Node) -> Node:
        if isinstance(e, Read) and e.buffer in given:
            return Read(given[e.buffer], (slot, *e.indices), e.predicate)
        return own.get(e, e) if isinstance(e, Buffer) else e

    def statement(s: Statement) -> Iterator[Statement]:
        if isinstance(s, (Store, AtomicUpdate)) and s.buffer in given:
            yield replace(s, buffer=given[s.buffer], indices=(slot, *s.indices))
        elif not (isinstance(s, Alloc) and s.buffer in given):
            yield s

    moved = map_statements(block, statement) if given else block
    return map_expressions(moved, expression, lambda b: own.get(b, b)), list(given.values())
