"""Turns array loops that change one element into loops of a scalar (scalar replacement; Callahan, Carr & Kennedy 1990).

    loop(n, (k, z) -> z with [i, j] = f(k, z[i, j]), z0)   →   z0 with [i, j] = loop(n, (k, s) -> f(k, s), z0[i, j])

The element is a register while the loop runs, and the loops around it see a single change.
"""

from __future__ import annotations

from raido.algo.graph import index as ix
from raido.algo.graph.assumptions import Assumptions
from raido.algo.graph.expr import Array, ArrayLoop, Axis, Item, Load, Loop, Node, Result, Update, fresh, fresh_axes
from raido.algo.graph.rewrite import children, free_variables, topological
from raido.schedule.stages.changed_elements import Elements, changed_indices
from raido.schedule.stages.tables import Tables


def changed_by_scalar_loop(loop: ArrayLoop, assumptions: Assumptions, tables: Tables) -> dict[int, Array]:
    """Returns the results of a loop that changes one element of one array; an empty dictionary for other loops."""
    pairs = list(zip(loop.state, loop.results, strict=True))
    constant: dict[Node, Array] = {state: loop.init[k] for k, (state, after) in enumerate(pairs) if state is after}
    changed = [k for k, state in enumerate(loop.state) if state not in constant]
    if len(changed) != 1 or not loop.state[changed[0]].shape:
        return {}
    (k,) = changed
    state, after, start = loop.state[k], loop.results[k], loop.init[k]
    if after.shape != state.shape or start.shape != state.shape:
        return {}
    elements = Elements(loop.state, assumptions, tables)
    own = tuple(axis.var for axis in fresh_axes(state.shape))
    value = elements.of(after, own)
    indices = {} if value is None else {d: e for d, e, by in changed_indices(value, state, own, loop) if by == 0}
    at = tuple(indices[d] for d in sorted(indices))
    inside = zip(at, state.shape, strict=False)
    if len(at) < len(own) or not all(assumptions.nonnegative(e) and assumptions.less(e, n) for e, n in inside):
        return {}
    body = elements.of(after, at)
    if body is None:
        return {}
    number = fresh(state.name, state.dtype)
    values: dict[Node, Node] = {**constant}
    for node in topological(body):
        if isinstance(node, Load) and node.array is state:
            if any(ix.difference(e, index) != 0 for e, index in zip(node.indices, at, strict=True)):
                return {}
            values[node] = number
        elif state in children(node) or (isinstance(node, Result) and loop.index in free_variables(node)):
            return {}
    (body,) = tables.substitute((body,), values)
    made = Loop(loop.count, loop.index, (number,), (Load(start, at, False),), (body,))
    tables.sites.update({made: tables.sites[loop]} if loop in tables.sites else {})
    step = (Axis(fresh("r"), ix.as_index(1)),)
    changes = Update((start,), step, at, (), (), (), (), (Item(made, 0),), "set", False, "")
    tables.pass_names(loop, changes)
    return {m: Result(changes, 0) if m == k else loop.init[m] for m in range(len(pairs))}
