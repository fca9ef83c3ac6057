"""Divergent while loops: liveness of the state of lanes that have left, and uniform induction variables.

A lane that has left stays off, because the loop carries a mask. So state that is dead after the loop need not be preserved for it: the next
iteration computes it in all lanes, without selecting. And state that starts the same in all lanes and grows by the same constant is one
scalar in every lane that still runs: a comparison of it with a bound (`increments < 256`) is evaluated once for all gangs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from raido.algo.graph.expr import Const, Op
from raido.algo.graph.index import COMPARISONS
from raido.schedule.gang.variability import Variability
from raido.schedule.nest.effects import touched
from raido.schedule.nest.nodes import Alloc, Statement, Store, While
from raido.schedule.nest.passes.own_counters import increment_of, names_of
from raido.schedule.nest.values import Buffer, NestExpr, Read


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
    start, *others = [s for s in earlier if not isinstance(s, Alloc) and buffer in touched(s)] or [None]
    if others or not isinstance(start, Store) or start.predicate is not None or info.varies(start.value):
        return None
    read, named = Read(buffer, (), None), names_of(loop)
    increment = increment_of(buffer, loop, named)
    names = (read, *(name for name, value in named.items() if value is read))
    return None if increment is None else InductionVariable(buffer, start.value, increment, names)  # type: ignore[arg-type]


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
        agreed = isinstance(part, Op) and part.name in COMPARISONS
        agreed = agreed and all(a in names or not info.varies(a) for a in part.args)  # type: ignore[attr-defined]
        (common if agreed else each).append(part)
    return each, common
