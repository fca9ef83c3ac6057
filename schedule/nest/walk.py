"""Traversal of nests: the expressions, blocks and statements of statements, the same for both levels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from operator import is_
from typing import Any

from raido.algo.graph.expr import SizeVar
from raido.algo.graph.rewrite import topological
from raido.schedule.nest.nodes import (
    Alloc,
    Append,
    AtomicUpdate,
    Await,
    Block,
    Broadcast,
    Carry,
    Check,
    Collect,
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
    Ticket,
    VectorStore,
    View,
    While,
)
from raido.schedule.nest.values import Buffer, NestExpr


def expressions_of(statement: Statement) -> Iterator[NestExpr]:
    """Yields the expressions that a statement itself evaluates, a fold's operator included (not those of statements inside it)."""
    if isinstance(statement, Let):
        yield statement.value
        if statement.below is not None:
            yield statement.below
    elif isinstance(statement, (Store, VectorStore, Scatter)):
        yield from statement.indices
        yield statement.value
        mask = statement.predicate if isinstance(statement, Store) else statement.mask
        if mask is not None:
            yield mask
    elif isinstance(statement, Fold):
        yield from (*statement.indices, *statement.values, *statement.step, *statement.combine, *statement.neutral)
    elif isinstance(statement, AtomicUpdate):
        yield from (*statement.indices, statement.value, statement.combine)
    elif isinstance(statement, Collect):
        yield from (statement.count, *statement.indices, *statement.combine)
    elif isinstance(statement, Carry):
        yield from (statement.index, *statement.values, *statement.combine)
        if statement.inside is not None:
            yield statement.inside
    elif isinstance(statement, Exchange):
        yield from statement.values
    elif isinstance(statement, Broadcast):
        yield from (*statement.values, statement.source)
    elif isinstance(statement, FirstThread):
        yield statement.condition
    elif isinstance(statement, Ticket):
        yield statement.count
    elif isinstance(statement, (Publish, Await)):
        yield statement.index
        if isinstance(statement, Publish):
            yield statement.value
    elif isinstance(statement, Append):
        yield from (*statement.values, statement.predicate)
    elif isinstance(statement, For):
        yield from (statement.low, statement.high)
    elif isinstance(statement, (If, While)):
        yield statement.condition
    elif isinstance(statement, Check):
        yield from (statement.holds, *statement.values)
        if statement.predicate is not None:
            yield statement.predicate
    elif isinstance(statement, Prefetch):
        yield from statement.indices
    elif isinstance(statement, (Alloc, View)):
        yield from (*statement.buffer.shape, *statement.buffer.strides)


def blocks_of(statement: Statement) -> tuple[Block, ...]:
    """Returns the blocks directly inside a statement."""
    names = _NAMES.get(type(statement))
    return () if names is None else tuple([b for name in names if (b := getattr(statement, name)) is not None])


def flat(block: Block) -> Iterator[Statement]:
    """Yields the statements of a block, with nested blocks flattened."""
    for s in block.statements:
        yield from flat(s) if isinstance(s, Block) else (s,)


def with_blocks(statement: Any, change: Callable[[Any], Block], *, setups: bool = True) -> Any:
    """Returns a statement with its blocks changed, or a block changed itself; the same object where `change` changes nothing.

    setups: whether the setups of while loops are changed, too.
    """
    if isinstance(statement, Block):
        return change(statement)
    changed = {}
    for name in _NAMES.get(type(statement), ()) if setups or type(statement) is not While else ("body",):
        block = getattr(statement, name)
        new = None if block is None else change(block)
        if new is not block:
            changed[name] = new
    return replace(statement, **changed) if changed else statement


_NAMES = {**dict.fromkeys((For, Produce, Ordered), ("body",)), If: ("then", "orelse"), While: ("setup", "body")}


def with_statements(block: Block, statements: Iterable[Statement]) -> Block:
    """Returns the block with other statements; the same object where they are its own."""
    statements = tuple(statements)
    same = len(statements) == len(block.statements) and all(map(is_, statements, block.statements))
    return block if same else Block(statements)


def map_block(block: Block, change: Callable[[Any], Any]) -> Block:
    """Returns the block with each of its statements changed; the same object where none is."""
    return with_statements(block, [change(s) for s in block.statements])


def map_statements(block: Block, change: Callable[[Statement], Iterable[Statement]]) -> Block:
    """Returns the block with every statement without inner blocks replaced, at any depth."""

    def made(s: Statement) -> Iterable[Statement]:
        if isinstance(s, Block) or type(s) in _NAMES:
            return (with_blocks(s, lambda inner: map_statements(inner, change)),)
        return change(s)

    return Block(tuple(new for s in block.statements for new in made(s)))


def statements_within(statement: Statement) -> Iterator[Statement]:
    """Yields the statement and every statement inside it, in order."""
    stack: list[Statement] = [statement]
    while stack:
        s = stack.pop()
        yield s
        inside = s.statements if isinstance(s, Block) else blocks_of(s)
        if inside:
            stack += inside[::-1]


def sizes_within(statement: Statement) -> set[str]:
    """Returns the names of all sizes that a statement, or one inside it, mentions or binds."""
    found: set[str] = set()
    for inner in statements_within(statement):
        bound = (inner.var,) if isinstance(inner, Let) else ()
        found.update(node.name for node in topological(*expressions_of(inner), *bound) if isinstance(node, SizeVar))
    return found


def constants_of(block: Block) -> list[Buffer]:
    """Returns the constant arrays that a block reads, in the order of their first uses."""
    found: dict[Buffer, None] = {}
    for statement in statements_within(block):
        for node in topological(*expressions_of(statement)):
            if isinstance(node, Buffer) and node.scope == "constant":
                found[node] = None
    return list(found)
