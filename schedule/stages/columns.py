"""Columns that are read along lanes again and again, made rows of first.

    m with [i, j] = m[i, j] − m[i, k] · m[j, k]      →      c = m[j, k] for all j;  m with [i, j] = m[i, j] − m[i, k] · c[j]

The last axis of a form runs in lanes. A read whose rows move with that axis, and whose column does not, takes as many lines of the cache as
there are lanes; where it does not depend on all axes, it takes them once for each index along the others. Made first, each element is
looked up once. Rows of a line or less are left as they are: their neighbours are taken together.
"""

from __future__ import annotations

from collections.abc import Set

from raido.algo.graph import index as ix
from raido.algo.graph.expr import Array, Generate, Load, Node, Update, Var
from raido.algo.graph.rewrite import evaluated_nodes, free_variables, rewritten, topological
from raido.schedule.machine import LINE
from raido.schedule.stages.inline import SHORT
from raido.schedule.stages.reads_before import with_early_reads
from raido.schedule.stages.tables import Tables
from raido.schedule.stages.uses import host_variables


def make_columns_first(roots: tuple[Array, ...], tables: Tables) -> tuple[Array, ...]:
    """The graph in which no form reads a column along its last axis once for each index along another one."""
    nodes = topological(*roots)
    hosts = host_variables(nodes)
    found = {
        node: columns for node in nodes if isinstance(node, Generate | Update) and (columns := _columns(node, hosts))
    }
    if not found:
        return roots
    memo: dict[Node, Node] = {}
    for node, new in tables.renewed(nodes, memo):
        if node in found:
            memo[node] = with_early_reads(node, new, found[node], memo, tables, "column")  # type: ignore[arg-type]
            tables.carry(new, memo[node])
    return rewritten(roots, memo)


def _columns(form: Generate | Update, hosts: Set[Var]) -> set[Node]:
    """The reads of columns along the last axis of a form that do not depend on all of its axes."""
    if len(form.axes) < 2 or _is_short(form.axes[-1].extent):
        return set()
    values = (*form.values, *form.indices) if isinstance(form, Update) else form.bodies
    return {node for node in evaluated_nodes(values) if isinstance(node, Load) and _is_column(node, form, hosts)}


def _is_column(load: Load, form: Generate | Update, hosts: Set[Var]) -> bool:
    own = {axis.var for axis in form.axes}
    *rows, column = load.indices or (ix.as_index(0),)
    along = form.axes[-1].var
    if along in free_variables(column) or not any(along in free_variables(e) for e in rows):
        return False
    others = [axis.extent for axis in form.axes if axis.var not in free_variables(load)]
    if all(map(_is_short, others)) or free_variables(load) - own - hosts:
        return False
    width = ix.constant_value(load.array.shape[-1])
    return width is None or width * load.dtype.itemsize > LINE


def _is_short(extent: Node) -> bool:
    known = ix.constant_value(extent)  # type: ignore[arg-type]
    return known is not None and known < SHORT
