"""Checks of segment offsets: of each segment where it is accessed, and of the only offset when there are zero segments.

A `Checked` of kind "offsets" has as details the begin and end of its segment, the number of values, and, for the case of zero segments, the
number of segments and the check of the only offset.
"""

from __future__ import annotations

from collections.abc import Sequence

from raido.algo.graph.dtypes import bool_, i64
from raido.algo.graph.expr import Checked, Expr, Node, Op, const
from raido.algo.graph.rewrite import evaluated_nodes, scalar_nodes


def offset_of_zero_segments(offset: Expr, size: Expr) -> Checked:
    """The first offset, checked to lie within 0 … size."""
    holds = Op("logical_and", bool_, (Op("le", bool_, (const(i64, 0), offset)), Op("le", bool_, (offset, size))))
    return Checked(offset, holds, "offset", (offset, size))


def in_order(begin: Expr, end: Expr, size: Expr) -> Op:
    """The condition 0 ≤ begin ≤ end ≤ size."""
    inside = (Op("le", bool_, pair) for pair in ((const(i64, 0), begin), (begin, end), (end, size)))
    first, second, third = inside
    return Op("logical_and", bool_, (Op("logical_and", bool_, (first, second)), third))


def offsets_of_zero_segments(roots: Sequence[Node]) -> set[Node]:
    """The checks of first offsets in expressions."""
    return {node.details[-1] for node in scalar_nodes(*roots) if isinstance(node, Checked) and node.kind == "offsets"}


def counts_and_offsets_of_zero_segments(roots: Sequence[Node]) -> dict[Checked, Expr]:
    """The checks of first offsets in expressions, outside branches and loops, each with the number of segments."""
    found: dict[Checked, Expr] = {}
    for node in evaluated_nodes(roots):
        if isinstance(node, Checked) and node.kind == "offsets":
            count, lone = node.details[3:]
            assert isinstance(lone, Checked)
            found[lone] = count
    return found
