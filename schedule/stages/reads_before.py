"""Old elements that meet the changed array in one expression, read before it changes.

    new = m with [i] = u;  new[j] − m[i]          →   old = m[i];  new = m with [i] = u;  new[j] − old
    m with [i] = u, then with [j] ← max(·, m[i])  →   old = m[i];  m with [i] = u, then with [j] ← max(·, old)

Who reads both cannot run before the change, and the array could not change where it is. What is read before is fewer elements than the
array has: its places do not depend on all axes of the reader. This is for loops, where the copy would be made in every iteration.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from raido.algo.graph.expr import (
    Array,
    ArrayLoop,
    ArrayWhile,
    Axis,
    Expr,
    Generate,
    Load,
    Node,
    Result,
    Update,
    fresh,
)
from raido.algo.graph.rewrite import (
    children,
    evaluated_nodes,
    free_variables,
    loads_in,
    rebuild,
    rewritten,
    scalar_nodes,
    topological,
)
from raido.schedule.stages.checks import made_for_elements
from raido.schedule.stages.order import Order
from raido.schedule.stages.partial import updates_of
from raido.schedule.stages.tables import Tables


def read_before_changes(roots: tuple[Array, ...], tables: Tables) -> tuple[Array, ...]:
    """The graph in which no map in a loop reads a few old elements of an array after the array has changed."""
    nodes = topological(*roots)
    if not any(isinstance(node, ArrayLoop | ArrayWhile) for node in nodes):
        return roots
    order = Order(roots, {}, tables)
    changes = [(form, dest) for form in nodes if order.paths.get(form) for dest in _changed(form, order, tables)]
    early: set[Node] = set()
    for change, dest in changes:
        readers = [
            form for form in order.readers.get(dest, {}) if form is not change and isinstance(form, Generate | Update)
        ]
        readers = [form for form in readers if order.paths[form] == order.paths[change]]
        found = {form: loads for form in readers if (loads := _few(form, dest))}
        after = _depending_on(change, nodes) if found else set()
        for form, loads in found.items():
            if form in after:
                early |= {load for load in loads if after.isdisjoint(scalar_nodes(*load.indices))}
    if not early:
        return roots
    memo: dict[Node, Node] = {}
    for node in nodes:
        memo[node] = rebuild(node, memo.__getitem__)
        if isinstance(node, Generate | Update):
            memo[node] = with_early_reads(node, memo[node], early, memo, tables)
        tables.carry(node, memo[node])
    return rewritten(roots, memo)


def _changed(form: Node, order: Order, tables: Tables) -> Sequence[Array]:
    """The arrays that a form changes a part of."""
    if isinstance(form, Update):
        return form.dest
    if not isinstance(form, Generate) or len(form.bodies) != 1:
        return ()
    found = updates_of(form, tables, order.facts)
    return found[0].update.dest if 0 in found else ()


def _few(form: Generate | Update, array: Array) -> list[Load]:
    """The reads of an array whose places depend on fewer axes than it has, and on nothing inside, evaluated at every index."""
    own = {axis.var for axis in form.axes}
    values = (*form.values, *form.indices) if isinstance(form, Update) else form.bodies
    known = own | free_variables(form)
    reads = [node for node in evaluated_nodes(values) if isinstance(node, Load) and node.array is array]
    return [
        load for load in reads if free_variables(load) <= known and len(free_variables(load) & own) < len(array.shape)
    ]


def _depending_on(form: Node, nodes: Sequence[Node]) -> set[Node]:
    """The nodes that need what a form makes."""
    found = {form}
    for node in nodes:
        if any(child in found for child in children(node)):
            found.add(node)
    return found


def with_early_reads(
    old: Generate | Update, new: Node, early: Collection[Node], memo: dict[Node, Node], tables: Tables, kind: str = ""
) -> Node:
    """A form that has some reads made by forms of their own, of that kind."""
    assert isinstance(new, Generate | Update)
    instead: dict[Node, Node] = {}
    for load in loads_in(old):
        if load in early:
            instead[memo[load]] = _made_before(memo[load], new.axes, tables, kind)
    if not instead:
        return new
    for node in scalar_nodes(new):
        if node not in instead:
            instead[node] = rebuild(node, lambda child: instead.get(child, child))
            tables.carry(node, instead[node])
    return instead[new]


def _made_before(load: Node, axes: Sequence[Axis], tables: Tables, kind: str) -> Load:
    """An element read from an array that is made of such reads alone, over the axes that they depend on."""
    assert isinstance(load, Load)
    mentioned = scalar_nodes(*load.indices)
    used = [axis for axis in axes if axis.var in mentioned]
    fresh_axes = tuple(Axis(fresh(axis.name), axis.extent) for axis in used)
    names: dict[Node, Node] = {old.var: new.var for old, new in zip(used, fresh_axes, strict=True)}
    (value,) = tables.rewrite((load,), lambda node: node, names)
    others = [axis.extent for axis in axes if axis not in used]
    made = Generate(fresh_axes, (made_for_elements(value, others),))
    if kind:
        tables.kinds[made] = kind
    own: tuple[Expr, ...] = tuple(axis.var for axis in used)
    return Load(Result(made, 0), own, False)
