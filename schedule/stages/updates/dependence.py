"""Dependence analysis of updates: whether a step reads an element that another step changes.

A read is harmless where it is of the element that its own step changes (or of others that only this step changes), and where it is provably
disjoint from all changed elements: above, below, between the elements of a stride, or of another colour where only one is changed
(red-black). All of this holds for any order of the steps, in lanes and on threads. Anything else counts as a conflict.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import gcd
from typing import Any

from raido.algo.graph import index as ix
from raido.algo.graph.assumptions import Assumptions, interval, with_inner_ranges
from raido.algo.graph.dtypes import i64
from raido.algo.graph.expr import Array, Axis, Cond, Const, Expr, Item, Load, Node, Op, Reduce, Update, Var
from raido.algo.graph.expr import Loop as ScalarLoop
from raido.algo.graph.rewrite import bound_variables, loads_in, scalar_nodes, substitute


@dataclass(frozen=True, slots=True)
class ElementUpdates:
    """The steps of an update: their axes, the index that each changes, the expressions that each evaluates, and whether indices are
    promised to differ.
    """

    axes: tuple[Axis, ...]
    indices: tuple[Expr, ...]
    evaluated: tuple[Expr, ...]
    promised: bool


def element_updates_of(form: Update) -> ElementUpdates:
    """Returns the steps of an update of the graph."""
    return ElementUpdates(form.axes, form.indices, (*form.values, *form.indices), form.mode == "unique")


def meets_none_twice(updates: ElementUpdates) -> bool:
    """Whether provably no two steps change one element."""
    return {axis.var for axis in _moving(updates)} <= set(_coordinates(updates))


def conflict(updates: ElementUpdates, arrays: Collection[Array]) -> Load | None:
    """Returns the first load of one of these arrays, which change, of an element that another step may have changed; None without one."""
    found = [load for load in loads_in(*updates.evaluated) if load.array in arrays]
    if not found:
        return None
    order = scalar_nodes(*updates.evaluated)
    ranges = {axis.var: (ix.as_index(0), ix.sub(ix.where_at_least(axis.extent, 1), 1)) for axis in updates.axes}
    assumptions = with_inner_ranges(Assumptions((), ranges), order)
    unsteady = _unsteady(order) - set(assumptions.ranges)
    return next((load for load in found if not _harmless(load, updates, assumptions, unsteady)), None)


def leaves_alone(
    updates: ElementUpdates, indices: Sequence[Expr], others: Sequence[Axis], order: Sequence[Node]
) -> bool:
    """Whether steps provably change no element that is read at `indices` over other axes; `order`: the nodes around the read."""
    ranges = {axis.var: (ix.as_index(0), ix.sub(axis.extent, 1)) for axis in (*updates.axes, *others)}
    assumptions = with_inner_ranges(Assumptions((), ranges), order)
    read = [assumptions.simplify(ix.canonical(i)) for i in indices]
    if any(node in _unsteady(order) - set(assumptions.ranges) for node in scalar_nodes(*read)):
        return False
    written = [assumptions.simplify(ix.canonical(bare_index(i))) for i in updates.indices]
    return any(_apart(a, b, assumptions) for a, b in zip(read, written, strict=True))


def _moving(updates: ElementUpdates) -> list[Axis]:
    """Returns the axes with more than one index."""
    return [axis for axis in updates.axes if ix.constant_value(axis.extent) != 1]


def chosen_index(e: Any) -> tuple[Expr, Expr] | None:
    """Returns the condition and the index of `select(condition, index, −1)`, of a step that names no element elsewhere; None for other
    expressions.
    """
    none = isinstance(e, Op) and e.name == "select" and ix.constant_value(e.args[2]) == -1
    return (e.args[0], e.args[1]) if none else None


def bare_index(e: Expr) -> Expr:
    """Returns the index that a step changes, without the selection of −1, which means none."""
    while True:
        if (chosen := chosen_index(e)) is not None:
            e = chosen[1]
        elif isinstance(e, Item) and isinstance(e.form, Cond) and ix.constant_value(e.form.orelse[e.index]) == -1:
            e = e.form.then[e.index]
        else:
            return e


def _coordinates(updates: ElementUpdates) -> dict[Var, int]:
    """Maps axis variables to a dimension whose index is a constant plus a multiple of the variable, so that different values name different
    elements.
    """
    own = {axis.var for axis in updates.axes}
    found: dict[Var, int] = {}
    for d, index in enumerate(updates.indices):
        terms = ix.linear(ix.canonical(bare_index(index)))[1]
        moving = [atom for atom in terms if not own.isdisjoint(scalar_nodes(atom))]
        if len(moving) == 1 and isinstance(moving[0], Var) and terms[moving[0]]:
            found.setdefault(moving[0], d)
    return found


def _unsteady(order: Sequence[Node]) -> set[Var]:
    """Returns the variables bound by loops inside a step."""
    forms = {node.form for node in order if isinstance(node, Item)}
    return {
        var
        for form in (*forms, *(n for n in order if isinstance(n, (Reduce, ScalarLoop))))
        for var in bound_variables(form)
    }


def _harmless(load: Load, updates: ElementUpdates, assumptions: Assumptions, unsteady: set[Var]) -> bool:
    read = [assumptions.simplify(ix.canonical(i)) for i in load.indices]
    written = [assumptions.simplify(ix.canonical(bare_index(i))) for i in updates.indices]
    same = [_is_same(a, b, assumptions) for a, b in zip(read, written, strict=True)]
    if updates.promised and all(same):
        return True
    coordinates = _coordinates(updates)
    if all(axis.var in coordinates and same[coordinates[axis.var]] for axis in _moving(updates)):
        return True
    if any(node in unsteady for node in scalar_nodes(*read)):
        return False
    return any(_apart(a, b, assumptions) for a, b in zip(read, written, strict=True)) or _has_other_colour(
        read, written, updates
    )


def _has_other_colour(read: Sequence[Expr], written: Sequence[Expr], updates: ElementUpdates) -> bool:
    """Whether steps change only elements whose index sum has one remainder, and an element with another remainder is read: (y + x) % 2 ==
    0.
    """
    for total, count in _remainders(updates.indices):
        names: dict[Node, Node] = {}
        for theirs, own in zip(read, written, strict=True):
            constant, terms = ix.linear(own)
            (var, times), *others = terms.items() or ((None, 0),)
            if isinstance(var, Var) and times == 1 and not others:
                names[var] = ix.sub(theirs, constant)
        moving = {axis.var for axis in updates.axes}.intersection(scalar_nodes(total))
        if moving <= names.keys():
            distance = ix.difference(ix.canonical(substitute(total, names)), total)
            if distance is not None and distance % count:
                return True
    return False


def _remainders(indices: Sequence[Expr]) -> list[tuple[Expr, int]]:
    """Returns (sum of indices, modulus) pairs for which all steps that change anything have the same remainder."""
    found = []
    stack = [chosen[0] for e in indices if (chosen := chosen_index(e)) is not None]
    while stack:
        test = stack.pop()
        if not isinstance(test, Op):
            continue
        if test.name == "logical_and":
            stack += test.args
        left = test.args[0]
        if test.name == "eq" and isinstance(left, Op) and left.name in ("mod", "floormod") and left.dtype is i64:
            count = ix.constant_value(left.args[1])
            if count is not None and count > 1 and isinstance(test.args[1], Const):
                found.append((ix.canonical(left.args[0]), count))
    return found


def _is_same(read: Expr, written: Expr, assumptions: Assumptions) -> bool:
    """Whether the read index equals the changed one in each step, clamps of the former ignored."""
    if isinstance(read, Op) and read.name == "clamp_index":
        read = read.args[0]
    return read is written or assumptions.equal(read, written)


def _apart(read: Expr, written: Expr, assumptions: Assumptions) -> bool:
    """Whether two indices never take a common value, in whatever steps."""
    a, b = interval(read, assumptions.ranges), interval(written, assumptions.ranges)
    if a is not None and b is not None:
        plain = Assumptions()
        if plain.less(a[1], b[0]) or plain.less(b[1], a[0]):
            return True
    (constant, terms), (other, others) = ix.linear(read), ix.linear(written)
    moving = [c for part in (terms, others) for atom, c in part.items() if atom in assumptions.ranges]
    rest = [{atom: c for atom, c in part.items() if atom not in assumptions.ranges} for part in (terms, others)]
    stride = gcd(*moving) if moving else 0
    closed = all(
        isinstance(n, Var) is False or n not in assumptions.ranges
        for part in rest
        for e in part
        for n in scalar_nodes(e)
    )
    steady = closed and not any(isinstance(n, Load) for part in rest for e in part for n in scalar_nodes(e))
    return stride > 1 and steady and rest[0] == rest[1] and (constant - other) % stride != 0
