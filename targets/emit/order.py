"""Evaluation order of nest expressions, and their use counts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from raido.algo.graph.expr import Const, Op, SizeVar, Var
from raido.algo.graph.index import add, as_index, constant_value, mul, sub
from raido.schedule.nest.values import (
    Extract,
    Gather,
    LaneCompress,
    LaneCount,
    LaneFold,
    LaneShift,
    LaneShuffle,
    Ramp,
    Read,
    Splat,
    VectorRead,
    VectorVar,
    strides_of,
)


def operands(e: Any) -> tuple[Any, ...]:
    """Direct operands of an expression."""
    of = _OPERANDS.get(type(e))
    return () if of is None else of(e)


_OPERANDS: dict[type, Callable[[Any], tuple[Any, ...]]] = {
    Op: lambda e: e.args,
    Read: lambda e: e.indices if e.predicate is None else (*e.indices, e.predicate),
    **dict.fromkeys((VectorRead, Gather), lambda e: e.indices if e.mask is None else (*e.indices, e.mask)),
    Ramp: lambda e: (e.base,),
    LaneCompress: lambda e: (e.value, e.mask),
    LaneCount: lambda e: (e.mask,),
    **dict.fromkeys((Splat, LaneFold, Extract, LaneShift), lambda e: (e.value,)),
    LaneShuffle: lambda e: (e.first, e.second),
}


def distance(access: Any, first: Any) -> int | None:
    """Constant number of elements from the first lane of `first` to that of `access`, both of one buffer; None where it is not constant."""
    total = as_index(0)
    for i, j, stride in zip(access.indices, first.indices, strides_of(access.buffer), strict=True):
        total = add(total, mul(sub(i, j), stride))
    return constant_value(total)


def order_of(roots: Iterable[Any]) -> tuple[list[tuple[Any, tuple[Any, ...]]], dict[Any, int]]:
    """Every expression below the roots with its operands, in postorder, and the number of uses of each."""
    order: list[tuple[Any, tuple[Any, ...]]] = []
    uses: dict[Any, int] = dict.fromkeys(roots, 1)
    done: set[Any] = set()
    for root in list(uses):
        stack = [(root, below := operands(root), iter(below))] if root not in done else []
        done.add(root)
        while stack:
            e, of, rest = stack[-1]
            for operand in rest:
                uses[operand] = uses.get(operand, 0) + 1
                if operand not in done:
                    done.add(operand)
                    below = operands(operand)
                    if below:
                        stack.append((operand, below, iter(below)))
                        break
                    order.append((operand, below))
            else:
                stack.pop()
                order.append((e, of))
    return order, uses


def is_leaf(e: Any) -> bool:
    """Whether an expression needs no name, however often it is used."""
    return isinstance(e, (Const, Var, SizeVar, VectorVar)) or (isinstance(e, Splat) and isinstance(e.value, Const))
