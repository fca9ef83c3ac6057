"""Interchange of array loops with the maps around them (loop distribution).

    map(i: loop(n, row -> f(row), a[i]))   →   loop(n, A -> map(i: f(A[i])), a)

The states of all elements form one array with the maps' axes in front, so that the loop is closed and its body is stages like any other.
A loop down columns keeps the innermost of these axes behind in each state of which an iteration changes one element, at the same index for
all columns: the elements that an iteration accesses are then contiguous, for lanes.

    map(i: loop(n, k, o -> o with [k + 1] = f(o[k]), a[:, i]))   →   loop(n, k, O -> O with [k + 1, i] = f(O[k, i]) for all i, a)

Where trip counts differ between elements the loop runs as long as any element does; finished elements keep their state, and nothing of
their iteration is evaluated. Outer loops go first: the loops in their body are then open in fresh axes. Where the size of a state differs
between elements the array is as long as the longest; if the size changes, it is a state of the loop itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any, TypeVar

from raido.algo.errors import CompileError, explain
from raido.algo.graph import index as ix
from raido.algo.graph.assumptions import Assumptions
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
    Parameter,
    Result,
    Var,
    axes_like,
    fresh,
    fresh_axes,
    fresh_parameter,
    if_else,
    zeros,
)
from raido.algo.graph.reduction import fold_of
from raido.algo.graph.rewrite import free_variables, rebuild, rewritten, scalar_nodes, topological
from raido.schedule.stages.guard import guard_branches
from raido.schedule.stages.inline import go_down_columns, inline_moves
from raido.schedule.stages.tables import Tables
from raido.schedule.stages.updates.partial import updates_of
from raido.schedule.stages.uses import binders, host_variables

_LOOPS = (ArrayLoop, ArrayWhile)
T = TypeVar("T")


def distribute_loops(roots: tuple[Array, ...], tables: Tables) -> tuple[Array, ...]:
    """Closes all loops over arrays that mention variables of functions around them."""
    nodes = topological(*roots)
    if not any(isinstance(node, ArrayLoop | ArrayWhile) for node in nodes):
        return roots
    changed = False
    while True:
        hosts = host_variables(nodes)
        found = [n for n in nodes if isinstance(n, ArrayLoop | ArrayWhile) and free_variables(n) - hosts]
        if not found:
            break
        changed = True
        roots = _exchange(found[-1], free_variables(found[-1]) - hosts, roots, tables)
        nodes = topological(*roots)
    return guard_branches(inline_moves(roots, tables), tables) if changed else roots


def _exchange(
    form: ArrayLoop | ArrayWhile, outside: frozenset[Var], roots: tuple[Array, ...], tables: Tables
) -> tuple[Array, ...]:
    """Returns the graph with one loop closed."""
    order, axes_of, _ = binders(topological(*roots))
    if not outside <= axes_of.keys():
        raise CompileError("a loop over arrays inside an operator or a loop of scalars")
    outer = [axes_of[v] for v in sorted(outside, key=order.__getitem__)]
    loops = [node for node in topological(*roots) if isinstance(node, _LOOPS) and node is not form]
    around = {e for n in loops if form in topological(*n.results) for e in (*n.state, *_index(n))}
    behind = set() if around & set(topological(form)) else _changed_at_one_index(form, outer, tables)
    exchange = _Exchange(form, outer, tables, behind)
    closed = exchange.closed()
    if free_variables(closed) & outside:
        head = "a loop over arrays inside functions of rows of different sizes has no machine code yet"
        site = tables.sites.get(form)
        raise CompileError(
            explain(head, algorithm=site and str(site), **{"try": ".interpret(…), or rows of one size, and rd.where"})
        )
    tables.carry(form, closed)
    coordinates = tuple(axis.var for axis in outer)
    elements: dict[Node, Any] = {}
    sizes: dict[Any, Expr] = {}
    for k, state in sorted(enumerate(form.state), key=lambda pair: len(pair[1].shape)):
        own = fresh_axes(_with_counts(state.shape, sizes))
        body = Load(Result(closed, k), exchange.indices(state, coordinates, own), False)
        elements[Result(form, k)] = made = _move(own, body, tables)
        if state in exchange.sizes:
            longest = Count(Result(closed, exchange.longest_at[state]), None)
            elements[Count(Result(form, k), None)] = sizes[state] = Count(made, longest)
    return rewritten(roots, tables.renew(topological(*roots), dict(elements)))


class _Exchange:
    """One loop, with the axes of the maps around it."""

    def __init__(
        self, form: ArrayLoop | ArrayWhile, outer: Sequence[Axis], tables: Tables, behind: set[Parameter]
    ) -> None:
        self.form, self.outer, self.tables, self.behind = form, outer, tables, behind
        self.extents = [axis.extent for axis in outer]
        self.axes = axes_like(outer)
        self.coordinates = tuple(axis.var for axis in self.axes)
        self.values: dict[Node, Node] = {old.var: new.var for old, new in zip(outer, self.axes, strict=True)}
        self.private = self._private_sizes()
        counts = [
            n for p in form.state for n in scalar_nodes(*p.shape) if isinstance(n, Count) and n.array in form.state
        ]
        self.sizes: dict[Any, int] = {n.array: form.state.index(n.array) for n in counts}
        self.longest = {p: fresh_parameter("longest", i64, ()) for p in self.sizes}
        self.longest_at = {p: len(form.state) + k for k, p in enumerate(self.sizes)}
        most = {p: Count(longest, None) for p, longest in self.longest.items()}
        most |= {array: Count(longest, None) for array, (_, longest) in self.private.items()}
        self.state = tuple(
            fresh_parameter(p.name, p.dtype, self._joined(p, self.extents, _with_counts(p.shape, most)))
            for p in form.state
        )
        for old, new in zip(form.state, self.state, strict=True):
            tables.carry(old, new)
        if isinstance(form, ArrayLoop):  # a loop that stands in several functions becomes several loops
            self.index = self.values[form.index] = fresh(form.index.name, form.index.dtype)
        own_sizes: dict[Any, Expr] = {
            array: tables.substitute((Count(array, most[array]),), self.values)[0] for array in self.private
        }
        for old, new in sorted(zip(form.state, self.state, strict=True), key=lambda pair: len(pair[0].shape)):
            own = fresh_axes(_with_counts(old.shape, own_sizes))
            body = Load(new, self.indices(old, self.coordinates, own), False)
            self.values[old] = made = _move(own, body, tables)
            if old in self.sizes:
                self.values[Count(old, None)] = own_sizes[old] = Count(made, most[old])

    def _joined(self, state: Parameter, outer: Sequence[T], own: Sequence[T]) -> tuple[T, ...]:
        """Returns the maps' dimensions and the state's own in the order in which the array over all elements has them."""
        return (*outer[:-1], *own, *outer[-1:]) if state in self.behind else (*outer, *own)

    def indices(self, state: Parameter, outer: Sequence[Expr], own: Sequence[Axis]) -> tuple[Expr, ...]:
        """Returns the indices of a state's element in the array over all elements."""
        return self._joined(state, outer, [axis.var for axis in own])

    def _private_sizes(self) -> dict[Any, tuple[Result, Result]]:
        """Returns the loop-invariant sizes of states that differ between elements: as an array over all elements, and their maximum."""
        outside = {axis.var for axis in self.outer}
        found: dict[Any, tuple[Result, Result]] = {}
        for state in self.form.state:
            for node in scalar_nodes(*state.shape):
                if isinstance(node, Count) and free_variables(node) & outside and node.array not in found:
                    sizes = self._scalars(Load(node.array, (), False), "count")
                    longest = Generate((), (self._over(sizes, "maximum", 0),))
                    found[node.array] = sizes, self.tables.made(longest, "longest")
        return found

    def closed(self) -> ArrayLoop | ArrayWhile:
        """Returns the loop over all elements."""
        form = self.form
        before = {old.var: new for old, new in zip(self.outer, self.coordinates, strict=True)}
        init = self._all(form.init, before, None)
        state = (*self.state, *self.longest.values())
        if isinstance(form, ArrayWhile):
            going = self._scalars(form.condition, "condition")
            condition = self._over(going, "logical_or", False)
            return ArrayWhile(
                condition, state, init, self._all(form.results, self.values, Load(going, self.coordinates, False))
            )
        if not free_variables(form.count) & {axis.var for axis in self.outer}:
            return ArrayLoop(form.count, self.index, state, init, self._all(form.results, self.values, None))
        counts = self._scalars(form.count, "count")
        going_on = Op("lt", bool_, (self.index, Load(counts, self.coordinates, False)))
        count = self._over(counts, "maximum", 0)
        return ArrayLoop(count, self.index, state, init, self._all(form.results, self.values, going_on))

    def _scalars(self, e: Expr, kind: str) -> Result:
        """Returns a scalar of every element as an array over the outer axes."""
        (body,) = self.tables.substitute((e,), self.values)
        return self.tables.made(Generate(self.axes, (body,)), kind)

    def _over(self, array: Array, monoid: str, neutral: Any) -> Expr:
        """Returns the fold of an array over the outer axes."""
        axes = axes_like(self.outer)
        return fold_of(axes, Load(array, tuple(axis.var for axis in axes), False), monoid, neutral)

    def _all(self, arrays: Sequence[Array], values: Mapping[Any, Node], active: Expr | None) -> tuple[Array, ...]:
        """Returns the states of all elements, those of one shape computed by one form, and last the maxima of their sizes."""
        form = self.form
        groups: dict[tuple[tuple[Expr, ...], bool], list[int]] = {}
        for k, state in enumerate(form.state):
            groups.setdefault((state.shape, state in self.behind), []).append(k)
        results: dict[int, Array] = {}
        longest: dict[Any, Array] = {}
        for (shape, _), positions in sorted(groups.items(), key=lambda pair: len(pair[0][0])):
            chosen = [arrays[k] for k in positions]
            sizes = {p: results[s] for p, s in self.sizes.items()} if shape else {}
            made = self._spread(chosen, values, active, positions, sizes, longest)
            results |= dict(zip(positions, made, strict=True))
            if not shape:
                for p, s in self.sizes.items():
                    longest[p] = self.tables.made(Generate((), (self._over(results[s], "maximum", 0),)), "longest")
        return (*(results[k] for k in range(len(form.state))), *longest.values())

    def _spread(
        self,
        arrays: Sequence[Array],
        values: Mapping[Any, Node],
        active: Expr | None,
        positions: Sequence[int],
        sizes: Mapping[Any, Array],
        longest: Mapping[Any, Array],
    ) -> list[Result]:
        """Arrays of one element, for the states at `positions`, as arrays over the outer axes; old states where elements are not active.

        Where `sizes` of the elements differ the arrays are as long as the longest, and hold 0 beyond an element's own size.
        """
        state = self.form.state[positions[0]]
        shape = state.shape
        longest = {**longest, **{array: most for array, (_, most) in self.private.items()}}
        sizes = {**sizes, **{array: each for array, (each, _) in self.private.items()}}
        own = fresh_axes(_with_counts(shape, {p: Count(array, None) for p, array in longest.items()}))
        inner = tuple(axis.var for axis in own)
        bodies = self.tables.substitute(tuple(Load(a, inner, False) for a in arrays), values)
        if active is not None:
            kept = tuple(Load(self.state[k], self._joined(state, self.coordinates, inner), False) for k in positions)
            bodies = if_else(active, bodies, kept)
        limits = _with_counts(shape, {p: Load(array, self.coordinates, False) for p, array in sizes.items()})
        for axis, extent, limit in zip(own, shape, limits, strict=True):
            if limit is not extent:
                bodies = if_else(Op("lt", bool_, (axis.var, limit)), bodies, zeros(bodies))
        made = Generate(self._joined(state, self.axes, own), bodies)
        self.tables.kinds[made] = "map"
        return [Result(made, k) for k in range(len(bodies))]


def _changed_at_one_index(form: ArrayLoop | ArrayWhile, outer: Sequence[Axis], tables: Tables) -> set[Parameter]:
    """Returns the states of a loop down columns of which each iteration changes one element, at the same index for all columns."""
    outside = {axis.var for axis in outer}
    if not isinstance(form, ArrayLoop) or free_variables(form.count) & outside:
        return set()
    if not go_down_columns(topological(*form.init, *form.results), outer[-1].var, form.state):
        return set()
    pairs = zip(form.state, form.results, strict=True)
    return {state for state, after in pairs if _is_changed_at_one_index(after, state, outside, tables)}


def _is_changed_at_one_index(after: Array, state: Parameter, outside: Set[Var], tables: Tables) -> bool:
    """Whether the next state is the present one with single elements changed, at indices that are the same for all columns."""
    array: Array | None = after
    while isinstance(array, Result) and isinstance(array.form, Generate):
        change = updates_of(array.form, tables, Assumptions()).get(array.index)
        if change is None or any(ix.constant_value(axis.extent) != 1 for axis in change.update.axes):
            return False
        if any(free_variables(e) & outside for e in (*change.update.indices, *state.shape)):
            return False
        array = change.update.dest[change.index]
    return array is state and array is not after


def _index(form: ArrayLoop | ArrayWhile) -> tuple[Var, ...]:
    return (form.index,) if isinstance(form, ArrayLoop) else ()


def _with_counts(shape: Sequence[Expr], values: Mapping[Any, Expr]) -> tuple[Expr, ...]:
    """Returns extents with the counts of some arrays replaced."""

    def change(node: Node) -> Node:
        return values.get(node.array, node) if isinstance(node, Count) else node

    return tuple(_changed(extent, change) for extent in shape)


def _changed(e: Any, change: Any) -> Any:
    memo: dict[Node, Node] = {}
    for node in scalar_nodes(e):
        memo[node] = change(rebuild(node, lambda child: memo.get(child, child)))
    return memo[e]


def _move(axes: tuple[Axis, ...], body: Expr, tables: Tables) -> Result:
    return tables.made(Generate(axes, (body,)), "move")
