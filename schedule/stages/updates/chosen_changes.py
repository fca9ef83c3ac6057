"""Turns selections between an array and several changes of it into changes that are conditional one by one.

    where(c, m with [i] = u with [j] = v, m)   →   m1 = where(c, m with [i] = u, m);  where(c, m1 with [j] = v, m1)
    where(c, m with [i] = u, m with [j] = v)   →   m1 = where(c, m with [i] = u, m);  where(c, m1, m1 with [j] = v)

The condition is the same for all elements. Each selection is then an update with steps or without any (`partial`), so the array can change
in place. A change that is not taken is still evaluated, on other contents than before: selections whose indices or divisors depend on
earlier changes are left alone, since they might fault on those.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from raido.algo.graph.assumptions import Assumptions
from raido.algo.graph.dtypes import bool_
from raido.algo.graph.expr import (
    Array,
    Axis,
    Const,
    Count,
    Expr,
    Generate,
    Load,
    Node,
    Op,
    Result,
    SizeVar,
    Update,
    Var,
    While,
    conjunction,
    fresh,
)
from raido.algo.graph.faults import can_fault
from raido.algo.graph.rewrite import children, loads_in, rewritten, scalar_nodes, topological
from raido.schedule.stages.checks import made_for_elements
from raido.schedule.stages.tables import Tables
from raido.schedule.stages.updates.order import Order, assumptions_of
from raido.schedule.stages.updates.partial import updates_of

Tests: TypeAlias = "tuple[tuple[Expr, bool], ...]"
"""Conditions, each with the value that it must have."""


@dataclass(frozen=True, slots=True)
class _Taken:
    """Changes that are made, in order, where all tests have the required values."""

    tests: Tests
    changes: tuple[Array, ...]


@dataclass(frozen=True, slots=True)
class _Choice:
    """An array, and its alternative changes, of which at most one is taken."""

    array: Array
    alternatives: tuple[_Taken, ...]


def choose_changes(roots: tuple[Array, ...], tables: Tables) -> tuple[Array, ...]:
    """Makes each change conditional by itself where a selection is between an array and several changes of it, or a change at a known
    index.
    """
    nodes = topological(*roots)
    leaves = {node: found for node in nodes if isinstance(node, Generate) and (found := _leaves(node)) is not None}
    if not leaves:
        return roots
    finder = _Finder(Order(roots, {}, tables), assumptions_of(nodes), tables)
    choices = {node: choice for node, found in leaves.items() if (choice := finder.choice(node, found)) is not None}
    memo: dict[Node, Node] = {}
    for node, _ in tables.renewed(nodes, memo):
        if isinstance(node, Result) and node.form in choices:
            memo[node] = _in_turn(node.form, choices[node.form], memo, tables)
    return rewritten(roots, memo)


def _leaves(form: Generate) -> list[tuple[Tests, Array]] | None:
    """Returns the arrays that a map selects as a whole, each with the tests under which it is taken; None for other maps."""
    own = tuple(axis.var for axis in form.axes)
    if len(form.bodies) != 1 or not own:
        return None
    found: list[tuple[Tests, Array]] = []
    stack: list[tuple[Tests, Expr]] = [((), form.bodies[0])]
    while stack:
        tests, body = stack.pop()
        if (
            isinstance(body, Op)
            and body.name == "select"
            and not any(node in own for node in scalar_nodes(body.args[0]))
        ):
            test, yes, no = body.args
            stack += [((*tests, (test, False)), no), ((*tests, (test, True)), yes)]
        elif isinstance(body, Load) and not body.checked and body.indices == own:
            found.append((tests, body.array))
        else:
            return None
    return found if len(found) > 1 else None


class _Finder:
    """Finds the chains of changes between arrays."""

    def __init__(self, order: Order, assumptions: Assumptions, tables: Tables) -> None:
        self.order, self.assumptions, self.tables = order, assumptions, tables

    def choice(self, form: Generate, leaves: Sequence[tuple[Tests, Array]]) -> _Choice | None:
        """Returns the array of which a map selects changes, and these; None unless all alternatives are changes of one array."""
        if len({array for _, array in leaves}) < len(leaves):
            return None
        chains = [[array, *self._before(array, form)] for _, array in leaves]
        shared = [array for array in chains[0] if all(array in chain for chain in chains)]
        if not shared or shared[0].shape != tuple(axis.extent for axis in form.axes):
            return None
        alternatives = tuple(
            _Taken(tests, tuple(reversed(chain[: chain.index(shared[0])])))
            for (tests, _), chain in zip(leaves, chains, strict=True)
            if chain[0] is not shared[0]
        )
        changes = [change for each in alternatives for change in each.changes]
        if len(changes) == 1 and isinstance(changes[0], Result) and isinstance(changes[0].form, Update):
            return None  # the selection is an update already
        found = _Choice(shared[0], alternatives)
        return None if _may_be_wrong_elsewhere(found) else found

    def _before(self, array: Array, reader: Node) -> Iterator[Array]:
        """Yields the arrays from which changes have made `array`, the last one first, as far as the intermediate ones have no other
        reader.
        """
        while isinstance(array, Result) and self._is_only_for(array, reader):
            dest = self._changed(array.form)
            if dest is None:
                return
            reader, array = array.form, dest
            yield array

    def _changed(self, form: Node) -> Array | None:
        """Returns the array of which an unnamed form changes a part; None for other forms."""
        if self.tables.names.get(form):
            return None
        if isinstance(form, Update):
            return form.dest[0] if len(form.dest) == 1 else None
        found = (
            updates_of(form, self.tables, self.assumptions)
            if isinstance(form, Generate) and len(form.bodies) == 1
            else {}
        )
        return found[0].update.dest[0] if 0 in found and not found[0].everywhere else None

    def _is_only_for(self, array: Result, reader: Node) -> bool:
        order = self.order
        here = array not in order.kept and order.paths[array.form] == order.paths[reader]
        return here and set(order.readers.get(array, ())) == {reader}


def _may_be_wrong_elsewhere(choice: _Choice) -> bool:
    """Whether a change may fault, or not terminate, on contents that other changes leave."""
    changed: set[Array] = set()
    for taken in choice.alternatives:
        for change in taken.changes:
            assert isinstance(change, Result)
            if any(_depends_on(node, changed) for node in scalar_nodes(change.form)):
                return True
            changed.add(change)
        changed.add(choice.array)  # later alternatives read the changed array, this one the original
    return False


def _depends_on(node: Node, arrays: Collection[Array]) -> bool:
    """Whether a node may fault, or loop, depending on elements of some arrays."""
    if not (can_fault(node) or isinstance(node, While)):
        return False
    decisive = node.indices if isinstance(node, Load | Update) else children(node)
    return any(load.array in arrays for load in loads_in(*decisive))


def _in_turn(form: Node, choice: _Choice, memo: Mapping[Node, Node], tables: Tables) -> Array:
    """Returns the array after all changes, each made where its tests hold."""
    old: Array = memo[choice.array]  # type: ignore[assignment]
    now, several = old, sum(len(each.changes) for each in choice.alternatives) > 1
    for taken in choice.alternatives:
        tests = [(memo[test], holds) for test, holds in taken.tests]
        test = conjunction([test if holds else Op("logical_not", bool_, (test,)) for test, holds in tests])  # type: ignore[arg-type,misc]
        test = _asked_before(test, old, tables) if several else test
        arrays: dict[Node, Node] = {old: now}
        for change in taken.changes:
            assert isinstance(change, Result)
            made = memo[change]
            assert isinstance(made, Result)
            now = _where(test, tables.renew(scalar_nodes(made.form), dict(arrays))[made.form], now, tables)
            arrays[made] = now
    assert isinstance(now, Result)
    tables.pass_names(form, now.form)
    return now


def _where(test: Expr, change: Node, now: Array, tables: Tables) -> Array:
    """Returns an array changed where a test holds."""
    axes = change.axes if isinstance(change, Generate) else tuple(Axis(fresh("i"), n) for n in now.shape)
    own = tuple(axis.var for axis in axes)
    value = change.bodies[0] if isinstance(change, Generate) else Load(Result(change, 0), own, False)
    chosen = Generate(axes, (Op("select", value.dtype, (test, value, Load(now, own, False))),))
    return tables.made(chosen, "update")


def _asked_before(test: Expr, array: Array, tables: Tables) -> Expr:
    """Returns a test as a scalar evaluated before the changes, if these could alter it; not evaluated for an array without elements."""
    nodes = scalar_nodes(test)
    if all(
        isinstance(node, Const | SizeVar | Count | Var) or (isinstance(node, Op) and not can_fault(node))
        for node in nodes
    ):
        return test
    return tables.scalar(made_for_elements(test, array.shape), "condition")
