"""Which variables an expression is open in, remembered for every node, and substitution that leaves closed parts alone.

A graph of many stages is mostly closed: substituting an axis variable need not look at what cannot mention it.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from raido.algo.graph.expr import Node, Var
from raido.algo.graph.rewrite import bound_variables, children, rebuild

_open: weakref.WeakKeyDictionary[Node, frozenset[Var]] = weakref.WeakKeyDictionary()
_NONE: frozenset[Var] = frozenset()


def open_variables(root: Node) -> frozenset[Var]:
    """The variables that occur in the graph and are not bound inside it."""
    if isinstance(root, Var):
        return frozenset((root,))
    for node in _pending(root, lambda n: n not in _open and not isinstance(n, Var)):
        sets = {id(s): s for s in (_known(child) for child in children(node)) if s}
        free = next(iter(sets.values())) if len(sets) == 1 else _NONE.union(*sets.values())
        if free:
            bound = bound_variables(node)
            free = free - bound if bound & free else free
        _open[node] = free
    return _open[root]


def _known(node: Node) -> frozenset[Var]:
    return frozenset((node,)) if isinstance(node, Var) else _open[node]


def _pending(root: Node, wanted: Callable[[Node], bool]) -> Iterator[Node]:
    """Wanted nodes under the root, children first; what is not wanted is not entered."""
    if not wanted(root):
        return
    seen: set[Node] = {root}
    stack: list[tuple[Node, Iterator[Node]]] = [(root, iter(children(root)))]
    while stack:
        node, rest = stack[-1]
        for child in rest:
            if child not in seen and wanted(child):
                seen.add(child)
                stack.append((child, iter(children(child))))
                break
        else:
            stack.pop()
            yield node


def substitute_variables(
    root: Any, values: Mapping[Var, Node], change: Callable[[Node], Node], memo: dict[Node, Node]
) -> Any:
    """The graph with variables replaced; `change` sees every rebuilt node, `memo` receives what became of the open ones."""
    keys = frozenset(values)
    memo.update(values.items())

    def lookup(node: Node) -> Node:
        return memo.get(node, node)

    for node in _pending(root, lambda n: n not in memo and not keys.isdisjoint(open_variables(n))):
        memo[node] = change(rebuild(node, lookup))
    return memo.get(root, root)
