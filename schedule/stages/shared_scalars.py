"""Common loops of scalars in several forms of one array loop's iteration: each becomes a form of its own, and runs once.

    for t: k' = where(search(x[t]) == k, …);  out with [search(x[t])] = x[t]
        →      for t: at = search(x[t]);  k' = where(at == k, …);  out with [at] = x[t]

A binary search that finds an element's index and whether it is new is traced so. A loop that may not terminate, or can fault, becomes a
form only where every iteration evaluates it.
"""

from __future__ import annotations

from collections.abc import Mapping

from raido.algo.graph.expr import Array, ArrayLoop, ArrayWhile, Generate, Item, Load, Loop, Node, Result, While
from raido.algo.graph.faults import risky
from raido.algo.graph.rewrite import free_variables, rebuild, rewritten, scalar_nodes, topological
from raido.schedule.stages.dependent import DEPENDENT
from raido.schedule.stages.invariants import always_evaluated, expressions_of_form
from raido.schedule.stages.tables import Tables
from raido.schedule.stages.uses import host_variables, loops_around


def share_scalars(roots: tuple[Array, ...], tables: Tables) -> tuple[Array, ...]:
    """Gives loops of scalars that several forms of one iteration run forms of their own."""
    nodes = topological(*roots)
    loops = [node for node in nodes if isinstance(node, ArrayLoop | ArrayWhile)]
    if not loops or not any(isinstance(node, Loop | While) for node in nodes):
        return roots
    shared = _shared(nodes, loops)
    if not shared:
        return roots
    memo: dict[Node, Node] = {}
    for node, _ in tables.renewed(nodes, memo):
        if isinstance(node, (Generate, *DEPENDENT)):
            memo[node] = _with_shared(node, shared, memo, tables)
    return rewritten(roots, memo)


def _shared(nodes: list[Node], loops: list[ArrayLoop | ArrayWhile]) -> Mapping[Node, tuple[Item, ...]]:
    """Maps each loop of scalars that several forms of one iteration run to its results that are read."""
    homes, hosts, unsafe = loops_around(nodes), host_variables(nodes), risky(nodes)
    sure = {e for loop in loops for e in always_evaluated(loop)}
    readers: dict[Node, set[Node]] = {}
    items: dict[Node, dict[Item, None]] = {}
    for form in nodes:
        if not isinstance(form, (Generate, *DEPENDENT)) or not homes[form]:
            continue
        for e in scalar_nodes(*expressions_of_form(form)):
            if not isinstance(e, Item) or not isinstance(e.form, Loop | While) or homes[e] != homes[form]:
                continue
            if free_variables(e) <= hosts and (e in sure or e not in unsafe):
                readers.setdefault(e.form, set()).add(form)
                items.setdefault(e.form, {})[e] = None
    return {each: tuple(items[each]) for each, forms in readers.items() if len(forms) > 1}


def _with_shared(form: Node, shared: Mapping[Node, tuple[Item, ...]], memo: dict[Node, Node], tables: Tables) -> Node:
    """Returns a form that loads the results of shared loops."""
    within = scalar_nodes(*expressions_of_form(form))
    if not any(isinstance(e, Item) and e.form in shared for e in within):
        return memo[form]
    instead: dict[Node, Node] = {}
    for node in scalar_nodes(form):
        results = shared.get(node.form, ()) if isinstance(node, Item) else ()
        if node in results:
            made = Generate((), tuple(memo[each] for each in results))  # type: ignore[misc]
            tables.kinds[made] = "scalar"
            instead[node] = Load(Result(made, results.index(node)), (), False)
        else:
            instead[node] = rebuild(node, lambda child: instead.get(child, memo.get(child, child)))
        tables.carry(node, instead[node])
    return instead[form]
