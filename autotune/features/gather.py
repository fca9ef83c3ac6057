"""Gathers a nest into a tree of loops: one walk over all statements, in order, with the forms of the integers in scope."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from raido.algo.graph.dtypes import i64
from raido.algo.graph.expr import Node, Op
from raido.autotune.features.ends import Ends, ends_read
from raido.autotune.features.forms import TYPICAL_COUNT
from raido.autotune.features.likelihood import likelihood, range_of
from raido.autotune.features.values import SCALAR, VECTOR, Values
from raido.schedule.cost.affine import DATA, Form, opaque, plus, variable
from raido.schedule.cost.operations import cost_of
from raido.schedule.cost.tree import Loop
from raido.schedule.machine import Machine
from raido.schedule.nest.carry import carried_in_order
from raido.schedule.nest.collect import collected_in_order
from raido.schedule.nest.effects import binds, is_scan, writes
from raido.schedule.nest.nodes import (
    Alloc,
    Append,
    AtomicUpdate,
    AwaitCopies,
    Block,
    Carry,
    Check,
    Collect,
    CommitCopies,
    Copy,
    Fold,
    For,
    If,
    Let,
    Nest,
    Ordered,
    Prefetch,
    Produce,
    Statement,
    Store,
    Swap,
    View,
    While,
)
from raido.schedule.nest.values import Buffer, Read
from raido.schedule.nest.walk import blocks_of, expressions_of

_ATOMIC_CYCLES = 20.0  # also of a lane that takes its turn


def gather(nest: Nest, machine: Machine, sizes: Mapping[str, int]) -> Walk:
    """The walk over a scalar nest; `root` is its tree."""
    walk = Walk(machine, sizes, ends_read(nest.body))
    walk.block(nest.body, 1.0)
    return walk


class Walk(Values):
    """Cost rules of all statements."""

    def __init__(self, machine: Machine, sizes: Mapping[str, int], ends: Mapping[Buffer, Ends]) -> None:
        super().__init__(machine, sizes, ends)
        self.written: dict[int, frozenset[Buffer]] = {}

    # Statements

    def block(self, block: Block, weight: float) -> None:
        """Counts all statements of a block; values computed inside are not reused after it."""
        known = len(self.live)
        self.weights[-1] *= weight
        for statement in block.statements:
            self.statement(statement)
        self.weights[-1] /= weight or 1.0
        while len(self.live) > known:
            self.live.popitem()

    def statement(self, s: Statement) -> None:
        """Counts one statement."""
        rule = _STATEMENTS.get(type(s))
        if rule is None:
            raise TypeError(f"not a statement of a scalar nest: {s!r}")
        rule(self, s)

    def let(self, s: Let) -> None:
        self.values((s.value,))
        self._bind(s.var, self.forms.of(s.value))
        chain = self.chained.get(s.value)
        if chain is not None:
            self.chained[s.var] = chain

    def _bind(self, variable: Node, form: Form) -> None:
        if self.forms.bind(variable, form):
            self.live.clear()

    def alloc(self, s: Alloc) -> None:
        loop, weight = self.stack[-1], self.weights[-1]
        self.allocated_in[s.buffer] = len(self.stack)
        if self.vector is not None:
            self.private[s.buffer] = self.vector.bit
        if s.buffer.scope == "register":
            gangs = self.vector.interleave if self.vector is not None else 1
            bits = 8 * self.bytes_of(s.buffer)
            loop.registers += gangs * max(bits / self.machine.vector_bits, 1.0)
        if s.buffer.scope == "heap":
            loop.allocations += weight
            loop.allocated += weight * self.bytes_of(s.buffer)

    def bytes_of(self, buffer: Buffer) -> float:
        """The size of a buffer in bytes."""
        return buffer.dtype.itemsize * math.prod(self.shape_of(buffer))

    def shape_of(self, buffer: Buffer) -> tuple[float, ...]:
        """The extents of a buffer, in the middle of the loops around it."""
        return tuple(max(self.forms.middle(self.forms.of(n)), 1.0) for n in buffer.shape)

    def store(self, s: Store) -> None:
        roots = (*s.indices, s.value) if s.predicate is None else (*s.indices, s.value, s.predicate)
        self.values(roots)
        chance = 1.0
        if s.predicate is not None:
            chance = likelihood(self.forms, s.predicate, self.stack)
            self.stack[-1].predicated += self.weights[-1]
        self.access(
            s.buffer, s.indices, self.forms.of(s.value).mask, chance, stored=True, streamed=s.stream is not None
        )
        self.carry(s.buffer, s.indices, self.chained.get(s.value))

    def fold(self, s: Fold) -> None:
        if is_scan(s):
            self._scan(s)
            return
        loop = self.stack[-1]
        steps = 0
        self.values((*s.indices, *s.step) if s.monoid else (*s.indices, *s.step, *s.combine), s.left + s.right)
        for value in s.step:
            steps |= self.forms.of(value).mask
        for buffer, value in zip(s.buffers, s.step, strict=True):
            self.access(buffer, s.indices, steps, 1.0, stored=False)
            self.access(buffer, s.indices, steps, 1.0, stored=True)
            latency = cost_of(s.monoid, value.dtype, value.dtype).latency if s.monoid else 4.0 * len(s.buffers)
            self.carry(buffer, s.indices, latency)
        vector = self.vector
        if vector is not None and any(self.forms.of(index).rough & vector.bit for index in s.indices):
            loop.cycles += _ATOMIC_CYCLES * vector.lanes * vector.interleave * self.weights[-1]
        loop.code += len(s.step)

    def _scan(self, s: Fold) -> None:
        self.values((*s.indices, *s.values, *s.step), s.left + s.right)
        steps = 0
        for value in s.values:
            steps |= self.forms.of(value).mask
        for name in binds(s):
            self._bind(name, opaque(steps | self.stack[-1].bit))
        for buffer, value in zip(s.buffers, s.values, strict=True):
            self.carry(buffer, s.indices, 4.0 * len(s.buffers))
            shifts = math.log2(self.vector.lanes) if self.vector is not None and steps & self.vector.bit else 0.0
            for _ in range(round(shifts)):
                self.spend(cost_of("add", value.dtype, value.dtype), value.dtype.bits, steps, 3.0)

    def append(self, s: Append) -> None:
        self.values((*s.values, s.predicate))
        chance = likelihood(self.forms, s.predicate, self.stack)
        loop = self.stack[-1]
        loop.predicated += self.weights[-1]
        for buffer, value in zip(s.buffers, s.values, strict=True):
            lanes = self.vector.lanes if self.vector is not None else 1
            kind = VECTOR if self.vector is not None else SCALAR
            units = max(1.0, lanes * value.dtype.bits / self.machine.vector_bits) if lanes > 1 else 1.0
            loop.stores[kind] += units * self.weights[-1]
            loop.cycles += 6.0 * units * self.weights[-1]
            moved = {other.number: chance for other in self.stack[1:] if other.span}
            mask = sum(1 << number for number in moved)
            loop.add_access(buffer, value.dtype.itemsize, (Form(0.0, moved, 0, mask),), self.weights[-1], True, False)
        self.carry(s.position, (), 4.0)

    def atomic(self, s: AtomicUpdate) -> None:
        self.values((*s.indices, s.value), (s.left, s.right))
        lanes = self.vector.lanes * self.vector.interleave if self.vector is not None else 1
        self.stack[-1].cycles += _ATOMIC_CYCLES * lanes * self.weights[-1]
        self.access(s.buffer, s.indices, self.forms.of(s.value).mask, 1.0, stored=True)

    def check(self, s: Check) -> None:
        roots = (s.holds,) if s.predicate is None else (s.holds, s.predicate)
        self.values(roots)
        self.stack[-1].branches += 0.5 * self.weights[-1]

    def prefetch(self, s: Prefetch) -> None:
        self.values(s.indices)
        self.stack[-1].cycles += 0.5 * self.weights[-1]

    def choice(self, s: If) -> None:
        self.values((s.condition,))
        chance = likelihood(self.forms, s.condition, self.stack)
        if 0.0 < chance < 1.0:
            self.stack[-1].branches += self.weights[-1]
        if chance > 0.0:
            self.block(s.then, chance)
        if s.orelse is not None and chance < 1.0:
            self.block(s.orelse, 1.0 - chance)

    def loop(self, s: For) -> None:
        self.values((s.low, s.high))
        low, high = self.forms.of(s.low), self.forms.of(s.high)
        between = plus(high, low, -1.0)
        least, most = range_of(self.forms, between, self.stack)
        if most <= 0.0:
            if not between.rough & DATA:
                return
            least = most = TYPICAL_COUNT
        # where the loops around it leave it empty for some of their iterations: how often they do not, and then the mean
        chance, distance = (1.0, (least + most) / 2) if least >= 0.0 else (most / (most - least), most / 2)
        iterations = max(math.ceil(distance / s.step), 1)
        outer = self.vector
        kind = s.kind if outer is None or s.kind != "vector" else "serial"  # the lanes are those of the loop around it
        loop = self._enter(kind, s, iterations, (iterations - 1) * s.step)
        loop.weight *= chance
        if outer is not None and between.rough & outer.bit:
            loop.runs_of_body *= _longest(outer.lanes * outer.interleave)
        self.forms.middles[loop.number] = loop.span / 2
        self._bind(s.var, plus(low, variable(loop.number)))
        if s.kind == "parallel":
            loop.dynamic, loop.grain = s.dynamic, max(s.grain, 1)
        if kind == "vector":
            lanes = s.lanes or self._lanes(s)
            gang = lanes * s.interleave
            loop.lanes, loop.interleave, loop.masked = lanes, s.interleave, s.tail == "mask"
            loop.runs_of_body = (
                math.ceil(iterations / gang) if iterations >= gang else math.ceil(iterations / lanes) / s.interleave
            )
            loop.used_lanes = iterations / (loop.runs_of_body * gang)
            self.vector = loop
        self.block(s.body, 1.0)
        self.vector = outer
        self._leave()

    def whiles(self, s: While) -> None:
        loop = self._enter("while", s, TYPICAL_COUNT, 0.0)
        self.block(Block((*s.setup.statements, If(s.condition, s.body))), 1.0)
        self._leave()
        loop.branches += 1.0

    def ordered(self, s: Ordered) -> None:
        self.stack[-1].waits += self.weights[-1]
        self.block(s.body, 1.0)

    def carried(self, s: Carry) -> None:
        self.stack[-1].waits += self.weights[-1]
        self.block(Block(carried_in_order(s)), 1.0)

    def copy(self, s: Copy) -> None:
        loop, size = self.stack[-1], self.bytes_of(s.source)
        loop.cycles += size / 32 * self.weights[-1]

    def nothing(self, s: Swap) -> None:
        """Counts nothing: pointer swaps and the like are free."""

    def view(self, s: View) -> None:
        """Counts nothing: a view of memory is free."""

    def produce(self, s: Produce) -> None:
        self.block(s.body, 1.0)

    def _enter(self, kind: str, s: For | While, iterations: float, span: float) -> Loop:
        parent = self.stack[-1]
        loop = Loop(len(self.forms.middles), kind, parent, iterations, iterations, span, self.weights[-1])
        loop.written = self._written(s)
        loop.host = parent.host and any(_holds_stages(block) for block in blocks_of(s))
        parent.loops.append(loop)
        self.forms.middles.append(0.0)
        self.stack.append(loop)
        self.weights.append(1.0)
        return loop

    def _leave(self) -> None:
        self.stack.pop()
        self.weights.pop()

    # What is known before

    def _written(self, s: Statement) -> frozenset[Buffer]:
        known = self.written.get(id(s))
        if known is None:
            found: set[Buffer] = set()
            if isinstance(s, Block):
                for inner in s.statements:
                    found |= self._written(inner)
            for block in blocks_of(s):
                for inner in block.statements:
                    found |= self._written(inner)
            found.update(write.buffer for write in writes(s))
            known = self.written[id(s)] = frozenset(found)
        return known

    def _lanes(self, loop: For) -> int:
        """Default lanes of a loop: as many as fill a register with the widest elements computed or stored."""
        widest = _widest(loop.body)
        return max(self.machine.vector_bits // (8 * widest), 1)


def _longest(lanes: int) -> float:
    """Expected longest trip count among some lanes over the mean, for exponentially distributed ones: a harmonic number."""
    return sum(1.0 / k for k in range(1, lanes + 1))


def _holds_stages(block: Block) -> bool:
    return any(
        isinstance(s, Produce)
        or (isinstance(s, Block) and _holds_stages(s))
        or (not isinstance(s, For) and any(map(_holds_stages, blocks_of(s))))
        for s in block.statements
    )


def _widest(block: Block) -> int:
    widest = 1
    for s in block.statements:
        widest = max(widest, *(w.buffer.dtype.itemsize for w in writes(s) if w.value is not None), 0)
        if isinstance(s, Let) and (s.value.dtype is not i64 or isinstance(s.value, Read)):
            widest = max(widest, s.value.dtype.itemsize)
        if not isinstance(s, (Let, Alloc, Check)):
            for root in expressions_of(s):
                if isinstance(root, (Op, Read)) and root.dtype is not i64:
                    widest = max(widest, root.dtype.itemsize)
        for inner in blocks_of(s):
            widest = max(widest, _widest(inner))
    return widest


_STATEMENTS: dict[type, Callable[[Walk, Any], None]] = {
    Block: lambda walk, s: walk.block(s, 1.0),
    Let: Walk.let,
    Alloc: Walk.alloc,
    Store: Walk.store,
    Fold: Walk.fold,
    Append: Walk.append,
    AtomicUpdate: Walk.atomic,
    Collect: lambda walk, s: walk.block(collected_in_order(s), 1.0),
    Check: Walk.check,
    Prefetch: Walk.prefetch,
    If: Walk.choice,
    For: Walk.loop,
    While: Walk.whiles,
    Ordered: Walk.ordered,
    Carry: Walk.carried,
    Copy: Walk.copy,
    **dict.fromkeys((CommitCopies, AwaitCopies, Swap), Walk.nothing),
    View: Walk.view,
    Produce: Walk.produce,
}
