"""Rewriting the vector loops of a scalar nest, before gangs are formed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from raido.schedule.nest.nodes import Block, For, Nest, Statement
from raido.schedule.nest.walk import map_block, with_blocks


def replace_vector_loops(nest: Nest, made: Callable[[For], Statement]) -> Nest:
    """The nest with `made(loop)` for every vector loop; the same object if none changes."""

    def inside(block: Block) -> Block:
        return map_block(block, statement)

    def statement(s: Statement) -> Statement:
        return made(s) if isinstance(s, For) and s.kind == "vector" else with_blocks(s, inside, setups=False)

    body = inside(nest.body)
    return nest if body is nest.body else replace(nest, body=body)
