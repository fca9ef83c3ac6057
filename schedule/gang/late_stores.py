"""Stores of a register tile's rows, behind the values of all its rows.

    a = …;  b = …;  out[y] = f(a, b);  out[y + 1] = g(a, b)    →    a = …;  b = …;  u = f(a, b);  v = g(a, b);  out[y] = u;  out[y + 1] = v

The rows of a stencil share most of what they load. With the store of a row before the values of the next, LLVM's scheduler computes row by
row and holds all loads meanwhile: where they are more than there are registers, it spills them. With the stores behind, each load is added
to all rows at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from raido.schedule.nest.effects import buffers_read
from raido.schedule.nest.nodes import Block, Let, Statement, VectorStore
from raido.schedule.nest.values import VectorRead, VectorVar, lanes_of
from raido.schedule.nest.walk import expressions_of, map_block, with_blocks


def store_late(block: Block, vector_bits: int) -> Block:
    """The block, and those inside it, with stores behind the values of other stores where loads fill more registers than there are."""
    block = map_block(block, lambda s: with_blocks(s, lambda inside: store_late(inside, vector_bits)))
    stores = [s for s in block.statements if isinstance(s, VectorStore)]
    if not _fills_registers(block.statements, stores, vector_bits) or not _may_wait(block.statements, stores):
        return block
    values = {s: VectorVar("row", s.value.dtype, lanes_of(s.value), k) for k, s in enumerate(stores)}
    early = [Let(values[s], s.value) if isinstance(s, VectorStore) else s for s in block.statements]
    return Block((*early, *(replace(s, value=values[s]) for s in stores)))


def _may_wait(statements: Sequence[Statement], stores: Sequence[VectorStore]) -> bool:
    """Whether statements are names and stores to memory that none of them reads."""
    changed = {s.buffer for s in stores}
    return all(
        isinstance(s, Let | VectorStore) and changed.isdisjoint(buffers_read(expressions_of(s))) for s in statements
    ) and all(buffer.scope != "register" for buffer in changed)


def _fills_registers(statements: Sequence[Statement], stores: Sequence[VectorStore], vector_bits: int) -> bool:
    """Whether several stores have several named loads each, more than the registers beside a sum and an operand for each store."""
    if len(stores) < 2:
        return False
    loads = [s.value for s in statements if isinstance(s, Let) and isinstance(s.value, VectorRead)]
    stored = [s.value for s in stores]
    bits = sum(max(vector_bits, lanes_of(value) * value.dtype.bits) for value in (*loads, *stored, *stored))
    return len(loads) > 2 * len(stored) and bits > vector_bits * (32 if vector_bits >= 512 else 16)
