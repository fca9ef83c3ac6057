"""Elements that scans, filters, sorts and reductions by index read, and that are selected by position, are computed before them.

    scan(op, 0, where(x < n, a[x], b[x - n]))      becomes      c[x] = where(x < n, a[x], b[x - n]);  scan(op, 0, c[x])

Index-set splitting removes such selections from the loops of a map (`lower/regions/partition.py`). The loops of a scan run along its axis in
order, in blocks, and twice: lanes would evaluate the selection at every element, and gather.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from raido.algo.graph.expr import (
    Array,
    Cond,
    Expr,
    Filter,
    Generate,
    Item,
    Load,
    Op,
    Scan,
    Sort,
    Update,
    Var,
)
from raido.algo.graph.node import Node, field_names, with_fields
from raido.algo.graph.rewrite import free_variables, loads_in, rewritten, topological
from raido.schedule.stages.dependent import DEPENDENT, Dependent
from raido.schedule.stages.positions import chooses_by_position, is_bounded
from raido.schedule.stages.tables import Tables


def make_choices_first(roots: tuple[Array, ...], tables: Tables) -> tuple[Array, ...]:
    """Moves selections by position out of the forms that run along an axis in order."""
    memo: dict[Node, Node] = {}
    for node, new in tables.renewed(topological(*roots), memo):
        if isinstance(new, DEPENDENT) and not free_variables(new):
            memo[node] = _with_choices_before(new, tables)
            tables.carry(new, memo[node])
    return rewritten(roots, memo)


def _with_choices_before(form: Dependent, tables: Tables) -> Dependent:
    along, evaluated = _along(form)
    choices = {e for root in evaluated for e in _choices(root, along)}
    if not choices:
        return form
    read: dict[Any, Node] = {}
    for e in choices:
        own = free_variables(e)
        axes = [axis for axis in form.axes if axis.var in own]
        new, bodies = tables.over_new_axes((e,), axes)
        made = tables.made(Generate(new, bodies), "move" if isinstance(e, Load) else "elementwise")
        read[e] = Load(made, tuple(axis.var for axis in axes), False)
    parts: dict[str, Any] = {}
    for name in ("values", "indices", "predicate"):
        if name not in field_names(type(form)):
            continue
        old = getattr(form, name)
        new = tables.substitute(old if isinstance(old, tuple) else (old,), read)
        parts[name] = new if isinstance(old, tuple) else new[0]
    return with_fields(form, **parts)


def _along(form: Dependent) -> tuple[set[Var], Sequence[Expr]]:
    """Returns the variables of the axes that a form runs along in order, and the expressions that it evaluates there."""
    if isinstance(form, Update):
        return {axis.var for axis in form.axes[-1:]}, (*form.values, *form.indices) if form.mode == "combine" else ()
    if isinstance(form, Filter):
        return {form.axes[0].var}, (form.predicate, *form.values)
    assert isinstance(form, Scan | Sort)
    return {form.axes[form.along].var}, form.values


def _choices(root: Expr, along: set[Var]) -> list[Expr]:
    """Returns the selections by position that every element of an expression evaluates; the whole expression where there are several."""
    found: dict[Expr, None] = {}
    stack: list[Expr] = [root]
    while stack:
        e = stack.pop()
        if _is_choice(e, along):
            found[e] = None
        elif isinstance(e, Op):
            stack += e.args
    return [root] if len(found) > 1 else list(found)


def _is_choice(e: Expr, along: set[Var]) -> bool:
    if along.isdisjoint(free_variables(e)):
        return False
    if isinstance(e, Load):
        return is_bounded(e.indices)
    choice = e.form if isinstance(e, Item) else e
    if not isinstance(choice, Cond | Op) or not chooses_by_position([choice], free_variables(e)):
        return False
    moved = (i for load in loads_in(e) for i in load.indices if not along.isdisjoint(free_variables(i)))
    return any(not isinstance(i, Var) for i in moved)  # reads at the element's own index do not gather
