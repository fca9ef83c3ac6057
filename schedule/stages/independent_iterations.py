"""Turns loops with independent iterations over array elements into maps (DOALL loops; Allen & Kennedy, Optimizing Compilers, ch. 2).

    loop(n, (i, z) -> z with [i + 1] = f(i, z[i + 1]), z0)   →   map(x: f(x - 1, z0[x]) where 1 <= x and x - 1 < n, else z0[x])

A state is independent if iteration i changes at most the elements whose index along one dimension is c + i or c - i, and reads, of all
independent states, no element that an earlier iteration changed: every element read still has its initial value. The other states of the
loop remain a loop (loop distribution), in which elements that an iteration has just changed are read from the finished map.
Where no state is independent, elements that no iteration has changed yet are read from the state, not from its initial array.

Loops inside go first: one over rows, whose iterations loop over columns, becomes one map. Indices of changes must be provably in range.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from raido.algo.graph import index as ix
from raido.algo.graph.assumptions import Assumptions
from raido.algo.graph.cost import cost_of_element, is_cheaper_made_twice, operations
from raido.algo.graph.dtypes import bool_, i64
from raido.algo.graph.expr import (
    Array,
    ArrayLoop,
    ArrayWhile,
    Axis,
    Count,
    Expr,
    Generate,
    Load,
    Node,
    Op,
    Reduce,
    Result,
    Update,
    Var,
    While,
    conjunction,
    fresh_axes,
    if_else,
)
from raido.algo.graph.faults import can_fault, is_index_of
from raido.algo.graph.rewrite import children, free_variables, rewritten, scalar_nodes, topological
from raido.schedule.stages.changed_elements import Elements, changed_indices, folded
from raido.schedule.stages.element_loops import changed_by_scalar_loop
from raido.schedule.stages.inline import inline_moves
from raido.schedule.stages.tables import Tables, fold_constants
from raido.schedule.stages.updates.order import assumptions_of


def map_independent_iterations(roots: tuple[Array, ...], tables: Tables) -> tuple[Array, ...]:
    """Turns the independent states of all array loops into maps."""
    nodes = topological(*roots)
    loops = [node for node in nodes if isinstance(node, ArrayLoop)]
    if tables.as_loops or not loops:
        return roots
    memo, mapped = _rewritten(nodes, frozenset(), tables)
    if not mapped:
        return rewritten(roots, memo)
    left = frozenset(loop.index for loop in loops if isinstance(memo[loop], ArrayLoop) and loop not in mapped)
    if any(not left.isdisjoint(scalar_nodes(loop.count)) for loop in loops if loop in mapped):
        memo, mapped = _rewritten(nodes, left, tables)
    tables.mapped = True
    return inline_moves(rewritten(roots, memo), tables)


def _rewritten(
    nodes: Sequence[Node], counters: frozenset[Var], tables: Tables
) -> tuple[dict[Node, Any], dict[Node, Mapping[int, Array]]]:
    """Returns the rewritten nodes, and the results of the loops that have become maps; `counters`: those of loops that stay loops."""
    assumptions = assumptions_of(nodes)
    memo: dict[Node, Any] = {}
    mapped: dict[Node, Mapping[int, Array]] = {}
    for node, new in tables.renewed(nodes, memo):
        if isinstance(node, ArrayLoop):
            found = _mapped(new, counters, assumptions, tables) or changed_by_scalar_loop(new, assumptions, tables)
            if found:
                mapped[node] = found
            else:
                memo[node] = _with_one_array(new, assumptions, tables)
        elif isinstance(node, Result) and node.form in mapped:
            memo[node] = mapped[node.form][node.index]
    return memo, mapped


@dataclass(slots=True)
class _Change:
    """The elements of a state that iterations change: those whose index along axis `along` is `index`, in terms of the loop's counter.

    `value`: the element at `axes` after an iteration. `direction`: 1 if `index` increases with the counter, −1 if it decreases.
    """

    axes: tuple[Axis, ...]
    value: Expr
    along: int
    index: Expr
    direction: int

    def iteration(self, loop: ArrayLoop) -> Expr:
        """Returns the number of the iteration that changes the element at `axes`."""
        start = ix.sub(self.index, ix.mul(loop.index, self.direction))
        return ix.mul(ix.sub(self.axes[self.along].var, start), self.direction)

    def is_unchanged(self, indices: Sequence[Expr], index: Expr) -> bool:
        """Whether an element has its initial value when an iteration begins that changes the elements at `index`."""
        distance = ix.difference(indices[self.along], index)
        return distance is not None and distance * self.direction >= 0


def _mapped(loop: ArrayLoop, counters: frozenset[Var], assumptions: Assumptions, tables: Tables) -> dict[int, Array]:
    """Returns the results of a loop, those of independent states as maps; an empty dictionary where no state is independent."""
    pairs = list(zip(loop.state, loop.results, strict=True))
    initial = {k: loop.init[k] for k, (state, after) in enumerate(pairs) if state is after}
    axes_of = {state.shape: fresh_axes(state.shape) for state in loop.state}
    found = {k: _change_of(loop, k, axes_of[state.shape], assumptions, tables) for k, (state, _) in enumerate(pairs)}
    changes = {k: change for k, change in found.items() if change is not None}
    values: dict[int, Expr] = {}
    while changes:
        values = {k: _in_its_iteration(change.value, change, loop, tables) for k, change in changes.items()}
        dependent = [
            k for k in changes if not _reads_initial_values(values[k], changes[k], loop, changes, initial, tables)
        ]
        if not dependent:
            break
        for k in dependent:
            del changes[k]
    left = [k for k in range(len(pairs)) if k not in changes and k not in initial]
    if not changes:
        return {}
    arrays = initial | _maps(loop, changes, values, counters, assumptions, tables)
    rest = _rest(loop, left, changes, arrays, tables) if left else ()
    parts = [[change.value for change in changes.values() if change.axes is axes] for axes in axes_of.values()]
    if rest is None or _is_computed_twice(loop, [*parts, rest]):
        return {}
    if rest:
        kept = (tuple(part[k] for k in left) for part in (loop.state, loop.init))
        made = ArrayLoop(loop.count, loop.index, *kept, rest)
        tables.carry(loop, made)
        arrays |= {k: Result(made, index) for index, k in enumerate(left)}
    return arrays


def _with_one_array(loop: ArrayLoop, assumptions: Assumptions, tables: Tables) -> ArrayLoop:
    """Returns a loop that reads a state where it read the state's initial array at elements that no iteration has changed yet.

    Nothing reads the initial array beside the state then, so that the loop may change it in place.
    """
    states = {start: k for k, start in enumerate(loop.init) if loop.results[k] is not loop.state[k]}
    loads = [n for n in topological(*loop.results) if isinstance(n, Load) and n.array in states]
    read = {states[load.array] for load in loads}
    changes = {k: _change_of(loop, k, fresh_axes(loop.state[k].shape), assumptions, tables) for k in read}
    memo: dict[Node, Any] = {}
    for load in loads:
        k = states[load.array]
        if (change := changes[k]) is not None and change.is_unchanged(load.indices, change.index):
            memo[load] = Load(loop.state[k], load.indices, load.checked)
    if not memo:
        return loop
    results = rewritten(loop.results, tables.renew(topological(*loop.results), memo))
    made = ArrayLoop(loop.count, loop.index, loop.state, loop.init, results)
    tables.carry(loop, made)
    return made


def _change_of(
    loop: ArrayLoop, k: int, axes: tuple[Axis, ...], assumptions: Assumptions, tables: Tables
) -> _Change | None:
    """Returns the change of a state of which each iteration changes other elements; None for other states."""
    state, after, own = loop.state[k], loop.results[k], tuple(axis.var for axis in axes)
    if not axes or after is state or any(array.shape != state.shape for array in (after, loop.init[k])):
        return None
    value = Elements(loop.state, assumptions, tables).of(after, own)
    if value is None:
        return None
    found = (_Change(axes, value, d, e, by) for d, e, by in changed_indices(value, state, own, loop) if by)
    return next(found, None)


def _in_its_iteration(e: Expr, change: _Change, loop: ArrayLoop, tables: Tables) -> Expr:
    """Returns an expression as it is in the iteration that changes the element at the axes of `change`."""
    return tables.rewrite((e,), folded, {loop.index: change.iteration(loop)})[0]


def _reads_initial_values(
    e: Expr,
    change: _Change,
    loop: ArrayLoop,
    changes: Mapping[int, _Change],
    initial: Collection[int],
    tables: Tables,
) -> bool:
    """Whether all elements of states that an expression reads have their initial values in the iteration of `change`."""
    indices: dict[Node, tuple[_Change, Expr]] = {
        loop.state[m]: (its, _in_its_iteration(its.index, change, loop, tables)) for m, its in changes.items()
    }
    constant = {loop.state[m] for m in initial}
    for node in topological(e):
        if isinstance(node, Load) and node.array in indices:
            its, index = indices[node.array]
            if not its.is_unchanged(node.indices, index):
                return False
        elif any(child in loop.state and child not in constant for child in children(node)):
            return False
    return True


def _maps(
    loop: ArrayLoop,
    changes: Mapping[int, _Change],
    values: Mapping[int, Expr],
    counters: frozenset[Var],
    assumptions: Assumptions,
    tables: Tables,
) -> dict[int, Array]:
    """Returns the final arrays of independent states: states of one shape are the results of one map."""
    states = dict(zip(loop.state, loop.init, strict=True))
    ends = tables.substitute([values[k] for k in changes], states)
    groups: dict[tuple[Axis, ...], list[int]] = {}
    bodies: dict[int, Expr] = {}
    for (k, change), value in zip(changes.items(), ends, strict=True):
        var, extent = change.axes[change.along].var, change.axes[change.along].extent
        at = change.iteration(loop)
        inside = assumptions.with_range(var, 0, ix.sub(extent, 1))
        tests: list[Expr] = [] if inside.nonnegative(at) else [Op("ge", bool_, (at, ix.as_index(0)))]
        tests += [] if inside.less(at, loop.count) else [Op("lt", bool_, (at, loop.count))]
        old = Load(loop.init[k], tuple(axis.var for axis in change.axes), False)
        bodies[k] = _chosen(tests, value, old, change, loop, counters, assumptions, tables) if tests else value
        groups.setdefault(change.axes, []).append(k)
    arrays: dict[int, Array] = {}
    for axes, members in groups.items():
        made = Generate(axes, tuple(bodies[k] for k in members))
        tables.pass_names(loop, made)
        tables.kinds[made] = "loop"
        arrays |= {k: Result(made, index) for index, k in enumerate(members)}
    return arrays


def _chosen(
    tests: list[Expr],
    value: Expr,
    old: Load,
    change: _Change,
    loop: ArrayLoop,
    counters: frozenset[Var],
    assumptions: Assumptions,
    tables: Tables,
) -> Expr:
    """Returns the final element of a state: `value` where it changes, else the initial one.

    Where sizes and counters of loops around decide which elements change, the changed ones are a box, and `value` reads at indices clamped
    into it, as a slice's does.
    """
    var, at = change.axes[change.along].var, change.iteration(loop)
    if not is_index_of(loop.count, lambda node: isinstance(node, Count) or node in counters):
        return if_else(conjunction(tests), (value,), (old,))[0]
    clamped = Op("clamp_index", i64, (at, loop.count))
    index = ix.add(var, ix.mul(ix.sub(clamped, at), change.direction))
    (value,) = tables.rewrite((value,), fold_constants, {var: index, old: old})
    if isinstance(value, Op) and value.name == "select" and value.args[2] is old and not _may_fail(value.args[0], var):
        tests, value = [*tests, value.args[0]], value.args[1]
    if not assumptions.less(0, loop.count) and _may_fail(value, var):
        return if_else(conjunction(tests), (value,), (old,))[0]
    return Op("select", value.dtype, (conjunction(tests), value, old))


def _may_fail(e: Expr, var: Var) -> bool:
    """Whether an element may fault, or not terminate, itself or in arrays that depend on `var`."""
    inside = (n for n in topological(e) if var in free_variables(n))
    return any(can_fault(n) or isinstance(n, ArrayWhile | While) for n in (*scalar_nodes(e), *inside))


def _rest(
    loop: ArrayLoop, left: Sequence[int], changes: Mapping[int, _Change], arrays: Mapping[int, Array], tables: Tables
) -> tuple[Array, ...] | None:
    """Returns what an iteration makes of the other states, with elements read from finished maps; None where it reads more of them than
    initial values, and those that the iteration itself changes.
    """
    memo: dict[Node, Any] = {}
    starts = {loop.state[m]: m for m in arrays}
    ends = {loop.results[m]: m for m in changes}
    stored: dict[Node, Load] = {n: at for m in changes for n, at in _stored(loop.results[m], arrays[m])}
    for node, new in tables.renewed(topological(*(loop.results[k] for k in left)), memo):
        if node in stored:
            memo[node] = stored[node]
        elif isinstance(node, Load) and node.array in starts:
            m = starts[node.array]
            if m not in changes or changes[m].is_unchanged(node.indices, changes[m].index):
                memo[node] = Load(loop.init[m], new.indices, new.checked)
        elif isinstance(node, Load) and node.array in ends:
            m = ends[node.array]
            if ix.difference(node.indices[changes[m].along], changes[m].index) == 0:
                memo[node] = Load(arrays[m], new.indices, new.checked)
    results = tuple(memo[loop.results[k]] for k in left)
    return results if starts.keys().isdisjoint(topological(*results)) else None


def _stored(array: Array, final: Array) -> Iterator[tuple[Expr, Load]]:
    """Yields the value that an iteration stores in a single element, if it is more than one load, and its element of the final array."""
    form = array.form if isinstance(array, Result) else None
    if isinstance(form, Update) and form.mode != "combine" and all(ix.constant_value(a.extent) == 1 for a in form.axes):
        zero = {axis.var: ix.as_index(0) for axis in form.axes}
        if cost_of_element(form.values) > 1 and zero.keys().isdisjoint(topological(*form.values, *form.indices)):
            yield form.values[0], Load(final, form.indices, False)


def _is_computed_twice(loop: ArrayLoop, parts: Sequence[Sequence[Node]]) -> bool:
    """Whether several parts of an iteration have values in common that are cheaper to keep than to compute twice."""
    seen: set[Node] = set()
    common: set[Node] = set()
    for part in parts:
        own = {n for n in topological(*part) if loop.index in free_variables(n)}
        common |= own & seen
        seen |= own
    loads = sum(isinstance(n, Load) for n in common)
    return any(isinstance(n, Reduce) for n in common) or not is_cheaper_made_twice(operations(common) + loads)
