"""Traversals of nest expressions, including those with several results: evaluation order, uses, and the cost of selections."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from raido.algo.graph import index as ix
from raido.algo.graph.assumptions import Assumptions
from raido.algo.graph.dtypes import bool_, i64
from raido.algo.graph.expr import (
    Changed,
    Cond,
    Const,
    Element,
    Fill,
    Item,
    Loop,
    Node,
    Op,
    Reduce,
    SizeVar,
    Var,
    While,
    const,
)
from raido.algo.graph.rewrite import children, post_order
from raido.schedule.nest.values import Buffer, NestExpr, Read

_CHEAP = {"add", "sub", "mul"}
CHEAP_TO_SELECT = {
    *("add", "sub", "mul", "neg", "abs", "minimum", "maximum", "fma", "select", "cast", "copysign", "floor", "ceil"),
    *("lt", "le", "gt", "ge", "eq", "ne", "logical_and", "logical_or", "logical_not", "bit_and", "bit_or", "bit_xor"),
    *ix.BOUNDARY_OPS,
}
MOST_SELECTED = 16  # nodes of both branches together


def eager_children(node: Node) -> Sequence[Any]:
    """The children that are always evaluated before the node."""
    if isinstance(node, Op):
        return node.args
    if isinstance(node, Item):
        form = node.form
        if isinstance(form, Cond):
            return [form.predicate]
        if isinstance(form, Loop):
            return [form.count, *begun_with(form.init)]
        if isinstance(form, While):
            return begun_with(form.init)
        return [*(axis.extent for axis in form.axes), *form.neutral]
    if isinstance(node, Read):
        return node.indices if node.predicate is None else (*node.indices, node.predicate)
    if isinstance(node, Element):
        return (node.array, *node.indices)
    return ()


def begun_with(arrays: Iterable[Any]) -> list[Any]:
    """The values that are evaluated before scalar or array states of these definitions can be stored."""
    needed: list[Any] = []
    for e in arrays:
        if isinstance(e, Changed):
            needed += [*begun_with([e.array]), *e.tests, *e.indices, *e.values]
        elif not isinstance(e, Fill):
            needed.append(e)
    return needed


def lazy_children(form: Any) -> Iterable[Any]:
    if isinstance(form, Cond):
        return (*form.then, *form.orelse)
    if isinstance(form, Reduce):
        return form.values
    made = [e.array if isinstance(e, Changed) else e for e in form.init]
    filled = (e for e in made if isinstance(e, Fill))
    return (*filled, *form.body) if isinstance(form, Loop) else (*filled, form.condition, *form.body)


def scalar_order(roots: Sequence[Node]) -> list[Node]:
    """The expressions that the roots consist of, children first, the last child first of all."""

    def below(node: Node) -> Sequence[Node]:
        return _values_below(node)[::-1]

    return post_order(roots, below)


def count_uses(roots: Sequence[Node]) -> dict[Node, int]:
    """The number of uses of each value in the roots' expressions; being a root counts as one use."""
    uses: dict[Node, int] = {}

    def count(nodes: Sequence[Node]) -> Sequence[Node]:
        for node in nodes:
            uses[node] = uses.get(node, 0) + 1
        return nodes

    post_order(count(roots), lambda node: count(_values_below(node)))
    return uses


def _values_below(node: Node) -> Sequence[Node]:
    """The children of a node that are values."""
    if isinstance(node, Op):
        return node.args
    return [child for child in children(node) if not isinstance(child, Buffer)]


def in_bounds(read: Read, assumptions: Assumptions) -> bool:
    """Whether a read is safe under these assumptions: each index is in range, provably or by the predicate."""
    held = _parts(read.predicate)
    return all(
        (assumptions.nonnegative(i) or Op("ge", bool_, (i, const(i64, 0))) in held)
        and (assumptions.less(i, n) or Op("lt", bool_, (i, n)) in held)
        for i, n in zip(read.indices, read.buffer.shape, strict=True)
    )


def _parts(predicate: NestExpr | None) -> set[NestExpr]:
    """The conjuncts of a predicate."""
    found: set[NestExpr] = set()
    stack = [] if predicate is None else [predicate]
    while stack:
        e = stack.pop()
        if isinstance(e, Op) and e.name == "logical_and":
            stack += e.args
        else:
            found.add(e)
    return found


def is_trivial(value: NestExpr) -> bool:
    """Whether a value is a sum of products of coordinates with at most 12 nodes, which is clearer written out than named (and whose
    variation along lanes is visible)."""
    stack: list[Node] = [value]
    for _ in range(12):
        if not stack:
            return True
        node = stack.pop()
        if isinstance(node, (Const, SizeVar, Var)):
            continue
        if not isinstance(node, Op) or node.dtype is not i64 or node.name not in _CHEAP:
            return False
        stack += node.args
    return False


def name_of(value: NestExpr) -> str:
    return value.buffer.name if isinstance(value, Read) else "t"
