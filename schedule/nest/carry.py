"""The serial meaning of a `Carry`, and whether its value and state share one word."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from raido.algo.graph import index as ix
from raido.algo.graph.dtypes import DType
from raido.algo.graph.expr import Node, fresh
from raido.algo.graph.rewrite import substitute
from raido.schedule.nest.nodes import Carry, Collect, Fold, Let, Statement, Store
from raido.schedule.nest.values import NestExpr, Read


def in_one_word(dtypes: Sequence[DType], counts: bool) -> bool:
    """Whether a carried value leaves two bits of an i64: one value of at most 32 bits, or a number of elements."""
    return len(dtypes) == 1 and (counts or dtypes[0].bits <= 32)


def element_of(s: Carry, index: Any) -> Any:
    """Returns the index of a carried value at a place."""
    inside: Any = s.inside
    return index if inside is None else ix.add(ix.mul(index, s.stride), inside)


def applied(s: Carry | Collect | Fold, left: Sequence[NestExpr], right: Sequence[NestExpr]) -> list[Any]:
    """Returns the results of a statement's operator for some operands."""
    operands: dict[Node, Any] = dict(zip((*s.left, *s.right), (*left, *right), strict=True))
    return [substitute(e, operands) for e in s.combine]


def carried_in_order(s: Carry) -> tuple[Statement, ...]:
    """Returns the statements of a `Carry` for the iteration whose turn it is; variables that they bind stay in scope."""
    index: Any = s.index
    right = [fresh(v.name, v.dtype) for v in s.right]
    taken = [Let(v, Read(buffer, (element_of(s, index),), None)) for v, buffer in zip(s.taken, s.buffers, strict=True)]
    given = [Let(v, value) for v, value in zip(right, s.values, strict=True)]
    at = (element_of(s, ix.add(index, 1)),)
    after = [Store(buffer, at, value) for buffer, value in zip(s.buffers, applied(s, s.taken, right), strict=True)]
    return (*taken, *given, *after)
