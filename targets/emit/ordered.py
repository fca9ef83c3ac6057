"""Ordered sections of parallel loops: they run in the order of the iterations, and each sees the memory that earlier ones wrote."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from raido.algo.errors import CompileError
from raido.schedule.nest.nodes import Ordered
from raido.schedule.nest.uses import Uses
from raido.targets import tvm_corner as T
from raido.targets.emit.unit import data_of

if TYPE_CHECKING:
    from raido.targets.emit.statements import Statements


def emit_ordered(statements: Statements, s: Ordered) -> None:
    """Emits an ordered section: waits for the previous iteration, runs, passes the turn on. Addresses of the memory used inside escape at
    both ends, so that LLVM keeps no values in registers across them."""
    if statements.turn is None:
        raise CompileError("internal: an ordered section outside the loop over threads that it orders")
    unit = statements.unit
    unit.effect(unit.helpers.runtime.wait_for_turn(), *statements.turn)
    inside = [data_of(unit.memory[buffer]) for buffer in Uses(s).buffers if buffer in unit.memory]
    for pointer in inside:
        unit.effect(unit.helpers.runtime.expose(), pointer)
    outer = unit.block()
    statements.block(s.body.statements)
    unit.out, made = outer, unit.out
    unit.out += made
    for pointer in inside:
        unit.effect(unit.helpers.runtime.expose(), pointer)
    unit.effect(unit.helpers.runtime.pass_turn(), *statements.turn)


def emit_ordered_iteration(statements: Statements, turn: Any, ticket: Any, iterations: Callable[[], None]) -> None:
    """Emits an iteration whose ordered section has number `ticket`. An iteration that has not entered its section passes the turn on at its
    end."""
    unit = statements.unit
    before, statements.turn = statements.turn, (turn, ticket)
    iterations()
    statements.turn = before
    outer = unit.block()
    unit.effect(unit.helpers.runtime.wait_for_turn(), turn, ticket)
    unit.effect(unit.helpers.runtime.pass_turn(), turn, ticket)
    left_out = unit.end_block(outer)
    passed = T.call(unit.helpers.runtime.has_turn_passed(), "bool", turn, ticket)
    unit.out.append(T.IfThenElse(T.Not(passed), left_out, None))
