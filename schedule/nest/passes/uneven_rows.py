"""Rows with different trip counts in one array loop: the condition for each of them to end.

    for t in 0..longest:                           becomes    parallel y in 0..n dynamic:
      parallel y in 0..n:                                       for t in 0..min(longest, count[y]):
        state[y] = f(state[y]) if t < count[y] else state[y]      state[y] = f(state[y])

`rd.map(lambda row, k: rd.loop(k, …), rows, count)` and `rd.map(lambda row: rd.while_loop(…), rows)` read so once the loop is outside the
map: it runs as long as any row does, and a finished row does nothing. That is proved of the statements here, simplified with the row's test
false; in the remaining iterations the test is simplified as true.
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
from raido.schedule.nest.passes.rows import kept_in_caches
from raido.schedule.nest.passes.simplify import does_nothing, simplify
from raido.schedule.nest.values import Buffer, NestExpr, Read, register
from raido.schedule.nest.walk import expressions_of, map_statements, statements_within


@dataclass(frozen=True, slots=True)
class End:
    """The test by which a row continues; of a counting loop, the number of iterations from which on it is false."""

    goes_on: NestExpr
    high: NestExpr | None = None


def own_end(loop: For | While, row: tuple[Var, ...], iteration: Sequence[Statement], own: Set[Buffer]) -> End | None:
    """Returns the end of a row, if its iterations do nothing from then on; None where all rows run all iterations.

    own: memory that every iteration allocates anew.
    """
    if isinstance(loop, While):
        found = [] if loop.each is None else [End(Read(loop.each, row, None))]
    else:
        found = _ends(loop.var, row, iteration)
    return next((end for end in found if does_nothing(simplify(iteration, {end.goes_on: False}), own)), None)  # type: ignore[dict-item]


def _ends(index: Var, row: tuple[Var, ...], iteration: Sequence[Statement]) -> list[End]:
    """Returns the tests that compare the iteration number with a bound in memory for the row, which no iteration changes."""
    changed = written(*iteration)
    expressions = [e for s in statements_within(simplify(iteration, {})) for e in expressions_of(s)]
    tests = (node for node in topological(*expressions) if isinstance(node, Op) and node.name == "lt")  # type: ignore[arg-type]
    compared = [(test, *test.args) for test in tests]
    return [End(test, high) for test, left, high in compared if left is index and _is_of_row(high, row, changed)]


def _is_of_row(e: Node, row: tuple[Var, ...], changed: set[Buffer]) -> bool:
    return isinstance(e, Read) and e.predicate is None and e.buffer not in changed and set(e.indices) <= set(row)


def iterations_of_one_row(loop: For | While, end: End | None, setup: Block, body: Block) -> Block:
    """Returns the loop over iterations for one row: as long as any row runs, or until its own end."""
    if isinstance(loop, While):
        assert end is not None
        return _stopped_by_faults(While(kept_in_caches(setup), end.goes_on, body))
    high = loop.high if end is None or end.high is None else ix.minimum(loop.high, end.high)  # type: ignore[arg-type]
    return Block((replace(loop, high=high, body=body),))


def _stopped_by_faults(loop: While) -> Block:
    """Returns a loop that also ends when one of its checks has failed, since it may not terminate on faulted data."""
    if not any(isinstance(s, Check) for s in statements_within(loop)):
        return Block((loop,))
    sound = register("sound", bool_)
    held = fresh("sound", bool_)
    setup = Block((*_watched(loop.setup, sound).statements, Let(held, Read(sound, (), None))))
    goes_on = Op("logical_and", bool_, (held, loop.condition))  # type: ignore[arg-type]
    watched = replace(loop, setup=setup, condition=goes_on, body=_watched(loop.body, sound))
    return Block((Alloc(sound), Store(sound, (), const(bool_, True)), watched))


def _watched(block: Block, sound: Buffer) -> Block:
    """Returns the block with a register that records whether its checks have held."""

    def recorded(s: Statement) -> list[Statement]:
        if not isinstance(s, Check):
            return [s]
        holds = s.holds
        if s.predicate is not None:
            holds = Op("logical_or", bool_, (holds, Op("logical_not", bool_, (s.predicate,))))  # type: ignore[arg-type]
        return [s, Store(sound, (), Op("logical_and", bool_, (Read(sound, (), None), holds)))]  # type: ignore[arg-type]

    return map_statements(block, recorded)
