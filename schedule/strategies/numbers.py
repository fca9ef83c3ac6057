"""The numbers that directives come with where none are given: those of strategies, with what texts over sizes mean, and the iterations
of a parallel loop that have a partial result together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeAlias, cast

from raido.algo.graph import index as ix
from raido.algo.graph.expr import Expr
from raido.schedule.checks.lanes_along_folds import is_plain_fold, lanes_of_blocks
from raido.schedule.machine import USUAL, Machine
from raido.schedule.plan import StagePlan
from raido.schedule.stages.stage import Stage, is_array_loop
from raido.schedule.state import State, is_reduction, moves_by, resolve
from raido.schedule.steps import PART, Arguments, Step, Value
from raido.schedule.strategies.table import strategies_of
from raido.schedule.text.sizes import parse_number, sizes_of

Numbers: TypeAlias = "tuple[tuple[str, int | Expr], ...]"
OLD_NAMES = {"copies": "replicas"}  # as schedules wrote them before
MOST_CHUNKS = 4096  # whatever sizes are: what chunks keep apart has sizes that 64 bits hold
FOLDED = 8  # operations at least of an iteration that folds: loads, what is made of them, the operator, and what the loop takes


def full_numbers(stage: Stage, name: str, numbers: Mapping[str, object], machine: Machine = USUAL) -> dict[str, object]:
    """All numbers of a strategy, those not given as it comes with them; those given alone where the stage has no such strategy."""
    renamed = {OLD_NAMES.get(each, each): value for each, value in numbers.items()}
    found = strategies_of(stage, machine)
    return {**found[name].numbers, **renamed} if name in found else renamed


def grain_of_partials(stage: Stage, plan: StagePlan, loop: str) -> int:
    """The iterations of a parallel loop over a reduction axis that fold into one partial result, where none are given; 0 for other loops.

    They are worth a thread's while. An iteration of a loop over chunks, which a split has made, has a partial result of its own.
    """
    if not is_plain_fold(stage) or not is_reduction(stage, plan, loop) or moves_by(plan, loop) > 1:
        return 0
    return USUAL.task // FOLDED


_NUMBERS_OF_LOOPS = {"parallel": ("grain", grain_of_partials), "vectorize": ("lanes", lanes_of_blocks)}


def with_numbers(state: State, step: Step, machine: Machine = USUAL) -> Step:
    """A step with all that it leaves to what its directive comes with: the numbers of a strategy, the grain of a parallel reduction, the
    lanes that have a block each.
    """
    if step.directive not in ("strategy", "parallel", "vectorize") or PART in step.stage:
        return step
    given = dict(step.args)
    name = resolve(state.uses.stages, step.stage)
    if is_array_loop(state.uses.stages[name]):
        rows = step.directive == "strategy" and given.get("name") == "rows"
        return replace(step, args=tuple({"name": "rows", "depth": 1, **given}.items())) if rows else step
    stage = state.stage(name)
    if step.directive in _NUMBERS_OF_LOOPS:
        number, found = _NUMBERS_OF_LOOPS[step.directive]
        axis = given.pop("axis")
        value = 0 if number in given else found(stage, state.plan(name), str(axis))
        return replace(step, args=(("axis", axis), (number, value), *given.items())) if value else step
    strategy = str(given.pop("name"))
    numbers = {each: cast(Value, value) for each, value in full_numbers(stage, strategy, given, machine).items()}
    args: Arguments = (("name", strategy), *numbers.items())
    return replace(step, args=args)


def numbers_over_sizes(state: State, name: str, numbers: Mapping[str, object]) -> Numbers:
    """The numbers of a stage's strategy, those that are texts as expressions; a refusal says what is wrong with one."""
    names = sizes_and_axes(state, name) | {n: ix.as_index(v) for n, v in numbers.items() if type(v) is int}
    found: list[tuple[str, int | Expr]] = []
    for number, value in numbers.items():
        if not isinstance(value, str):
            found.append((number, cast(int, value)))
            continue
        made = ix.minimum(parse_number(value, names, f'{number}="min(64, n // 2048)"'), MOST_CHUNKS)
        constant = ix.constant_value(made)
        found.append((number, made if constant is None else constant))
    return tuple(found)


def sizes_and_axes(state: State, name: str) -> dict[str, Expr]:
    """The names that parameters and tests of a stage may mention: the program's sizes, and its axes, which stand for their extents."""
    return sizes_of(state.graph.program) | {axis.name: axis.extent for axis in state.stage(name).all_axes}
