"""Vectors as expressions: masks, widening of scalar expressions, and the number of lanes of a loop.

A mask is None (all lanes on) or a tuple with one vector of booleans for each interleaved gang. Masks are named by `Let` where they are
computed (the emitter packs them), so that using one is free.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from raido.algo.graph.dtypes import bool_, i64
from raido.algo.graph.expr import Node, Op, Var
from raido.algo.graph.rewrite import topological
from raido.schedule.gang.variability import Variability
from raido.schedule.nest.effects import writes
from raido.schedule.nest.nodes import Append, For, Let, Store
from raido.schedule.nest.values import LaneFold, NestExpr, Read, Splat, lanes_of
from raido.schedule.nest.walk import statements_within

Vectors: TypeAlias = "tuple[NestExpr, ...]"
Mask: TypeAlias = "Vectors | None"


def both(a: Mask, b: Mask) -> Mask:
    """The lanes on in both masks."""
    if a is None or b is None:
        return b if a is None else a
    return tuple(Op("logical_and", bool_, pair) for pair in zip(a, b, strict=True))


def lane_mask(mask: Mask, gang: int) -> NestExpr | None:
    """The mask of one gang; None if all lanes are on."""
    return None if mask is None else mask[gang]


def negation(a: Vectors) -> Vectors:
    """The lanes where `a` is false."""
    return tuple(Op("logical_not", bool_, (m,)) for m in a)


def any_lane(masks: Vectors) -> NestExpr:
    """Whether any lane of any gang is on; a scalar."""
    total = masks[0]
    for mask in masks[1:]:
        total = Op("logical_or", bool_, (total, mask))
    return LaneFold("logical_or", total)


def choose(mask: NestExpr, yes: NestExpr, no: NestExpr) -> NestExpr:
    """Selects, lane by lane, `yes` where the mask is on, else `no`."""
    return Op("select", yes.dtype, (mask, yes, no))


def widen(e: NestExpr, vectors: Mapping[Var, NestExpr], lanes: int) -> NestExpr:
    """The scalar expression `e` over vectors: the variables in `vectors` are replaced, and uniform operands are splat."""
    memo: dict[Node, NestExpr] = {**vectors}
    for node in topological(e):
        if node in memo or not isinstance(node, Op):
            continue
        args = [memo.get(a, a) for a in node.args]
        if any(lanes_of(a) > 1 for a in args):
            wide = tuple(a if lanes_of(a) > 1 else Splat(a, lanes) for a in args)
            memo[node] = Op(node.name, node.dtype, wide)
    wide_e = memo.get(e, e)
    return wide_e if lanes_of(wide_e) > 1 else Splat(wide_e, lanes)


def shared_parts(roots: Sequence[NestExpr]) -> list[Op]:
    """Operations directly below one root that another root uses too; each deserves a name, as every root becomes a statement of its own."""
    below = [frozenset(topological(root)) for root in roots]
    found: dict[Op, None] = {}
    for k, root in enumerate(roots):
        for part in root.args if isinstance(root, Op) else ():
            if isinstance(part, Op) and any(part in other for j, other in enumerate(below) if j != k):
                found[part] = None
    return list(found)


def choose_lanes(loop: For, info: Variability, vector_bits: int) -> int:
    """The number of lanes: as the schedule says, or as many elements of the widest dtype that the lanes compute as fill a register. Index
    arithmetic does not count.

    It is 1 where each lane would append to an array of its own, as in the parts of a sort: rows are sorted one after the other.
    """
    if any(isinstance(s, Append) and s.position in info.private for s in statements_within(loop.body)):
        return 1
    if loop.lanes:
        return loop.lanes
    widest = 0
    for s in statements_within(loop.body):
        brought = [(w.buffer, w.value) for w in writes(s) if w.value is not None]
        if not isinstance(s, Store) or info.varies(s.value, *s.indices):
            widest = max(widest, *(buffer.dtype.itemsize for buffer, _ in brought), 0)
        values = (s.value,) if isinstance(s, Let) else tuple(value for _, value in brought)
        for node in _value_nodes(values):
            if (node.dtype is not i64 or isinstance(node, Read)) and info.varies(node):
                widest = max(widest, node.dtype.itemsize)
    return max(vector_bits // (8 * max(widest, 1)), 1)


def _value_nodes(roots: tuple[NestExpr, ...]) -> list[Op | Read]:
    """Operations and reads whose results are data, without those that compute only the index of a read."""
    found: dict[Op | Read, None] = {}
    stack = list(roots)
    while stack:
        e = stack.pop()
        if isinstance(e, (Op, Read)) and e not in found:
            found[e] = None
            if isinstance(e, Op):
                stack.extend(e.args)
    return list(found)
