"""Offsets of segments: what is checked of them wherever a segment is looked at, and of a lone one, which bounds none.

A `Checked` of kind "offsets" has for details where its segment begins and ends, the number of values, and, for those who find that there
are no segments, how many there are and the check of the only offset.
"""

from __future__ import annotations

from collections.abc import Sequence

from raido.algo.graph.dtypes import bool_, i64
from raido.algo.graph.expr import Checked, Expr, Node, Op, const
from raido.algo.graph.rewrite import evaluated_nodes, scalar_nodes


def lone_offset(offset: Expr, size: Expr) -> Checked:
    """The first offset, checked to lie within 0 … size."""
    holds = Op("logical_and", bool_, (Op("le", bool_, (const(i64, 0), offset)), Op("le", bool_, (offset, size))))
    return Checked(offset, holds, "offset", (offset, size))


def in_order(begin: Expr, end: Expr, size: Expr) -> Op:
    """Whether 0 ≤ begin ≤ end ≤ size."""
    inside = (Op("le", bool_, pair) for pair in ((const(i64, 0), begin), (begin, end), (end, size)))
    first, second, third = inside
    return Op("logical_and", bool_, (Op("logical_and", bool_, (first, second)), third))


def lone_offsets(roots: Sequence[Node]) -> set[Node]:
    """The checks of first offsets in some expressions."""
    return {node.details[-1] for node in scalar_nodes(*roots) if isinstance(node, Checked) and node.kind == "offsets"}


def counts_and_lone_offsets(roots: Sequence[Node]) -> dict[Checked, Expr]:
    """The checks of first offsets among some expressions, outside branches and loops, with how many segments follow each."""
    found: dict[Checked, Expr] = {}
    for node in evaluated_nodes(roots):
        if isinstance(node, Checked) and node.kind == "offsets":
            count, lone = node.details[3:]
            assert isinstance(lone, Checked)
            found[lone] = count
    return found
