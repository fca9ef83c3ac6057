"""Emits loops whose stores begin on cache lines: after the first iteration, which begins where the row does, the others begin at the first
line, and the last one ends where the row does.

A row without its border begins one element after a line, and every store of a whole vector is then in two lines. Iterations overlap, so the
loop must not read memory that it writes. Rows of few iterations, and rows on lines, are left as they are: the test is made at run time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from raido.algo.graph.dtypes import i64
from raido.schedule.nest.nodes import For
from raido.targets import tvm_corner as T
from raido.targets.emit.shifted_rows import Start, elements_before_line
from raido.targets.emit.streams import Row
from raido.targets.emit.terms import tir
from raido.targets.emit.unit import data_of

if TYPE_CHECKING:
    from raido.targets.emit.statements import Statements

FEWEST = 16  # iterations of a row that pay for one more


def emit_on_lines(statements: Statements, s: For, row: Row, low: Any, count: Any) -> None:
    """Emits a loop whose stores begin on lines of a row."""
    unit = statements.unit
    low, count = unit.bind("low", i64, 1, low), unit.bind("gangs", i64, 1, count)
    rounds, position = rounds_on_lines(statements, row, low, s.step, count)
    emit_rounds(statements, s, position, rounds)


def emit_rounds(
    statements: Statements, s: For, position: Callable[[Any], Any], rounds: Any, copied: bool = True
) -> None:
    """Emits iterations of a loop, whose variable has the value `position` of an iteration's number. copied: whether LLVM may unroll them."""
    counter = T.variable(statements.unit.fresh_name(s.var.name + "_round"), "int64")
    body = statements.iteration(s, position(counter), copied)
    statements.unit.out.append(T.For(counter, tir(0), rounds, T.ForKind.SERIAL, body))


def rounds_on_lines(
    statements: Statements, row: Row, low: Any, step: int, count: Any
) -> tuple[Any, Callable[[Any], Any]]:
    """The number of iterations of a loop of `count` from `low` by `step`, here `count` or one more, and the function from an iteration's
    number to the value of the loop's variable."""
    unit, zero, one = statements.unit, tir(0), tir(1)
    short = unit.bind_opaque("short", elements_before_line(unit, row, start_of(statements, row)))
    long = T.GT(count, tir(FEWEST - 1))
    moved = unit.select(T.GT(tir(row.lanes), short), unit.select(long, short, zero), zero)
    back = unit.bind_opaque("back", unit.select(T.GT(moved, zero), T.Sub(tir(step), moved), zero))
    last = unit.bind_opaque("last", T.Add(low, T.Mul(T.Sub(count, one), tir(step))))
    rounds = T.Add(count, unit.select(T.GT(back, zero), one, zero))

    def position(counter: Any) -> Any:
        return T.Min(T.Add(low, T.Max(T.Sub(T.Mul(counter, tir(step)), back), zero)), last)

    return rounds, position


def start_of(statements: Statements, row: Row) -> Start:
    """The start of a row."""
    statements.values.prepare(*row.indices)
    where, offset = statements.values.element(row.buffer, row.indices)
    return Start(data_of(where), statements.unit.bind_opaque("start", tir(offset)))
