"""Rows that go through different numbers of iterations of one array loop: when each of them has ended.

    for t in 0..longest:                           becomes    parallel y in 0..n dynamic:
      parallel y in 0..n:                                       for t in 0..min(longest, count[y]):
        state[y] = f(state[y]) if t < count[y] else state[y]      state[y] = f(state[y])

This is how `rd.map(lambda row, k: rd.loop(k, …), rows, count)` and `rd.map(lambda row: rd.while_loop(…), rows)` read once the loop stands
outside the map: it goes on as long as any row does, and a row that has ended does nothing. That it does nothing is proved of the
statements here, with its test settled as false; in the iterations that are left the test is settled as true.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, replace

from raido.algo.graph import index as ix
from raido.algo.graph.dtypes import bool_
from raido.algo.graph.expr import Node, Op, Var, const, fresh
from raido.algo.graph.rewrite import topological
from raido.schedule.nest.effects import written
from raido.schedule.nest.nodes import Alloc, Block, Check, For, Let, Statement, Store, While
from raido.schedule.nest.rows import kept_in_caches
from raido.schedule.nest.settle import does_nothing, settle
from raido.schedule.nest.values import Buffer, NestExpr, Read, new_serial
from raido.schedule.nest.walk import expressions_of, map_statements, statements_within


@dataclass(frozen=True, slots=True)
class End:
    """The test by which a row goes on; of a loop that counts, the number of iterations from which on it never holds again."""

    goes_on: NestExpr
    high: NestExpr | None = None


def own_end(loop: For | While, row: tuple[Var, ...], iteration: Sequence[Statement], own: Set[Buffer]) -> End | None:
    """When a row has ended, if its iterations do nothing from then on; None where all rows go through all iterations.

    own: memory that every iteration allocates anew.
    """
    if isinstance(loop, While):
        found = [] if loop.each is None else [End(Read(loop.each, row, None))]
    else:
        found = _ends(loop.var, row, iteration)
    return next((end for end in found if does_nothing(settle(iteration, {end.goes_on: False}), own)), None)  # type: ignore[dict-item]


def _ends(index: Var, row: tuple[Var, ...], iteration: Sequence[Statement]) -> list[End]:
    """The tests of iterations that compare their number with one that memory has for the row and no iteration changes."""
    changed = written(*iteration)
    expressions = [e for s in statements_within(settle(iteration, {})) for e in expressions_of(s)]
    tests = (node for node in topological(*expressions) if isinstance(node, Op) and node.name == "lt")  # type: ignore[arg-type]
    compared = [(test, *test.args) for test in tests]
    return [End(test, high) for test, left, high in compared if left is index and _is_of_row(high, row, changed)]


def _is_of_row(e: Node, row: tuple[Var, ...], changed: set[Buffer]) -> bool:
    return isinstance(e, Read) and e.predicate is None and e.buffer not in changed and set(e.indices) <= set(row)


def iterations_of_one_row(loop: For | While, end: End | None, setup: Block, body: Block) -> Block:
    """The loop as one row goes through it: as long as any does, or until its own end."""
    if isinstance(loop, While):
        assert end is not None
        return _stopped_by_faults(While(kept_in_caches(setup), end.goes_on, body))
    high = loop.high if end is None or end.high is None else ix.minimum(loop.high, end.high)  # type: ignore[arg-type]
    return Block((replace(loop, high=high, body=body),))


def _stopped_by_faults(loop: While) -> Block:
    """A loop that ends where one of its checks has failed, after which it might never end."""
    if not any(isinstance(s, Check) for s in statements_within(loop)):
        return Block((loop,))
    sound = Buffer("sound", bool_, (), "register", new_serial(), (), 1, None)
    held = fresh("sound", bool_)
    setup = Block((*_watched(loop.setup, sound).statements, Let(held, Read(sound, (), None))))
    goes_on = Op("logical_and", bool_, (held, loop.condition))  # type: ignore[arg-type]
    watched = replace(loop, setup=setup, condition=goes_on, body=_watched(loop.body, sound))
    return Block((Alloc(sound), Store(sound, (), const(bool_, True)), watched))


def _watched(block: Block, sound: Buffer) -> Block:
    """The block, which records in a register whether its checks hold."""

    def recorded(s: Statement) -> list[Statement]:
        if not isinstance(s, Check):
            return [s]
        holds = s.holds
        if s.predicate is not None:
            holds = Op("logical_or", bool_, (holds, Op("logical_not", bool_, (s.predicate,))))  # type: ignore[arg-type]
        return [s, Store(sound, (), Op("logical_and", bool_, (Read(sound, (), None), holds)))]  # type: ignore[arg-type]

    return map_statements(block, recorded)
