"""The statements of a block's threads: loops over threads become places of threads, with barriers where one reads what another wrote.

    block.x b in 0..n step 64:                      b = 64*block_x
      tile: f32[64] shared                          tile: f32[64] shared
      thread.x t in b..b + 64: tile[t - b] = …      tile[thread_x] = …
      thread.x t in b..b + 64: … tile[63 - t + b]   barrier
                                                    … tile[63 - thread_x]

Outside loops over threads names are everybody's: all threads compute them. Stores are done by the thread whose places along the axes
that no loop has bound are 0, but memory that only such statements write is a copy of each thread's, as large as it may be private.
Memory that each thread reaches at its own elements alone is its own, too, and as small (`owners.py`). What else a block allocates is
shared, by both branches of a test where it is alike, or lies in device memory, with a slot for each block.
A barrier stands only where all threads come by; a loop over threads around others that would need one elsewhere runs these serially.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

from raido.algo.graph import index as ix
from raido.algo.graph.dtypes import bool_, i64
from raido.algo.graph.expr import Expr, Node, Op, Var, fresh
from raido.algo.graph.facts import Interval
from raido.algo.graph.rewrite import free_variables, substitute, topological, transform
from raido.schedule.kernels.iteration_memory import IterationMemory
from raido.schedule.kernels.limits import Limits
from raido.schedule.kernels.owners import Owner, Surroundings, largest, merged, owner_of
from raido.schedule.kernels.thread_code import replaced, thread_code, thread_memory
from raido.schedule.nest.effects import bound_within, loads, writes, written
from raido.schedule.nest.nodes import (
    Alloc,
    AtomicUpdate,
    Barrier,
    Block,
    Check,
    For,
    If,
    Let,
    Statement,
    Store,
    While,
)
from raido.schedule.nest.replace_buffers import map_expressions
from raido.schedule.nest.values import Buffer, NestExpr, Read
from raido.schedule.nest.walk import blocks_of, statements_within

AXES = {"thread.x": 0, "thread.y": 1, "thread.z": 2}


@dataclass(frozen=True, slots=True)
class _Access:
    """Elements of an array that threads reach: those with places along the axes `bound`; of the others all, or (`alone`) the first."""

    buffer: Buffer
    write: bool
    atomic: bool
    bound: frozenset[int]
    owner: Owner | None
    alone: bool = False


@dataclass(slots=True)
class _Scope:
    """The axes that loops have bound, the meaning of names, the ranges of loops, and whether all threads are here (along other axes).

    most: how many threads take part in the loops that have bound axes. counted: variables of loops in terms of how often they went round.
    """

    bound: frozenset[int]
    known: dict[Node, Expr]
    ranges: dict[Var, Interval]
    uniform: bool = True
    most: dict[int, int] = field(default_factory=dict)
    counted: dict[Node, Expr] = field(default_factory=dict)

    def inner(self, **changes: Any) -> _Scope:
        """A scope inside."""
        fields = {"bound": self.bound, "known": dict(self.known), "ranges": self.ranges, "uniform": self.uniform}
        return _Scope(**{**fields, "most": self.most, "counted": self.counted, **changes})

    def learn(self, s: Statement) -> None:
        """Remembers what an index is that a statement names."""
        if isinstance(s, Let) and isinstance(s.var, Var) and s.var.dtype is i64:
            value = substitute(s.value, self.known)
            if not any(isinstance(node, Read) for node in topological(value)):
                self.known[s.var] = value

    def enter(self, loop: For) -> _Scope:
        """The scope in a serial loop."""
        low, last = substitute(loop.low, self.known), ix.sub(substitute(loop.high, self.known), 1)
        ranges = {**self.ranges, loop.var: (low, last)}
        if loop.step == 1:
            return self.inner(ranges=ranges)
        times = fresh("times")
        ranges[times] = (ix.as_index(0), ix.floordiv(ix.sub(last, low), loop.step))
        return self.inner(ranges=ranges, counted={**self.counted, loop.var: ix.add(low, ix.mul(times, loop.step))})

    def meaning(self, index: NestExpr) -> Expr:
        """An index in terms of places, sizes, and what is not known of them."""
        return ix.canonical(substitute(index, self.known))

    def times(self, index: Expr) -> Expr:
        """A meaning in terms of how often loops went round."""
        for _ in self.counted:
            if self.counted.keys().isdisjoint(free_variables(index)):
                break
            index = ix.canonical(substitute(index, self.counted))
        return index


class _Serial(Exception):
    """A loop over threads in which others have to be serial."""

    def __init__(self, loop: For) -> None:
        super().__init__()
        self.loop = loop


@dataclass(slots=True)
class ThreadBlock:
    """The code of the threads of a block, how many they are along each axis, and its arrays in device memory with their slots."""

    code: Block
    extent: tuple[int, int, int]
    scratch: list[Buffer]


def block_extent(body: Block, limits: Limits) -> tuple[int, int, int]:
    """How many threads a block needs along each axis: as many as its longest loop there has iterations, within a block's limit."""
    extent = [1, 1, 1]
    _measure(body, {}, {}, extent, limits)
    while prod(extent) > limits.most_threads:
        largest_axis = extent.index(max(extent))
        extent[largest_axis] = (extent[largest_axis] + 1) // 2
    return (extent[0], extent[1], extent[2])


def _measure(
    s: Statement, known: dict[Node, Expr], ranges: dict[Var, Interval], extent: list[int], limits: Limits
) -> None:
    scope = _Scope(frozenset(), known, ranges)
    scope.learn(s)
    if isinstance(s, For) and s.kind == "parallel":
        axis = AXES[s.level]
        trips = ix.sub(substitute(s.high, known), substitute(s.low, known))
        most = largest(ix.canonical(trips))
        needed = s.threads or (limits.threads if most is None else -(-most // s.step))
        extent[axis] = max(extent[axis], min(needed, limits.along[axis]))
    for block in (s,) if isinstance(s, Block) else blocks_of(s):
        inner = dict(known)
        for each in block.statements:
            _measure(each, inner, ranges, extent, limits)


def block_code(
    body: Block,
    threads: tuple[Var, Var, Var],
    extent: tuple[int, int, int],
    memory: IterationMemory,
    slot: tuple[Expr, Expr],
    limits: Limits,
) -> ThreadBlock:
    """The code of a block's threads. `slot`: the number of a block among those in flight, and how many these are."""
    lane: Expr = ix.as_index(0)
    for axis in (2, 1, 0):
        lane = ix.add(ix.mul(lane, extent[axis]), threads[axis])
    count = prod(extent)
    slots = {"block": slot, "thread": (ix.add(ix.mul(slot[0], count), lane), ix.mul(slot[1], count))}
    body = _without_single(body, _Scope(frozenset(), {}, {}))
    while True:
        maker = _BlockCode(body, threads, extent, memory, slots, limits)
        try:
            return ThreadBlock(Block(tuple(maker.code())), extent, list(maker.scratch.values()))
        except _Serial as refused:
            body = _made_serial(body, refused.loop)


def _without_single(block: Block, scope: _Scope) -> Block:
    """The block with loops over threads that have one iteration at most as what the first thread does, if there is one."""

    def change(s: Any) -> Any:
        if isinstance(s, Block):
            return _without_single(s, scope.inner())
        if isinstance(s, For):
            body = _without_single(s.body, scope.inner())
            trips = largest(ix.canonical(substitute(ix.sub(s.high, s.low), scope.known)))
            if s.kind != "parallel" or trips is None or trips > s.step:
                return replace(s, body=body)
            return If(Op("lt", bool_, (s.low, s.high)), Block((Let(s.var, s.low), *body.statements)))
        if isinstance(s, If):
            orelse = None if s.orelse is None else _without_single(s.orelse, scope.inner())
            return If(s.condition, _without_single(s.then, scope.inner()), orelse)
        if isinstance(s, While):
            return While(_without_single(s.setup, scope), s.condition, _without_single(s.body, scope.inner()))
        scope.learn(s)
        return s

    return Block(tuple(map(change, block.statements)))


def _made_serial(block: Block, loop: For) -> Block:
    """The block with loops over threads inside one of them made serial."""

    def change(s: Any) -> Any:
        if s is loop:
            return replace(s, body=thread_code(s.body))
        if isinstance(s, Block):
            return _made_serial(s, loop)
        if isinstance(s, For):
            return replace(s, body=_made_serial(s.body, loop))
        if isinstance(s, If):
            orelse = None if s.orelse is None else _made_serial(s.orelse, loop)
            return If(s.condition, _made_serial(s.then, loop), orelse)
        if isinstance(s, While):
            return While(_made_serial(s.setup, loop), s.condition, _made_serial(s.body, loop))
        return s

    return Block(tuple(map(change, block.statements)))


def _is_shared_loop(s: Statement) -> bool:
    return isinstance(s, For) and s.kind == "parallel"


def _has_shared_loop(s: Statement) -> bool:
    return any(map(_is_shared_loop, statements_within(s)))


class _BlockCode:
    """One attempt."""

    def __init__(
        self,
        body: Block,
        threads: tuple[Var, Var, Var],
        extent: tuple[int, int, int],
        memory: IterationMemory,
        slots: Mapping[str, tuple[Expr, Expr]],
        limits: Limits,
    ) -> None:
        self.body, self.threads, self.extent, self.limits = body, threads, extent, limits
        self.large, self.slots = dict(memory.slots), slots
        self.axes = frozenset(axis for axis in range(3) if extent[axis] > 1)
        self.places: dict[Var, int] = {threads[axis]: axis for axis in self.axes}
        self.unsteady = bound_within(body)
        self.changed = written(body)  # who reads other arrays meets nobody
        self.around: list[For] = []  # loops over threads
        self.branches: tuple[tuple[If, Block], ...] = ()  # those around
        self.allocated: dict[Buffer, tuple[frozenset[int], For | None, tuple[tuple[If, Block], ...]]] = {}
        self.shared: dict[Buffer, list[tuple[tuple[If, Block], ...]]] = {}  # arrays, and the branches that have them
        self.accesses: dict[Buffer, list[_Access]] = {}
        self.copies: set[Buffer] = set()
        self.tiles: dict[Buffer, Owner] = {}
        self.moved: dict[Buffer, Buffer] = {}
        self.scratch: dict[Buffer, Buffer] = {}
        self.since: list[_Access] = []  # the last barrier
        self.log: list[_Access] = []

    def code(self) -> list[Statement]:
        """The statements of a thread."""
        self._survey(self.body, _Scope(frozenset(), {}, {}))
        shared = 0
        for buffer, (bound, loop, branches) in self.allocated.items():
            shared += self._place(buffer, bound, loop, branches, shared)
        code = self._together(self.body.statements, _Scope(frozenset(), {}, {}))
        return [*map(Alloc, self.shared), *code]

    # --- where memory is

    def _survey(self, s: Statement, scope: _Scope) -> None:
        """Notes who reaches the elements of each array."""
        if isinstance(s, Alloc):
            self.allocated[s.buffer] = (scope.bound, self.around[-1] if self.around else None, self.branches)
        for access in self._reached(s, scope):
            self.accesses.setdefault(access.buffer, []).append(access)
        scope.learn(s)
        if isinstance(s, For) and s.kind == "parallel":
            self.around.append(s)
            self._survey(s.body, self._inside(s, scope)[0])
            self.around.pop()
            return
        if isinstance(s, While):
            inner = scope.inner()
            for each in (*s.setup.statements, *s.body.statements):
                self._survey(each, inner)
            return
        for block in (s,) if isinstance(s, Block) else blocks_of(s):
            inner = scope.enter(s) if isinstance(s, For) else scope.inner()
            outer, self.branches = self.branches, (*self.branches, (s, block)) if isinstance(s, If) else self.branches
            for each in block.statements:
                self._survey(each, inner)
            self.branches = outer

    def _reached(self, s: Statement, scope: _Scope, alone: bool = False) -> list[_Access]:
        """The elements of arrays that change which a statement itself reaches."""
        found = []
        for kind, accesses in ((False, loads(s)), (True, writes(s))):
            for access in accesses:
                if access.buffer not in self.changed:
                    continue
                owner = None if access.indices is None else self._owner(access.indices, scope)
                found.append(_Access(access.buffer, kind, access.atomic, scope.bound & self.axes, owner, alone))
        return found

    def _owner(self, indices: Sequence[NestExpr], scope: _Scope) -> Owner | None:
        around = Surroundings(self.places, scope.most, scope.ranges, self._is_steady)
        meanings = [scope.meaning(index) for index in indices]
        owner = owner_of(meanings, around)
        if owner is None and scope.counted:
            owner = owner_of([scope.times(index) for index in meanings], around)
        return owner

    def _is_steady(self, e: Expr) -> bool:
        return self.unsteady.isdisjoint(free_variables(e))

    def _place(
        self,
        buffer: Buffer,
        bound: frozenset[int],
        loop: For | None,
        branches: tuple[tuple[If, Block], ...],
        shared: int,
    ) -> int:
        """Decides where an array is; returns how many bytes of shared memory it takes."""
        bound &= self.axes
        found = self.accesses.get(buffer, [])
        if buffer.scope != "shared":
            if bound == self.axes:
                self._own(buffer)
                return 0
            size = self._constant_size(buffer)
            deep = {a.bound for a in found}
            if size is not None and size <= self.limits.private and all(a.bound == bound for a in found if a.write):
                self.copies.add(buffer)
                self.moved[buffer] = thread_memory(buffer)
                return 0
            owner = merged(self._owner_below(a, bound) for a in found)
            if len(deep) == 1 and owner is not None:
                self._own_tiles(buffer, owner)
                return 0
        if bound:
            assert loop is not None
            raise _Serial(loop)
        size = self._constant_size(buffer)
        for other, users in self.shared.items():
            alike = (other.dtype, other.shape) == (buffer.dtype, buffer.shape)
            if alike and all(_exclude(branches, each) for each in users):
                users.append(branches)
                self.moved[buffer] = other
                return 0
        if size is not None and shared + size <= self.limits.shared:
            made = self.moved[buffer] = replaced(buffer, scope="shared", strides=())
            self.shared[made] = [branches]
            return size
        self._in_slots(buffer, "block")
        return 0

    def _owner_below(self, access: _Access, bound: frozenset[int]) -> Owner | None:
        """The tiles of an access by the axes that are bound between an array and it; None where one of these does not tell threads apart."""
        if access.owner is None:
            return None
        tiles = tuple((axis, tile) for axis, tile in access.owner if axis not in bound)
        return tiles if {axis for axis, _ in tiles} == access.bound - bound else None

    def _own(self, buffer: Buffer) -> None:
        """Memory of each thread."""
        if buffer in self.large:
            self._in_slots(buffer, "thread")
        else:
            self.moved[buffer] = thread_memory(buffer)

    def _own_tiles(self, buffer: Buffer, owner: Owner) -> None:
        """A tile of each thread."""
        shape = list(buffer.shape)
        for _, tile in owner:
            whole = shape[tile.dimension]
            shape[tile.dimension] = ix.ceildiv(whole, tile.stride) if tile.stride else ix.as_index(tile.width)
        small = replaced(buffer, shape=tuple(shape), strides=())
        self.tiles[buffer] = owner
        constant = self._constant_size(small)
        if constant is not None and constant <= self.limits.private:
            self.moved[buffer] = thread_memory(small)
        else:
            self._in_slots(buffer, "thread", tuple(shape))

    def _in_slots(self, buffer: Buffer, of: str, shape: tuple[Expr, ...] | None = None) -> None:
        """Device memory, with a slot for each block or thread."""
        whole = list(self.large.get(buffer, buffer.shape))
        for k, extent in enumerate(shape or ()):
            whole[k] = extent if ix.constant_value(extent) is not None else whole[k]
        made = replaced(buffer, shape=(self.slots[of][1], *whole), strides=(), scope="heap")
        self.scratch[buffer] = self.moved[buffer] = made

    def _constant_size(self, buffer: Buffer) -> int | None:
        extents = [ix.constant_value(ix.canonical(e)) for e in buffer.shape]
        return None if None in extents else prod(n or 0 for n in extents) * buffer.dtype.itemsize

    # --- what all threads come by

    def _together(self, statements: Iterable[Statement], scope: _Scope) -> list[Statement]:
        """Statements outside loops over threads (along some axis)."""
        out: list[Statement] = []
        for s in statements:
            out += self._one(s, scope)
        return out

    def _one(self, s: Statement, scope: _Scope) -> Iterator[Statement]:
        if isinstance(s, Alloc):
            yield from self._alloc(s)
        elif isinstance(s, Block):
            yield Block(tuple(self._together(s.statements, scope.inner())))
        elif isinstance(s, For) and s.kind == "parallel":
            yield from self._loop(s, scope)
        elif isinstance(s, Let):
            yield from self._meet(self._reached(s, scope), scope)
            yield self._rewritten(s, scope)
            scope.learn(s)
        elif self._is_single(s):
            yield from self._single(s, scope)
        elif isinstance(s, (For, If, While)):
            yield from self._control(s, scope)
        else:
            yield from self._meet(self._reached(s, scope), scope)
            yield self._rewritten(s, scope)

    def _is_single(self, s: Statement) -> bool:
        """Whether one thread does a statement for all: none of its parts is for several, and it writes no copies."""
        if isinstance(s, (Store, AtomicUpdate)):
            return s.buffer not in self.copies
        return isinstance(s, Check) or (not _has_shared_loop(s) and self.copies.isdisjoint(written(s)))

    def _single(self, s: Statement, scope: _Scope) -> Iterator[Statement]:
        reached: list[_Access] = []
        code = self._plain(s, scope.inner(), reached, alone=True)
        yield from self._meet(reached, scope)
        yield from self._guarded(code, self.axes - scope.bound)

    def _guarded(self, code: Sequence[Statement], axes: Iterable[int]) -> Iterator[Statement]:
        """Code for the threads whose places along some axes are 0."""
        condition: Expr | None = None
        for axis in sorted(axes):
            first = Op("eq", bool_, (self.threads[axis], ix.as_index(0)))
            condition = first if condition is None else Op("logical_and", bool_, (condition, first))
        if condition is None:
            yield from code
        else:
            yield If(condition, Block(tuple(code)))

    def _control(self, s: For | If | While, scope: _Scope) -> Iterator[Statement]:
        if isinstance(s, If):
            yield from self._meet(self._reached(s, scope), scope)
            entry = list(self.since)
            inner = scope.inner(uniform=scope.uniform and self._is_everybodys(scope, s.condition))
            then = self._together(s.then.statements, inner.inner())
            after, self.since = self.since, entry
            orelse = self._together(s.orelse.statements, inner.inner()) if s.orelse is not None else None
            self.since = _union(after, self.since)
            yield If(
                self._value(s.condition, scope), Block(tuple(then)), None if orelse is None else Block(tuple(orelse))
            )
            return
        if isinstance(s, For):
            yield from self._meet(self._reached(s, scope), scope)
        entry = list(self.since)
        self._iteration(s, scope)
        self.since = _union(entry, self.since)
        made = self._iteration(s, scope)
        self.since = _union(entry, self.since)
        yield made

    def _iteration(self, s: For | While, scope: _Scope) -> Statement:
        if isinstance(s, For):
            inner = scope.enter(s)
            inner.uniform = scope.uniform and self._is_everybodys(scope, s.low, s.high)
            body = self._together(s.body.statements, inner)
            return replace(s, low=self._value(s.low, scope), high=self._value(s.high, scope), body=Block(tuple(body)))
        inner = scope.inner(uniform=scope.uniform and self._is_everybodys(scope, s.condition))
        setup = self._together(s.setup.statements, inner)
        setup += self._meet(self._reached(s, inner), inner)
        condition = self._value(s.condition, inner)
        return While(Block(tuple(setup)), condition, Block(tuple(self._together(s.body.statements, inner))))

    def _is_everybodys(self, scope: _Scope, *expressions: NestExpr) -> bool:
        """Whether values are the same for all threads: they are outside loops over threads, and there where they are arithmetic on sizes."""
        if not scope.bound & self.axes:
            return True
        values = [substitute(e, scope.known) for e in expressions]
        own = any(isinstance(node, Read) for node in topological(*values))
        names = {v for value in values for v in free_variables(value)}
        return not own and names.isdisjoint(self.places) and names.isdisjoint(self.unsteady)

    # --- loops over threads

    def _inside(self, s: For, scope: _Scope) -> tuple[_Scope, bool]:
        """The scope in a loop over threads, and whether a thread has more than one iteration of it."""
        axis = AXES[s.level]
        low, high = (substitute(e, scope.known) for e in (s.low, s.high))
        trips = largest(ix.canonical(ix.sub(high, low)))
        inner = scope.inner(bound=scope.bound | {axis})
        if trips is None or -(-trips // s.step) > self.extent[axis]:
            inner.ranges = {**scope.ranges, s.var: (low, ix.sub(high, 1))}
            inner.uniform = False
            return inner, True
        exact = ix.constant_value(ix.canonical(ix.sub(high, low)))
        inner.known[s.var] = ix.add(low, ix.mul(self._place_of(axis), s.step))
        inner.most = {**scope.most, axis: -(-trips // s.step)}
        inner.uniform = scope.uniform and exact is not None and -(-exact // s.step) == self.extent[axis]
        return inner, False

    def _place_of(self, axis: int) -> Expr:
        return self.threads[axis] if self.extent[axis] > 1 else ix.as_index(0)

    def _loop(self, s: For, scope: _Scope) -> Iterator[Statement]:
        axis = AXES[s.level]
        if axis in scope.bound or not self.axes:
            serial = replace(s, kind="serial", level="", threads=0, body=thread_code(s.body))
            yield from self._one(serial, scope)
            return
        inner, several = self._inside(s, scope)
        yield from self._meet(self._reached(s, scope), scope)
        first = ix.add(s.low, ix.mul(self._place_of(axis), s.step))
        low, high = self._value(first, scope), self._value(s.high, scope)
        if _has_shared_loop(s.body):
            entry, start, self.since = self.since, len(self.log), []
            self._shared_body(s, inner.inner())
            reached, self.since = self.log[start:], entry
            yield from self._separated(reached, scope)
            body = self._shared_body(s, inner)
        else:
            alone: list[_Access] = []
            code = self._plain(s.body, inner, alone, alone=True)
            yield from self._meet(alone, scope)
            body = list(self._guarded(code, self.axes - inner.bound))
        if several:
            step = s.step * self.extent[axis]
            yield For(s.var, low, high, step, Block(tuple(body)), stage=s.stage, loop=s.loop)
        elif inner.uniform and scope.uniform:
            yield Block((Let(s.var, low), *body))
        else:
            inside = If(Op("lt", bool_, (s.var, high)), Block(tuple(body)))
            yield Block((Let(s.var, low), inside))

    def _shared_body(self, s: For, inner: _Scope) -> list[Statement]:
        """The body of a loop over threads that has others inside."""
        self.around.append(s)
        try:
            return self._together(s.body.statements, inner)
        finally:
            self.around.pop()

    def _meet(self, reached: Sequence[_Access], scope: _Scope) -> list[Statement]:
        """A barrier, if these accesses need one behind those since the last, which they join."""
        made = self._separated(reached, scope)
        self.since = _union(self.since, reached)
        self.log += reached
        return made

    def _separated(self, reached: Sequence[_Access], scope: _Scope) -> list[Statement]:
        """A barrier, if these accesses need one behind those since the last."""
        made: list[Statement] = []
        if any(self._conflict(a, b) for a in self.since for b in reached):
            if not scope.uniform:
                raise _Serial(self.around[-1])
            made.append(Barrier())
            self.since = []
        return made

    def _conflict(self, a: _Access, b: _Access) -> bool:
        if a.buffer is not b.buffer or not (a.write or b.write) or (a.atomic and b.atomic):
            return False
        if a.buffer in self.copies or a.buffer in self.tiles:
            return False
        pinned = all(each.alone or each.bound == self.axes for each in (a, b))
        owner = merged((a.owner, b.owner))
        return not (pinned and owner is not None and a.bound == b.bound == {axis for axis, _ in owner})

    # --- what a thread does by itself

    def _plain(self, s: Statement, scope: _Scope, reached: list[_Access], alone: bool) -> list[Statement]:
        """A statement of one thread, with memory where it is; adds the elements that it reaches."""
        if isinstance(s, Alloc):
            return list(self._alloc(s))
        reached += self._reached(s, scope, alone)
        if isinstance(s, Block):
            return [self._plain_block(s, scope.inner(), reached, alone)]
        if isinstance(s, For):
            body = self._plain_block(s.body, scope.enter(s), reached, alone)
            low, high = self._value(s.low, scope), self._value(s.high, scope)
            kind: Any = "serial" if s.kind == "parallel" else s.kind
            return [replace(s, low=low, high=high, body=body, kind=kind, level="", threads=0)]
        if isinstance(s, If):
            then = self._plain_block(s.then, scope.inner(), reached, alone)
            orelse = None if s.orelse is None else self._plain_block(s.orelse, scope.inner(), reached, alone)
            return [If(self._value(s.condition, scope), then, orelse)]
        if isinstance(s, While):
            inner = scope.inner()
            setup = self._plain_block(s.setup, inner, reached, alone)
            condition = self._value(s.condition, inner)
            return [While(setup, condition, self._plain_block(s.body, inner, reached, alone))]
        made = self._rewritten(s, scope)
        scope.learn(s)
        return [made]

    def _plain_block(self, block: Block, scope: _Scope, reached: list[_Access], alone: bool) -> Block:
        return Block(tuple(made for s in block.statements for made in self._plain(s, scope, reached, alone)))

    # --- memory where it is

    def _alloc(self, s: Alloc) -> Iterator[Statement]:
        if s.buffer not in self.scratch and self.moved[s.buffer] not in self.shared:
            yield Alloc(self.moved[s.buffer])

    def _value(self, e: NestExpr, scope: _Scope) -> Any:
        return transform(e, lambda node: self._node(node, scope))

    def _node(self, e: Node, scope: _Scope) -> Node:
        if isinstance(e, Read) and e.buffer in self.moved:
            return Read(self.moved[e.buffer], self._indices(e.buffer, e.indices, scope), e.predicate)
        return e

    def _indices(self, buffer: Buffer, indices: Sequence[NestExpr], scope: _Scope) -> tuple[Any, ...]:
        """The place of an element, in the tile of a thread or the slot where the array is."""
        found: list[Any] = list(indices)
        for axis, tile in self.tiles.get(buffer, ()):
            index = substitute(found[tile.dimension], scope.known)
            rest = ix.sub(index, ix.add(tile.base, ix.mul(self.threads[axis], tile.width)))
            found[tile.dimension] = ix.floordiv(rest, tile.stride) if tile.stride else rest
        if buffer in self.scratch:
            of = "block" if self.scratch[buffer].shape[0] is self.slots["block"][1] else "thread"
            found.insert(0, self.slots[of][0])
        return tuple(found)

    def _rewritten(self, s: Any, scope: _Scope) -> Any:
        made = map_expressions(s, lambda node: self._node(node, scope), lambda b: b)
        if isinstance(s, (Store, AtomicUpdate)) and s.buffer in self.moved:
            indices = tuple(self._value(i, scope) for i in self._indices(s.buffer, s.indices, scope))
            made = replace(made, buffer=self.moved[s.buffer], indices=indices)
        return made


def _exclude(a: Sequence[tuple[If, Block]], b: Sequence[tuple[If, Block]]) -> bool:
    """Whether statements in some branches never run where those in others do."""
    return any(one is other and here is not there for one, here in a for other, there in b)


def _union(a: Sequence[_Access], b: Sequence[_Access]) -> list[_Access]:
    return list(dict.fromkeys((*a, *b)))
