"""Horizontal fusion of updates: several arrays that change at the same indices are the results of one update.

    count[k[r]] += 1;  total[k[r]] += v[r]      →      (count, total)[k[r]] += (1, v[r])

Each index is then computed once, and private bins of one type lie together (`lower/strategies/private_bins.py`).
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from raido.algo.graph.dtypes import DType
from raido.algo.graph.expr import Array, ArrayLoop, Generate, Node, Parameter, Result, Update, fresh
from raido.algo.graph.reduction import components
from raido.algo.graph.rewrite import free_variables, rewritten, topological
from raido.schedule.stages.dependent import mapped_axes
from raido.schedule.stages.locations import locations
from raido.schedule.stages.stage import Stage
from raido.schedule.stages.tables import Tables

FIELDS = ("left", "right", "combine", "neutral", "values")


def join_sibling_updates(roots: tuple[Array, ...], tables: Tables) -> tuple[Array, ...]:
    """Joins unnamed updates of single elements that combine values at equal indices, in one scope, and do not depend on one another.

    States of loops are left out: all or none of the arrays of an update change in place.
    """
    while (siblings := _siblings(roots, tables)) is not None:
        joined = _joined(siblings, tables)
        memo: dict[Node, Any] = {Result(form, 0): Result(joined, k) for k, form in enumerate(siblings)}
        roots = rewritten(roots, tables.renew(topological(*roots), memo))
    return roots


def _siblings(roots: tuple[Array, ...], tables: Tables) -> list[Update] | None:
    """Returns the first updates of a program that can be joined, in order; None without any."""
    nodes = topological(*roots)
    counters = {node.index for node in nodes if isinstance(node, ArrayLoop)}
    found = (node for node in nodes if isinstance(node, Update) and _may_join(node, tables))
    updates = [form for form in found if free_variables(form) <= counters]
    scopes = locations(roots, tables.hoistable) if updates[1:] else {}
    for k, first in enumerate(updates):
        siblings = [first]
        for form in updates[k + 1 :]:
            alike = scopes[form] == scopes[first] and _has_indices_of(first, form, tables)
            if alike and not any(node in siblings for node in topological(form)):
                siblings.append(form)
        if siblings[1:]:
            return siblings
    return None


def _may_join(form: Update, tables: Tables) -> bool:
    """Whether an unnamed update combines single elements of one array, whose memory it does not take over from a loop or another update."""
    if form.mode != "combine" or len(form.dest) != 1 or mapped_axes(form) or tables.names.get(form):
        return False
    (dest,) = form.dest
    if isinstance(dest, Result):
        return isinstance(dest.form, Generate)
    return isinstance(dest, Parameter) and dest.serial == 0


def _has_indices_of(first: Update, form: Update, tables: Tables) -> bool:
    """Whether two updates have steps over equal axes, which change the same indices of arrays of one type and shape."""
    if form.dest[0].dtype != first.dest[0].dtype or form.dest[0].shape != first.dest[0].shape:
        return False
    if [axis.extent for axis in form.axes] != [axis.extent for axis in first.axes]:
        return False
    return tables.substitute(form.indices, _to_axes(first, form)) == first.indices


def _to_axes(first: Update, form: Update) -> dict[Node, Node]:
    return {own.var: axis.var for own, axis in zip(form.axes, first.axes, strict=True)}


def _joined(siblings: list[Update], tables: Tables) -> Update:
    """Returns one update with the results of several, over the axes of the first; it is checked if any of them is."""
    first, parts = siblings[0], dict[str, list[Any]]((name, []) for name in FIELDS)
    for form in siblings:
        names = {v: fresh(v.name, v.dtype) for v in (*form.left, *form.right)}
        memo: dict[Node, Node] = {**_to_axes(first, form), **names}
        for name in FIELDS:
            parts[name] += tables.substitute(getattr(form, name), memo)
    operator = (tuple(parts[name]) for name in FIELDS)
    dest = tuple(form.dest[0] for form in siblings)
    checked, monoid = any(form.checked for form in siblings), ",".join(form.monoid for form in siblings)
    joined = Update(dest, first.axes, first.indices, *operator, first.mode, checked, monoid)
    tables.carry(first, joined)
    return joined


def structure_fields(stage: Stage) -> Counter[DType]:
    """The number of values of each type that lie together in private bins, an array of structures: those of an update of single elements,
    each of which is combined on its own."""
    assert stage.reduction is not None and stage.update is not None
    dtypes = [value.dtype for value in stage.reduction.left]
    apart = components(stage.reduction) and None not in stage.update.index_values
    return Counter(dtypes if apart else set(dtypes))


def has_structures(stage: Stage) -> bool:
    """Whether private bins of an update hold structures of several values."""
    return max(structure_fields(stage).values()) > 1
