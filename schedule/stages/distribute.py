"""Loops over arrays inside mapped functions, exchanged with the maps around them.

    map(i: loop(n, row -> f(row), a[i]))   →   loop(n, A -> map(i: f(A[i])), a)

The state of all elements stands in one array with the maps' axes in front, so that the loop is closed and its body is stages like any
other. Where elements take different numbers of rounds the loop goes on as long as one of them does; those that are done keep
their state, and nothing of their round is evaluated. Outer loops go first: what stands in their body is then open in fresh axes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from raido.algo.errors import CompileError
from raido.algo.graph.dtypes import DType, bool_, i64
from raido.algo.graph.expr import (
    Array,
    ArrayLoop,
    ArrayWhile,
    Axis,
    Cond,
    Expr,
    Generate,
    Item,
    Load,
    Node,
    Op,
    Parameter,
    Reduce,
    Result,
    Var,
    const,
    fresh,
    fresh_parameter,
)
from raido.algo.graph.rewrite import free_variables, rebuild, topological
from raido.schedule.stages.guard import guard_branches
from raido.schedule.stages.normalise import Tables, binders, host_variables, inline_moves


def distribute_loops(roots: tuple[Array, ...], tables: Tables) -> tuple[Array, ...]:
    """The graph in which no loop over arrays mentions variables of functions around it."""
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
    """The graph with one loop made closed."""
    order, axes_of, _ = binders(topological(*roots))
    if not outside <= axes_of.keys():
        raise CompileError("a loop over arrays inside an operator or a loop of scalars")
    outer = [axes_of[v] for v in sorted(outside, key=order.__getitem__)]
    closed = _Exchange(form, outer, tables).closed()
    tables.carry(form, closed)
    elements = {}
    for k, state in enumerate(form.state):
        own = _axes(state.shape)
        body = Load(Result(closed, k), (*(axis.var for axis in outer), *(axis.var for axis in own)), False)
        elements[Result(form, k)] = _move(own, body, tables)
    return _replaced(roots, elements, tables)


class _Exchange:
    """One loop, with the axes of the maps around it."""

    def __init__(self, form: ArrayLoop | ArrayWhile, outer: Sequence[Axis], tables: Tables) -> None:
        self.form, self.outer, self.tables = form, outer, tables
        self.extents = [axis.extent for axis in outer]
        self.state = tuple(fresh_parameter(p.name, p.dtype, (*self.extents, *p.shape)) for p in form.state)
        self.axes = tuple(Axis(fresh(axis.name), axis.extent) for axis in outer)
        self.places = tuple(axis.var for axis in self.axes)
        self.values: dict[Node, Node] = {old.var: new.var for old, new in zip(outer, self.axes, strict=True)}
        for old, new in zip(form.state, self.state, strict=True):
            own = _axes(old.shape)
            body = Load(new, (*self.places, *(axis.var for axis in own)), False)
            self.values[old] = _move(own, body, tables)

    def closed(self) -> ArrayLoop | ArrayWhile:
        """The loop over all elements at once."""
        form = self.form
        before = {old.var: new for old, new in zip(self.outer, self.places, strict=True)}
        init = tuple(self._spread((a,), before, None, ())[0] for a in form.init)
        if isinstance(form, ArrayWhile):
            going = self._scalars(form.condition, "condition")
            condition = self._over(going, bool_, "logical_or", False)
            return ArrayWhile(condition, self.state, init, self._results(Load(going, self.places, False)))
        if not free_variables(form.count) & {axis.var for axis in self.outer}:
            return ArrayLoop(form.count, form.index, self.state, init, self._results(None))
        counts = self._scalars(form.count, "count")
        going_on = Op("lt", bool_, (form.index, Load(counts, self.places, False)))
        count = self._over(counts, i64, "maximum", 0)
        return ArrayLoop(count, form.index, self.state, init, self._results(going_on))

    def _scalars(self, e: Expr, kind: str) -> Result:
        """A scalar of every element, as an array over the outer axes."""
        (body,) = self.tables.rewrite((e,), lambda node: node, self.values)
        made = Generate(self.axes, (body,))
        self.tables.kinds[made] = kind
        return Result(made, 0)

    def _over(self, array: Result, dtype: DType, monoid: str, neutral: Any) -> Expr:
        """All elements of an array over the outer axes, combined."""
        axes = tuple(Axis(fresh(axis.name), axis.extent) for axis in self.outer)
        left, right = fresh("a", dtype), fresh("b", dtype)
        value = Load(array, tuple(axis.var for axis in axes), False)
        combine = (Op(monoid, dtype, (left, right)),)
        return Item(Reduce(axes, (left,), (right,), combine, (const(dtype, neutral),), (value,), True, monoid), 0)

    def _results(self, active: Expr | None) -> tuple[Array, ...]:
        """The arrays after a round, those of one shape in one form."""
        form = self.form
        groups: dict[tuple[Expr, ...], list[int]] = {}
        for k, state in enumerate(form.state):
            groups.setdefault(state.shape, []).append(k)
        results: dict[int, Array] = {}
        for positions in groups.values():
            arrays = [form.results[k] for k in positions]
            old = [self.state[k] for k in positions]
            results |= dict(zip(positions, self._spread(arrays, self.values, active, old), strict=True))
        return tuple(results[k] for k in range(len(form.state)))

    def _spread(
        self, arrays: Iterable[Array], values: Mapping[Any, Node], active: Expr | None, old: Sequence[Parameter]
    ) -> list[Result]:
        """Arrays of one element each as arrays over the outer axes; `old` where an element is not active."""
        arrays = tuple(arrays)
        own = _axes(arrays[0].shape)
        inner = tuple(axis.var for axis in own)
        bodies = self.tables.rewrite(tuple(Load(a, inner, False) for a in arrays), lambda node: node, values)
        if active is not None:
            kept = tuple(Load(p, (*self.places, *inner), False) for p in old)
            choice = Cond(active, bodies, kept)
            bodies = tuple(Item(choice, k) for k in range(len(bodies)))
        made = Generate((*self.axes, *own), bodies)
        self.tables.kinds[made] = "map"
        return [Result(made, k) for k in range(len(bodies))]


def _axes(shape: Sequence[Expr]) -> tuple[Axis, ...]:
    return tuple(Axis(fresh("x"), extent) for extent in shape)


def _move(axes: tuple[Axis, ...], body: Expr, tables: Tables) -> Result:
    made = Generate(axes, (body,))
    tables.kinds[made] = "move"
    return Result(made, 0)


def _replaced(roots: tuple[Array, ...], values: Mapping[Any, Node], tables: Tables) -> tuple[Array, ...]:
    """The graph with whole arrays replaced."""
    memo: dict[Node, Node] = dict(values)
    for node in topological(*roots):
        if node not in memo:
            memo[node] = rebuild(node, memo.__getitem__)
            tables.carry(node, memo[node])
    return tuple(memo[root] for root in roots)  # type: ignore[misc]
