"""Drops results of `Generate` forms that are never read.

    q, r = rd.map(lambda v: (v // d, v % d), a)        r = rd.map(lambda v: v % d, a)
    return rd.sum(r)                                   return rd.sum(r)

Faults in such a result go unreported, like those of an array that is never read.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from raido.algo.graph.expr import Generate, Result
from raido.algo.graph.node import Node
from raido.algo.graph.program import Program
from raido.algo.graph.rewrite import rebuild, topological


def drop_unused(program: Program) -> Program:
    """The program in which every result of a `Generate` is read."""
    from raido.algo.passes.finish import follow_tables

    nodes = topological(*program.results)
    used: dict[Generate, set[int]] = defaultdict(set)
    for node in nodes:
        if isinstance(node, Result) and isinstance(node.form, Generate):
            used[node.form].add(node.index)
    kept = {form: sorted(read) for form, read in used.items() if len(read) < len(form.bodies)}
    if not kept:
        return program
    memo: dict[Node, Node] = {}
    for node in nodes:
        if isinstance(node, Result) and node.form in kept:
            memo[node] = Result(memo[node.form], kept[node.form].index(node.index))  # type: ignore[arg-type]
            continue
        new: Any = rebuild(node, memo.__getitem__)
        if isinstance(node, Generate) and node in kept:
            new = Generate(new.axes, tuple(new.bodies[k] for k in kept[node]))
        memo[node] = new
    return follow_tables(program, memo, tuple(memo[result] for result in program.results))
