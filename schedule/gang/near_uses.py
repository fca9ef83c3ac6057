"""Sinking: names of values in the bodies of register tiles, bound right before their first use.

A body of several unrolled-and-jammed iterations names all its loads and intermediate values before it adds any to its sums. Registers
hold the sums, and have little room beside them: in that order each of those values would be spilled until its use.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from raido.algo.graph.expr import Node
from raido.algo.graph.rewrite import topological
from raido.schedule.nest.effects import bound_within, buffers_read, written
from raido.schedule.nest.nodes import Alloc, Block, Let, Statement, Store
from raido.schedule.nest.values import Buffer, Read, VectorRead
from raido.schedule.nest.walk import blocks_of, expressions_of, map_block, with_blocks


def name_near_uses(block: Block) -> Block:
    """The block, and those inside it, with loads, and values that only sums use, named right before their first use."""
    block = map_block(block, lambda s: with_blocks(s, name_near_uses))
    flat = _without_blocks(block.statements)
    return Block(tuple(_in_order(flat))) if _updates_registers(flat) else block


def _without_blocks(statements: Sequence[Statement]) -> list[Statement]:
    """The statements with blocks flattened, unless that would extend a buffer's lifetime or merge names bound twice."""
    flat: list[Statement] = []
    for s in statements:
        flat += _without_blocks(s.statements) if isinstance(s, Block) else [s]
    if len(flat) == len(statements) or not _updates_registers(flat):
        return list(statements)
    bound = Counter(node for s in flat for node in bound_within(s))
    ends = any(isinstance(s, Alloc) for s in flat) or any(n > 1 for n in bound.values())
    return list(statements) if ends else flat


def _updates_registers(statements: Sequence[Statement]) -> bool:
    """Whether statements update sums in registers, and bind names."""
    stores = [s for s in statements if isinstance(s, Store) and s.buffer.scope == "register"]
    return any(isinstance(s, Let) for s in statements) and any(s.buffer in buffers_read([s.value]) for s in stores)


def _in_order(statements: Sequence[Statement]) -> list[Statement]:
    uses = [set(topological(*expressions_of(s))) for s in statements]
    between = {
        node for s, used in zip(statements, uses, strict=True) if isinstance(s, Let) for node in used - {s.value}
    }
    found: list[Statement] = []
    waiting: dict[Node, tuple[Let, set[Node], set[Buffer]]] = {}

    def name(wanted: Sequence[Node]) -> None:
        for var in wanted:
            if var in waiting:
                let, used, _ = waiting.pop(var)
                name([other for other in waiting if other in used])
                found.append(let)

    for s, used in zip(statements, uses, strict=True):
        if isinstance(s, Let) and (isinstance(s.value, (Read, VectorRead)) or s.var not in between):
            waiting[s.var] = s, used, buffers_read([s.value])
            continue
        if isinstance(s, Block) or blocks_of(s):
            name(list(waiting))
        changed = written(s)
        name([var for var, (_, _, read) in waiting.items() if var in used or read & changed])
        found.append(s)
    name(list(waiting))
    return found
