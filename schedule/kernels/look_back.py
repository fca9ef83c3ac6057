"""What a block of a GPU does to learn what came before it: decoupled look-back (Merrill & Garland 2016), by all threads of the block.

    earlier = carry before[b], then before[b + 1] = earlier + total          b: the number that the block has drawn

becomes, of T threads:

    totals[b + 1] = total; publish state[b + 1] = 1                          (the first thread)
    until one of T entries, from b downwards, holds all that came before it: thread t awaits state[b - t], and takes before[b - t] or, where
      that is not known yet, totals[b - t]
    earlier = the nearest before[k], then totals[k + 1] … totals[b] combined with it, from left to right    (the first thread)
    before[b + 1] = earlier + total; publish state[b + 1] = 2

Blocks draw their numbers, so that those that a block waits for have all begun, and devices promise that what has begun goes on.
Entries that only some timing makes known change nothing: `before[k]` is what folding on from any earlier one gives, to the bit, as totals are
never combined with one another. Entry 0 is known before the launch; its state is where numbers are drawn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from raido.algo.graph import index as ix
from raido.algo.graph.dtypes import bool_, i32, i64
from raido.algo.graph.expr import Expr, Node, Op, const, fresh
from raido.algo.graph.rewrite import substitute
from raido.schedule.nest.nodes import (
    Alloc,
    AtomicUpdate,
    Await,
    Barrier,
    Block,
    Carry,
    For,
    If,
    Let,
    Publish,
    Statement,
    Store,
    Ticket,
    While,
)
from raido.schedule.nest.values import Buffer, NestExpr, Read, new_serial

TOTAL, ALL = 1, 2
"""States of an entry: its block's total is there; what comes before the next block is, too."""
_FIRST: tuple[Expr, ...] = (ix.as_index(0),)


@dataclass(frozen=True, slots=True)
class LookBackMemory:
    """Shared memory of a block: the entries that its threads look at, the place of the nearest that is known, what came before the block,
    and the number that it has drawn."""

    window: tuple[Buffer, ...]
    nearest: Buffer
    earlier: tuple[Buffer, ...]
    number: Buffer

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        """All of it."""
        return (*self.window, self.nearest, *self.earlier, self.number)


def memory_of(s: Carry, threads: int) -> LookBackMemory:
    """Memory for a block of so many threads."""
    window = tuple(_array("window", b, threads) for b in s.buffers)
    earlier = tuple(_array("earlier", b, 1) for b in s.buffers)
    return LookBackMemory(window, _scalar("nearest", i32), earlier, _scalar("number", i64))


def _array(name: str, like: Buffer, count: int) -> Buffer:
    return Buffer(name, like.dtype, (ix.as_index(count),), "shared", new_serial(), (), 1, None)


def _scalar(name: str, dtype: Any, scope: str = "shared") -> Buffer:
    shape = (ix.as_index(1),) if scope == "shared" else ()
    return Buffer(name, dtype, shape, scope, new_serial(), (), 1, None)


def draw_number(s: Ticket, memory: LookBackMemory, lane: Expr) -> Iterator[Statement]:
    """The code of every thread for the number that its block has."""
    drawn = fresh("drawn")
    number = Store(memory.number, _FIRST, drawn)
    yield If(_is(lane, 0), Block((Ticket(drawn, s.state, s.count), number)))
    yield Barrier()
    natural = ix.maximum(Read(memory.number, _FIRST, None), 0)
    yield Let(s.var, ix.minimum(natural, ix.sub(s.count, 1)))


def look_back(s: Carry, memory: LookBackMemory, lane: Expr, threads: int) -> Iterator[Statement]:
    """The code of every thread for what its block takes and hands on; all of them come by."""
    block, after = fresh("block"), fresh("after")
    totals = [fresh("total", v.dtype) for v in s.right]
    yield Let(block, s.place)
    yield Let(after, ix.add(block, 1))
    yield from (Let(v, value) for v, value in zip(totals, s.values, strict=True))
    known = [Store(buffer, (after,), v) for buffer, v in zip(s.totals, totals, strict=True)]
    yield If(_is(lane, 0), Block((*known, Publish(s.state, after, ix.as_index(TOTAL)))))

    top, found = _scalar("top", i64, "register"), _scalar("found", i32, "register")
    yield from (Alloc(top), Store(top, (), block), Alloc(found), Store(found, (), const(i32, threads)))
    again = Op("eq", bool_, (Read(found, (), None), const(i32, threads)))  # type: ignore[arg-type]
    further = Store(top, (), ix.sub(Read(top, (), None), threads))
    yield While(
        Block(()),
        again,
        Block(
            (
                If(_is(lane, 0), Block((Store(memory.nearest, _FIRST, const(i32, threads)),))),
                Barrier(),
                *_look(s, memory, lane, top),
                Barrier(),
                Store(found, (), Read(memory.nearest, _FIRST, None)),
                If(again, Block((further, Barrier()))),
            )
        ),
    )
    yield If(_is(lane, 0), Block(tuple(_fold(s, memory, block, totals, top, found))))
    yield Barrier()
    yield from (Let(v, Read(b, _FIRST, None)) for v, b in zip(s.taken, memory.earlier, strict=True))


def _look(s: Carry, memory: LookBackMemory, lane: Expr, top: Buffer) -> Iterator[Statement]:
    """A thread's look at its entry, if there is one: entry 0 is known."""
    entry, seen, state = fresh("entry"), fresh("seen"), _scalar("status", i64, "register")
    await_it = Block((Await(seen, s.state, entry), Store(state, (), seen)))
    old, new = fresh("old", i32), fresh("new", i32)
    smaller = Op("minimum", i32, (old, new))
    place = Op("cast", i32, (lane,))
    nearest = AtomicUpdate(memory.nearest, _FIRST, place, old, new, smaller, "minimum")

    def taken(sources: Sequence[Buffer]) -> Iterator[Statement]:
        for target, source in zip(memory.window, sources, strict=True):
            yield Store(target, (lane,), Read(source, (entry,), None))

    yield Let(entry, ix.sub(Read(top, (), None), lane))
    yield If(
        Op("le", bool_, (ix.as_index(0), entry)),
        Block(
            (
                Alloc(state),
                Store(state, (), ix.as_index(ALL)),
                If(Op("lt", bool_, (ix.as_index(0), entry)), await_it),
                If(
                    _is(Read(state, (), None), ALL),
                    Block((*taken(s.buffers), nearest)),
                    Block(tuple(taken(s.totals))),
                ),
            )
        ),
    )


def _fold(
    s: Carry, memory: LookBackMemory, block: Expr, totals: Sequence[NestExpr], top: Buffer, found: Buffer
) -> Iterator[Statement]:
    """What came before the block, from the nearest entry that is known on, for all threads; and what comes before the next one."""
    running = [Buffer("running", b.dtype, (), "register", new_serial(), (), 1, None) for b in s.buffers]
    nearest = fresh("near")
    yield Let(nearest, Op("cast", i64, (Read(found, (), None),)))  # type: ignore[arg-type]
    for register, window in zip(running, memory.window, strict=True):
        yield Alloc(register)
        yield Store(register, (), Read(window, (nearest,), None))
    step, entry = fresh("step"), fresh("entry")
    place = ix.sub(ix.sub(nearest, 1), step)
    near = _combined(s, running, [Read(b, (place,), None) for b in memory.window])
    yield For(step, ix.as_index(0), nearest, 1, Block(tuple(near)))
    far = _combined(s, running, [Read(b, (entry,), None) for b in s.totals])
    yield For(entry, ix.add(Read(top, (), None), 1), ix.add(block, 1), 1, Block(tuple(far)))
    earlier = [fresh("earlier", b.dtype) for b in s.buffers]
    yield from (Let(v, Read(b, (), None)) for v, b in zip(earlier, running, strict=True))
    yield from (Store(b, _FIRST, v) for b, v in zip(memory.earlier, earlier, strict=True))
    after = ix.add(block, 1)
    for buffer, value in zip(s.buffers, _applied(s, earlier, totals), strict=True):
        yield Store(buffer, (after,), value)
    yield Publish(s.state, after, ix.as_index(ALL))


def _combined(s: Carry, running: Sequence[Buffer], values: Sequence[NestExpr]) -> Iterator[Statement]:
    """The running values take in others, on the right."""
    left, right = ([fresh(v.name, v.dtype) for v in operands] for operands in (s.left, s.right))
    yield from (Let(v, Read(b, (), None)) for v, b in zip(left, running, strict=True))
    yield from (Let(v, value) for v, value in zip(right, values, strict=True))
    for register, value in zip(running, _applied(s, left, right), strict=True):
        yield Store(register, (), value)


def _applied(s: Carry, left: Sequence[NestExpr], right: Sequence[NestExpr]) -> list[Any]:
    """The operator on these values."""
    values: dict[Node, Any] = dict(zip((*s.left, *s.right), (*left, *right), strict=True))
    return [substitute(e, values) for e in s.combine]


def _is(e: NestExpr, number: int) -> Expr:
    return Op("eq", bool_, (e, ix.as_index(number)))  # type: ignore[arg-type]
