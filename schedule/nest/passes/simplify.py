"""Simplification of statements under known values of tests: branches and selections are decided, and dead code is removed.

Variables bound to literals or to other variables are replaced by these, and so are reads of registers with such contents. Checks that hold,
stores that are never made, and loops with empty bodies are removed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import fields, replace
from typing import Any

from raido.algo.graph.dtypes import bool_
from raido.algo.graph.expr import Const, Node, Var, const
from raido.algo.graph.rewrite import transform
from raido.schedule.nest.effects import written
from raido.schedule.nest.fold_constants import fold_literals
from raido.schedule.nest.nodes import Alloc, Block, Check, For, If, Let, Statement, Store, While
from raido.schedule.nest.values import Buffer, Read
from raido.schedule.nest.walk import statements_within


def simplify(statements: Sequence[Statement], answers: Mapping[Node, bool]) -> Block:
    """Returns the statements simplified, where these tests have these values."""
    tests = {test: const(bool_, answer) for test, answer in answers.items()}
    return Block(tuple(_Settler(tests).statements(statements, {})))


def does_nothing(block: Block, own: Set[Buffer] = frozenset()) -> bool:
    """Whether statements have no checks, and write only memory that they allocate or that is `own`."""
    made = {s.buffer for s in statements_within(block) if isinstance(s, Alloc)}
    return written(block) <= made | own and not any(isinstance(s, Check) for s in statements_within(block))


class _Settler:
    """The simplification under some tests. `known`, of each method, maps variables and reads of registers to their values."""

    def __init__(self, tests: Mapping[Node, Const]) -> None:
        self.tests = tests

    def statements(self, statements: Sequence[Statement], known: dict[Node, Node]) -> list[Statement]:
        """Returns simplified statements of one block; updates `known`."""
        return [new for s in statements for new in self.statement(s, known)]

    def statement(self, s: Statement, known: dict[Node, Node]) -> list[Statement]:
        if isinstance(s, Block):
            return self.statements(s.statements, known)  # registers keep its values for later statements
        if isinstance(s, Let):
            value = self.value(s.value, known)
            if isinstance(value, (Const, Var)) and isinstance(s.var, Var):
                known[s.var] = value
                return []
            known.pop(s.var, None)
            return [replace(s, value=value)]
        if isinstance(s, Store):
            return self.store(s, known)
        if isinstance(s, Check):
            new = self.operands(s, known)
            never = _is(new.holds, True) or _is(new.predicate, False)
            return [] if never else [replace(new, predicate=None) if _is(new.predicate, True) else new]
        if isinstance(s, If):
            return self.branch(s, known)
        if isinstance(s, (For, While)):
            return self.loop(s, known)
        _forget(s, known)
        return [self.operands(s, known)]

    def store(self, s: Store, known: dict[Node, Node]) -> list[Statement]:
        new = self.operands(s, known)
        if _is(new.predicate, False):
            return []
        if _is(new.predicate, True):
            new = replace(new, predicate=None)
        _forget(s, known)
        held = s.buffer.scope == "register" and not s.indices and new.predicate is None
        if held and isinstance(new.value, (Const, Var)):
            known[Read(s.buffer, (), None)] = new.value
        return [new]

    def branch(self, s: If, known: dict[Node, Node]) -> list[Statement]:
        condition = self.value(s.condition, known)
        if isinstance(condition, Const):
            taken = s.then if condition.value else s.orelse
            return [] if taken is None else self.statements(taken.statements, known)
        then = self.block(s.then, dict(known))
        orelse = None if s.orelse is None else self.block(s.orelse, dict(known))
        _forget(s, known)
        if not then.statements and (orelse is None or not orelse.statements):
            return []
        return [If(condition, then, orelse)]

    def loop(self, s: For | While, known: dict[Node, Node]) -> list[Statement]:
        if isinstance(s, For):
            bounds = {"low": self.value(s.low, known), "high": self.value(s.high, known)}
            _forget(s, known)
            body = self.block(s.body, dict(known))
            return [replace(s, **bounds, body=body)] if body.statements else []
        _forget(s, known)
        inside = dict(known)
        setup = self.block(s.setup, inside)
        return [replace(s, setup=setup, condition=self.value(s.condition, inside), body=self.block(s.body, inside))]

    def block(self, block: Block, known: dict[Node, Node]) -> Block:
        return Block(tuple(self.statements(block.statements, known)))

    def operands(self, s: Any, known: Mapping[Node, Node]) -> Any:
        """Returns a statement without inner blocks, its expressions simplified."""
        changed = {f.name: self.value(getattr(s, f.name), known) for f in fields(s)}
        return replace(s, **changed)

    def value(self, value: Any, known: Mapping[Node, Node]) -> Any:
        if isinstance(value, tuple):
            return tuple(self.value(v, known) for v in value)
        return transform(value, self.operation, {**known}) if isinstance(value, Node) else value

    def operation(self, e: Node) -> Node:
        return self.tests[e] if e in self.tests else fold_literals(e)


def _is(e: Any, value: bool) -> bool:
    return isinstance(e, Const) and bool(e.value) is value


def _forget(s: Statement, known: dict[Node, Node]) -> None:
    """Drops the known values of registers that a statement, or one inside it, writes."""
    for buffer in written(s):
        known.pop(Read(buffer, (), None), None)
