"""Emits stores of the gang nest: TIR stores for plain ones, helper calls for masked, strided and scattered lanes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from raido.algo.graph import index as ix
from raido.algo.graph.dtypes import bool_, i64
from raido.algo.graph.expr import Op
from raido.schedule.nest.nodes import Scatter, Store, VectorStore
from raido.schedule.nest.values import VectorRead, lanes_of
from raido.targets import tvm_corner as T
from raido.targets.emit.streams import beyond_lines
from raido.targets.emit.terms import tir
from raido.targets.emit.unit import data_of
from raido.targets.llvm.text import memory_dtype

if TYPE_CHECKING:
    from raido.targets.emit.statements import Statements


def emit_store(statements: Statements, s: Store) -> None:
    """Emits a store of one element; to a lane-private buffer, of one element per lane."""
    lanes = s.buffer.lanes
    value, predicate, *_ = statements.values.prepare(s.value, s.predicate, *s.indices)
    if predicate is False:
        return
    where, offset = statements.values.element(s.buffer, s.indices)
    if lanes > 1 and lanes_of(s.value) == 1:
        value = T.Broadcast(tir(value, s.value.dtype), lanes)
    index = T.Ramp(tir(offset), T.IntImm("int64", 1), lanes) if lanes > 1 else tir(offset)
    stored = statements.values.to_memory(s.buffer.dtype, lanes, tir(value, s.value.dtype))
    if s.predicate is not None and lanes_of(s.predicate) > 1:
        mask = tir(predicate, bool_)
        helper = statements.unit.helpers.memory.store(s.buffer.dtype, lanes, masked=True)
        statements.unit.effect(helper, data_of(where), tir(offset), stored, mask)
        return
    made = T.BufferStore(where, stored, [index])
    if predicate is not None and predicate is not True:
        made = T.IfThenElse(predicate, made, None)
    statements.unit.out.append(made)


def emit_vector_store(statements: Statements, s: VectorStore) -> None:
    """Emits a vector store of consecutive elements, or of elements a stride apart."""
    lanes, helpers = lanes_of(s.value), statements.unit.helpers
    value, mask, *_ = statements.values.prepare(s.value, s.mask, *s.indices)
    where, offset = statements.values.element(s.buffer, s.indices)
    stored = statements.values.to_memory(s.buffer.dtype, lanes, tir(value, s.value.dtype))
    if statements.stream is not None and statements.stream.changes(s):
        statements.stream.store(s, data_of(where), tir(offset), stored)
    elif statements.stream is None and _fills_line(s):
        _emit_line(statements, s, where, tir(offset), stored)
    elif mask is None and s.stride == 1:
        if _keeps_lanes(statements, s):
            stored = statements.unit.call(helpers.memory.made(s.buffer.dtype, lanes), s.buffer.dtype, lanes, stored)
        statements.unit.out.append(T.BufferStore(where, stored, [T.Ramp(tir(offset), T.IntImm("int64", 1), lanes)]))
    else:
        helper = helpers.memory.store(s.buffer.dtype, lanes, mask is not None, s.stride)
        extra = [] if mask is None else [tir(mask, bool_)]
        statements.unit.effect(helper, data_of(where), tir(offset), stored, *extra)


def _keeps_lanes(statements: Statements, s: VectorStore) -> bool:
    """Whether a store of select(mask, new, old element) must stay an unmasked store, on a processor whose masked stores are slow.

    LLVM would make a masked store of it, which takes a Zen 2 or 3 as long as some twenty instructions; with mask registers (512-bit
    vectors) it is one instruction.
    """
    value = statements.chosen.get(s.value, s.value)
    masks_are_registers = statements.unit.helpers.can.vector_bits >= 512
    if masks_are_registers or s.buffer.dtype.bits < 32 or not isinstance(value, Op) or value.name != "select":
        return False
    read = (e for e in value.args[1:] if isinstance(e, VectorRead))
    return any(e.buffer is s.buffer and e.indices == s.indices for e in read)


def _fills_line(s: VectorStore) -> bool:
    """Whether a store marked for streaming is of a whole gang at a fixed position, and its rows may consist of whole cache lines."""
    lanes, rest = lanes_of(s.value), beyond_lines(s.buffer)
    if s.stream is None or s.mask is not None or s.stride != 1 or rest is None or ix.constant_value(rest):
        return False
    offsets = ix.constant_value(s.indices[-1]), ix.difference(s.buffer.shape[-1], s.indices[-1])
    at_gang = any(offset is not None and offset % lanes == 0 for offset in offsets)
    return at_gang and lanes * memory_dtype(s.buffer.dtype).itemsize in (16, 32, 64)


def _emit_line(statements: Statements, s: VectorStore, where: Any, offset: Any, stored: Any) -> None:
    """Emits a non-temporal store if the address is aligned, rows are whole cache lines, and the array has more than `s.stream` bytes; else
    a plain store."""
    unit, lanes, zero = statements.unit, lanes_of(s.value), T.IntImm("int64", 0)
    helpers = unit.helpers.memory
    value = unit.bind("line", memory_dtype(s.buffer.dtype), lanes, stored)
    away = unit.call(helpers.misalignment(s.buffer.dtype, lanes), i64, 1, data_of(where), offset)
    rest = beyond_lines(s.buffer)
    if rest is not None and ix.constant_value(rest) is None:
        away = T.Add(away, tir(statements.values.scalar(rest)))
    if s.stream:
        large = T.GT(statements.size_in_bytes(s.buffer), T.IntImm("int64", s.stream))
        away = unit.select(large, away, T.IntImm("int64", 1))
    call = T.call(helpers.stream(s.buffer.dtype, lanes), "int32", data_of(where), offset, value)
    plain = T.BufferStore(where, value, [T.Ramp(offset, T.IntImm("int64", 1), lanes)])
    unit.out.append(T.IfThenElse(T.EQ(away, zero), T.Evaluate(call), plain))
    statements.streams = True


def emit_interleaved(statements: Statements, stores: Sequence[VectorStore]) -> None:
    """Emits stores that together fill contiguous memory (`find_interleaved`)."""
    first, lanes = stores[0], lanes_of(stores[0].value)
    terms = statements.values.prepare(*(s.value for s in stores), *first.indices)
    where, offset = statements.values.element(first.buffer, first.indices)
    dtype = first.buffer.dtype
    values = [
        statements.values.to_memory(dtype, lanes, tir(term, s.value.dtype))
        for term, s in zip(terms, stores, strict=False)
    ]
    helper = statements.unit.helpers.memory.store_interleaved(dtype, lanes, len(stores))
    statements.unit.effect(helper, data_of(where), tir(offset), *values)


def emit_scatter(statements: Statements, s: Scatter) -> None:
    """Emits a store of each lane at its own index."""
    lanes = max(lanes_of(i) for i in s.indices)
    value, mask, *_ = statements.values.prepare(s.value, s.mask, *s.indices)
    where, start, offsets = statements.values.lane_offsets(s.buffer, s.indices)
    value = tir(value, s.value.dtype)
    if lanes_of(s.value) == 1:
        value = T.Broadcast(value, lanes)
    stored = statements.values.to_memory(s.buffer.dtype, lanes, value)
    extra = [] if mask is None else [tir(mask, bool_)]
    helper = statements.unit.helpers.memory.scatter(s.buffer.dtype, lanes, mask is not None)
    statements.unit.effect(helper, data_of(where), start, offsets, stored, *extra)
