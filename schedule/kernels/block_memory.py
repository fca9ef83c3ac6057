"""The memory of a block's arrays: private to each thread, replicated in all threads, shared, or in device
memory with a slot for each block.

Memory that is written only outside loops over threads is replicated in each thread, if it is small. Memory of which each thread accesses
only elements that it owns is private, and only as large as these (`owners.py`). All other memory of a block is shared, with one buffer for
equal arrays of exclusive branches, as far as there is shared memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from raido.algo.graph import index as ix
from raido.algo.graph.assumptions import greatest
from raido.algo.graph.expr import Expr, Node, Var
from raido.algo.graph.rewrite import free_variables, substitute, transform
from raido.schedule.kernels.block_scope import AXES, Scope
from raido.schedule.kernels.iteration_memory import IterationMemory
from raido.schedule.kernels.limits import Limits
from raido.schedule.kernels.owners import Owner, Surroundings, Told, merged, owner_of, tiles_in_order
from raido.schedule.kernels.thread_code import thread_memory
from raido.schedule.nest.effects import bound_within, loads, writes, written
from raido.schedule.nest.nodes import (
    Alloc,
    AtomicUpdate,
    Block,
    For,
    If,
    Statement,
    Store,
    Ticket,
    While,
)
from raido.schedule.nest.replace_buffers import map_expressions
from raido.schedule.nest.values import Buffer, NestExpr, Read, replaced
from raido.schedule.nest.walk import blocks_of, statements_within


@dataclass(frozen=True, slots=True)
class Access:
    """An access of threads to elements of an array: of threads with all places along the axes `bound`, and along the others of all threads
    or (`alone`) the first. coming: an asynchronous copy begins, whose elements are not accessed before they are awaited."""

    buffer: Buffer
    write: bool
    atomic: bool
    bound: frozenset[int]
    owner: Owner | None
    alone: bool = False
    coming: bool = False


class NeedsSerial(Exception):
    """A loop over threads inside which other such loops have to be serial."""

    def __init__(self, loop: For) -> None:
        super().__init__()
        self.loop = loop


class BlockMemory:
    """The accesses to a block's arrays, the memory of each, and statements rewritten to that memory."""

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
        self.thread_axes: dict[Var, int] = {threads[axis]: axis for axis in self.axes}
        tickets = {
            s.var for s in statements_within(body) if isinstance(s, Ticket)
        }  # one number for all threads of a block
        self.unsteady = bound_within(body) - tickets
        self.changed = written(body)  # accesses to other arrays never conflict
        self.around: list[For] = []  # enclosing loops over threads
        self.branches: tuple[tuple[If, Block], ...] = ()  # enclosing branches
        self.allocated: dict[Buffer, tuple[frozenset[int], For | None, tuple[tuple[If, Block], ...]]] = {}
        self.shared: dict[Buffer, list[tuple[tuple[If, Block], ...]]] = {}  # users, as branches
        self.accesses: dict[Buffer, list[Access]] = {}
        self.replicated: set[Buffer] = set()
        self.tiles: dict[Buffer, Owner] = {}
        self.told: dict[tuple[Any, ...], Told] = {}
        self.moved: dict[Buffer, Buffer] = {}
        self.scratch: dict[Buffer, Buffer] = {}
        self.since: list[Access] = []  # accesses since the last barrier
        self.log: list[Access] = []

    def _survey(self, s: Statement, scope: Scope) -> None:
        """Records the accesses to the elements of each array."""
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

    def _reached(self, s: Statement, scope: Scope, alone: bool = False) -> list[Access]:
        """The accesses of a statement itself to arrays that the block writes."""
        found = []
        for kind, accesses in ((False, loads(s)), (True, writes(s))):
            for access in accesses:
                if access.buffer not in self.changed:
                    continue
                owner = None if access.indices is None else self._owner(access.indices, scope)
                coming = kind and isinstance(s, Store) and s.asynchronous
                found.append(Access(access.buffer, kind, access.atomic, scope.bound & self.axes, owner, alone, coming))
        return found

    def _owner(self, indices: Sequence[NestExpr], scope: Scope) -> Owner | None:
        around = Surroundings(self.thread_axes, scope.most, scope.ranges, self._is_steady, self.told)
        meanings = [scope.meaning(index) for index in indices]
        owner = owner_of(meanings, around)
        if owner is None and scope.counted:
            owner = owner_of([scope.times(index) for index in meanings], around)
        return owner

    def _inside(self, s: For, scope: Scope) -> tuple[Scope, bool]:
        """The scope in a loop over threads, and whether a thread may have more than one iteration of it."""
        axis = AXES[s.level]
        low, high = (substitute(e, scope.known) for e in (s.low, s.high))
        trips = greatest(ix.canonical(ix.sub(high, low)))
        inner = scope.inner(bound=scope.bound | {axis})
        if trips is None or -(-trips // s.step) > self.extent[axis]:
            inner.ranges = {**scope.ranges, s.var: (low, ix.sub(high, 1))}
            inner.uniform = False
            return inner, True
        exact = ix.constant_value(ix.canonical(ix.sub(high, low)))
        inner.known[s.var] = ix.add(low, ix.mul(self._index_of(axis), s.step))
        inner.most = {**scope.most, axis: -(-trips // s.step)}
        inner.uniform = scope.uniform and exact is not None and -(-exact // s.step) == self.extent[axis]
        return inner, False

    def _index_of(self, axis: int) -> Expr:
        return self.threads[axis] if self.extent[axis] > 1 else ix.as_index(0)

    def _is_steady(self, e: Expr) -> bool:
        return self.unsteady.isdisjoint(free_variables(e))

    def _allocate(
        self,
        buffer: Buffer,
        bound: frozenset[int],
        loop: For | None,
        branches: tuple[tuple[If, Block], ...],
        shared: int,
    ) -> int:
        """Decides the memory of an array; returns the bytes of shared memory that it takes."""
        bound &= self.axes
        found = self.accesses.get(buffer, [])
        if buffer.scope != "shared":
            if bound == self.axes:
                self._own(buffer)
                return 0
            size = self._constant_size(buffer)
            deep = {a.bound for a in found}
            if size is not None and size <= self.limits.private and all(a.bound == bound for a in found if a.write):
                self.replicated.add(buffer)
                self.moved[buffer] = thread_memory(buffer)
                return 0
            owner = merged(self._owner_below(a, bound) for a in found)
            if len(deep) == 1 and deep != {bound} and owner is not None:
                self._own_tiles(buffer, owner)
                return 0
        if bound:
            assert loop is not None
            raise NeedsSerial(loop)
        size = self._constant_size(buffer)
        for other, users in self.shared.items():
            alike = (other.dtype, other.shape, other.strides) == (buffer.dtype, buffer.shape, buffer.strides)
            if alike and all(_exclude(branches, each) for each in users):
                users.append(branches)
                self.moved[buffer] = other
                return 0
        if size is not None and shared + size <= self.limits.shared:
            made = self.moved[buffer] = replaced(buffer, scope="shared")
            self.shared[made] = [branches]
            return size
        self._in_slots(buffer, "block")
        return 0

    def _owner_below(self, access: Access, bound: frozenset[int]) -> Owner | None:
        """The tiles of an access along the axes bound between an array's allocation and the access; None unless all these axes have one."""
        if access.owner is None:
            return None
        tiles = tuple((axis, tile) for axis, tile in access.owner if axis not in bound)
        return tiles if {axis for axis, _ in tiles} == access.bound - bound else None

    def _own(self, buffer: Buffer) -> None:
        """Makes an array private to each thread."""
        if buffer in self.large:
            self._in_slots(buffer, "thread")
        else:
            self.moved[buffer] = thread_memory(buffer)

    def _own_tiles(self, buffer: Buffer, owner: Owner) -> None:
        """Makes a private tile of an array for each thread."""
        shape = list(buffer.shape)
        for _, tile in tiles_in_order(owner):
            whole = ix.ceildiv(shape[tile.dimension], tile.stride) if tile.stride else ix.as_index(1)
            shape[tile.dimension] = ix.mul(whole, tile.width)
        small = replaced(buffer, shape=tuple(shape), strides=())
        self.tiles[buffer] = owner
        constant = self._constant_size(small)
        if constant is not None and constant <= self.limits.private:
            self.moved[buffer] = thread_memory(small)
        else:
            self._in_slots(buffer, "thread", tuple(shape))

    def _in_slots(self, buffer: Buffer, of: str, shape: tuple[Expr, ...] | None = None) -> None:
        """Puts an array into device memory, with a slot for each block or thread."""
        whole = list(self.large.get(buffer, buffer.shape))
        for k, extent in enumerate(shape or ()):
            whole[k] = extent if ix.constant_value(extent) is not None else whole[k]
        made = replaced(buffer, shape=(self.slots[of][1], *whole), strides=(), scope="heap")
        self.scratch[buffer] = self.moved[buffer] = made

    def _constant_size(self, buffer: Buffer) -> int | None:
        """The bytes of a buffer if constant, else None."""
        extents = [ix.constant_value(ix.canonical(e)) for e in buffer.shape]
        strides = [ix.constant_value(e) for e in buffer.strides]
        if None in extents or None in strides:
            return None
        if not strides or 0 in extents:
            return prod(n or 0 for n in extents) * buffer.dtype.itemsize
        last = sum(((n or 1) - 1) * (by or 0) for n, by in zip(extents, strides, strict=True))
        return (last + 1) * buffer.dtype.itemsize

    def _alloc(self, s: Alloc) -> Iterator[Statement]:
        if s.buffer not in self.scratch and self.moved[s.buffer] not in self.shared:
            yield Alloc(self.moved[s.buffer])

    def _value(self, e: NestExpr, scope: Scope) -> Any:
        return transform(e, lambda node: self._node(node, scope))

    def _node(self, e: Node, scope: Scope) -> Node:
        if isinstance(e, Read) and e.buffer in self.moved:
            return Read(self.moved[e.buffer], self._indices(e.buffer, e.indices, scope), e.predicate)
        return e

    def _indices(self, buffer: Buffer, indices: Sequence[NestExpr], scope: Scope) -> tuple[Any, ...]:
        """The indices of an element in the array's memory: in the thread's tile, or in the slot of the block or thread."""
        found: list[Any] = list(indices)
        for axis, tile in tiles_in_order(self.tiles.get(buffer, ())):
            index = substitute(found[tile.dimension], scope.known)
            rest = ix.sub(index, ix.add(tile.base, ix.mul(self.threads[axis], tile.width)))
            if tile.stride and tile.width > 1:
                tiles = ix.mul(ix.floordiv(rest, tile.stride), tile.width)
                rest = ix.add(tiles, ix.mod(rest, tile.stride))
            elif tile.stride:
                rest = ix.floordiv(rest, tile.stride)
            found[tile.dimension] = rest
        if buffer in self.scratch:
            of = "block" if self.scratch[buffer].shape[0] is self.slots["block"][1] else "thread"
            found.insert(0, self.slots[of][0])
        return tuple(found)

    def _rewritten(self, s: Any, scope: Scope) -> Any:
        made = map_expressions(s, lambda node: self._node(node, scope), lambda b: b)
        if isinstance(s, (Store, AtomicUpdate)) and s.buffer in self.moved:
            indices = tuple(self._value(i, scope) for i in self._indices(s.buffer, s.indices, scope))
            made = replace(made, buffer=self.moved[s.buffer], indices=indices)
        return made


def _exclude(a: Sequence[tuple[If, Block]], b: Sequence[tuple[If, Block]]) -> bool:
    """Whether statements in the first branches and those in the second never both run."""
    return any(one is other and here is not there for one, here in a for other, there in b)
