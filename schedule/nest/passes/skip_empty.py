"""Tests that skip loops around empty loops: an array without elements takes no time, however many rows it has.

for y in 0..h:                 becomes, where w is not known,      if 0 < w:
  for x in 0..w: …                                                   for y in 0..h:
                                                                       for x in 0..w: …
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from typing import Any

from raido.algo.graph import index as ix
from raido.algo.graph.dtypes import bool_
from raido.algo.graph.expr import Const, Expr, Node, Op, SizeVar, Var, conjunction, const
from raido.algo.graph.primitives import CAN_FAULT
from raido.algo.graph.rewrite import topological
from raido.schedule.nest.effects import binds, writes
from raido.schedule.nest.nodes import Alloc, Block, For, If, Let, Nest
from raido.schedule.nest.walk import with_blocks, with_statements

_Conditions = frozenset[Expr]  # conditions without which a statement has no effect
_NEVER: _Conditions = frozenset((const(bool_, False),))
_ALWAYS: _Conditions = frozenset()


def skip_empty_loops(nest: Nest) -> Nest:
    """Adds tests around loops whose bodies may be loops without iterations."""
    return replace(nest, body=_block(nest.body))


def _block(block: Block) -> Block:
    return with_statements(block, map(_statement, block.statements))


def _statement(s: Any) -> Any:
    if isinstance(s, For) and s.kind != "vector":
        needed = _needed_by_block(s.body, frozenset((s.var,)))
        if needed and needed != _NEVER:
            return If(_conjunction(needed), Block((s,)))
    return with_blocks(s, _block, setups=False)


def _needed(s: Any, bound: frozenset[Node]) -> _Conditions:
    """Returns the conditions, over variables that are not `bound` inside, without which a statement has no effect; freeing memory
    is none.
    """
    if isinstance(s, For):
        inner = _needed_by_block(s.body, bound | {s.var})
        trips = ix.difference(s.high, s.low)
        if inner == _NEVER or (trips is not None and trips <= 0):
            return _NEVER
        own = Op("lt", bool_, (s.low, s.high))
        return inner if trips is not None or not bound.isdisjoint(topological(own)) else inner | {own}
    if isinstance(s, If):
        inner = _any_of([_needed_by_block(part, bound) for part in (s.then, s.orelse) if part is not None])
        if s.orelse is None and inner != _NEVER and _is_known_before(s.condition, bound):
            return inner | {s.condition}
        return inner
    if isinstance(s, Block):
        return _needed_by_block(s, bound)
    if isinstance(s, (Let, Alloc)):
        return _NEVER
    changed = {write.buffer for write in writes(s)}
    return _NEVER if changed and changed <= bound else _ALWAYS


def _is_known_before(condition: Expr, bound: frozenset[Node]) -> bool:
    """Whether a condition may be evaluated earlier: it reads no memory, cannot fault and mentions no variable bound inside."""
    nodes = topological(condition)
    plain = (
        isinstance(node, (Const, SizeVar, Var)) or (isinstance(node, Op) and node.name not in CAN_FAULT)
        for node in nodes
    )
    return bound.isdisjoint(nodes) and all(plain)


def _needed_by_block(block: Block, bound: frozenset[Node]) -> _Conditions:
    bound = bound.union(*map(binds, block.statements))
    return _any_of([_needed(s, bound) for s in block.statements])


def _any_of(parts: list[_Conditions]) -> _Conditions:
    """Returns the conditions of several statements together: those common to all, and the disjunction of the others."""
    parts = list(dict.fromkeys(part for part in parts if part != _NEVER))
    if not parts:
        return _NEVER
    common = frozenset.intersection(*parts)
    rests = [part - common for part in parts]
    if len(parts) == 1 or not all(rests):
        return common
    return common | {reduce(lambda a, b: Op("logical_or", bool_, (a, b)), map(_conjunction, rests))}


def _conjunction(needed: _Conditions) -> Expr:
    return conjunction(sorted(needed, key=ix.text))
