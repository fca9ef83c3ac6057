"""Legality of `strategy("atomic")`: updates by atomic read-modify-write operations, in any order.

Every value must be combined on its own, by arithmetic alone. Integers, booleans, minimum and maximum give the same bits in any order; sums
of floats do not, and need `reproducible=False`.
"""

from __future__ import annotations

from raido.algo.graph.expr import Const, Op, Reduce, Var
from raido.algo.graph.faults import operator_can_fault
from raido.algo.graph.primitives import EXTREMES
from raido.algo.graph.reduction import monoids
from raido.algo.graph.rewrite import free_variables, scalar_nodes
from raido.schedule.refusal import Refusal


def check_atomic(name: str, fold: Reduce, reproducible: bool, remedy: str = 'strategy("private")') -> None:
    """Refuses an operator that atomic operations cannot carry out."""
    nodes = scalar_nodes(*fold.combine)
    if not all(isinstance(n, (Const, Var, Op)) for n in nodes):
        raise Refusal(
            f'the operator of "{name}" branches or reads arrays, which a compare-exchange loop cannot retry', remedy
        )
    if operator_can_fault(*fold.combine):
        raise Refusal(
            f'the operator of "{name}" can fault, and a compare-exchange loop that retries it cannot report the fault',
            remedy,
        )
    for k, combined in enumerate(fold.combine):
        others = {*fold.left, *fold.right} - {fold.left[k], fold.right[k]}
        if others & free_variables(combined):
            raise Refusal(
                f'an update of "{name}" changes {len(fold.combine)} arrays at once, and the new value of each depends on the others',
                remedy,
            )
    rounded = [v.dtype for v, m in zip(fold.left, monoids(fold), strict=True) if v.dtype.is_float and m not in EXTREMES]
    if rounded and reproducible:
        raise Refusal(
            f"the last bits of {rounded[0]} results depend on the order of the updates, which parallel threads do not fix",
            f'{remedy}, or strategy("atomic", reproducible=False)',
        )
