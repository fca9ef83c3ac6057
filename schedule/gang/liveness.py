"""Divergent while loops: liveness of the state of lanes that have left, and uniform induction variables.

A lane that has left stays off, because the loop carries a mask. So state that is dead after the loop need not be preserved for it: the next
iteration computes it in all lanes, without selecting. And state that starts the same in all lanes and grows by the same constant is one
scalar in every lane that still runs: a comparison of it with a bound (`increments < 256`) is evaluated once for all gangs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from raido.algo.graph.expr import Const, Op
from raido.schedule.gang.variability import Variability
from raido.schedule.nest.effects import touched, writes
from raido.schedule.nest.nodes import Alloc, Let, Statement, Store, While
from raido.schedule.nest.values import Buffer, NestExpr, Read
from raido.schedule.nest.walk import statements_within

_COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")


@dataclass(frozen=True, slots=True)
class InductionVariable:
    """A uniform induction variable: state that begins as `start` and grows by `increment` in every iteration; `names` are expressions of its
    value during an iteration."""

    buffer: Buffer
    start: NestExpr
    increment: Const
    names: tuple[NestExpr, ...]


def dead_after(earlier: Sequence[Statement], later: Sequence[Statement], info: Variability) -> set[Buffer]:
    """Registers of the lanes that are dead after the loop: allocated in its block, and mentioned by no later statement."""
    made = {s.buffer for s in earlier if isinstance(s, Alloc) and s.buffer.scope == "register"}
    return (made & info.buffers) - touched(*later)


def find_induction_variables(
    loop: While, earlier: Sequence[Statement], info: Variability
) -> tuple[InductionVariable, ...]:
    """The loop's uniform induction variables, among scalar state allocated in its block."""
    found = []
    for made in earlier:
        if isinstance(made, Alloc) and not made.buffer.shape and made.buffer.scope == "register":
            induction_variable = _induction_variable(made.buffer, loop, earlier, info)
            if induction_variable is not None:
                found.append(induction_variable)
    return tuple(found)


def _induction_variable(
    buffer: Buffer, loop: While, earlier: Sequence[Statement], info: Variability
) -> InductionVariable | None:
    starts = [s for s in earlier if not isinstance(s, Alloc) and buffer in touched(s)]
    increments = [s for s in statements_within(loop) if any(w.buffer is buffer for w in writes(s))]
    if len(starts) != 1 or len(increments) != 1:
        return None
    start, increment = starts[0], increments[0]
    if not isinstance(start, Store) or not isinstance(increment, Store) or increment not in loop.body.statements:
        return None
    if start.predicate is not None or increment.predicate is not None or info.varies(start.value):
        return None
    read = Read(buffer, (), None)
    lets = [s.var for s in (*loop.setup.statements, *loop.body.statements) if isinstance(s, Let) and s.value is read]
    names = (read, *lets)
    value = increment.value
    if (
        not isinstance(value, Op)
        or value.name != "add"
        or value.args[0] not in names
        or not isinstance(value.args[1], Const)
    ):
        return None
    return InductionVariable(buffer, start.value, value.args[1], names)


def split_condition(
    condition: NestExpr, induction_variables: Sequence[InductionVariable], info: Variability
) -> tuple[list[NestExpr], list[NestExpr]]:
    """The conjuncts of a condition: those to evaluate in each lane, and those that compare only uniform values and induction variables."""
    each: list[NestExpr] = []
    common: list[NestExpr] = []
    names = {name for induction_variable in induction_variables for name in induction_variable.names}
    stack = [condition]
    while stack:
        part = stack.pop()
        if isinstance(part, Op) and part.name == "logical_and":
            stack.extend(reversed(part.args))
            continue
        agreed = isinstance(part, Op) and part.name in _COMPARISONS
        agreed = agreed and all(a in names or not info.varies(a) for a in part.args)  # type: ignore[attr-defined]
        (common if agreed else each).append(part)
    return each, common
