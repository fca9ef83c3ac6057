"""The code of a block's threads: loops over threads become places of threads, with barriers between conflicting accesses.

    block.x b in 0..n step 64:                      b = 64*block_x
      tile: f32[64] shared                          tile: f32[64] shared
      thread.x t in b..b + 64: tile[t - b] = …      tile[thread_x] = …
      thread.x t in b..b + 64: … tile[63 - t + b]   barrier
                                                    … tile[63 - thread_x]

Outside loops over threads names are common: all threads compute them. Stores are executed by the thread whose places along the axes that no
loop has bound are 0, unless the memory is replicated in each thread (`block_memory.py`). Barriers stand only where all threads pass; a loop
over threads around others that would need one elsewhere runs these serially.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from math import prod
from typing import Any

from raido.algo.graph import index as ix
from raido.algo.graph.dtypes import bool_
from raido.algo.graph.expr import Expr, Op, Var, conjunction
from raido.algo.graph.rewrite import free_variables, substitute
from raido.schedule.kernels.block_memory import Access, BlockMemory, NeedsSerial
from raido.schedule.kernels.block_scope import AXES, Scope, has_shared_loop, made_serial, without_single
from raido.schedule.kernels.exchanges import exchanged
from raido.schedule.kernels.iteration_memory import IterationMemory
from raido.schedule.kernels.limits import Limits
from raido.schedule.kernels.look_back import LookBackMemory, draw_number, look_back, look_back_alone, memory_of
from raido.schedule.kernels.owners import merged
from raido.schedule.kernels.thread_code import thread_code
from raido.schedule.nest.collect import collected_in_order
from raido.schedule.nest.effects import reads_memory, written
from raido.schedule.nest.nodes import (
    Alloc,
    AtomicUpdate,
    AwaitCopies,
    Barrier,
    Block,
    Carry,
    Check,
    Collect,
    CommitCopies,
    For,
    If,
    Let,
    Statement,
    Store,
    Ticket,
    While,
)
from raido.schedule.nest.values import Buffer, NestExpr
from raido.schedule.nest.walk import statements_within


@dataclass(slots=True)
class ThreadBlock:
    """The code of the threads of a block, the number of threads along each axis, and its arrays in device memory with slots."""

    code: Block
    extent: tuple[int, int, int]
    scratch: list[Buffer]


def block_code(
    body: Block,
    threads: tuple[Var, Var, Var],
    extent: tuple[int, int, int],
    memory: IterationMemory,
    slot: tuple[Expr, Expr],
    limits: Limits,
) -> ThreadBlock:
    """The code of a block's threads. slot: the number of a block among the blocks in flight, and the number of blocks in flight."""
    lane, count = number_in_block(threads, extent), prod(extent)
    slots = {"block": slot, "thread": (ix.add(ix.mul(slot[0], count), lane), ix.mul(slot[1], count))}
    body = without_single(body, Scope(frozenset(), {}, {}))
    while True:
        maker = _BlockCode(body, threads, extent, memory, slots, limits)
        try:
            return ThreadBlock(Block(tuple(maker.code())), extent, list(maker.scratch.values()))
        except NeedsSerial as refused:
            body = made_serial(body, refused.loop)


def number_in_block(threads: tuple[Var, Var, Var], extent: tuple[int, int, int]) -> Expr:
    """The number of a thread in its block; it increases by one along x."""
    number: Expr = ix.as_index(0)
    for axis in (2, 1, 0):
        if extent[axis] > 1:
            number = ix.add(ix.mul(number, extent[axis]), threads[axis])
    return number


class _BlockCode(BlockMemory):
    """One attempt at a block's code. turn: the shared memory of a block that looks back. number: the variable of the block's
    ticket, its place in the chain."""

    turn: LookBackMemory | None = None
    number: Var | None = None

    @property
    def lane(self) -> Expr:
        """The number of a thread in its block."""
        return number_in_block(self.threads, self.extent)

    def code(self) -> list[Statement]:
        """The statements of a thread."""
        self._survey(self.body, Scope(frozenset(), {}, {}))
        shared = self._allocate_look_back()
        for buffer, (bound, loop, branches) in self.allocated.items():
            shared += self._allocate(buffer, bound, loop, branches, shared)
        code = self._together(self.body.statements, Scope(frozenset(), {}, {}))
        return [*map(Alloc, self.shared), *code]

    def _allocate_look_back(self) -> int:
        """Allocates the shared memory of look-back, if blocks look back; returns its bytes."""
        carry = next((s for s in statements_within(self.body) if isinstance(s, Carry)), None)
        if carry is None:
            return 0
        self.turn = memory_of(carry)
        self.shared |= {buffer: [()] for buffer in self.turn.buffers}
        return sum(self._constant_size(buffer) or 0 for buffer in self.turn.buffers)

    def _together(self, statements: Iterable[Statement], scope: Scope) -> list[Statement]:
        """Translates statements outside loops over threads (along some axis)."""
        out: list[Statement] = []
        for s in statements:
            out += self._one(s, scope)
        return out

    def _one(self, s: Statement, scope: Scope) -> Iterator[Statement]:
        if isinstance(s, Alloc):
            yield from self._alloc(s)
        elif isinstance(s, Block):
            yield Block(tuple(self._together(s.statements, scope.inner())))
        elif isinstance(s, For) and s.kind == "parallel":
            yield from self._loop(s, scope)
        elif isinstance(s, Collect):
            yield from self._collect(s, scope)
        elif isinstance(s, (Carry, Ticket)):
            yield from self._in_turn(s, scope)
        elif isinstance(s, AwaitCopies):  # a thread awaits its own copies: the barrier waits for those of the others
            assert scope.uniform and not scope.bound
            yield from (s, Barrier())
            self.since = []
        elif isinstance(s, Let):
            yield from self._barrier(self._reached(s, scope), scope)
            yield self._rewritten(s, scope)
            scope.learn(s)
        elif self._is_single(s):
            yield from self._single(s, scope)
        elif isinstance(s, (For, If, While)):
            yield from self._control(s, scope)
        else:
            yield from self._barrier(self._reached(s, scope), scope)
            yield self._rewritten(s, scope)

    def _is_single(self, s: Statement) -> bool:
        """Whether one thread executes a statement for all: no part of it is shared by several, and it writes no replicated memory."""
        if isinstance(s, (Store, AtomicUpdate)):
            return s.buffer not in self.replicated
        if isinstance(s, CommitCopies):
            return False
        return isinstance(s, Check) or (not has_shared_loop(s) and self.replicated.isdisjoint(written(s)))

    def _single(self, s: Statement, scope: Scope) -> Iterator[Statement]:
        reached: list[Access] = []
        code = self._plain(s, scope.inner(), reached, alone=True)
        yield from self._barrier(reached, scope)
        yield from self._guarded(code, self.axes - scope.bound)

    def _guarded(self, code: Sequence[Statement], axes: Iterable[int]) -> Iterator[Statement]:
        """Code for the threads whose places along these axes are 0."""
        condition = self._first(axes)
        if condition is None:
            yield from code
        else:
            yield If(condition, Block(tuple(code)))

    def _first(self, axes: Iterable[int]) -> Expr | None:
        """The condition that a thread's places along these axes are 0; None where there are no such axes."""
        first = [Op("eq", bool_, (self.threads[axis], ix.as_index(0))) for axis in sorted(axes)]
        return conjunction(first) if first else None

    def _control(self, s: For | If | While, scope: Scope) -> Iterator[Statement]:
        if isinstance(s, If):
            yield from self._barrier(self._reached(s, scope), scope)
            entry = list(self.since)
            inner = scope.inner(uniform=scope.uniform and self._is_uniform(scope, s.condition))
            then = self._together(s.then.statements, inner.inner())
            after, self.since = self.since, entry
            orelse = self._together(s.orelse.statements, inner.inner()) if s.orelse is not None else None
            self.since = _union(after, self.since)
            yield If(
                self._value(s.condition, scope), Block(tuple(then)), None if orelse is None else Block(tuple(orelse))
            )
            return
        if isinstance(s, For):
            yield from self._barrier(self._reached(s, scope), scope)
        entry = list(self.since)
        self._iteration(s, scope)
        self.since = _union(entry, self.since)
        made = self._iteration(s, scope)
        self.since = _union(entry, self.since)
        yield made

    def _iteration(self, s: For | While, scope: Scope) -> Statement:
        if isinstance(s, For):
            inner = scope.enter(s)
            inner.uniform = scope.uniform and self._is_uniform(scope, s.low, s.high)
            if inner.uniform and not scope.bound & self.axes:
                inner.common = scope.common | {s.var}
            body = self._together(s.body.statements, inner)
            return replace(s, low=self._value(s.low, scope), high=self._value(s.high, scope), body=Block(tuple(body)))
        inner = scope.inner(uniform=scope.uniform and self._is_uniform(scope, s.condition))
        setup = self._together(s.setup.statements, inner)
        setup += self._barrier(self._reached(s, inner), inner)
        condition = self._value(s.condition, inner)
        return replace(
            s,
            setup=Block(tuple(setup)),
            condition=condition,
            body=Block(tuple(self._together(s.body.statements, inner))),
        )

    def _is_uniform(self, scope: Scope, *expressions: NestExpr) -> bool:
        """Whether values are provably the same for all threads: outside loops over threads always, inside if they are arithmetic on
        sizes and common variables."""
        if not scope.bound & self.axes:
            return True
        values = [substitute(e, scope.known) for e in expressions]
        own = reads_memory(*values)
        names = {v for value in values for v in free_variables(value)}
        return not own and names.isdisjoint(self.thread_axes) and names.isdisjoint(self.unsteady - scope.common)

    def _loop(self, s: For, scope: Scope) -> Iterator[Statement]:
        axis = AXES[s.level]
        if axis in scope.bound or not self.axes:
            serial = replace(s, kind="serial", level="", threads=0, body=thread_code(s.body, launched=True))
            yield from self._one(serial, scope)
            return
        inner, several = self._inside(s, scope)
        yield from self._barrier(self._reached(s, scope), scope)
        first = ix.add(s.low, ix.mul(self._index_of(axis), s.step))
        low, high = self._value(first, scope), self._value(s.high if several else self._end(s, axis), scope)
        if has_shared_loop(s.body):
            entry, start, self.since = self.since, len(self.log), []
            self._shared_body(s, inner.inner())
            reached, self.since = self.log[start:], entry
            yield from self._barrier_between(reached, scope)
            body = self._shared_body(s, inner)
        else:
            alone: list[Access] = []
            code = self._plain(s.body, inner, alone, alone=True)
            yield from self._barrier(alone, scope)
            body = list(self._guarded(code, self.axes - inner.bound))
        if several:
            step = s.step * self.extent[axis]
            yield For(s.var, low, high, step, Block(tuple(body)), stage=s.stage, loop=s.loop)
        elif inner.uniform and scope.uniform:
            yield Block((Let(s.var, low), *body))
        else:
            inside = If(Op("lt", bool_, (s.var, high)), Block(tuple(body)))
            yield Block((Let(s.var, low), inside))

    def _collect(self, s: Collect, scope: Scope) -> Iterator[Statement]:
        """Emits the exchange of parts between threads, where the device's subgroups support it; else the first thread combines them."""
        axis = AXES[s.level]
        if axis in scope.bound or axis != 0 or not self._exchanges():
            for each in collected_in_order(s).statements:
                yield from self._one(each, scope)
            return
        thread, others = self.threads[axis], self.axes - scope.bound - {axis}
        inner = scope.inner(bound=scope.bound | {axis})
        inner.known[s.var] = thread
        owner = self._owner(s.indices, inner)
        kinds = ((buffer, write) for buffer in s.buffers for write in (False, True))
        reached = [Access(buffer, write, False, inner.bound & self.axes, owner, alone=True) for buffer, write in kinds]
        yield from self._barrier(reached, scope)
        for each in exchanged(s, thread, self.extent[axis], self._first(others), self.limits.exchange):
            yield self._rewritten(each, inner)

    def _in_turn(self, s: Carry | Ticket, scope: Scope) -> Iterator[Statement]:
        """Emits a ticket or a carry between blocks; the barrier with which it ends follows all earlier accesses."""
        assert self.turn is not None and scope.uniform and not scope.bound
        barrier = self._barrier(self._reached(s, scope), scope)
        if isinstance(s, Ticket):
            self.number = s.var
            yield from draw_number(s, self.turn, self.lane)
        else:
            values = tuple(self._value(e, scope) for e in s.values)
            threads, subgroup = prod(self.extent), self.limits.exchange
            yield from barrier
            width = subgroup if subgroup and threads % subgroup == 0 else 1
            chained = replace(s, values=values, index=s.index if self.number is None else self.number)
            yield from look_back(chained, self.turn, self.lane, threads, width)
        self.since = []

    def _exchanges(self) -> bool:
        """Whether the threads of a block form whole subgroups along x, and the device exchanges values in these."""
        return self.limits.exchange > 0 and self.extent[0] % self.limits.exchange == 0

    def _end(self, s: For, axis: int) -> NestExpr:
        """The end of a loop in which each thread has at most one iteration, without operands of the minimum that no thread exceeds."""
        beyond = self.extent[axis] * s.step
        ends = [e for e in ix.members_of(s.high) if (ix.difference(e, s.low) or 0) < beyond]
        return reduce(ix.minimum, ends) if ends else s.high

    def _shared_body(self, s: For, inner: Scope) -> list[Statement]:
        """The body of a loop over threads that has others inside."""
        self.around.append(s)
        try:
            return self._together(s.body.statements, inner)
        finally:
            self.around.pop()

    def _barrier(self, reached: Sequence[Access], scope: Scope) -> list[Statement]:
        """Emits a barrier, if these accesses conflict with one since the last barrier, and records the accesses."""
        made = self._barrier_between(reached, scope)
        self.since = _union(self.since, reached)
        self.log += reached
        return made

    def _barrier_between(self, reached: Sequence[Access], scope: Scope) -> list[Statement]:
        """Emits a barrier, if these accesses conflict with one since the last barrier."""
        made: list[Statement] = []
        if any(self._conflict(a, b) for a in self.since for b in reached):
            if not scope.uniform:
                raise NeedsSerial(self.around[-1])
            made.append(Barrier())
            self.since = []
        return made

    def _conflict(self, a: Access, b: Access) -> bool:
        if a.buffer is not b.buffer or not (a.write or b.write) or (a.atomic and b.atomic) or a.coming:
            return False
        if a.buffer in self.replicated or a.buffer in self.tiles:
            return False
        pinned = all(each.alone or each.bound == self.axes for each in (a, b))
        owner = merged((a.owner, b.owner))
        return not (pinned and owner is not None and a.bound == b.bound == {axis for axis, _ in owner})

    def _plain(self, s: Statement, scope: Scope, reached: list[Access], alone: bool) -> list[Statement]:
        """Translates a statement of one thread to its memory, and adds its accesses to `reached`."""
        if isinstance(s, Alloc):
            return list(self._alloc(s))
        reached += self._reached(s, scope, alone)
        if isinstance(s, Block):
            return [self._plain_block(s, scope.inner(), reached, alone)]
        if isinstance(s, For):
            inner = scope.enter(s)
            inner.uniform = scope.uniform and self._is_uniform(scope, s.low, s.high)
            if inner.uniform and s.kind != "parallel":
                inner.common = scope.common | {s.var}
            body = self._plain_block(s.body, inner, reached, alone)
            low, high = self._value(s.low, scope), self._value(s.high, scope)
            several = s.kind == "parallel" or (
                s.kind == "matrix" and not inner.uniform
            )  # matrix units need all threads of the block
            kind: Any = "serial" if several else s.kind
            threads = s.threads if kind == "matrix" else 0
            return [replace(s, low=low, high=high, body=body, kind=kind, level="", threads=threads)]
        if isinstance(s, If):
            uniform = scope.uniform and self._is_uniform(scope, s.condition)
            then = self._plain_block(s.then, scope.inner(uniform=uniform), reached, alone)
            inside = scope.inner(uniform=uniform)
            orelse = None if s.orelse is None else self._plain_block(s.orelse, inside, reached, alone)
            return [If(self._value(s.condition, scope), then, orelse)]
        if isinstance(s, While):
            inner = scope.inner(uniform=False)
            setup = self._plain_block(s.setup, inner, reached, alone)
            condition = self._value(s.condition, inner)
            return [replace(s, setup=setup, condition=condition, body=self._plain_block(s.body, inner, reached, alone))]
        made = self._rewritten(s, scope)
        scope.learn(s)
        if isinstance(made, Carry):
            return list(look_back_alone(replace(made, index=made.index if self.number is None else self.number)))
        return [made]

    def _plain_block(self, block: Block, scope: Scope, reached: list[Access], alone: bool) -> Block:
        return Block(tuple(made for s in block.statements for made in self._plain(s, scope, reached, alone)))


def _union(a: Sequence[Access], b: Sequence[Access]) -> list[Access]:
    return list(dict.fromkeys((*a, *b)))
