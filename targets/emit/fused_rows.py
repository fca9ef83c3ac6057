"""Chunks of fused loops as nested loops, so that a chunk divides once, where each iteration would.

    for k in begin..end:            for y in begin//n..(end - 1)//n + 1:
      y = k//n                →       for x in max(begin - y*n, 0)..min(end - y*n, n):
      x = k%n                           k = y*n + x
      …                                 …

A division of 64 bits takes ten cycles and more, as long as the sum of a short row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from raido.algo.graph import index
from raido.algo.graph.dtypes import i64
from raido.algo.graph.expr import Expr, Op, Var, fresh
from raido.algo.graph.rewrite import free_variables
from raido.schedule.nest.nodes import Alloc, Block, For, Let
from raido.targets import tvm_corner as T
from raido.targets.emit.loops import emit_loop, trip_count
from raido.targets.emit.terms import tir

if TYPE_CHECKING:
    from raido.targets.emit.statements import Statements


def emit_rows(statements: Statements, loop: For, begin: Any, size: Any) -> bool:
    """Emits `size` iterations, from `begin` on, of a loop as nested loops if it is fused of two; returns whether it is."""
    pair = _quotient_and_remainder(loop)
    if pair is None or loop.step != 1 or index.constant_value(loop.low) != 0:  # type: ignore[arg-type]
        return False
    y, x, n = pair
    unit, first, end = statements.unit, fresh("first"), fresh("end")
    unit.variables[first] = begin
    unit.variables[end] = unit.bind("end", i64, 1, T.Add(begin, size))
    rows = index.floordiv(first, n), index.add(index.floordiv(index.sub(end, 1), n), 1)
    low, high = statements.values.prepare(*rows)
    row = T.variable(unit.fresh_name(y.var.name), "int64")
    outer = unit.block()
    unit.variables[y.var] = row
    unit.index_like.add(y.var)
    before = index.mul(y.var, n)
    columns = index.maximum(index.sub(first, before), 0), index.minimum(index.sub(end, before), n)
    rest = tuple(s for s in loop.body.statements if s is not y and s is not x)
    assert isinstance(x.var, Var)
    inner = For(x.var, *columns, 1, Block((Let(loop.var, index.add(before, x.var)), *rest)))
    from_, to = statements.values.prepare(*columns)
    unit.out.append(emit_loop(statements, inner, from_, tir(trip_count(from_, to, 1))))
    body = unit.end_block(outer)
    unit.out.append(T.For(row, tir(low), tir(trip_count(low, high, 1)), T.ForKind.SERIAL, body))
    return True


def _quotient_and_remainder(loop: For) -> tuple[Let, Let, Expr] | None:
    """Returns the definitions of k//n and k%n with which a loop over k begins, and n; None for other loops."""
    found: dict[str, tuple[Let, Expr]] = {}
    for s in loop.body.statements:
        if isinstance(s, Alloc):
            continue
        if not isinstance(s, Let) or not isinstance(s.value, Op) or s.value.args[0] is not loop.var:
            break
        found.setdefault(s.value.name, (s, s.value.args[-1]))
    if not {"floordiv", "mod"} <= found.keys():
        return None
    (y, n), (x, length) = found["floordiv"], found["mod"]
    return (y, x, n) if length is n and loop.var not in free_variables(n) else None
