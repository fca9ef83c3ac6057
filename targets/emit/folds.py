"""Emits updates of reductions, scans and filters: reads of the accumulators, the operator, and stores."""

from __future__ import annotations

from typing import TYPE_CHECKING

from raido.algo.graph.dtypes import bool_, i64
from raido.algo.graph.rewrite import substitute
from raido.schedule.nest.effects import is_scan
from raido.schedule.nest.nodes import Append, Fold
from raido.schedule.nest.values import Read, lanes_of
from raido.targets import tvm_corner as T
from raido.targets.emit.terms import tir

if TYPE_CHECKING:
    from raido.targets.emit.statements import Statements


def emit_fold(statements: Statements, s: Fold) -> None:
    """Emits one update of a reduction or scan; binds a scan's names for the values before and after it."""
    unit, updated = statements.unit, s.step
    held = [Read(buffer, s.indices, None) for buffer in s.buffers]
    if is_scan(s):
        operands = zip((*s.left, *s.right), statements.values.prepare(*held, *s.values), strict=True)
        unit.variables.update((var, unit.bind(var.name, var.dtype, 1, tir(term, var.dtype))) for var, term in operands)
        unit.variables.update((var, unit.variables[left]) for var, left in zip(s.before, s.left, strict=False))
    else:
        now = dict(zip(s.left, held, strict=True))
        updated = tuple(substitute(step, now) for step in updated)
    terms = statements.values.prepare(*updated, *s.indices)[: len(updated)]
    if len(updated) > 1 or is_scan(s):  # all are computed before any is stored
        pairs = zip(terms, updated, strict=True)
        terms = [unit.bind("step", e.dtype, lanes_of(e), tir(term, e.dtype)) for term, e in pairs]
    unit.variables.update(zip(s.after, terms, strict=False))
    for buffer, term, step in zip(s.buffers, terms, updated, strict=True):
        lanes = buffer.lanes
        where, offset = statements.values.element(buffer, s.indices)
        value = tir(term, step.dtype)
        if lanes > 1 and lanes_of(step) == 1:
            value = T.Broadcast(value, lanes)
        index = T.Ramp(tir(offset), T.IntImm("int64", 1), lanes) if lanes > 1 else tir(offset)
        unit.out.append(T.BufferStore(where, statements.values.to_memory(buffer.dtype, lanes, value), [index]))


def emit_append(statements: Statements, s: Append) -> None:
    """Emits the conditional append of an element: stores at the current position, and increments it, if the predicate holds."""
    unit = statements.unit
    outer = unit.block()
    position = Read(s.position, (), None)
    statements.values.prepare(position, *s.values)
    terms = [statements.values.memo[value] for value in s.values]
    at = unit.bind("place", i64, 1, statements.values.tir(position))
    for buffer, term, value in zip(s.buffers, terms, s.values, strict=True):
        stored = statements.values.to_memory(buffer.dtype, 1, tir(term, value.dtype))
        unit.out.append(T.BufferStore(unit.buffer(buffer), stored, [at]))
    where, offset = statements.values.element(s.position, ())
    unit.out.append(T.BufferStore(where, T.Add(at, T.IntImm("int64", 1)), [tir(offset)]))
    body = unit.end_block(outer)
    condition = statements.values.scalar(s.predicate)
    unit.out.append(T.IfThenElse(tir(condition, bool_), body, None))
