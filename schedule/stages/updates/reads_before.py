"""Loads of old elements before an array changes, for expressions that read both the old and the changed array.

    new = m with [i] = u;  new[j] − m[i]          →   old = m[i];  new = m with [i] = u;  new[j] − old
    m with [i] = u, then with [j] ← max(·, m[i])  →   old = m[i];  m with [i] = u, then with [j] ← max(·, old)
    m'[i, j] = m[i, j] − m[i, k] · m[k, j]        →   c = m[:, k];  r = m[k, :];  m'[i, j] = m[i, j] − c[i] · r[j]
    while: m with [j] = …, as long as … > m[i]    →   old = m[i];  while: m with [j] = …, as long as … > old

Such a reader cannot run before the change, so the array could not change in place. Only fewer elements than the array has are loaded early:
their indices do not depend on all axes of the reader. It is done in loops, where the copy would be made in every iteration. In the third
line m is the state of a loop, and m' its next value: each element then reads its own alone, and m' takes the memory of m.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from raido.algo.graph.expr import (
    Array,
    ArrayLoop,
    ArrayWhile,
    Axis,
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
    rewritten,
    scalar_nodes,
    topological,
)
from raido.schedule.stages.checks import made_for_elements
from raido.schedule.stages.tables import Tables
from raido.schedule.stages.updates.order import Order
from raido.schedule.stages.updates.partial import updates_of
from raido.schedule.stages.uses import loops_around


def read_before_changes(roots: tuple[Array, ...], tables: Tables) -> tuple[Array, ...]:
    """Makes maps in loops load a few old elements of an array before the array changes."""
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
    early |= _rows_of_states(nodes, order, tables)
    inner = [node for node in nodes if isinstance(node, ArrayLoop | ArrayWhile) and order.paths.get(node)]
    homes = loops_around(nodes) if inner else {}
    for loop in inner:
        early |= _read_by_iterations(loop, nodes, order, homes)
    if not early:
        return roots
    memo: dict[Node, Node] = {}
    for node, new in tables.renewed(nodes, memo):
        if isinstance(node, Generate | Update):
            memo[node] = with_early_reads(node, new, early, memo, tables)
            tables.carry(node, memo[node])
    return rewritten(roots, memo)


def _read_by_iterations(
    loop: ArrayLoop | ArrayWhile, nodes: Sequence[Node], order: Order, homes: Mapping[Node, Collection[Node]]
) -> set[Node]:
    """Returns the loads of a few elements of a loop's initial arrays in its iterations, or in readers of its results, at indices
    independent of the iteration.

    homes: the loops around each node.
    """
    begun = [array for array in loop.init if array.shape]
    reading = {form: array for array in begun for form in order.readers.get(array, {}) if form is not loop}
    if not reading:
        return set()
    after = _depending_on(loop, nodes)
    found: set[Node] = set()
    for form, array in reading.items():
        if isinstance(form, Generate | Update) and (form in after or loop in homes[form]):
            few = [load for load in _few(form, array) if loop not in homes[load]]
            found |= {load for load in few if after.isdisjoint(scalar_nodes(*load.indices))}
    return found


def _changed(form: Node, order: Order, tables: Tables) -> Sequence[Array]:
    """Returns the arrays of which a form changes a part."""
    if isinstance(form, Update):
        return form.dest
    if not isinstance(form, Generate) or len(form.bodies) != 1:
        return ()
    found = updates_of(form, tables, order.assumptions)
    return found[0].update.dest if 0 in found else ()


def _rows_of_states(nodes: Sequence[Node], order: Order, tables: Tables) -> set[Node]:
    """Returns the few old elements that maps read to compute a loop's next state, if the others that they read of it are their own."""
    found: set[Node] = set()
    for loop in nodes:
        if not isinstance(loop, ArrayLoop | ArrayWhile):
            continue
        for state, result in zip(loop.state, loop.results, strict=True):
            form = _map_of_state(result, order, tables)
            if form is None or order.paths[form] != (*order.paths[loop], (loop, "body")):
                continue
            after = _depending_on(form, nodes)
            few = [load for load in _few(form, state) if not reads_own(form, load)]
            rest = [load for load in loads_in(form) if load.array is state and load not in few]
            late = [other for other in order.readers.get(state, ()) if other in after and other is not form]
            for other in late:  # partial changes of the map's result may also read the old state
                few += (reads := _few(other, state) if isinstance(other, Generate | Update) else [])
                rest += [load for load in loads_in(other) if load.array is state and load not in reads]
            if few and makes_in_place(form, state, rest) and state not in order.kept:
                found |= {load for load in few if after.isdisjoint(scalar_nodes(*load.indices))}
    return found


def _map_of_state(result: Array, order: Order, tables: Tables) -> Generate | None:
    """Returns the map that computes a loop's next state, or the array that later partial changes begin with, if it has no other reader;
    else None.
    """
    while isinstance(result, Result):
        form = result.form
        changed = _changed(form, order, tables)
        if not changed:
            return form if isinstance(form, Generate) else None
        if len(changed) > 1 or order.readers[changed[0]].keys() != {form}:
            return None
        (result,) = changed
    return None


def makes_in_place(form: Generate, state: Array, loads: Sequence[Load]) -> bool:
    """Whether a map computes an array of a state's shape, each element from its own: `loads` are its reads of the state."""
    same = len(form.bodies) == 1 and state.shape == tuple(axis.extent for axis in form.axes)
    return same and state.dtype is form.bodies[0].dtype and bool(loads) and all(reads_own(form, load) for load in loads)


def reads_own(form: Generate, load: Load) -> bool:
    """Whether each element reads the element at its own index."""
    return load.indices == tuple(axis.var for axis in form.axes) and not load.checked


def _few(form: Generate | Update, array: Array) -> list[Load]:
    """Returns the loads of an array whose indices depend on fewer axes than it has dimensions, and that are evaluated at every index."""
    own = {axis.var for axis in form.axes}
    values = (*form.values, *form.indices) if isinstance(form, Update) else form.bodies
    known = own | free_variables(form)
    reads = [node for node in evaluated_nodes(values) if isinstance(node, Load) and node.array is array]
    return [
        load for load in reads if free_variables(load) <= known and len(free_variables(load) & own) < len(array.shape)
    ]


def _depending_on(form: Node, nodes: Sequence[Node]) -> set[Node]:
    """Returns the nodes that depend on a form."""
    found = {form}
    for node in nodes:
        if any(child in found for child in children(node)):
            found.add(node)
    return found


def with_early_reads(
    old: Generate | Update, new: Node, early: Collection[Node], memo: dict[Node, Node], tables: Tables, kind: str = ""
) -> Node:
    """Returns a form with some loads, or other values, computed by forms of their own of that kind."""
    assert isinstance(new, Generate | Update)
    instead: dict[Node, Node] = {}
    made: dict[tuple[Node, ...], Node] = {}  # one form for loads equal up to axis names
    alike = [fresh("x") for _ in new.axes]
    for load in scalar_nodes(old):
        if load in early:
            used = _axes_of(memo[load], new.axes)
            names: dict[Node, Node] = {axis.var: var for axis, var in zip(used, alike, strict=False)}
            key = (*tables.substitute((memo[load],), names), *(axis.extent for axis in used))
            if key not in made:
                made[key] = _made_before(memo[load], new.axes, tables, kind)
            instead[memo[load]] = Load(Result(made[key], 0), tuple(axis.var for axis in used), False)
    if not instead:
        return new
    return tables.renew(scalar_nodes(new), instead)[new]


def _axes_of(load: Node, axes: Sequence[Axis]) -> list[Axis]:
    """Returns the axes that a load's index, or another value, depends on."""
    mentioned = scalar_nodes(load)
    return [axis for axis in axes if axis.var in mentioned]


def _made_before(load: Node, axes: Sequence[Axis], tables: Tables, kind: str) -> Generate:
    """Returns a map that computes a load alone, over the axes that it depends on."""
    used = _axes_of(load, axes)
    new, (value,) = tables.over_new_axes((load,), used)
    others = [axis.extent for axis in axes if axis not in used]
    made = Generate(new, (made_for_elements(value, others),))
    if kind:
        tables.kinds[made] = kind
    return made
