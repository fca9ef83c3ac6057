"""The meaning of a `Carry`: what one iteration after the other does; and whether what is handed on is one word with its state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from raido.algo.graph import index as ix
from raido.algo.graph.dtypes import DType
from raido.algo.graph.expr import Node, fresh
from raido.algo.graph.rewrite import substitute
from raido.schedule.nest.nodes import Carry, Let, Statement, Store
from raido.schedule.nest.values import Read


def in_one_word(dtypes: Sequence[DType], counts: bool) -> bool:
    """Whether what is handed on leaves two bits of an i64: one value of at most 32 bits, or the number of some elements."""
    return len(dtypes) == 1 and (counts or dtypes[0].bits <= 32)


def element_of(s: Carry, place: Any) -> Any:
    """The index of what is handed on at a place."""
    inside: Any = s.inside
    return place if inside is None else ix.add(ix.mul(place, s.stride), inside)


def carried_in_order(s: Carry) -> tuple[Statement, ...]:
    """The statements of an iteration whose turn it is; what they name is known behind them."""
    place: Any = s.place
    right = [fresh(v.name, v.dtype) for v in s.right]
    taken = [Let(v, Read(buffer, (element_of(s, place),), None)) for v, buffer in zip(s.taken, s.buffers, strict=True)]
    given = [Let(v, value) for v, value in zip(right, s.values, strict=True)]
    operands: dict[Node, Any] = dict(zip((*s.left, *s.right), (*s.taken, *right), strict=True))
    after = [
        Store(buffer, (element_of(s, ix.add(place, 1)),), substitute(e, operands))
        for buffer, e in zip(s.buffers, s.combine, strict=True)
    ]
    return (*taken, *given, *after)
