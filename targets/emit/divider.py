"""Square roots to be computed by multiplications, in loops that are limited by the divider.

A root of sixteen f32 takes ten cycles of the divider, a quotient seven, and there is one divider; multiplications run beside it. A loop
with little other work therefore computes some of its roots without it (`raido.targets.llvm.roots`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from raido.algo.graph.dtypes import f32
from raido.algo.graph.expr import Op
from raido.algo.graph.primitives import FUNCTIONS
from raido.algo.graph.rewrite import topological
from raido.schedule.nest.nodes import Let, Store
from raido.schedule.nest.values import lanes_of
from raido.targets.llvm.roots import LANES

ROOT, QUOTIENT = 10, 7  # cycles of the divider
INSTEAD = 12  # cycles that the products instead of a root take, its test included
FUNCTION = 20  # products that stand for a function of mathematics


def roots_by_products(statements: Sequence[Any]) -> frozenset[Op]:
    """Roots of a loop's body to compute by multiplications: as many as keep the divider at least as busy as the multipliers.

    Empty unless the loop keeps its results in registers: other loops wait for memory rather than for the divider.
    """
    if not all(isinstance(s, Let) or (isinstance(s, Store) and s.buffer.scope == "register") for s in statements):
        return frozenset()
    seen: dict[Op, None] = {}
    for s in statements:
        seen.update((node, None) for node in topological(s.value) if isinstance(node, Op) and _is_wide(node))
    roots = [node for node in seen if node.name == "sqrt"]
    divider = ROOT * len(roots) + QUOTIENT * sum(node.name == "div" for node in seen)
    products = sum(node.name in ("mul", "fma") for node in seen) + FUNCTION * sum(
        node.name in FUNCTIONS for node in seen
    )
    count = 0
    while count < len(roots) and divider - ROOT >= products + INSTEAD:
        count, divider, products = count + 1, divider - ROOT, products + INSTEAD
    return frozenset(roots[len(roots) - count :])


def _is_wide(node: Op) -> bool:
    return node.dtype is f32 and lanes_of(node) == LANES
