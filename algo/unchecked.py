"""`without_checks(program)`: the same program, trusting its indices. Checked loads become plain ones; what was a fault is undefined."""

from __future__ import annotations

from raido.algo.expr import Checked, Load, Node, Update, field_names
from raido.algo.finish import follow_tables
from raido.algo.program import Program
from raido.algo.rewrite import rebuild, topological


def without_checks(program: Program) -> Program:
    """The program without checks of indices, sizes and bounds; the same one when it has none."""
    memo: dict[Node, Node] = {}
    for node in topological(*program.results):
        new: Node = rebuild(node, memo.__getitem__)
        if isinstance(new, Load) and new.checked:
            new = Load(new.array, new.indices, False)
        elif isinstance(new, Checked):
            new = new.value
        elif isinstance(new, Update) and new.checked:
            new = _trusting(new)
        memo[node] = new
    results = tuple(memo[result] for result in program.results)
    return program if results == program.results else follow_tables(program, memo, results)


def _trusting(form: Update) -> Update:
    """An update that trusts its indices."""
    return Update(*(False if name == "checked" else getattr(form, name) for name in field_names(Update)))
