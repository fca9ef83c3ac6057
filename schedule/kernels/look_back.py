"""Decoupled look-back (Merrill & Garland 2016): the code by which a block learns the prefix before it, by the
threads of its first subgroup.

    earlier = carry before[b], then before[b + 1] = earlier + total          b: the ticket that the block has drawn

becomes, in a subgroup of T threads:

    totals[b + 1] = total; publish state[b + 1] = 1                          (the first thread)
    until one of T entries, from b downwards, holds a whole prefix: thread t awaits state[b - t], and reads before[b - t] or, where
      that is not known yet, totals[b - t]
    earlier = the value of the nearest such thread, then those of the threads before it, from left to right
    before[b + 1] = earlier + total; publish state[b + 1] = 2                (the first thread)

A value that leaves two bits of a word for its state is published in that word (`in_one_word`), so that no other store has to be visible
with it. Where the threads of a block are no whole subgroups its first thread looks back alone, an entry at a time.

Where each thread of a block hands on a count of elements (`Carry.inside`), each looks back alone, an entry at a time, and adds up the
counts, whose sums are the same in any order.

Blocks draw their numbers, so all those that a block waits for have begun, and devices promise that a block that has begun makes progress.
Results do not depend on timing: `before[k]` is the same, to the bit, from whichever earlier entry the fold goes on, as totals are never
combined with one another. Entry 0 is known before the launch; numbers are drawn from its state.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from raido.algo.graph import index as ix
from raido.algo.graph.dtypes import bool_, i32, i64, unsigned
from raido.algo.graph.expr import Expr, Op, Var, const, fresh
from raido.schedule.nest.carry import applied, element_of, in_one_word
from raido.schedule.nest.nodes import (
    Alloc,
    Await,
    Barrier,
    Block,
    Broadcast,
    Carry,
    FirstThread,
    For,
    If,
    Let,
    Publish,
    Statement,
    Store,
    Ticket,
    While,
)
from raido.schedule.nest.values import Buffer, NestExpr, Read, new_serial, register

_FIRST: tuple[Expr, ...] = (ix.as_index(0),)


@dataclass(frozen=True, slots=True)
class LookBackMemory:
    """The shared memory of a block: the prefix before it, and the number that it has drawn."""

    earlier: tuple[Buffer, ...]
    number: Buffer

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        """All buffers of this memory."""
        return (*self.earlier, self.number)


def memory_of(s: Carry) -> LookBackMemory:
    """The shared memory of a block for a `Carry`."""
    one = (ix.as_index(1),)
    shared = s.buffers if s.inside is None else ()  # a thread that looks back alone shares no prefix
    earlier = tuple(Buffer("earlier", b.dtype, one, "shared", new_serial(), (), 1, None) for b in shared)
    return LookBackMemory(earlier, Buffer("number", i64, one, "shared", new_serial(), (), 1, None))


def draw_number(s: Ticket, memory: LookBackMemory, lane: Expr) -> Iterator[Statement]:
    """The code of every thread that draws and reads its block's number."""
    drawn = fresh("drawn")
    number = Store(memory.number, _FIRST, drawn)
    yield If(_is(lane, 0), Block((Ticket(drawn, s.state, s.count), number)))
    yield Barrier()
    yield Let(s.var, Read(memory.number, _FIRST, None), s.count)


def look_back(s: Carry, memory: LookBackMemory, lane: Expr, threads: int, subgroup: int) -> Iterator[Statement]:
    """The code of every thread for a block's look-back and its own entry; all threads must pass. lane: the number of a thread. subgroup:
    the number of threads that exchange values, 1 where none do."""
    writer = _LookBack(s, memory, lane, subgroup)
    code = writer.code()
    yield from code if threads == subgroup else (If(_less(lane, ix.as_index(subgroup)), Block(tuple(code))),)
    yield Barrier()
    yield from (Let(v, Read(b, _FIRST, None)) for v, b in zip(s.taken, memory.earlier, strict=True))


def look_back_alone(s: Carry) -> Iterator[Statement]:
    """The code of a thread for its own look-back and entry."""
    entries, before = _Words(s), s.buffers[0]
    block, after, total, earlier, sum_ = (fresh(name) for name in ("block", "after", "total", "earlier", "sum"))
    running, top, known = register("running", i64), register("top", i64), register("known", bool_)
    yield Let(block, s.index)
    yield Let(after, ix.add(block, 1))
    yield Let(total, s.values[0])
    yield from entries.publish_totals(after, [total])
    yield from map(Alloc, (running, top, known))
    yield Store(running, (), ix.as_index(0))
    yield Store(top, (), block)
    yield Store(known, (), const(bool_, False))

    def take(values: Sequence[NestExpr], everything: Expr) -> Iterator[Statement]:
        yield Store(running, (), applied(s, values, [Read(running, (), None)])[0])
        yield Store(known, (), everything)

    entry, down = fresh("entry"), Op("sub", i64, (Read(top, (), None), ix.as_index(1)))  # type: ignore[arg-type]
    first = take([Read(before, (element_of(s, ix.as_index(0)),), None)], const(bool_, True))
    look = If(_less(ix.as_index(0), entry), Block(tuple(entries.take(entry, take))), Block(tuple(first)))
    body = Block((Let(entry, Read(top, (), None)), look, Store(top, (), down)))
    yield While(Block(()), Op("logical_not", bool_, (Read(known, (), None),)), body)  # type: ignore[arg-type]
    yield Let(earlier, Read(running, (), None))
    yield Let(sum_, applied(s, [earlier], [total])[0])
    yield from entries.publish_all(after, [sum_])
    yield Let(s.taken[0], earlier)


class _LookBack:
    """The code of the threads of a subgroup for a look-back."""

    def __init__(self, s: Carry, memory: LookBackMemory, lane: Expr, width: int) -> None:
        self.s, self.memory, self.lane, self.width = s, memory, lane, width
        self.entries: _Words | _Arrays = (
            _Words(s) if in_one_word([b.dtype for b in s.buffers], s.counts) else _Arrays(s)
        )
        self.top, self.found = register("top", i64), register("found", i32)
        self.seen = [register("seen", b.dtype) for b in s.buffers]
        self.running = [register("running", b.dtype) for b in s.buffers]

    def code(self) -> Iterator[Statement]:
        """The whole look-back: publish the total, search, fold, publish the prefix."""
        s, first = self.s, _is(self.lane, 0)
        block, after = fresh("block"), fresh("after")
        totals = [fresh("total", v.dtype) for v in s.right]
        yield Let(block, s.index)
        yield Let(after, ix.add(block, 1))
        yield from (Let(v, value) for v, value in zip(totals, s.values, strict=True))
        yield If(first, Block(tuple(self.entries.publish_totals(after, totals))))
        yield from self._search(block)
        yield from self._fold(block)
        earlier = [fresh("earlier", b.dtype) for b in s.buffers]
        yield from (Let(v, Read(b, (), None)) for v, b in zip(earlier, self.running, strict=True))
        sums = [fresh("sum", b.dtype) for b in s.buffers]
        handed_on: list[Statement] = [Store(b, _FIRST, v) for b, v in zip(self.memory.earlier, earlier, strict=True)]
        handed_on += [Let(v, e) for v, e in zip(sums, applied(s, earlier, totals), strict=True)]
        handed_on += [Store(b, (after,), v) for b, v in zip(s.buffers, sums, strict=True)]
        yield If(first, Block((*handed_on, *self.entries.publish_all(after, sums))))

    def _search(self, block: Var) -> Iterator[Statement]:
        """Reads entries from `block` downwards until one with a whole prefix is found, by thread number `found`;
        usually by the first read of T entries."""
        found, top = Read(self.found, (), None), Read(self.top, (), None)
        yield from map(Alloc, (self.top, self.found, *self.seen))
        yield Store(self.top, (), block)
        yield from self._look(block)
        nothing = Op("eq", bool_, (found, const(i32, self.width)))  # type: ignore[arg-type]
        further = Block((Store(self.top, (), ix.sub(top, self.width)), *self._look(top)))
        yield If(nothing, Block((While(Block(()), nothing, further),)))

    def _look(self, top: Any) -> Iterator[Statement]:
        """A thread's read of its entry, counted down from `top`; entry 0 is known, and there are none below."""
        entry, known = fresh("entry"), register("known", bool_)
        yield Let(entry, ix.sub(top, self.lane))
        yield Alloc(known)
        yield Store(known, (), const(bool_, True))
        start = [Store(r, (), Read(b, _FIRST, None)) for r, b in zip(self.seen, self.s.buffers, strict=True)]

        def take(values: Sequence[NestExpr], everything: Expr) -> Iterator[Statement]:
            yield from (Store(r, (), v) for r, v in zip(self.seen, values, strict=True))
            yield Store(known, (), everything)

        yield If(_less(ix.as_index(0), entry), Block(tuple(self.entries.take(entry, take))), Block(tuple(start)))
        yield from self._first_with(Read(known, (), None))  # type: ignore[arg-type]

    def _first_with(self, holds: Expr) -> Iterator[Statement]:
        if self.width == 1:
            one: NestExpr = Op("select", i32, (holds, const(i32, 0), const(i32, 1)))
            yield Store(self.found, (), one)
            return
        near = fresh("near", i32)
        yield FirstThread(near, holds, self.width)
        yield Store(self.found, (), near)

    def _fold(self, block: Var) -> Iterator[Statement]:
        """Folds the prefix before the block, from the nearest entry with a whole prefix on."""
        seen, nearest = [Read(b, (), None) for b in self.seen], fresh("near")
        yield Let(nearest, Op("cast", i64, (Read(self.found, (), None),)))  # type: ignore[arg-type]
        yield from map(Alloc, self.running)
        yield from self._of_thread(seen, nearest, lambda values: self._set(values))
        if self.width > 1:
            offset = fresh("step")
            distance = ix.sub(ix.sub(nearest, 1), offset)
            near = self._of_thread(seen, distance, lambda values: _combined(self.s, self.running, values))
            yield For(offset, ix.as_index(0), nearest, 1, Block(tuple(near)))
        entry = fresh("entry")
        far = self.entries.take(entry, partial(_taken_in, self.s, self.running))
        top: Any = Read(self.top, (), None)
        others = For(entry, ix.add(top, 1), ix.add(block, 1), 1, Block(tuple(far)))
        yield If(_less(top, block), Block((others,)))

    def _of_thread(self, values: Sequence[Read], source: Expr, use: Any) -> Iterator[Statement]:
        """Applies `use` to the values of thread `source` of the subgroup."""
        if self.width == 1:
            yield from use(values)
            return
        names = [fresh("from", v.dtype) for v in values]
        yield Broadcast(tuple(names), tuple(values), Op("cast", i32, (source,)), self.width)
        yield from use(names)

    def _set(self, values: Sequence[NestExpr]) -> Iterator[Statement]:
        yield from (Store(r, (), v) for r, v in zip(self.running, values, strict=True))


class _Arrays:
    """Entries as arrays beside their states: `totals` once a state is 1, `buffers` once it is 2."""

    def __init__(self, s: Carry) -> None:
        self.s = s

    def publish_totals(self, after: Expr, totals: Sequence[NestExpr]) -> Iterator[Statement]:
        yield from (Store(b, (after,), v) for b, v in zip(self.s.totals, totals, strict=True))
        yield Publish(self.s.state, after, ix.as_index(1))

    def publish_all(self, after: Expr, sums: Sequence[NestExpr]) -> Iterator[Statement]:
        """Publishes the prefix, whose sums are in their buffers."""
        yield Publish(self.s.state, after, ix.as_index(2))

    def take(self, entry: Expr, use: Any) -> Iterator[Statement]:
        """Awaits an entry, and applies `use` to its values, and whether they are a whole prefix."""
        state = fresh("state")
        yield Await(state, self.s.state, entry)

        def read(buffers: Sequence[Buffer], everything: bool) -> Block:
            return Block(tuple(use([Read(b, (entry,), None) for b in buffers], const(bool_, everything))))

        yield If(_is(state, 2), read(self.s.buffers, True), read(self.s.totals, False))


class _Words:
    """Entries in the words of their states: a total with bit 62 set, or a whole prefix with bit 63, neither of which is part of a value."""

    def __init__(self, s: Carry) -> None:
        self.s, self.dtype = s, s.buffers[0].dtype

    def publish_totals(self, after: Expr, totals: Sequence[NestExpr]) -> Iterator[Statement]:
        yield Publish(self.s.state, element_of(self.s, after), self._word(totals[0], 1 << 62), alone=True)

    def publish_all(self, after: Expr, sums: Sequence[NestExpr]) -> Iterator[Statement]:
        yield Publish(self.s.state, element_of(self.s, after), self._word(sums[0], -1 << 63), alone=True)

    def take(self, entry: Expr, use: Any) -> Iterator[Statement]:
        """Awaits an entry, and applies `use` to its value, and whether that is a whole prefix."""
        word = fresh("word")
        yield Await(word, self.s.state, element_of(self.s, entry), alone=True)
        yield from use([self._value(word)], _less(word, ix.as_index(0)))

    def _word(self, value: Any, flag: int) -> Expr:
        if not self.s.counts and self.dtype is not bool_:
            word = unsigned(self.dtype.bits)
            value = value if self.dtype is word else Op("bitcast", word, (value,))
        bits = value if self.s.counts else Op("cast", i64, (value,))
        return Op("bit_or", i64, (bits, const(i64, flag)))

    def _value(self, word: Expr) -> Expr:
        if self.s.counts:
            return Op("bit_and", i64, (word, const(i64, (1 << 62) - 1)))
        if self.dtype is bool_:
            return Op("eq", bool_, (Op("bit_and", i64, (word, const(i64, 1))), const(i64, 1)))
        bits = Op("cast", unsigned(self.dtype.bits), (word,))
        return bits if self.dtype is bits.dtype else Op("bitcast", self.dtype, (bits,))


def _taken_in(s: Carry, running: Sequence[Buffer], values: Sequence[NestExpr], everything: Expr) -> Iterator[Statement]:
    """Sets the running values to those of an entry with a whole prefix, or combines them with a total on the right."""
    named = [fresh("value", b.dtype) for b in running]
    yield from (Let(v, value) for v, value in zip(named, values, strict=True))
    whole = Block(tuple(Store(r, (), v) for r, v in zip(running, named, strict=True)))
    yield If(everything, whole, Block(tuple(_combined(s, running, named))))


def _combined(s: Carry, running: Sequence[Buffer], values: Sequence[NestExpr]) -> Iterator[Statement]:
    """Combines the running values with others on the right."""
    left, right = ([fresh(v.name, v.dtype) for v in operands] for operands in (s.left, s.right))
    yield from (Let(v, Read(b, (), None)) for v, b in zip(left, running, strict=True))
    yield from (Let(v, value) for v, value in zip(right, values, strict=True))
    for held, value in zip(running, applied(s, left, right), strict=True):
        yield Store(held, (), value)


def _is(e: NestExpr, number: int) -> Expr:
    return Op("eq", bool_, (e, ix.as_index(number)))  # type: ignore[arg-type]


def _less(a: NestExpr, b: NestExpr) -> Expr:
    return Op("lt", bool_, (a, b))  # type: ignore[arg-type]
