"""The effects of statements: the elements that each reads and writes, and the variables and memory that it binds.

Passes that ask whether memory is dead, what a loop changes, or whether iterations may run in parallel use these queries, and name no kind
of statement themselves. A new kind of statement gets entries in the tables below (a test requires them) and its expressions and blocks in
`walk`. The effects of a statement are its own, without those of statements inside it; `written`, `touched` and `buffers_read` include
these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeGuard

from raido.algo.graph import index as ix
from raido.algo.graph.expr import Node, Var
from raido.algo.graph.rewrite import children, topological
from raido.schedule.nest.carry import element_of
from raido.schedule.nest.nodes import (
    Alloc,
    Append,
    AtomicUpdate,
    Await,
    AwaitCopies,
    Barrier,
    Block,
    Broadcast,
    Carry,
    Check,
    Collect,
    CommitCopies,
    Copy,
    Exchange,
    FirstThread,
    Fold,
    For,
    If,
    Let,
    Ordered,
    Prefetch,
    Produce,
    Publish,
    Scatter,
    Statement,
    Store,
    Swap,
    Ticket,
    VectorStore,
    View,
    While,
)
from raido.schedule.nest.values import Buffer, Gather, NestExpr, Read, VectorRead
from raido.schedule.nest.walk import expressions_of, statements_within


@dataclass(frozen=True, slots=True)
class Access:
    """Elements of `buffer` that a statement reads or writes: those at `indices` (with lanes: from there on), or any (None).

    `value`: the written value, before an operator combines it with the old contents; None where whole arrays or counters change. `old`:
    whether the new contents depend on the old ones; `atomic`: whether the update is atomic.
    """

    buffer: Buffer
    indices: tuple[NestExpr, ...] | None
    value: NestExpr | None = None
    old: bool = False
    atomic: bool = False


Accesses = tuple[Access, ...]


def writes(s: Statement) -> Accesses:
    """Returns the elements that a statement itself writes."""
    return _WRITES[type(s)](s)


def updates(s: Statement) -> Accesses:
    """Returns the writes whose new contents depend on the old ones, so that executing the statement again changes them again."""
    return tuple(write for write in writes(s) if write.old)


def loads(s: Statement) -> list[Access]:
    """Returns the elements that a statement's expressions read, each once, operands before their uses."""
    return [Access(e.buffer, e.indices) for e in topological(*expressions_of(s)) if isinstance(e, _READS)]


def reads(s: Statement) -> list[Access]:
    """Returns the elements that a statement itself reads, in expressions or as the old contents of its updates."""
    return [*_OTHER_READS.get(type(s), _none)(s), *updates(s), *loads(s)]


def accesses(s: Statement) -> list[Access]:
    """Returns the elements that a statement itself writes or reads."""
    return [*writes(s), *reads(s)]


def binds(s: Statement) -> tuple[Node, ...]:
    """Returns the variables and buffers that a statement binds for the statements after it in its block."""
    return _BINDS.get(type(s), _none)(s)


def is_scan(s: Statement) -> TypeGuard[Fold]:
    """Whether a statement is a step of a scan: a fold that binds the buffers' contents before or after it."""
    return isinstance(s, Fold) and bool(binds(s))


def goes_in_order(s: Statement) -> bool:
    """Whether iterations of a loop wait for earlier ones: an ordered section inside, or a carry between blocks.

    Threads of a block each carry values in the order of the blocks, so a loop over threads is not ordered by a carry.
    """
    threads = isinstance(s, For) and s.level.startswith("thread")
    kinds = (Ordered,) if threads else (Ordered, Carry)
    return any(isinstance(inner, kinds) for inner in statements_within(s))


def binds_inside(s: Statement) -> tuple[Var, ...]:
    """Returns the variables that a statement binds for its own blocks and expressions: a loop's, and the operands of an operator."""
    return _BINDS_INSIDE.get(type(s), _none)(s)


def bound_within(*statements: Statement) -> set[Node]:
    """Returns the variables and buffers that statements, or those inside them, bind."""
    every = (s for statement in statements for s in statements_within(statement))
    return {node for s in every for node in (*binds(s), *binds_inside(s))}


def written(*statements: Statement) -> set[Buffer]:
    """Returns the buffers that statements, or those inside them, write."""
    return {w.buffer for statement in statements for s in statements_within(statement) for w in writes(s)}


def touched(*statements: Statement) -> set[Buffer]:
    """Returns the buffers that statements, or those inside them, read or write."""
    every = [s for statement in statements for s in statements_within(statement)]
    found = {access.buffer for s in every for access in (*writes(s), *_OTHER_READS.get(type(s), _none)(s))}
    return found | buffers_read(e for s in every for e in expressions_of(s))


def viewed(statement: Statement) -> set[Buffer]:
    """Returns the buffers of memory that has two names inside a statement."""
    return {b for s in statements_within(statement) if isinstance(s, View) for b in (s.source, s.buffer)}


def buffers_read(expressions: Iterable[NestExpr]) -> set[Buffer]:
    """Returns the buffers that expressions read."""
    found: set[Buffer] = set()
    seen: set[Node] = set()
    stack: list[Node] = list(expressions)
    while stack:
        node = stack.pop()
        if node not in seen:
            seen.add(node)
            stack += children(node)
            if isinstance(node, _READS):
                found.add(node.buffer)
    return found


def reads_memory(*expressions: Node) -> bool:
    """Whether expressions read memory, so that evaluating them again may give other values."""
    return any(isinstance(node, Read) for node in topological(*expressions))


_READS = (Read, VectorRead, Gather)


def _none(s: Any) -> tuple[Any, ...]:
    return ()


def _store(s: Store | VectorStore | Scatter) -> Accesses:
    return (Access(s.buffer, s.indices, s.value),)


def _fold(s: Fold) -> Accesses:
    values = s.values or s.step
    return tuple(Access(buffer, s.indices, value, old=True) for buffer, value in zip(s.buffers, values, strict=True))


def _collect(s: Collect) -> Accesses:
    return tuple(Access(buffer, None, old=True) for buffer in s.buffers)


def _carry(s: Carry) -> Accesses:
    index: Any = s.index
    after = element_of(s, ix.add(index, 1))
    return tuple(Access(buffer, (after,), e) for buffer, e in zip(s.buffers, s.combine, strict=True))


def _append(s: Append) -> Accesses:
    kept = (Access(buffer, None, value) for buffer, value in zip(s.buffers, s.values, strict=True))
    return (*kept, Access(s.position, (), old=True))


_WRITES: dict[type, Callable[[Any], Accesses]] = {
    Store: _store,
    VectorStore: _store,
    Scatter: _store,
    Fold: _fold,
    AtomicUpdate: lambda s: (Access(s.buffer, s.indices, s.value, old=True, atomic=True),),
    Collect: _collect,
    Carry: _carry,
    Ticket: lambda s: (Access(s.state, None, old=True, atomic=True),),
    Publish: lambda s: (Access(s.state, (s.index,), s.value, atomic=True),),
    Append: _append,
    Copy: lambda s: (Access(s.destination, None),),
    Swap: lambda s: (Access(s.left, None), Access(s.right, None)),
    **dict.fromkeys(
        (Barrier, Exchange, Broadcast, FirstThread, Await, Block, Let, Alloc, Ordered, For, If, While, Check), _none
    ),
    **dict.fromkeys((Prefetch, Produce, View, CommitCopies, AwaitCopies), _none),
}

# Reads outside expressions and updates. A prefetch reads nothing, but its memory must exist, as must the memory of look-back.
_OTHER_READS: dict[type, Callable[[Any], Accesses]] = {
    Prefetch: lambda s: (Access(s.buffer, s.indices),),
    Copy: lambda s: (Access(s.source, None),),
    Swap: lambda s: (Access(s.left, None), Access(s.right, None)),
    View: lambda s: (Access(s.source, None),),
    Carry: lambda s: (
        *(Access(b, (element_of(s, s.index),)) for b in s.buffers),
        *(Access(b, None) for b in (*s.totals, s.state)),
    ),
    Await: lambda s: (Access(s.state, (s.index,)),),
}

_BINDS: dict[type, Callable[[Any], tuple[Node, ...]]] = {
    Let: lambda s: (s.var,),
    Alloc: lambda s: (s.buffer,),
    View: lambda s: (s.buffer,),
    Fold: lambda s: (*s.before, *s.after),
    Exchange: lambda s: s.vars,
    Broadcast: lambda s: s.vars,
    FirstThread: lambda s: (s.var,),
    Carry: lambda s: s.taken,
    Ticket: lambda s: (s.var,),
    Await: lambda s: (s.var,),
}

_BINDS_INSIDE: dict[type, Callable[[Any], tuple[Var, ...]]] = {
    For: lambda s: (s.var,) if s.alone is None else (s.var, s.alone),
    Fold: lambda s: (*s.left, *s.right),
    AtomicUpdate: lambda s: (s.left, s.right),
    Collect: lambda s: (s.var, *s.left, *s.right),
    Carry: lambda s: (*s.left, *s.right),
}
