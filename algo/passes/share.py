"""Common subexpression elimination on forms: equal expressions become one stage, which answers to all its names.

Every form binds fresh variables, so interning alone never makes two traces of one expression equal. Closed forms are compared up to
renaming of bound variables (alpha equivalence), bottom-up, and the first represents all.
"""

from __future__ import annotations

from typing import Any

from raido.algo.graph.expr import (
    Const,
    Constant,
    Filter,
    Generate,
    Op,
    Parameter,
    Result,
    Scan,
    Segmented,
    SizeVar,
    Sort,
    Update,
    Var,
)
from raido.algo.graph.faults import can_fault
from raido.algo.graph.node import Node, field_names
from raido.algo.graph.program import Program
from raido.algo.graph.rewrite import children, free_variables, rebuild, topological

_LEAVES = (Result, Parameter, Constant, Const, SizeVar)
_FORMS = (Generate, Scan, Update, Filter, Segmented, Sort)


def share_equal(program: Program) -> Program:
    """The program in which no two closed forms are the same expression."""
    from raido.algo.passes.finish import follow_tables

    memo: dict[Node, Node] = {}
    first: dict[Any, Node] = {}
    for node in topological(*program.results):
        new: Node = rebuild(node, memo.__getitem__)
        if isinstance(new, _FORMS) and not free_variables(new):
            new = first.setdefault(structure(new), new)
        memo[node] = new.args[1] if isinstance(new, Op) and _chooses_nothing(new) else new
    return follow_tables(program, memo, tuple(memo[result] for result in program.results))


def _chooses_nothing(e: Op) -> bool:
    """Whether a select has equal alternatives, and a condition that cannot fault."""
    return e.name == "select" and e.args[1] is e.args[2] and not any(map(can_fault, topological(e.args[0])))


def structure(form: Node, named: bool = True) -> tuple[Any, ...]:
    """Returns a form up to renaming of bound variables: its nodes numbered in order of visit, closed arrays in it as atoms.

    Sums and products of integers are equal in either order. Variables count as equal only where their names are, too, unless `named` is False.
    """
    numbers: dict[Node, int] = {}
    rows: list[Any] = []
    stack: list[tuple[Node, bool]] = [(form, False)]
    while stack:
        node, entered = stack.pop()
        if node in numbers:
            continue
        if isinstance(node, Var):
            numbers[node] = len(rows)
            rows.append((Var, named and node.name, node.dtype))
        elif isinstance(node, _LEAVES) and not free_variables(node):
            numbers[node] = len(rows)
            rows.append(node)
        elif entered:
            numbers[node] = len(rows)
            fields = [_field(getattr(node, name), numbers) for name in field_names(type(node))]
            if isinstance(node, Op) and node.name in ("add", "mul") and node.dtype.is_integer:
                fields[-1] = tuple(sorted(fields[-1]))  # index arithmetic orders its operands by their variables
            rows.append((type(node), *fields))
        else:
            stack.append((node, True))
            stack += [(child, False) for child in reversed(list(children(node))) if child not in numbers]
    return tuple(rows)


def _field(value: Any, numbers: dict[Node, int]) -> Any:
    if isinstance(value, Node):
        return -1 - numbers[value]
    if isinstance(value, tuple):
        return tuple(_field(part, numbers) for part in value)
    return value
