"""Sections of loops over threads that run in the order of the iterations: who enters, and what others see of it."""

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
    """Wait for the iteration before, run, and let the next one in. What the section uses is seen, and shown, at its borders."""
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
    """An iteration whose ordered section has that number; an iteration that did not come to it passes its turn on."""
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
