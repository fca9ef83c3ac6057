"""Walking and rewriting the graph: children, free variables, substitution.

Everything is generic over the fields of nodes, memoised by identity, and free of recursion limits in the depth of sharing, not of
nesting. A rewrite that changes nothing returns the same node.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from raido.algo.graph.expr import Load, Node, Parameter, Result, Var, field_names

N = TypeVar("N", bound=Node)


def children(node: Node) -> Iterator[Node]:
    """The nodes directly below, bound variables included."""
    for name in field_names(type(node)):
        value = getattr(node, name)
        if isinstance(value, Node):
            yield value
        elif isinstance(value, tuple):
            yield from value


def rebuild(node: N, change: Callable[[Any], Any]) -> N:
    """The node with `change` applied to every direct child; the same node when nothing changes."""
    values, changed = [], False
    for name in field_names(type(node)):
        value = getattr(node, name)
        new = value
        if isinstance(value, Node):
            new = change(value)
        elif isinstance(value, tuple):
            new = tuple(change(child) for child in value)
            if all(a is b for a, b in zip(new, value, strict=True)):
                new = value
        changed |= new is not value
        values.append(new)
    return type(node)(*values) if changed else node


def topological(*roots: Node) -> list[Node]:
    """Every node reachable from the roots, each once, children before parents."""
    done: dict[Node, None] = {}
    stack: list[tuple[Node, Iterator[Node]]] = []
    for root in roots:
        if root in done:
            continue
        stack.append((root, children(root)))
        while stack:
            node, rest = stack[-1]
            for child in rest:
                if child not in done:
                    stack.append((child, children(child)))
                    break
            else:
                stack.pop()
                done[node] = None
    return list(done)


def post_order(roots: Sequence[Node], below: Callable[[Node], Sequence[Node]]) -> list[Node]:
    """The nodes reachable from the roots by way of `below`, each once, what is below a node before it, in that order."""
    done: dict[Node, None] = {}
    stack: list[tuple[Node, bool]] = [(root, False) for root in reversed(roots)]
    while stack:
        node, entered = stack.pop()
        if entered:
            done[node] = None
        elif node not in done:
            stack.append((node, True))
            stack += [(child, False) for child in reversed(below(node)) if child not in done]
    return list(done)


def scalar_nodes(*roots: Node, stop: Collection[Node] = ()) -> list[Node]:
    """The scalar nodes reachable without going into an array, nor below `stop`, children first."""

    def below(node: Node) -> Sequence[Node]:
        return () if node in stop else [c for c in children(node) if not isinstance(c, Result | Parameter)]

    return post_order(roots, below)


def loads_in(*roots: Node) -> list[Load]:
    """The loads in scalar expressions, each once, children first."""
    return [node for node in scalar_nodes(*roots) if isinstance(node, Load)]


def transform(root: N, change: Callable[[Node], Node], memo: dict[Node, Node] | None = None) -> Any:
    """Bottom-up: every node is rebuilt from its transformed children, then given to `change`."""
    memo = {} if memo is None else memo
    for node in topological(root):
        if node not in memo:
            memo[node] = change(rebuild(node, memo.__getitem__))
    return memo[root]


def substitute(root: N, values: Mapping[Any, Any]) -> Any:
    """The graph with variables (or any nodes) replaced by the given nodes."""
    if not values:
        return root
    return transform(root, lambda node: node, dict(values))


_free: weakref.WeakKeyDictionary[Node, frozenset[Var]] = weakref.WeakKeyDictionary()


def free_variables(root: Node) -> frozenset[Var]:
    """Variables that occur in the graph and are not bound inside it."""
    stack = [root]
    while stack:
        node = stack[-1]
        if node in _free:
            stack.pop()
            continue
        if isinstance(node, Var):
            _free[node] = frozenset((node,))
            continue
        below = list(children(node))
        missing = [child for child in below if child not in _free]
        if missing:
            stack += missing
            continue
        free = frozenset().union(*(_free[child] for child in below))
        _free[node] = free - bound_variables(node) if free else free
    return _free[root]


def bound_variables(node: Node) -> frozenset[Var]:
    """Variables that this node binds in its own fields."""
    bound: list[Var] = []
    axes = getattr(node, "axes", ())
    bound += [axis.var for axis in axes]
    for name in ("state", "left", "right"):
        bound += [var for var in getattr(node, name, ()) if isinstance(var, Var)]
    index = getattr(node, "index", None)
    if isinstance(index, Var):
        bound.append(index)
    return frozenset(bound)
