"""Elements of arrays as an iteration of an array loop leaves them, in terms of elements of the loop's states."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from raido.algo.graph import index as ix
from raido.algo.graph.assumptions import Assumptions
from raido.algo.graph.dtypes import bool_, i64
from raido.algo.graph.expr import (
    Array,
    ArrayCond,
    ArrayLoop,
    Checked,
    Cond,
    Const,
    Expr,
    Generate,
    Item,
    Load,
    Node,
    Op,
    Parameter,
    Result,
    Update,
    Var,
    conjunction,
    const,
    if_else,
)
from raido.algo.graph.rewrite import free_variables, scalar_nodes, topological
from raido.schedule.stages.tables import Tables, fold_constants

MOST = 64  # elements of changed arrays: loops that fill arrays change a few; time grows with the square


class Elements:
    """Elements of arrays that an iteration changes, in terms of elements of the loop's states."""

    def __init__(self, states: Collection[Parameter], assumptions: Assumptions, tables: Tables) -> None:
        self.states, self.assumptions, self.tables = set(states), assumptions, tables
        self.found: dict[tuple[Array, tuple[Expr, ...]], Expr | None] = {}

    def of(self, array: Array, indices: tuple[Expr, ...]) -> Expr | None:
        """Returns an element of an array; None where a change may fault, or changes more than one element or row, and in iterations of so
        many changes that elements of more than `MOST` arrays would have to be followed.
        """
        key = (array, indices)
        if key not in self.found and len(self.found) < MOST:
            self.found[key] = None
            self.found[key] = self._made(array, indices)
        return self.found.get(key)

    def _made(self, array: Array, indices: tuple[Expr, ...]) -> Expr | None:
        if not isinstance(array, Result) or self.states.isdisjoint(topological(array)):
            return Load(array, indices, False)
        if isinstance(array.form, Generate):
            return self._with_elements(self.tables.beta(array.form, array.index, indices))
        if isinstance(array.form, ArrayCond):
            sides = [self.of(side[array.index], indices) for side in (array.form.then, array.form.orelse)]
            return None if None in sides else if_else(array.form.predicate, sides[:1], sides[1:])[0]  # type: ignore[arg-type]
        return self._updated(array.form, array.index, indices) if isinstance(array.form, Update) else None

    def _with_elements(self, e: Expr) -> Expr | None:
        """Returns an expression that reads states instead of arrays changed in the same iteration, without checks of indices that hold."""
        elements: dict[Node, Node] = {}
        for n in scalar_nodes(e):
            form = n.array.form if isinstance(n, Load) and isinstance(n.array, Result) and not n.checked else None
            if isinstance(form, Update) or (form is not None and self.tables.kinds.get(form) == "update"):
                element = self.of(n.array, n.indices)  # type: ignore[union-attr]
                if element is None:
                    return None
                elements[n] = element
            elif isinstance(n, Op) and n.name == "clamp_index" and isinstance(n.args[0], Checked):
                index, extent = n.args[0].value, n.args[1]
                if self.assumptions.nonnegative(index) and self.assumptions.less(index, extent):
                    elements[n] = index
        return self.tables.rewrite((e,), folded, elements)[0]

    def _updated(self, update: Update, k: int, indices: tuple[Expr, ...]) -> Expr | None:
        """Returns an element of an array with one element or row changed."""
        old = self.of(update.dest[k], indices)
        steps = {axis.var: axis.extent for axis in update.axes if ix.constant_value(axis.extent) != 1}
        values: dict[Node, Expr] = {axis.var: ix.as_index(0) for axis in update.axes if axis.var not in steps}
        tests: list[Expr] = []
        for e, index, extent in zip(indices, update.indices, update.dest[k].shape, strict=True):
            if isinstance(index, Var) and steps.get(index) is extent and index not in values:
                values[index] = e
            elif steps.keys().isdisjoint(free_variables(index)):
                inside = self.assumptions.nonnegative(index) and self.assumptions.less(index, extent)
                if update.checked and not inside:
                    return None
                tests.append(Op("eq", bool_, (e, index)))
            else:
                return None
        if old is None or not steps.keys() <= values.keys() or not tests or len(update.dest) > 1:
            return None
        (new,) = self.tables.substitute(update.values, values)
        if update.mode == "combine":
            values |= {update.left[0]: old, update.right[0]: new}
            (new,) = self.tables.substitute(update.combine, values)
        made = self._with_elements(new)
        return None if made is None else folded(if_else(conjunction([folded(t) for t in tests]), (made,), (old,))[0])


def changed_indices(
    value: Expr, state: Parameter, own: tuple[Var, ...], loop: ArrayLoop
) -> Iterator[tuple[int, Expr, int]]:
    """Yields indices outside of which an iteration leaves elements of a state as they are.

    value: the element at `own` after an iteration. Yields the dimension, the index, in terms of the loop's counter, and the counter's
    coefficient in it: 1, −1 or 0. All else in the index is the same in every iteration.
    """
    moving = {loop.index, *own, *loop.state}
    for test in (n for n in scalar_nodes(value) if isinstance(n, Op) and n.name == "eq" and n.args[0].dtype is i64):
        for d, var in enumerate(own):
            solved = ix.solved_for(test, var)
            index = solved[1] if solved is not None else var
            sign = ix.linear(index)[1].get(loop.index, 0)
            start = ix.sub(index, ix.mul(loop.index, sign))
            if abs(sign) <= 1 and moving.isdisjoint(topological(start)) and _is_kept(value, test, state, own):
                yield d, index, sign


def _is_kept(e: Expr, test: Expr, state: Parameter, own: tuple[Var, ...]) -> bool:
    """Whether an element keeps its value where `test` does not hold."""
    if isinstance(e, Load):
        return e.array is state and e.indices == own and not e.checked
    if isinstance(e, Op) and e.name == "select":
        asked, then, orelse = e.args
    elif isinstance(e, Item) and isinstance(e.form, Cond):
        asked, then, orelse = e.form.predicate, e.form.then[e.index], e.form.orelse[e.index]
    else:
        return False
    return (_implies(asked, test) or _is_kept(then, test, state, own)) and _is_kept(orelse, test, state, own)


def _implies(e: Expr, test: Expr) -> bool:
    """Whether a condition is, or is a conjunction with, `test`."""
    return e is test or (isinstance(e, Op) and e.name == "logical_and" and any(_implies(arg, test) for arg in e.args))


def folded(node: Node) -> Any:
    """Folds comparisons of indices at a known distance, and choices that they decide."""
    if isinstance(node, Op) and node.name == "eq" and node.args[0].dtype is i64:
        distance = ix.difference(*node.args)
        return node if distance is None else const(bool_, distance == 0)
    if isinstance(node, Op) and node.name == "logical_and":
        a, b = (arg.value if isinstance(arg, Const) else None for arg in node.args)
        return const(bool_, False) if a is False or b is False else node.args[1] if a else node.args[0] if b else node
    if isinstance(node, Item) and isinstance(node.form, Cond) and isinstance(node.form.predicate, Const):
        return (node.form.then if node.form.predicate.value else node.form.orelse)[node.index]
    return fold_constants(node)
