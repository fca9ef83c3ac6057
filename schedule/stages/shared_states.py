"""Common subexpressions of an array loop's next state and of an update in the same iteration: the update loads the state.

    for t: level' = f(level, x[t]);  out with [t] = f(level, x[t])      →      for t: level' = f(level, x[t]);  out with [t] = level'

`rd.loop` over a scalar and an array that keeps its values is traced so, and a mapped one becomes the same over arrays. The state is
computed in any case; where `f` costs more than storing and loading a value (`is_cheaper_made_twice`), as a loop inside does, it is not
computed twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations

from raido.algo.graph.cost import cost_of_element, is_cheaper_made_twice
from raido.algo.graph.expr import Array, ArrayLoop, ArrayWhile, Expr, Generate, Load, Node, Result, Update
from raido.algo.graph.rewrite import rebuild, rewritten, scalar_nodes, topological
from raido.schedule.stages.tables import Tables


def share_states(roots: tuple[Array, ...], tables: Tables) -> tuple[Array, ...]:
    """Makes updates load the next states that they would compute again."""
    for _ in topological(*roots):  # each iteration replaces one update, for good
        nodes = topological(*roots)
        loops = [node for node in nodes if isinstance(node, ArrayLoop | ArrayWhile)]
        states = [state for loop in loops for state in dict.fromkeys(loop.results) if _is_worth_keeping(state)]
        updates = [node for node in nodes if isinstance(node, Update)] if states else []
        found = ((update, _reading(update, states, tables)) for update in updates)  # type: ignore[arg-type]
        change = next(((old, new) for old, new in found if old is not new), None)
        if change is None:
            break
        roots = _replaced(roots, *change, tables)
    return roots


def _is_worth_keeping(state: Array) -> bool:
    """Whether a next state is computed by a map that costs more than storing and loading it."""
    if not isinstance(state, Result) or not isinstance(state.form, Generate) or len(state.form.axes) > 2:
        return False
    return not is_cheaper_made_twice(cost_of_element((state.form.bodies[state.index],)))


def _reading(update: Update, states: list[Result], tables: Tables) -> Update:
    """Returns an update that loads these states where it evaluated their elements."""
    within = scalar_nodes(*update.values)
    every = set(within)
    instead: dict[Node, Node] = {}
    for state in states:
        for element, load in _elements(state, update, tables):
            if element in every:
                instead.setdefault(element, load)
    if not instead:
        return update
    for element, load in instead.items():
        tables.carry(element, load)
    tables.renew(within, instead)
    values = tuple(instead[value] for value in update.values)
    new = rebuild(update, lambda child: values[update.values.index(child)] if child in update.values else child)
    assert isinstance(new, Update)
    tables.carry(update, new)
    return new


def _elements(state: Result, update: Update, tables: Tables) -> Iterator[tuple[Expr, Load]]:
    """Yields the elements of a state at the axes of an update, each as an expression and as a load."""
    form = state.form
    assert isinstance(form, Generate)
    for axes in permutations(update.axes, len(form.axes)):
        if all(own.extent is other.extent for own, other in zip(form.axes, axes, strict=True)):
            names: dict[Node, Node] = {own.var: other.var for own, other in zip(form.axes, axes, strict=True)}
            (element,) = tables.substitute((form.bodies[state.index],), names)
            yield element, Load(state, tuple(axis.var for axis in axes), False)


def _replaced(roots: tuple[Array, ...], old: Update, new: Update, tables: Tables) -> tuple[Array, ...]:
    """Returns the graph with one form replaced by another, which does not depend on it."""
    memo: dict[Node, Node] = {}
    for node, _ in tables.renewed((*topological(new), *topological(*roots)), memo):
        if node is old:
            memo[node] = memo[new]
            tables.carry(node, memo[node])
    return rewritten(roots, memo)
