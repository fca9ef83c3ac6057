"""Hoisting into rows computed first: columns read along lanes, and functions of the index along lanes.

    m with [i, j] = m[i, j] − m[i, k] · m[j, k]      →      c = m[j, k] for all j;  m with [i, j] = m[i, j] − m[i, k] · c[j]
    a[y, x] · exp(−x²)                               →      r = exp(−x²) for all x;  a[y, x] · r[x]

The last axis of a form is the one of lanes. A read whose row index depends on that axis, and whose column index does not, touches a cache
line for each lane, once for each index along the axes it does not depend on. Copied to a row first, each element is loaded once. Arrays
with rows of at most a cache line stay: neighbouring lanes share lines. A mathematical function that depends on the last axis, and not on
all others, is likewise computed once for each index; functions of outer axes alone are hoisted out of the inner loops anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Set

from raido.algo.graph import index as ix
from raido.algo.graph.expr import (
    Array,
    Const,
    Count,
    Generate,
    Load,
    Node,
    Op,
    Parameter,
    Result,
    SizeVar,
    Update,
    Var,
)
from raido.algo.graph.faults import can_fault
from raido.algo.graph.rewrite import children, evaluated_nodes, free_variables, rewritten, scalar_nodes, topological
from raido.algo.recipes import FUNCTIONS
from raido.schedule.machine import LINE
from raido.schedule.stages.inline import is_short
from raido.schedule.stages.tables import Tables
from raido.schedule.stages.updates.reads_before import with_early_reads
from raido.schedule.stages.uses import host_variables


def make_columns_first(roots: tuple[Array, ...], tables: Tables) -> tuple[Array, ...]:
    """Copies columns that are read along the last axis, once for each index along another one, to rows first."""
    return _made_first(roots, _columns, "column", tables)


def make_functions_first(roots: tuple[Array, ...], tables: Tables) -> tuple[Array, ...]:
    """Computes functions of the index along a map's last axis first, instead of once for each index along another one."""
    return _made_first(roots, _functions, "row", tables)


def _made_first(
    roots: tuple[Array, ...], find: Callable[[Generate | Update, Set[Var]], set[Node]], kind: str, tables: Tables
) -> tuple[Array, ...]:
    nodes = topological(*roots)
    hosts = host_variables(nodes)
    found = {node: parts for node in nodes if isinstance(node, Generate | Update) and (parts := find(node, hosts))}
    if not found:
        return roots
    memo: dict[Node, Node] = {}
    for node, new in tables.renewed(nodes, memo):
        if node in found:
            memo[node] = with_early_reads(node, new, found[node], memo, tables, kind)  # type: ignore[arg-type]
            tables.carry(new, memo[node])
    return rewritten(roots, memo)


def _functions(form: Generate | Update, hosts: Set[Var]) -> set[Node]:
    """Returns the largest float expressions with functions in them that depend on the last axis of a map, and not on all others."""
    if not isinstance(form, Generate) or len(form.axes) < 2 or is_short(form.axes[-1].extent):
        return set()
    own = {axis.var for axis in form.axes}
    found: set[Node] = set()
    stack: list[Node] = list(form.bodies)
    evaluated = set(evaluated_nodes(form.bodies))
    seen: set[Node] = set()
    while stack:
        node = stack.pop()
        if node in seen or node not in evaluated or isinstance(node, Result | Parameter):
            continue
        seen.add(node)
        if _is_function_of_last(node, form, own, hosts):
            found.add(node)
        else:
            stack += children(node)
    return found


def _is_function_of_last(node: Node, form: Generate, own: Set[Var], hosts: Set[Var]) -> bool:
    if not isinstance(node, Op) or not node.dtype.is_float:
        return False
    used = free_variables(node)
    others = [axis.extent for axis in form.axes if axis.var not in used]
    if form.axes[-1].var not in used or used - own - hosts or all(map(is_short, others)):
        return False
    inside = scalar_nodes(node)
    return any(isinstance(e, Op) and e.name in FUNCTIONS for e in inside) and not any(map(_may_not_come_first, inside))


def _may_not_come_first(node: Node) -> bool:
    """Whether an expression cannot be hoisted: it may fault, or not terminate, or is no plain scalar."""
    return can_fault(node) or not isinstance(node, Op | Load | Var | SizeVar | Const | Count)


def _columns(form: Generate | Update, hosts: Set[Var]) -> set[Node]:
    """Returns the loads of columns along the last axis of a form that do not depend on all of its axes."""
    if len(form.axes) < 2 or is_short(form.axes[-1].extent):
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
    if all(map(is_short, others)) or free_variables(load) - own - hosts:
        return False
    width = ix.constant_value(load.array.shape[-1])
    return width is None or width * load.dtype.itemsize > LINE
