"""Integers of any type as i64 indices, sizes and counts. A u64 of 2**63 or more has no i64, and its bits read as a negative one.

Where an index is checked, or ignored when it is out of range, the i64 of the same bits serves, as it is negative: a fault of a kind that
begins with "unsigned" then prints the original number. Elsewhere the number is first brought into range, in u64.
"""

from __future__ import annotations

from typing import Any

from raido.algo.errors import ShapeError
from raido.algo.graph import index
from raido.algo.graph.dtypes import bool_, i64, u64
from raido.algo.graph.expr import Expr, Op, const
from raido.algo.graph.limits import LARGEST_SIZE
from raido.algo.trace.existential import checked
from raido.algo.trace.locations import complaint
from raido.algo.trace.scalars import cast
from raido.algo.trace.value import STRONG, Array

LARGEST = (1 << 63) - 1
FAR = LARGEST_SIZE  # an index beyond every array, as is its negative; sums of two such numbers and two sizes do not overflow


def same_bits(value: Array) -> Expr:
    """Returns an integer scalar as an i64 expression; negative where it is a u64 of 2**63 or more."""
    node = value.node if value.dtype is i64 else cast(Array(value.node, STRONG), i64)
    return index.canonical(node)


def saturate_to_i64(value: Array) -> Expr:
    """Returns an integer scalar as an i64 expression, at most 2**63 − 1."""
    if value.dtype is not u64:
        return same_bits(value)
    return Op("cast", i64, (Op("minimum", u64, (value.node, const(u64, LARGEST))),))


def reduce_to_period(value: Array, rule: Any, extent: Expr) -> Expr:
    """Returns an index as an i64 expression that the boundary operation `rule` maps to the same element as the index itself."""
    if value.dtype is not u64 or rule not in _PERIODS:
        return saturate_to_i64(value) if rule == "clamp_index" else same_bits(value)
    period = _PERIODS[rule](extent)
    wide, zero = Op("cast", u64, (period,)), const(u64, 0)
    divisor = Op("select", u64, (Op("ne", bool_, (wide, zero)), wide, const(u64, 1)))  # provably not 0
    return Op("cast", i64, (Op("floormod", u64, (value.node, divisor)),))


_PERIODS: dict[Any, Any] = {
    "wrap_index": lambda n: n,
    "mirror_index": lambda n: index.mul(index.sub(n, 1), 2),
    "symmetric_index": lambda n: index.mul(n, 2),
}


def checked_count(value: Array, kind: str = "unsigned_size") -> Expr:
    """Returns a number of iterations, or an offset, as an i64 expression that faults with `kind` where it is a u64 of 2**63 or more."""
    node = same_bits(value)
    if value.dtype is not u64:
        return node
    return checked(node, Op("ge", bool_, (node, const(i64, 0))), kind, (node,))


def literal_index(value: int) -> Expr:
    """Returns a literal as an i64 expression; raises `ShapeError` where it does not fit."""
    if not -LARGEST <= value <= LARGEST:
        raise ShapeError(complaint(f"the literal {value} is larger than any index"))
    return index.as_index(value)
