"""Substitution that skips closed subgraphs.

A graph of many stages is mostly closed: substitution of an axis variable need not visit subgraphs without free variables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from raido.algo.graph.expr import Node, Var
from raido.algo.graph.rewrite import children, free_variables, rebuild


def substitute_variables(
    root: Any, values: Mapping[Var, Node], change: Callable[[Node], Node], memo: dict[Node, Node]
) -> Any:
    """The graph with variables replaced; `change` is applied to every rebuilt node, `memo` receives the new nodes of open ones."""
    keys = frozenset(values)
    memo.update(values.items())

    def lookup(node: Node) -> Node:
        return memo.get(node, node)

    for node in _pending(root, lambda n: n not in memo and not keys.isdisjoint(free_variables(n))):
        memo[node] = change(rebuild(node, lookup))
    return memo.get(root, root)


def _pending(root: Node, wanted: Callable[[Node], bool]) -> Iterator[Node]:
    """Wanted nodes under the root, in postorder; unwanted nodes are not entered."""
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
