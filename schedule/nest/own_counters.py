"""Loops that data ends, and which end after a known number of iterations all the same, by a counter of their own.

    n = 0; while x > 1 and n < 256: …; n = n + 1

A register that is a constant before the loop, grows by a constant in every iteration, and stays below a constant as long as the loop goes on.
Such a loop needs no limit, and its counter no test: how many iterations are left says the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from raido.algo.graph.expr import Const, Expr, Node, Op
from raido.schedule.nest.effects import written
from raido.schedule.nest.nodes import Block, Let, Statement, Store, While
from raido.schedule.nest.values import Buffer, Read
from raido.schedule.nest.walk import blocks_of

MOST = 1 << 30
"""Iterations: what a loop makes in a time that a device may take, so that it is no endless one."""


@dataclass(frozen=True, slots=True)
class Counted:
    """A loop's iterations, at most, and the tests that hold as long as it goes on, but for that of its counter."""

    most: int
    tests: tuple[Expr, ...]


def counted_loops(block: Block) -> dict[While, Counted]:
    """The loops of a block that count themselves."""
    found: dict[While, Counted] = {}
    for k, s in enumerate(block.statements):
        if isinstance(s, While) and (counted := counted_loop(s, block.statements[:k])) is not None:
            found[s] = counted
        for part in (s,) if isinstance(s, Block) else blocks_of(s):
            found |= counted_loops(part)
    return found


def counted_loop(loop: While, before: Sequence[Statement]) -> Counted | None:
    """A loop that counts itself, behind these statements; None for any other."""
    if not all(isinstance(each, Let) for each in loop.setup.statements):
        return None
    return min(_by_each_counter(loop, before), key=lambda way: way.most, default=None)


def _by_each_counter(loop: While, before: Sequence[Statement]) -> Iterator[Counted]:
    """A loop by each of its counters."""
    lets = (s for s in (*loop.setup.statements, *loop.body.statements) if isinstance(s, Let))
    named: dict[Node, Expr] = {s.var: s.value for s in lets}
    tests = list(_all_of(loop.condition, named))
    for test in tests:
        if not isinstance(test, Op) or test.name not in ("lt", "le") or not isinstance(test.args[1], Const):
            continue
        counter = _register(test.args[0], named)
        if counter is None or not counter.dtype.is_integer:
            continue
        first, step = _constant_before(counter, before), _growth(counter, loop, named)
        end = int(test.args[1].value) + (test.name == "le")
        if first is None or step is None or end + step >= 1 << counter.dtype.bits - 1:
            continue
        most = max(0, -(-(end - first) // step))
        if most < MOST:
            yield Counted(most, tuple(each for each in tests if each is not test))


def _all_of(condition: Expr, named: Mapping[Node, Expr]) -> Iterator[Expr]:
    """The tests that all hold where a condition does."""
    condition = named.get(condition, condition)
    if isinstance(condition, Op) and condition.name == "logical_and":
        for each in condition.args:
            yield from _all_of(each, named)
    else:
        yield condition


def _register(value: Node, named: Mapping[Node, Expr]) -> Buffer | None:
    """The register that a value was read from."""
    value = named.get(value, value)
    scalar = isinstance(value, Read) and value.buffer.scope == "register" and not value.indices
    return value.buffer if scalar else None  # type: ignore[union-attr]


def _constant_before(register: Buffer, before: Sequence[Statement]) -> int | None:
    """The constant that a register is after some statements, if it is one."""
    for s in reversed(before):
        if isinstance(s, Store) and s.buffer is register:
            return int(s.value.value) if isinstance(s.value, Const) and s.predicate is None else None
        if register in written(s):
            return None
    return None


def _growth(register: Buffer, loop: While, named: Mapping[Node, Expr]) -> int | None:
    """The constant, 1 or more, by which a register grows in every iteration, if it does."""
    stores = [s for s in loop.body.statements if register in written(s)]
    if len(stores) != 1 or any(register in written(s) for s in loop.setup.statements):
        return None
    (store,) = stores
    if not isinstance(store, Store) or store.predicate is not None:
        return None
    value = named.get(store.value, store.value)
    if not isinstance(value, Op) or value.name != "add" or not isinstance(value.args[1], Const):
        return None
    step = int(value.args[1].value)
    return step if step > 0 and _register(value.args[0], named) is register else None
