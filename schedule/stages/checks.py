"""Index checks as expressions, apart from the load that they protect."""

from __future__ import annotations

from collections.abc import Sequence

from raido.algo.graph import index as ix
from raido.algo.graph.dtypes import bool_, i64
from raido.algo.graph.expr import Checked, Cond, Expr, Item, Op, conjunction, const
from raido.algo.graph.faults import can_fault, unsigned_kind
from raido.algo.graph.node import Node
from raido.algo.graph.rewrite import scalar_nodes
from raido.schedule.stages.tables import Tables


def made_for_elements(value: Expr, shape: Sequence[Expr]) -> Expr:
    """Returns a scalar that is evaluated if an array of that shape has elements, and else is 0."""
    open_ = [n for n in shape if (known := ix.constant_value(n)) is None or known < 1]
    if not open_ or not any(map(can_fault, scalar_nodes(value))):
        return value
    some = conjunction([Op("lt", bool_, (ix.as_index(0), n)) for n in open_])
    return Item(Cond(some, (value,), (const(value.dtype, 0),)), 0)


def within(e: Expr, size: Expr) -> Expr:
    """Returns the condition that an index is in 0 … size − 1."""
    return conjunction([Op("ge", bool_, (e, const(i64, 0))), Op("lt", bool_, (e, size))])


def checked_index(source: Node, d: int, e: Expr, size: Expr, tables: Tables) -> Expr:
    """Returns an index of dimension `d` with a check that it is in 0 … size − 1, which reports the line of `source`."""
    kind = unsigned_kind("index", e)
    e = e if e.dtype is i64 else Op("cast", i64, (e,))
    return _checked(source, e, kind, (d, e, size), tables)


def checked_value(source: Node, value: Expr, d: int, e: Expr, size: Expr, tables: Tables) -> Expr:
    """Returns a value independent of the index of dimension `d`, behind a check that the index is in 0 … size − 1."""
    kind = unsigned_kind("index", e)
    return _checked(source, value, kind, (d, e if e.dtype is i64 else Op("cast", i64, (e,)), size), tables)


def _checked(source: Node, value: Expr, kind: str, fault: tuple[int, Expr, Expr], tables: Tables) -> Expr:
    d, e, size = fault
    new = Checked(value, within(e, size), kind, (const(i64, d), e, size))
    tables.carry(source, new)
    return new


def checked_indices(source: Node, indices: Sequence[Expr], shape: Sequence[Expr], tables: Tables) -> tuple[Expr, ...]:
    """Returns checked, clamped indices into an array of that shape; checks report the line of `source`."""
    pairs = enumerate(zip(indices, shape, strict=True))
    return tuple(Op("clamp_index", i64, (checked_index(source, d, e, n, tables), n)) for d, (e, n) in pairs)
