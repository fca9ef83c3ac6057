"""The statements of one thread: every loop serial, every step of a fold or filter as reads and stores.

The remaining statements are `Block, Let, Alloc, Store, AtomicUpdate, For, If, While, Check`, `Barrier` and `Exchange`, and where blocks
look back (`look_back.py`) `Ticket, Publish` and `Await`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from raido.algo.graph import index as ix
from raido.algo.graph.dtypes import i64
from raido.algo.graph.expr import Expr, Node, Var, fresh
from raido.algo.graph.rewrite import substitute
from raido.schedule.nest.carry import carried_in_order
from raido.schedule.nest.collect import collected_in_order
from raido.schedule.nest.effects import goes_in_order, reads_memory
from raido.schedule.nest.nodes import (
    Append,
    Block,
    Carry,
    Collect,
    Fold,
    For,
    If,
    Let,
    Ordered,
    Prefetch,
    Produce,
    Statement,
    Store,
    While,
)
from raido.schedule.nest.values import Buffer, Read, replaced


def thread_code(block: Block, together: bool = False, launched: bool = False) -> Block:
    """The block as one thread runs it. together: loops shared by the threads of a block stay parallel, bound to an axis of threads.
    launched: blocks of a launch run it, and a `Carry` between them stays, too."""
    return Block(tuple(inner for s in block.statements for inner in _statement(s, together, launched)))


def _statement(s: Statement, together: bool, launched: bool) -> Iterator[Statement]:
    if isinstance(s, Block):
        yield thread_code(s, together, launched)
    elif isinstance(s, Carry):
        yield from (s,) if launched else carried_in_order(s)
    elif isinstance(s, (Produce, Ordered)):
        yield thread_code(s.body, together and isinstance(s, Produce))
    elif isinstance(s, For):
        yield _loop(s, together, launched)
    elif isinstance(s, If):
        orelse = None if s.orelse is None else thread_code(s.orelse, together, launched)
        yield If(s.condition, thread_code(s.then, together, launched), orelse)
    elif isinstance(s, While):
        yield replace(s, setup=thread_code(s.setup, together), body=thread_code(s.body, together))
    elif isinstance(s, Fold):
        yield from _fold(s)
    elif isinstance(s, Collect) and not together:
        yield collected_in_order(s)
    elif isinstance(s, Append):
        yield _append(s)
    elif isinstance(s, Store):
        yield s if s.stream is None else replace(s, stream=None)
    elif not isinstance(s, Prefetch):
        yield s


def _loop(s: For, together: bool, launched: bool) -> For:
    kind: Any = s.kind if s.kind in ("unroll", "vector", "matrix") else "serial"
    shared = together and s.kind == "parallel" and not s.level.startswith("block") and not goes_in_order(s)
    body = thread_code(s.body, together, launched and s.level.startswith("thread"))
    threads = s.threads if kind == "matrix" else 0
    made = For(s.var, s.low, s.high, s.step, body, kind, threads=threads, stage=s.stage, loop=s.loop)
    return replace(made, kind="parallel", level=s.level or "thread.x", threads=s.threads) if shared else made


def _fold(s: Fold) -> Iterator[Statement]:
    """A step as reads and stores; names of its values are bound before anything is stored."""
    indices = list(s.indices)
    several = len(s.buffers) > 1 or s.before or s.after
    for k, index in enumerate(indices):
        if several and reads_memory(index):
            named = fresh("place")
            yield Let(named, index)
            indices[k] = named
    held: list[Expr] = [Read(buffer, tuple(indices), None) for buffer in s.buffers]
    for var, value in zip(s.before, held, strict=False):
        yield Let(var, value)
    values: dict[Node, Any] = dict(zip(s.left, s.before or held, strict=True))
    values |= dict(zip(s.right, s.values, strict=False))
    updated = [substitute(step, values) for step in s.step]
    if several:
        names = s.after or tuple(fresh("step", buffer.dtype) for buffer in s.buffers)
        for var, step in zip(names, updated, strict=True):
            yield Let(var, step)
        updated = list(names)
    for buffer, step in zip(s.buffers, updated, strict=True):
        yield Store(buffer, tuple(indices), step)


def _append(s: Append) -> Statement:
    position: Var = fresh("place", i64)
    stores = [Store(buffer, (position,), value) for buffer, value in zip(s.buffers, s.values, strict=True)]
    moved = Store(s.position, (), ix.add(position, 1))
    return If(s.predicate, Block((Let(position, Read(s.position, (), None)), *stores, moved)))


def thread_memory(buffer: Buffer) -> Buffer:
    """The private memory of a thread for a buffer of the nest: a register for a scalar, else an array on the stack."""
    scope = "stack" if buffer.shape else "register"
    return buffer if buffer.scope == scope else replaced(buffer, scope=scope)
