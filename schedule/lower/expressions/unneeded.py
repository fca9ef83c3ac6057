"""Elements that are never needed: those whose index was clamped into an empty array.

A concatenation reads each of its parts everywhere, at indices clamped into the part, and selects; a padded array likewise. An empty part
has no element, and the selection never takes one: a value computed from it anyway reads nothing, and must not fault.
"""

from __future__ import annotations

from collections.abc import Iterable

from raido.algo.graph import index as ix
from raido.algo.graph.expr import Cond, Expr, Item, Node, Op
from raido.algo.graph.rewrite import children
from raido.schedule.lower.expressions.dag import scalar_order

Extents = dict[Expr, None]


def extents_brought_into(roots: Iterable[Node], known: dict[Node, Extents]) -> Extents:
    """The extents of the boundary operations on which these values depend: if one of them is 0, the values are never needed.

    known: a cache of the extents of each node. A selection depends on its condition, and on what all of its branches depend on.
    """
    found: Extents = {}
    for root in roots:
        if root not in known:
            for node in scalar_order([root]):
                if node not in known:
                    known[node] = _of_node(node, known)
        found |= known[root]
    return found


def _of_node(node: Node, known: dict[Node, Extents]) -> Extents:
    if isinstance(node, Op) and node.name in ix.BOUNDARY_OPS:
        return {**known[node.args[0]], node.args[1]: None}
    if isinstance(node, Op) and node.name == "select":
        return known[node.args[0]] | _shared(known[node.args[1]], known[node.args[2]])
    if isinstance(node, Item) and isinstance(node.form, Cond):
        form = node.form
        return known[form.predicate] | _shared(known[form.then[node.index]], known[form.orelse[node.index]])
    below: Extents = {}
    for child in children(node):
        below |= known.get(child, {})
    return below


def _shared(one: Extents, other: Extents) -> Extents:
    return {extent: None for extent in one if extent in other}
