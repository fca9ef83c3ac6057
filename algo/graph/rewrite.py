"""Traversal and rewriting of the graph: children, free variables, substitution.

Everything is generic over the fields of nodes, memoised by identity, and not recursive, so depth is unlimited. A rewrite that changes
nothing returns the same node.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import islice
from operator import is_
from typing import Any, TypeVar

from raido.algo.graph.expr import Cond, Item, Load, Loop, Op, Parameter, Result, Var, While
from raido.algo.graph.node import Node, field_names

N = TypeVar("N", bound=Node)


def children(node: Node) -> tuple[Node, ...]:
    """Operands of a node, bound variables included."""
    try:
        return node._below
    except AttributeError:
        below: list[Node] = []
        for name in field_names(type(node)):
            value = getattr(node, name)
            if isinstance(value, Node):
                below.append(value)
            elif isinstance(value, tuple):
                below += value
        object.__setattr__(node, "_below", tuple(below))
        return node._below


def scalars_below(node: Node) -> tuple[Node, ...]:
    """Operands of a node that are no arrays."""
    try:
        return node._scalars_below
    except AttributeError:
        below = tuple(child for child in children(node) if not isinstance(child, (Result, Parameter)))
        object.__setattr__(node, "_scalars_below", below)
        return below


def rebuild(node: N, change: Callable[[Any], Any]) -> N:
    """The node with `change` applied to every operand; the same node when nothing changes."""
    below = children(node)
    new = list(map(change, below))
    if not below or all(map(is_, new, below)):
        return node
    left, values = iter(new), []
    for name in field_names(type(node)):
        value = getattr(node, name)
        if isinstance(value, Node):
            value = next(left)
        elif isinstance(value, tuple):
            value = tuple(islice(left, len(value)))
        values.append(value)
    return type(node)(*values)


def topological(*roots: Node) -> list[Node]:
    """Every node reachable from the roots, once, in postorder."""
    return post_order(roots, children)


def post_order(roots: Sequence[Node], below: Callable[[Node], Sequence[Node]]) -> list[Node]:
    """The nodes reachable from the roots through `below`, each once, operands before their users."""
    order: list[Node] = []
    entered: set[Node] = set()
    above: list[Node] = []  # of the nodes that the last of `stack` goes through
    stack = [iter(roots)]
    while stack:
        for node in stack[-1]:
            if node in entered:
                continue
            entered.add(node)
            first = below(node)
            if first:
                above.append(node)
                stack.append(iter(first))
                break
            order.append(node)
        else:
            stack.pop()
            if above:
                order.append(above.pop())
    return order


def scalar_nodes(*roots: Node, stop: Collection[Node] = ()) -> list[Node]:
    """The scalar nodes reachable without entering an array, or the operands of `stop`, in postorder."""
    return post_order(roots, (lambda node: () if node in stop else scalars_below(node)) if stop else scalars_below)


def evaluated_nodes(roots: Sequence[Node]) -> list[Node]:
    """The nodes reachable without entering branches, loops and arrays, in postorder."""
    return post_order(roots, _evaluated_below)


def _evaluated_below(node: Node) -> Sequence[Node]:
    apart = isinstance(node, (Result, Parameter)) or (
        isinstance(node, Item) and isinstance(node.form, (Cond, Loop, While))
    )
    return () if apart else children(node)


def unconditional_nodes(*roots: Node) -> list[Node]:
    """The scalar nodes reachable without entering an array or a branch, those inside loops included, in postorder."""
    return post_order(roots, lambda node: (node.predicate,) if isinstance(node, Cond) else scalars_below(node))


def loads_in(*roots: Node) -> list[Load]:
    """Loads in scalar expressions, each once, in postorder."""
    return [node for node in scalar_nodes(*roots) if isinstance(node, Load)]


def rewritten(roots: Iterable[N], memo: Mapping[Node, Any]) -> tuple[N, ...]:
    """The roots' rewritten nodes, in order."""
    return tuple(memo[root] for root in roots)


def transform(root: N, change: Callable[[Node], Node], memo: dict[Node, Node] | None = None) -> Any:
    """Bottom-up rewrite: every node that is not in `memo` is rebuilt from its transformed operands, then passed to `change`."""
    memo = {} if memo is None else memo
    if root in memo:
        return memo[root]
    found, known = memo, memo.__getitem__
    for node in post_order((root,), lambda node: () if node in found else children(node)):
        if node not in memo:
            memo[node] = change(rebuild(node, known))
    return memo[root]


def substitute(root: N, values: Mapping[Any, Any]) -> Any:
    """The graph with variables (or any nodes) replaced by the given nodes."""
    if not values:
        return root
    return transform(root, lambda node: node, dict(values))


_NONE: frozenset[Var] = frozenset()


def free_variables(root: Node) -> frozenset[Var]:
    """Variables that occur in the graph without being bound there."""
    try:
        return root._free
    except AttributeError:
        if isinstance(root, Var):
            return frozenset((root,))
    stack = [root]
    while stack:
        node = stack[-1]
        if hasattr(node, "_free"):
            stack.pop()
            continue
        below = children(node)
        missing = [child for child in below if not (hasattr(child, "_free") or isinstance(child, Var))]
        if missing:
            stack += missing
            continue
        stack.pop()
        object.__setattr__(node, "_free", _free_in(node, below))
    return root._free


def _free_in(node: Node, below: Sequence[Node]) -> frozenset[Var]:
    """The free variables of a node, given those of its operands."""
    sets = {id(s): s for s in (free_variables(child) for child in below) if s}
    free = next(iter(sets.values())) if len(sets) == 1 else _NONE.union(*sets.values())
    bound = bound_variables(node) if free and not isinstance(node, Op) else _NONE
    return free - bound if bound & free else free


def bound_variables(node: Node) -> frozenset[Var]:
    """Variables that this node binds."""
    bound: list[Var] = []
    axes = getattr(node, "axes", ())
    bound += [axis.var for axis in axes]
    for name in ("state", "left", "right"):
        bound += [var for var in getattr(node, name, ()) if isinstance(var, Var)]
    index = getattr(node, "index", None)
    if isinstance(index, Var):
        bound.append(index)
    return frozenset(bound)
