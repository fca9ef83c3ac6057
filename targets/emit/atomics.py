"""Emits atomic updates of memory: one instruction where the machine has it, else a compare-exchange loop.

The loop evaluates the operator as any expression and repeats until no other thread has changed the element in between. The updates are
relaxed; threads synchronise at the end of the parallel loop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from raido.algo.graph.dtypes import DType, bool_, i32, i64
from raido.schedule.nest.nodes import Alloc, AtomicUpdate, Let
from raido.schedule.nest.values import Buffer, Read
from raido.targets import tvm_corner as T
from raido.targets.emit.terms import tir
from raido.targets.emit.unit import data_of
from raido.targets.llvm.text import memory_dtype

if TYPE_CHECKING:
    from raido.targets.emit.statements import Statements

_OPCODES = {
    "add": "add",
    "bit_or": "or",
    "bit_and": "and",
    "bit_xor": "xor",
    "logical_or": "or",
    "logical_and": "and",
    "logical_xor": "xor",
    "minimum": "min",
    "maximum": "max",
}


def opcode_of(monoid: str, dtype: DType) -> str | None:
    """LLVM's `atomicrmw` operation with the meaning of a monoid on a dtype, or None."""
    if dtype.is_float or monoid not in _OPCODES or (dtype is bool_ and not monoid.startswith("logical")):
        return None
    opcode = _OPCODES[monoid]
    return "u" + opcode if opcode in ("min", "max") and dtype.kind == "u" else opcode


def emit_atomic(statements: Statements, s: AtomicUpdate) -> None:
    """Emits an atomic update."""
    unit, values, helpers = statements.unit, statements.values, statements.unit.helpers
    value, *_ = values.prepare(s.value, *s.indices)
    where, offset = values.element(s.buffer, s.indices)
    base, offset = data_of(where), unit.bind("at", i64, 1, tir(offset))
    opcode = opcode_of(s.monoid, s.buffer.dtype)
    if opcode is not None:
        stored = values.to_memory(s.buffer.dtype, 1, tir(value, s.value.dtype))
        unit.effect(helpers.memory.atomic(opcode, s.buffer.dtype), base, offset, stored)
        return
    zero, one = T.IntImm("int64", 0), T.IntImm("int32", 1)
    unit.variables[s.right] = unit.bind(s.right.name, s.right.dtype, 1, tir(value, s.right.dtype))
    held = Buffer("held", s.buffer.dtype, (), "register", 0, (), 1, None)
    statements.statement(Alloc(held))
    cell, at = values.element(held, ())
    seen = unit.call(helpers.memory.look(s.buffer.dtype), memory_dtype(s.buffer.dtype), 1, base, offset)
    unit.out.append(T.BufferStore(cell, seen, [tir(at)]))
    again = T.flat_buffer(unit.fresh_name("again"), i32, 1)
    unit.out += [T.AllocBuffer(again), T.BufferStore(again, one, [zero])]
    outer = unit.block()
    statements.statement(Let(s.left, Read(held, (), None)))
    combined = values.to_memory(s.buffer.dtype, 1, tir(values.scalar(s.combine), s.combine.dtype))
    changed = unit.call(helpers.memory.exchange(s.buffer.dtype), i32, 1, base, offset, data_of(cell), combined)
    unit.out.append(T.BufferStore(again, changed, [zero]))
    body = unit.end_block(outer)
    unit.out.append(T.While(T.NE(T.BufferLoad(again, [zero]), T.IntImm("int32", 0)), body))
