"""`without_checks(program)`: the same program, trusting its indices. A checked load becomes a plain one; what was a fault is undefined."""

from __future__ import annotations

from raido.algo.expr import Load, Node
from raido.algo.finish import follow_tables
from raido.algo.program import Program
from raido.algo.rewrite import rebuild, topological


def without_checks(program: Program) -> Program:
    """The program without checks of indices; the same one when it has none."""
    memo: dict[Node, Node] = {}
    for node in topological(*program.results):
        new: Node = rebuild(node, memo.__getitem__)
        if isinstance(new, Load) and new.checked:
            new = Load(new.array, new.indices, False)
        memo[node] = new
    results = tuple(memo[result] for result in program.results)
    return program if results == program.results else follow_tables(program, memo, results)
