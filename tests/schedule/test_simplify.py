"""Simplification of statements where the outcome of a test is known, by their print."""

from __future__ import annotations

import pytest

from raido.algo.graph import index as ix
from raido.algo.graph.dtypes import bool_, f32, i64
from raido.algo.graph.expr import Op, const, fresh
from raido.schedule.nest.nodes import Alloc, Block, Check, For, If, Let, Statement, Store, While
from raido.schedule.nest.passes.simplify import does_nothing, simplify
from raido.schedule.nest.printer import print_statement
from raido.schedule.nest.values import Buffer, Read

MEMORY = Buffer("memory", f32, (ix.as_index(8),), "heap", 1, (), 1, None)
CHOSEN = Buffer("chosen", i64, (), "register", 2, (), 1, None)
X, NAME = fresh("x"), fresh("name", bool_)
TEST = Op("lt", bool_, (X, const(i64, 5)))
NONE = const(i64, -1)


def at(place: object, predicate: object = None) -> Store:
    return Store(MEMORY, (place,), const(f32, 1.0), predicate=predicate)  # type: ignore[arg-type]


def chosen(condition: object) -> list[Statement]:
    """A place that a branch chooses, through a register, and a store where there is one."""
    place, next_ = fresh("place"), fresh("next")
    yes = (Let(next_, Op("mul", i64, (X, const(i64, 2)))), Store(CHOSEN, (), next_))
    branches = Block(yes), Block((Store(CHOSEN, (), NONE),))
    exists = Op("ge", bool_, (place, const(i64, 0)))
    return [Alloc(CHOSEN), If(condition, *branches), Let(place, Read(CHOSEN, (), None)), at(place, exists)]  # type: ignore[arg-type]


@pytest.mark.parametrize("named", [False, True])
def test_branches_are_taken_and_registers_followed(named: bool) -> None:
    statements = [Let(NAME, TEST), *chosen(NAME)] if named else chosen(TEST)
    assert does_nothing(simplify(statements, {TEST: False}))
    taken = simplify(statements, {TEST: True})
    names = {s.var for s in taken.statements if isinstance(s, Let)}
    (store,) = (s for s in taken.statements if isinstance(s, Store) and s.buffer is MEMORY)
    assert set(store.indices) <= names
    assert not does_nothing(simplify(statements, {}))


def test_choices_and_conjunctions_are_settled() -> None:
    both = Op("logical_and", bool_, (Op("gt", bool_, (X, NONE)), TEST))
    place = Op("select", i64, (TEST, X, const(i64, 7)))
    assert does_nothing(simplify([at(X, both)], {TEST: False}))
    assert "memory[7]" in print_statement(simplify([at(place)], {TEST: False}))
    assert "memory[x] = 1.0 where x > -1" in print_statement(simplify([at(X, both)], {TEST: True}))


def test_checks_count_unless_they_hold() -> None:
    check = Check(Op("logical_or", bool_, (Op("logical_not", bool_, (TEST,)), NAME)), "index", 0, ())
    assert does_nothing(simplify([check], {TEST: False})) and not does_nothing(simplify([check], {TEST: True}))


@pytest.mark.parametrize(
    "loop",
    [lambda body: For(fresh("k"), ix.as_index(0), ix.as_index(3), 1, body), lambda body: While(Block(()), TEST, body)],
)
def test_what_loops_change_is_not_known(loop: object) -> None:
    """The first iteration finds what was stored before, later ones what the iteration before has stored."""
    place = fresh("place")
    body = Block((Let(place, Read(CHOSEN, (), None)), at(place), Store(CHOSEN, (), X)))
    settled = print_statement(simplify([Alloc(CHOSEN), Store(CHOSEN, (), NONE), loop(body)], {}))  # type: ignore[operator]
    assert "memory[place]" in settled


def test_memory_that_is_made_anew_may_change() -> None:
    assert does_nothing(Block((at(X),)), {MEMORY}) and not does_nothing(Block((at(X),)))
