"""Bisection: the first integer of a range from which on a monotone condition holds, with two registers as state."""

from __future__ import annotations

from collections.abc import Callable

from raido.algo.graph import index as ix
from raido.algo.graph.dtypes import bool_, i64
from raido.algo.graph.expr import Expr, Op, Var
from raido.schedule.lower.builder import Builder, closed
from raido.schedule.nest.nodes import Store, While
from raido.schedule.nest.values import NestExpr, Read


def first_where(builder: Builder, least: Expr, most: Expr, holds: Callable[[Var], NestExpr]) -> NestExpr:
    """The first integer in `least` … `most` − 1 for which a condition holds, else `most`; if it holds for one
    it holds for all later ones."""
    low, high = builder.register("low", least), builder.register("high", most)
    with builder.block(loop=True) as setup:
        start, stop = (builder.name("bound", Read(register, (), None)) for register in (low, high))
    with builder.block(loop=True) as body:
        middle = builder.name("middle", ix.floordiv(ix.add(start, stop), 2))
        found = holds(middle)
        builder.add(Store(low, (), Op("select", i64, (found, start, ix.add(middle, 1)))))
        builder.add(Store(high, (), Op("select", i64, (found, middle, stop))))
    builder.add(While(closed(setup), Op("lt", bool_, (start, stop)), closed(body)))
    return Read(low, (), None)
