"""Filters of which only the number of kept elements is read, as sums of ones: nothing is moved, and no memory is needed.

filter(p, a).shape[0]      becomes      sum(1 where p(a) else 0)
"""

from __future__ import annotations

from raido.algo.graph.expr import Array, Filter, Generate, Node, Result
from raido.algo.graph.reduction import count_of
from raido.algo.graph.rewrite import rewritten, topological
from raido.schedule.stages.tables import Tables


def count_filters(roots: tuple[Array, ...], tables: Tables) -> tuple[Array, ...]:
    """Replaces filters whose elements are not read by counts."""
    nodes = topological(*roots)
    used = {(node.form, node.index) for node in nodes if isinstance(node, Result) and isinstance(node.form, Filter)}
    read = {form for form, index in used if index < len(form.values)}
    if all(form in read for form, _ in used):
        return roots
    memo: dict[Node, Node] = {}
    for node, new in tables.renewed(nodes, memo):
        if isinstance(node, Result) and isinstance(node.form, Filter) and node.form not in read:
            memo[node] = Result(_count(new.form, tables), 0)
            tables.carry(node, memo[node])
    return rewritten(roots, memo)


def _count(form: Filter, tables: Tables) -> Generate:
    """Returns the number of elements that a filter keeps, as a form with the filter's name."""
    made = Generate((), (count_of(form),))
    tables.kinds[made] = "reduce"
    tables.pass_names(form, made)
    return made
