"""Cost of expressions in operations, used to form stages, to choose default schedules, and to count work in tests."""

from __future__ import annotations

from collections.abc import Iterable

from raido.algo.graph.dtypes import i64
from raido.algo.graph.expr import Const, Expr, Load, Loop, Op, While
from raido.algo.graph.node import Node
from raido.algo.graph.primitives import DIVISIONS
from raido.algo.graph.rewrite import scalar_nodes

BY_CONSTANT = 3  # operations of a division by a constant: a product, a shift, a correction
FUNCTION = 20  # operations of a mathematical function
ITERATIONS = 1000  # operations of a loop whose trip count is not known
KEPT = 3  # accesses that keep a value for two readers: one store, two loads
_CHEAP = """
add sub mul neg abs sign minimum maximum fma div sqrt floor ceil trunc rint select cast bitcast copysign
lt le gt ge eq ne logical_and logical_or logical_xor logical_not isnan isinf isfinite signbit
bit_and bit_or bit_xor bit_not shl shr clamp_index wrap_index mirror_index symmetric_index
"""
CHEAP = frozenset(_CHEAP.split())


def operations(nodes: Iterable[Node], integers: bool = False) -> int:
    """The number of operations of scalar nodes: 1 each, `FUNCTION` for a mathematical function, `ITERATIONS` for a loop, `BY_CONSTANT` for
    an integer division by a constant. Index arithmetic is free: i64 counts only if `integers` declares the values to be i64."""
    return sum(cost_of(node) for node in nodes if integers or not isinstance(node, Op) or node.dtype is not i64)


def cost_of(node: Node) -> int:
    """Operations of one scalar node, without its operands'."""
    if isinstance(node, (Loop, While)):
        return ITERATIONS
    if not isinstance(node, Op):
        return 0
    known = node.name in DIVISIONS and not node.dtype.is_float and isinstance(node.args[1], Const)
    return 1 if node.name in CHEAP else BY_CONSTANT if known else FUNCTION


def cost_of_element(bodies: tuple[Expr, ...]) -> int:
    """Operations and loads for one element of these expressions."""
    nodes = scalar_nodes(*bodies)
    return operations(nodes, bodies[0].dtype is i64) + sum(isinstance(node, Load) for node in nodes)


def is_cheaper_made_twice(cost: int) -> bool:
    """Whether an element of this cost (operations and loads) is cheaper to recompute for a second reader than to keep in memory."""
    return cost <= KEPT
