"""Wide accesses: consecutive elements that a vectorised loop of a thread reads or writes in a device array are moved by one instruction.

    for x in low..min(n, low + 4) by vector: out[x] = a[x] * 2

becomes, where `low` is a multiple of 4 in every thread, and elements have 4 bytes:

    if low + 4 <= n: the thread's own a_4[0 +: 4] = a[low +: 4]; out_4[k] = a_4[k] * 2 for each k; out[low +: 4] = out_4[0 +: 4]
    else: an element at a time, each behind a test; in a loop, where a device runs both sides of every branch

Arithmetic stays that of single elements, in order. Arrays of the device and of a block's shared memory begin at multiples of 16 bytes, so
an index that is a multiple of the access width is aligned, which its coefficients prove. Elements at a fused loop's index are consecutive
across rows (`flat_offset`). A row's length that only a launch knows is tested there, once for a loop: where it is no multiple, accesses to
such rows move single elements. So do accesses to arrays with atomic updates. Loops over an array private to the thread are written out
likewise, so that its elements are registers. Other vectorised loops, and the remainders of these, are serial.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from math import inf
from typing import Any, TypeAlias

from raido.algo.graph import index as ix
from raido.algo.graph.dtypes import bool_, i64
from raido.algo.graph.expr import Const, Expr, Node, Op, SizeVar, Var, fresh
from raido.algo.graph.rewrite import substitute, topological
from raido.schedule.machine import WIDEST_ACCESS
from raido.schedule.nest.effects import buffers_read, loads, reads_memory, writes
from raido.schedule.nest.nodes import Alloc, Block, Check, For, If, Let, Statement, Store, VectorStore
from raido.schedule.nest.values import Buffer, NestExpr, Read, VectorRead, flat_offset, new_serial, strides_of
from raido.schedule.nest.walk import expressions_of, flat, map_block, statements_within, with_blocks

LEAST_COPIED = 4
"""Bytes that an asynchronous copy moves at least."""
LONGEST = 16
"""Elements of a loop that is written out: as many as the smallest ones that move at once."""
Names: TypeAlias = "Mapping[Node, Expr]"


def move_wide(code: Block, threads: Mapping[Var, int], branches: bool) -> Block:
    """The code of a thread without vectorised loops: consecutive aligned accesses are moved at once. threads: the number of threads along
    each axis. branches: whether a branch costs threads only the side that they take."""
    inside = list(statements_within(code))
    own = {s.buffer for s in inside if isinstance(s, Alloc) and s.buffer.scope != "shared"}
    apart = {access.buffer for s in inside for access in writes(s) if access.atomic}
    arrays = frozenset(buffer for buffer in own if buffer.shape)
    return _block(code, {}, _Around(frozenset(own | apart), arrays, threads, branches))


@dataclass(frozen=True, slots=True)
class _Around:
    """The context of a kernel: arrays whose elements move one by one, with private ones among them; arrays private to the thread; the
    number of threads along each axis, and whether a branch costs them one side only."""

    by_element: frozenset[Buffer]
    own: frozenset[Buffer]
    threads: Mapping[Var, int]
    branches: bool


def _block(block: Block, names: Names, around: _Around) -> Block:
    """Rewrites a block; `names` has the definitions of indices named before it."""
    made: list[Statement] = []
    for s in block.statements:
        if isinstance(s, Let) and s.var.dtype is i64:
            names = {**names, s.var: substitute(s.value, names)}
        if isinstance(s, For) and s.kind == "vector":
            made += _loop(s, names, around)
        else:
            known = {**names, s.var: _strided(s, names)} if isinstance(s, For) and s.step > 1 else names
            inside = with_blocks(s, lambda inner: _block(inner, known, around))  # noqa: B023
            made += (_asked_once(inside),) if isinstance(inside, If) else _whole_first(inside, known, around)
    return Block(tuple(made))


def _asked_once(s: If) -> If:
    """Swaps a test that there is an element with the test inside that there is a whole vector, which usually
    holds and then is the only test.

        if x < n: if x + 4 <= n: A else: B      becomes      if x + 4 <= n: A else: if x < n: B

    Other statements are returned unchanged.
    """
    *names, inner = [*flat(s.then)] or [s]
    if s.orelse is not None or not isinstance(inner, If) or not all(isinstance(each, Let) for each in names):
        return s
    any_, whole = s.condition, inner.condition
    if not (isinstance(any_, Op) and isinstance(whole, Op) and (any_.name, whole.name) == ("lt", "le")):
        return s
    named = {each.var for each in names if isinstance(each, Let)}
    further = ix.difference(whole.args[0], any_.args[0])
    if any_.args[1] is not whole.args[1] or not named.isdisjoint(topological(whole)) or (further or 0) < 1:
        return s
    rest = None if inner.orelse is None else Block((If(any_, Block((*names, *inner.orelse.statements))),))
    return If(whole, Block((*names, *inner.then.statements)), rest)


def _whole_first(s: Statement, names: Names, around: _Around) -> Iterator[Statement]:
    """Index-set splitting of a loop over vectors, the last of which may be partial, into one over whole vectors and a remainder
    (Allen and Kennedy, Optimizing Compilers for Modern Architectures, 5.7). The remainder is a test where it has at most one
    iteration: a compiler that does not know this makes four copies of a loop, whose registers it takes from the main one. Where no
    array ends before all threads of a block have the same number of iterations, the trip count is constant, and only the last blocks,
    where an array ends earlier, test each vector."""
    inner = s.body.statements[0] if isinstance(s, For) and len(s.body.statements) == 1 else None
    if not isinstance(s, For) or not isinstance(inner, If) or inner.orelse is None or s.step == 1:
        yield s
        return
    test = inner.condition
    rest = test.args[1] if isinstance(test, Op) and test.name == "le" and test.dtype is bool_ else s.var
    lanes, terms = ix.linear(test.args[0]) if isinstance(test, Op) else (0, {})
    if dict(terms) != {s.var: 1} or s.var in topological(rest):
        yield s
        return
    ends, later = list(ix.members_of(s.high)), set(ix.members_of(rest))
    all_end = later <= set(ends)  # what a vector ends before, the loop does
    known = _known_trips(s, ends, lanes, names, around) if around.branches and all_end and lanes > 0 else None
    if known is not None:
        trips, others = known
        k: Var = fresh("k")
        body = Block((Let(s.var, ix.add(s.low, ix.mul(k, s.step))), inner.then))
        whole = For(k, ix.as_index(0), ix.as_index(trips), 1, body, stage=s.stage, loop=s.loop)
        yield If(others, Block((whole,)), Block((s,)))
        return
    end = reduce(ix.minimum, (e for e in ends if e not in later), ix.sub(rest, lanes - 1))
    count = ix.maximum(ix.ceildiv(ix.sub(end, s.low), s.step), 0)
    low = ix.add(s.low, ix.mul(count, s.step))
    yield replace(s, high=end, body=inner.then)
    if all_end and lanes - 1 <= s.step:  # fewer indices are left than an iteration moves on by
        yield Block((Let(s.var, low), If(Op("lt", bool_, (s.var, s.high)), inner.orelse)))
    else:
        yield replace(s, low=low, body=inner.orelse)


def _known_trips(s: For, ends: Sequence[Expr], lanes: int, names: Names, around: _Around) -> tuple[int, Expr] | None:
    """The constant trip count of each thread, all over whole vectors, if one of the loop's ends is its least, and the test that it is; None
    where no end gives whole vectors, and the same trip count in every thread."""
    for end in ends:
        left = ix.canonical(substitute(ix.sub(end, s.low), names))
        least, most = _least(left, around.threads), -_least(ix.canonical(ix.sub(0, left)), around.threads)
        constant, terms = ix.linear(left)
        if least == -inf or most == inf or any(n % lanes for n in (s.step, constant, *terms.values())):
            continue
        trips = -(-int(least) // s.step)
        others = [each for each in ends if each is not end]
        if others and 0 < trips == -(-int(most) // s.step):
            tests: list[Expr] = [Op("le", bool_, (end, each)) for each in others]
            return trips, reduce(lambda a, b: Op("logical_and", bool_, (a, b)), tests)
    return None


def _strided(s: For, names: Names) -> Expr:
    """The variable of a loop in terms of its iteration number."""
    return ix.add(substitute(s.low, names), ix.mul(fresh("iteration"), s.step))


def _loop(s: For, names: Names, around: _Around) -> Iterator[Statement]:
    serial = replace(s, kind="serial", lanes=0, body=_block(s.body, names, around))
    lanes, rest = _length(s, names, around.threads)
    moves = _Moves(s, lanes, names, around.by_element) if 1 < lanes <= LONGEST and _is_plain(s.body) else None
    of_own = _reaches_own(s, around.own)
    if moves is None or not (moves.loads or moves.stores or of_own):
        yield serial
        return
    whole = moves.written_out()
    if moves.asked:
        whole = Block((If(moves.aligned(), whole, moves.always_aligned()),))
    if rest is None:
        yield whole
    else:
        written_out = around.branches or of_own
        tail = (
            _tail(serial, lanes, rest) if written_out else replace(serial, high=ix.minimum(ix.add(s.low, lanes), rest))
        )
        yield If(Op("le", bool_, (ix.add(s.low, lanes), rest)), whole, Block((tail,)))


def _reaches_own(s: For, own: frozenset[Buffer]) -> bool:
    """Whether iterations access distinct elements of a private array: once the loop is written out these are in registers."""
    found = [access for inner in s.body.statements for access in (*loads(inner), *writes(inner))]
    return any(access.buffer in own and s.var in topological(*(access.indices or ())) for access in found)


def _tail(loop: For, lanes: int, rest: Expr) -> For:
    """The iterations of a loop that ends before its last one, written out behind tests: of a loop a compiler would make many copies."""
    lane: Var = fresh("lane")
    inside = If(Op("lt", bool_, (loop.var, rest)), loop.body)
    body = Block((Let(loop.var, ix.add(loop.low, lane)), inside))
    return For(lane, ix.as_index(0), ix.as_index(lanes - 1), 1, body, "unroll", stage=loop.stage, loop=loop.loop)


def _length(s: For, names: Names, threads: Mapping[Var, int]) -> tuple[int, Expr | None]:
    """The greatest trip count of a loop, 0 where it is not constant; and the end that it may reach before, or None."""
    ends = list(ix.members_of(ix.canonical(s.high)))
    known = [length for end in ends if (length := ix.difference(end, s.low)) is not None]
    if not known or s.step != 1:
        return 0, None
    lanes = max(0, min(known))
    others = [end for end in ends if ix.difference(end, s.low) is None]
    sooner = [end for end in others if _least(ix.canonical(substitute(ix.sub(end, s.low), names)), threads) < lanes]
    return lanes, reduce(ix.minimum, sooner) if sooner else None


def _least(e: Expr, threads: Mapping[Var, int]) -> float:
    """The least value of an expression of places of threads; −∞ where it has other variables."""
    constant, terms = ix.linear(e)
    if not all(isinstance(atom, Var) and atom in threads for atom in terms):
        return -inf
    return constant + sum(min(0, c * (threads[atom] - 1)) for atom, c in terms.items() if isinstance(atom, Var))


def _is_plain(body: Block) -> bool:
    """Whether a body has names, stores, checks, and branches of these alone, as appended elements are."""
    return all(isinstance(s, (Let, Store, Check, If, Block)) for s in statements_within(body))


def _is_in_place(store: Store, inside: Sequence[Statement]) -> bool:
    """Whether iterations change each its own element of an array: it is read at the index of its only store, and not afterwards, so that
    all are loaded before the first is stored."""
    where = inside.index(store)
    reads = [
        (k, node)
        for k, s in enumerate(inside)
        for node in topological(*expressions_of(s))
        if isinstance(node, (Read, VectorRead)) and node.buffer is store.buffer
    ]
    return sum(access.buffer is store.buffer for s in inside for access in writes(s)) == 1 and all(
        k <= where and isinstance(node, Read) and node.indices == store.indices for k, node in reads
    )


@dataclass(frozen=True, slots=True)
class _Move:
    """A wide access: elements of an array from `first` on, and the thread's private memory for them."""

    array: Buffer
    first: tuple[NestExpr, ...]
    own: Buffer
    asked: tuple[Expr, ...]
    """The lengths in memory that are multiples of what moves at once wherever the move is aligned."""
    across: bool
    """Whether elements may continue in the next row."""

    def load(self, lanes: int) -> VectorStore:
        return VectorStore(self.own, (ix.as_index(0),), VectorRead(self.array, self.first, 1, lanes, None, self.across))

    def store(self, lanes: int) -> VectorStore:
        own = VectorRead(self.own, (ix.as_index(0),), 1, lanes, None)
        return VectorStore(self.array, self.first, own, across=self.across)


class _Moves:
    """The wide accesses of a vectorised loop of `lanes` iterations: `loads` by the read of an element, `stores` by the store of one."""

    def __init__(self, loop: For, lanes: int, names: Names, by_element: frozenset[Buffer]) -> None:
        self.loop, self.lanes = loop, lanes
        self.loads: dict[Read, _Move] = {}
        self.stores: dict[Statement, _Move] = {}
        self._outer, self._inner = names, dict[Node, Expr]()
        statements: Sequence[Statement] = loop.body.statements
        inside = list(statements_within(loop.body))
        read = [buffer for s in inside for buffer in buffers_read(expressions_of(s))]
        written = [access.buffer for s in inside for access in writes(s)]
        in_place = {s.buffer for s in statements if isinstance(s, Store) and _is_in_place(s, inside)}
        changed = {*by_element, *(buffer for buffer in written if buffer not in in_place)}
        several = (buffer for buffer in written if written.count(buffer) > 1)
        kept = {*by_element, *(buffer for buffer in read if buffer not in in_place), *several}
        for s in statements:
            for node in () if isinstance(s, Check) else topological(*expressions_of(s)):
                if isinstance(node, Read) and node.predicate is None and node.buffer not in changed:
                    self._add(self.loads, node, node.buffer, node.indices)
            if isinstance(s, Store) and s.predicate is None and s.buffer not in kept:
                self._add(self.stores, s, s.buffer, s.indices)
            if isinstance(s, Let) and s.var.dtype is i64:
                self._inner[s.var] = substitute(s.value, self._inner)

    def _add(self, moves: dict[Any, _Move], of: Any, buffer: Buffer, indices: tuple[NestExpr, ...]) -> None:
        """Adds a wide access, if elements are consecutive and the first of them is aligned."""
        inner = tuple(self._settled(substitute(i, self._inner)) for i in indices)
        if of in moves or reads_memory(*inner):
            return
        x = self.loop.var
        _, terms = ix.linear(ix.canonical(_offset(buffer, inner)))
        if terms.get(x) != 1 or any(x in topological(atom) for atom in terms if atom is not x):
            return
        first = tuple(ix.canonical(substitute(i, {x: self.loop.low})) for i in inner)
        together = self._together(buffer)
        asked = _lengths_to_ask(buffer, [substitute(i, self._outer) for i in first], together)
        if together < 2 or asked is None:
            return
        lanes = (ix.as_index(self.lanes),)
        own = Buffer(f"{buffer.name}_{self.lanes}", buffer.dtype, lanes, "register", new_serial(), (), 1, None)
        moves[of] = _Move(buffer, first, own, asked, flat_offset(buffer, inner) is not None)

    def _settled(self, i: NestExpr) -> NestExpr:
        """An index simplified: quotients and remainders by a multiple of the trip count are distributed over the loop where the dividend
        begins at such a multiple, because all iterations are then in the same block of a blocked layout."""
        x, low, found = self.loop.var, self.loop.low, dict[Node, Expr]()
        for node in topological(i):
            k = ix.constant_value(node.args[1]) if isinstance(node, Op) and node.name in ("floordiv", "mod") else None
            if not isinstance(node, Op) or not k or k < 0 or k % self.lanes:
                continue
            of = ix.canonical(node.args[0])
            begin = ix.canonical(substitute(of, {x: low}))
            constant, terms = ix.linear(ix.canonical(substitute(begin, self._outer)))
            follows = ix.difference(ix.sub(of, x), ix.sub(begin, low)) == 0
            if follows and not any(n % self.lanes for n in (constant, *terms.values())):
                within = ix.sub(x, low)
                found[node] = ix.floordiv(begin, k) if node.name == "floordiv" else ix.add(ix.mod(begin, k), within)
        return substitute(i, found) if found else i

    def _together(self, buffer: Buffer) -> int:
        """The number of elements that one access moves."""
        return min(WIDEST_ACCESS // buffer.dtype.itemsize, 1 << self.lanes.bit_length() - 1)

    @property
    def asked(self) -> bool:
        """Whether the alignment of some access depends on sizes known at the launch alone."""
        return any(move.asked for move in (*self.loads.values(), *self.stores.values()))

    def aligned(self) -> Expr:
        """The test that all accesses are aligned."""
        moves = (*self.loads.values(), *self.stores.values())
        rests = dict.fromkeys(ix.mod(length, self._together(move.array)) for move in moves for length in move.asked)
        tests: list[Expr] = [Op("eq", bool_, (rest, ix.as_index(0))) for rest in rests]
        return reduce(lambda a, b: Op("logical_and", bool_, (a, b)), tests)

    def always_aligned(self) -> Block:
        """The loop written out, with only those wide accesses that are aligned in every launch."""
        self.loads = {of: move for of, move in self.loads.items() if not move.asked}
        self.stores = {of: move for of, move in self.stores.items() if not move.asked}
        return self.written_out()

    def copied(self) -> Block | None:
        """The loop as one asynchronous copy, if it copies elements that are consecutive on both sides; else None."""
        *names, s = self.loop.body.statements
        if not isinstance(s, Store) or not s.asynchronous or not all(isinstance(each, Let) for each in names):
            return None
        load, store = self.loads.get(s.value), self.stores.get(s)  # type: ignore[call-overload]
        if load is None or store is None:
            return None
        return Block((replace(store.store(self.lanes), value=load.load(self.lanes).value, asynchronous=True),))

    def written_out(self) -> Block:
        """The loop with all its iterations written out between wide loads and stores."""
        if (copied := self.copied()) is not None:
            return copied
        for s in [s for s in self.stores if isinstance(s, Store) and s.asynchronous and s.value not in self.loads]:
            if s.buffer.dtype.itemsize >= LEAST_COPIED:  # threads do not wait for elements that come one by one
                del self.stores[s]
        lane: Var = fresh("lane")
        memo: dict[Node, NestExpr] = {read: Read(move.own, (lane,), None) for read, move in self.loads.items()}
        body: list[Statement] = [Let(self.loop.var, ix.add(self.loop.low, lane))]
        body += (self._of_lane(s, lane, memo) for s in self.loop.body.statements)
        moves = (*self.loads.values(), *self.stores.values())
        return Block(
            (
                *(Alloc(move.own) for move in moves),
                *(move.load(self.lanes) for move in self.loads.values()),
                For(lane, ix.as_index(0), ix.as_index(self.lanes), 1, Block(tuple(body)), "unroll"),
                *(move.store(self.lanes) for move in self.stores.values()),
            )
        )

    def _of_lane(self, s: Statement, lane: Var, memo: dict[Node, NestExpr]) -> Statement:
        """A statement of one iteration, with elements of wide accesses in the thread's own memory."""
        if isinstance(s, Let):
            return Let(s.var, substitute(s.value, memo))
        if isinstance(s, Store) and s in self.stores:
            return Store(self.stores[s].own, (lane,), substitute(s.value, memo))
        if isinstance(s, Store):
            indices = tuple(substitute(i, memo) for i in s.indices)
            predicate = None if s.predicate is None else substitute(s.predicate, memo)
            value = substitute(s.value, memo)
            asynchronous = s.asynchronous and isinstance(value, Read) and s.value not in memo
            return replace(s, indices=indices, value=value, predicate=predicate, asynchronous=asynchronous)
        if isinstance(s, If):
            s = replace(s, condition=substitute(s.condition, memo))
        return with_blocks(s, lambda inner: map_block(inner, lambda each: self._of_lane(each, lane, memo)))


def _lengths_to_ask(buffer: Buffer, first: Sequence[NestExpr], together: int) -> tuple[Expr, ...] | None:
    """The row lengths, made of sizes, whose divisibility by `together` makes an element aligned; () if it
    always is, None where it need not be."""
    constant, terms = ix.linear(ix.canonical(_offset(buffer, first)))
    if not any(n % together for n in (constant, *terms.values())):
        return ()
    asked: dict[Expr, None] = {}
    for index, stride in zip(first, strides_of(buffer), strict=True):
        length = ix.canonical(stride)
        by_known = ix.canonical(ix.mul(index, ix.constant_value(length) or 1))
        if (needed := _multiples(by_known, together)) is not None:
            asked |= dict.fromkeys(needed)
            continue
        if ix.constant_value(length) is not None or not all(
            isinstance(node, (Const, Op, SizeVar)) for node in topological(length)
        ):
            return None
        asked[length] = None
    return tuple(asked)


def _multiples(e: Expr, together: int) -> list[Expr] | None:
    """The sizes whose divisibility by `together` makes an index divisible, too; None where it need not be."""
    constant, terms = ix.linear(e)
    if constant % together:
        return None
    needed: list[Expr] = []
    for atom, c in terms.items():
        if c % together == 0:
            continue
        if isinstance(atom, SizeVar):
            needed.append(atom)
        elif isinstance(atom, Op) and atom.name == "minimum":  # of a tile that was moved back
            for each in ix.members_of(atom):
                if (below := _multiples(ix.canonical(ix.mul(each, c)), together)) is None:
                    return None
                needed += below
        else:
            return None
    return needed


def _offset(buffer: Buffer, indices: Sequence[NestExpr]) -> Expr:
    """The offset of an element in memory, in elements."""
    parts = (ix.mul(i, by) for i, by in zip(indices, strides_of(buffer), strict=False))
    return flat_offset(buffer, indices) or reduce(ix.add, parts, ix.as_index(0))
