"""Consequences of comparisons of indices: expressions that are non-negative where a predicate holds, or fails."""

from __future__ import annotations

from collections.abc import Iterator

from raido.algo.graph import index as ix
from raido.algo.graph.assumptions import Assumptions
from raido.algo.graph.dtypes import i64
from raido.algo.graph.expr import Expr, Op

_OPPOSITES = {**ix.NEGATED, "eq": "ne"}


def assumed(predicate: Expr, holds: bool, known: Assumptions) -> Iterator[Expr]:
    """Yields expressions that are non-negative where a predicate holds (or fails, if `holds` is false). `known` decides which side of an
    unequal index is possible."""
    if not isinstance(predicate, Op):
        return
    if predicate.name == ("logical_and" if holds else "logical_or"):
        for part in predicate.args:
            yield from assumed(part, holds, known)
    elif predicate.name == "logical_not":
        yield from assumed(predicate.args[0], not holds, known)
    elif all(arg.dtype is i64 for arg in predicate.args) and predicate.name in _OPPOSITES:
        a, b = predicate.args
        name = predicate.name if holds else _OPPOSITES[predicate.name]
        less, more = ix.sub(b, a), ix.sub(a, b)
        if name in ("lt", "le"):
            yield ix.sub(less, name == "lt")
        elif name in ("gt", "ge"):
            yield ix.sub(more, name == "gt")
        elif name == "eq":
            yield from (less, more)
        else:
            yield from (ix.sub(e, 1) for e in (less, more) if known.nonnegative(e))
