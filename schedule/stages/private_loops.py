"""Turns loops over small arrays inside mapped functions into loops of scalars with private arrays.

    map(i: while_loop(c, (k, s) -> (k + 1, s.at[k].set(v)), …))      each element has a private array `s`, and changes it in place

The alternative, one loop over the states of all elements (`distribute.py`), moves every state through memory in every iteration. It remains
for loops whose iterations are stages of the schedule: named loops or bodies, with scans, sorts or filters, with states of non-constant size
or of more than `MOST` bytes an element, and loops with equal trip counts for all elements.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import Any

from raido.algo.graph import index as ix
from raido.algo.graph.dtypes import bool_
from raido.algo.graph.expr import (
    ARRAY_FORMS,
    Array,
    ArrayCond,
    ArrayLoop,
    ArrayWhile,
    Axis,
    Changed,
    Checked,
    Cond,
    Const,
    Count,
    Element,
    Expr,
    Fill,
    Generate,
    Item,
    Load,
    Loop,
    Node,
    Op,
    Private,
    Reduce,
    Result,
    Var,
    While,
    const,
    fresh,
    fresh_axes,
    new_serial,
)
from raido.algo.graph.rewrite import children, free_variables, rebuild, rewritten, topological
from raido.schedule.stages.inline import inline_moves
from raido.schedule.stages.tables import Tables
from raido.schedule.stages.uses import binders, host_variables

MOST = 4096  # bytes of private arrays of one element: half of a GPU thread's memory, an eighth of an L1 of 32 KiB

LOOPS = (ArrayLoop, ArrayWhile)


def keep_loops_private(roots: tuple[Array, ...], tables: Tables) -> tuple[Array, ...]:
    """Turns loops over small arrays inside functions of elements into loops of scalars with private arrays."""
    refused: set[Node] = set()
    while True:
        nodes = topological(*roots)
        hosts = host_variables(nodes)
        _, axes_of, _ = binders(nodes)
        found = [n for n in nodes if isinstance(n, LOOPS) and n not in refused and free_variables(n) - hosts]
        if not found:
            return roots
        form = found[-1]
        inside = _loops_inside(form)
        if not free_variables(form) - hosts <= axes_of.keys() or not _is_small(form, inside, nodes, tables):
            refused.add(form)
            continue
        roots = _converted(form, inside, roots, tables)


def _loops_inside(form: ArrayLoop | ArrayWhile) -> dict[Node, None]:
    """Returns a loop and the loops in its body that depend on its state, inner ones first."""
    inside: dict[Node, None] = {form: None}
    order = topological(*_bodies(form))
    while True:
        depends = _dependent(order, inside)
        found = [n for n in order if isinstance(n, LOOPS) and n not in inside and n in depends]
        if not found:
            return {n: None for n in (*order, form) if n in inside}
        inside |= dict.fromkeys(found)


def _bodies(form: ArrayLoop | ArrayWhile) -> tuple[Node, ...]:
    return (*form.results, form.condition) if isinstance(form, ArrayWhile) else form.results


def _dependent(order: Iterable[Node], loops: Iterable[Any]) -> set[Node]:
    """Returns the nodes that depend on the states and counters of some loops; `order` has children first."""
    own: set[Node] = {p for loop in loops for p in loop.state}
    own |= {loop.index for loop in loops if isinstance(loop, ArrayLoop)}
    for node in order:
        if node in own or any(child in own for child in children(node)):
            own.add(node)
    return own


def _is_small(form: Any, inside: Iterable[Any], nodes: Iterable[Node], tables: Tables) -> bool:
    """Whether the states of a loop, and of the loops inside it, can be private arrays of an element, and should be."""
    if any(tables.names.get(loop) for loop in inside):
        return False
    states = [state for loop in inside for state in loop.state]
    sizes = [_size(state.shape) for state in states]
    if any(size is None for size in sizes):
        return False
    if sum(size * state.dtype.itemsize for size, state in zip(sizes, states, strict=True) if state.shape) > MOST:  # type: ignore[operator]
        return False
    order = topological(*_bodies(form), *((form.count,) if isinstance(form, ArrayLoop) else ()))
    depends = _dependent(order, inside)
    hosts = host_variables([n for n in topological(form) if n not in inside])
    uneven = any(
        isinstance(loop, ArrayWhile) or loop.count in depends or free_variables(loop.count) - hosts for loop in inside
    )
    shapes = {form.state[n.index].shape for n in nodes if isinstance(n, Result) and n.form is form}
    return uneven and len(shapes) == 1 and all(_is_scalar_work(n, inside, tables) for n in order if n in depends)


def _size(shape: Sequence[Expr]) -> int | None:
    extents = [ix.constant_value(extent) for extent in shape]
    return None if None in extents else prod(extents)  # type: ignore[arg-type]


def _is_scalar_work(node: Node, loops: Iterable[Node], tables: Tables) -> bool:
    """Whether a loop of scalars can evaluate a node that depends on its state, and the node has no name."""
    if isinstance(node, ARRAY_FORMS):
        if tables.names.get(node):
            return False
        if isinstance(node, Generate):
            return bool(_size([axis.extent for axis in node.axes]))
        if isinstance(node, ArrayCond):
            return all(_size(array.shape) for array in (*node.then, *node.orelse))
        return node in loops
    return not isinstance(node, Count)


def _converted(form: Any, inside: dict[Node, None], roots: tuple[Array, ...], tables: Tables) -> tuple[Array, ...]:
    """Returns the graph with one loop, and those inside it, as loops of scalars."""
    converting = _Converting(inside, tables)
    made = converting.loop(form)
    nodes = topological(*roots)
    used = sorted({n.index for n in nodes if isinstance(n, Result) and n.form is form})
    axes = fresh_axes(form.state[used[0]].shape)
    bodies = tuple(_element(Item(made, k), axes) for k in used)
    results = Generate(axes, bodies)
    tables.kinds[results] = "map"
    memo: dict[Node, Any] = {Result(form, k): Result(results, position) for position, k in enumerate(used)}
    return inline_moves(rewritten(roots, tables.renew(nodes, memo)), tables)


class _Converting:
    """The conversion of some loops over arrays into loops of scalars, inner ones first."""

    def __init__(self, loops: dict[Node, None], tables: Tables) -> None:
        self.tables = tables
        self.memo: dict[Node, Any] = {}
        self.made: dict[Node, Loop | While] = {}
        self.private: dict[Node, Var | Item] = {}  # private arrays: states, and their final values
        self.states: dict[Node, tuple[Var, ...]] = {}
        for loop in loops:
            self._bind(loop)
        outer = [*loops][-1]
        for node in topological(outer):
            if node not in self.memo:
                self._enter(node)

    def loop(self, form: Node) -> Loop | While:
        """Returns the loop of scalars for a loop over arrays."""
        return self.made[form]

    def _bind(self, form: Any) -> None:
        variables = []
        for state in form.state:
            var = (
                fresh(state.name, state.dtype)
                if not state.shape
                else Private(state.name, state.dtype, new_serial(), state.shape)
            )
            variables.append(var)
            self.private[state] = var
            self.memo[state] = self._as_array(var, state.shape)
        self.states[form] = tuple(variables)
        if isinstance(form, ArrayLoop):
            self.memo[form.index] = fresh(form.index.name, form.index.dtype)

    def _enter(self, node: Any) -> None:
        new: Any = None
        if node in self.states:
            new = self.made[node] = self._scalar_loop(node)
        elif isinstance(node, Result) and node.form in self.states:
            item = self.private[node] = Item(self.made[node.form], node.index)
            new = self._as_array(item, node.shape)
        elif isinstance(node, Result) and isinstance(node.form, ArrayCond) and self.memo[node.form] is not node.form:
            new = self._branches(self.memo[node.form], node.index)
        else:
            new = rebuild(node, self.memo.__getitem__)
            if isinstance(new, Generate) and new is not node:
                self.tables.kinds[new] = "move"
                new = self._kept(new)
            self.tables.carry(node, new)
        self.memo[node] = new

    def _scalar_loop(self, form: Any) -> Loop | While:
        state = self.states[form]
        init = tuple(self._value(a) for a in form.init)
        body = tuple(self._value(a) for a in form.results)
        made: Loop | While
        if isinstance(form, ArrayWhile):
            made = While(self.memo[form.condition], state, init, body)
        else:
            made = Loop(self.memo[form.count], self.memo[form.index], state, init, body)
        if form in self.tables.sites:
            self.tables.sites.setdefault(made, self.tables.sites[form])
        return made

    def _value(self, array: Array) -> Any:
        """Returns the scalar, or the private array, for an array of a loop."""
        if array in self.private:
            return self.private[array]
        new = self.memo[array]
        if not array.shape:
            return Load(new, (), False)
        axes = fresh_axes(array.shape)
        return Fill(axes, Load(new, tuple(axis.var for axis in axes), False))

    def _as_array(self, value: Any, shape: tuple[Expr, ...]) -> Result:
        """Returns an index move that reads each element of a private array."""
        axes = fresh_axes(shape)
        return self.tables.made(Generate(axes, (_element(value, axes),)), "move")

    def _branches(self, form: ArrayCond, index: int) -> Result:
        axes = fresh_axes(form.then[index].shape)
        indices = tuple(axis.var for axis in axes)
        choice = Cond(form.predicate, *((Load(side[index], indices, False),) for side in (form.then, form.orelse)))
        return self.tables.made(Generate(axes, (Item(choice, 0),)), "move")

    def _kept(self, form: Generate) -> Generate:
        """Returns a form whose elements contain folds or loops, as one that reads them from private memory, computed once."""
        axes = {axis.var for axis in form.axes}
        forms = [n for n in topological(*form.bodies) if isinstance(n, Reduce | Loop | While)]
        if not any(axes & free_variables(n) for n in forms):
            return form
        made = Generate(form.axes, tuple(_element(self._fill(form.axes, body), form.axes) for body in form.bodies))
        self.tables.kinds[made] = "move"
        return made

    def _fill(self, axes: Sequence[Axis], body: Expr) -> Fill:
        own, (value,) = self.tables.over_new_axes((body,), axes)
        return Fill(own, value)


def _element(value: Any, axes: Sequence[Axis]) -> Any:
    return Element(value, tuple(axis.var for axis in axes)) if axes else value


def write_changes(roots: tuple[Array, ...], tables: Tables) -> tuple[Array, ...]:
    """Turns private arrays that repeat another one but for some elements into changes of those elements.

    `[v if x == i else s[x] for x]` becomes `s` with element i changed to v; where branches differ by such changes, each change is guarded
    by its branch's condition.
    """
    if not any(isinstance(node, Fill) for node in topological(*roots)):
        return roots

    def change(new: Node) -> Node:
        if isinstance(new, Element):
            return Element(new.array, tuple(map(_without_clamp, new.indices)))
        return _changed(new, tables) if isinstance(new, Fill) else new

    return tables.rewrite(roots, change)


Change = tuple[Expr, tuple[Expr, ...], Expr]  # the test, the index, and the new element


def _changed(fill: Fill, tables: Tables) -> Fill | Changed | Private | Item:
    own = tuple(axis.var for axis in fill.axes)
    rest, changes = _changes(fill.body, own, tables)
    array: Any = Fill(fill.axes, rest)
    if isinstance(rest, Element) and rest.indices == own and not set(own) & free_variables(rest.array):
        array = rest.array
    if not changes:
        return array
    tests, indices, values = zip(*changes, strict=True)
    return Changed(array, tests, tuple(_without_clamp(i) for each in indices for i in each), values)


def _without_clamp(index: Expr) -> Expr:
    """Returns an index without the clamp behind its check: a failed check yields 0, and private arrays have elements."""
    checked = isinstance(index, Op) and index.name == "clamp_index" and isinstance(index.args[0], Checked)
    return index.args[0] if checked else index  # type: ignore[union-attr]


def _changes(e: Expr, own: tuple[Var, ...], tables: Tables) -> tuple[Expr, list[Change]]:
    """Splits an element at the indices `own` into the repeated one, and the changes to it in order."""
    if not isinstance(e, Op) or e.name != "select":
        return e, []
    test, one, other = e.args
    index = _index(test, own)
    if index is not None:
        rest, changes = _changes(other, own, tables)
        (value,) = tables.substitute((one,), dict(zip(own, index, strict=True)))
        return rest, [*changes, (const(bool_, True), index, value)]
    if set(own) & free_variables(test):
        return e, []
    (rest, changes), (other_rest, others) = _changes(one, own, tables), _changes(other, own, tables)
    if rest is not other_rest:
        return e, []
    common = 0
    while common < min(len(changes), len(others)) and changes[common] == others[common]:
        common += 1
    opposite = Op("logical_not", bool_, (test,))
    guarded = [(_both(test, t), i, v) for t, i, v in changes[common:]]
    guarded += [(_both(opposite, t), i, v) for t, i, v in others[common:]]
    return rest, [*changes[:common], *guarded]


def _index(test: Expr, own: tuple[Var, ...]) -> tuple[Expr, ...] | None:
    """Returns the one index at which a test holds, if it equates each index with an independent value; else None."""
    found: dict[Expr, Expr] = {}
    stack = [test]
    while stack:
        e = stack.pop()
        if isinstance(e, Op) and e.name == "logical_and":
            stack += e.args
            continue
        if not isinstance(e, Op) or e.name != "eq":
            return None
        sides = e.args if e.args[0] in own else e.args[::-1]
        if sides[0] not in own or sides[0] in found or set(own) & free_variables(sides[1]):
            return None
        found[sides[0]] = sides[1]
    return tuple(found[var] for var in own) if len(found) == len(own) else None


def _both(a: Expr, b: Expr) -> Expr:
    return a if isinstance(b, Const) and b.value else Op("logical_and", bool_, (a, b))
