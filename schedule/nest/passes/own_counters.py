"""Data-dependent loops with a bounded trip count, known from a counter of their own.

    n = 0; while x > 1 and n < 256: …; n = n + 1

The counter is a register that is constant before the loop, grows by a constant in every iteration, and is below a constant while the loop
runs. Such a loop needs no iteration limit, and a count of remaining iterations replaces the counter's test.
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
"""Iterations, at most, of a loop that counts as terminating: more take longer than a device may run."""


@dataclass(frozen=True, slots=True)
class Counted:
    """The most iterations of a loop, and the conjuncts of its condition without the counter's test."""

    most: int
    tests: tuple[Expr, ...]


def counted_loops(block: Block) -> dict[While, Counted]:
    """Returns the counted loops of a block, nested ones included."""
    found: dict[While, Counted] = {}
    for k, s in enumerate(block.statements):
        if isinstance(s, While) and (counted := counted_loop(s, block.statements[:k])) is not None:
            found[s] = counted
        for part in (s,) if isinstance(s, Block) else blocks_of(s):
            found |= counted_loops(part)
    return found


def counted_loop(loop: While, before: Sequence[Statement]) -> Counted | None:
    """Returns the bound of a loop after these statements; None for a loop without a counter."""
    if not all(isinstance(each, Let) for each in loop.setup.statements):
        return None
    return min(_by_each_counter(loop, before), key=lambda way: way.most, default=None)


def _by_each_counter(loop: While, before: Sequence[Statement]) -> Iterator[Counted]:
    """Yields the bounds of a loop, by each of its counters."""
    named = names_of(loop)
    tests = list(_all_of(loop.condition, named))
    for test in tests:
        if not isinstance(test, Op) or test.name not in ("lt", "le") or not isinstance(test.args[1], Const):
            continue
        counter = _register(test.args[0], named)
        if counter is None or not counter.dtype.is_integer:
            continue
        first, increment = _constant_before(counter, before), increment_of(counter, loop, named)
        growth, end = 0 if increment is None else int(increment.value), int(test.args[1].value) + (test.name == "le")
        if first is None or growth <= 0 or end + growth >= 1 << counter.dtype.bits - 1:
            continue
        most = max(0, -(-(end - first) // growth))
        if most < MOST:
            yield Counted(most, tuple(each for each in tests if each is not test))


def _all_of(condition: Expr, named: Mapping[Node, Expr]) -> Iterator[Expr]:
    """Yields the conjuncts of a condition."""
    condition = named.get(condition, condition)
    if isinstance(condition, Op) and condition.name == "logical_and":
        for each in condition.args:
            yield from _all_of(each, named)
    else:
        yield condition


def _register(value: Node, named: Mapping[Node, Expr]) -> Buffer | None:
    """Returns the register that a value was read from; None for other values."""
    value = named.get(value, value)
    scalar = isinstance(value, Read) and value.buffer.scope == "register" and not value.indices
    return value.buffer if scalar else None  # type: ignore[union-attr]


def _constant_before(register: Buffer, before: Sequence[Statement]) -> int | None:
    """Returns the constant in a register after some statements; None where it is not constant."""
    for s in reversed(before):
        if isinstance(s, Store) and s.buffer is register:
            return int(s.value.value) if isinstance(s.value, Const) and s.predicate is None else None
        if register in written(s):
            return None
    return None


def names_of(loop: While) -> dict[Node, Expr]:
    """Returns the values of the names that a loop's setup and body bind."""
    return {s.var: s.value for s in (*loop.setup.statements, *loop.body.statements) if isinstance(s, Let)}


def increment_of(register: Buffer, loop: While, named: Mapping[Node, Expr]) -> Const | None:
    """Returns the constant that every iteration adds to a register, which nothing else in the loop changes; None without one.

    named: the values of names.
    """
    stores = [s for s in loop.body.statements if register in written(s)]
    if len(stores) != 1 or register in written(loop.setup):
        return None
    (store,) = stores
    if not isinstance(store, Store) or store.predicate is not None:
        return None
    value = named.get(store.value, store.value)
    if not isinstance(value, Op) or value.name != "add" or not isinstance(value.args[1], Const):
        return None
    return value.args[1] if _register(value.args[0], named) is register else None
