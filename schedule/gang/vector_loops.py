"""The vector loops of a nest, each replaced by what a pass makes of it, before lanes are formed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from operator import is_

from raido.schedule.nest.nodes import Block, For, If, Nest, Ordered, Produce, Statement, While


def replace_vector_loops(nest: Nest, made: Callable[[For], Statement]) -> Nest:
    """The nest with `made(loop)` for every vector loop; the same nest where each is the loop itself."""
    body = _block(nest.body, made)
    return nest if body is nest.body else replace(nest, body=body)


def _block(block: Block, made: Callable[[For], Statement]) -> Block:
    statements = tuple(_statement(s, made) for s in block.statements)
    return block if all(map(is_, statements, block.statements)) else Block(statements)


def _statement(s: Statement, made: Callable[[For], Statement]) -> Statement:
    if isinstance(s, For) and s.kind == "vector":
        return made(s)
    if isinstance(s, Block):
        return _block(s, made)
    if isinstance(s, If):
        then, orelse = _block(s.then, made), None if s.orelse is None else _block(s.orelse, made)
        return s if then is s.then and orelse is s.orelse else replace(s, then=then, orelse=orelse)
    if isinstance(s, (For, Produce, Ordered, While)):
        body = _block(s.body, made)
        return s if body is s.body else replace(s, body=body)
    return s
