"""The numbers of strategies: those given, those that a strategy comes with, and what texts over sizes mean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeAlias, cast

from raido.algo.graph import index as ix
from raido.algo.graph.expr import Expr
from raido.schedule.size_texts import parse_number, sizes_of
from raido.schedule.stages.stage import Stage
from raido.schedule.state import State, resolve
from raido.schedule.steps import PART, Arguments, Step, Value
from raido.schedule.strategies import strategies_of

Numbers: TypeAlias = "tuple[tuple[str, int | Expr], ...]"
OLD_NAMES = {"copies": "replicas"}  # as schedules wrote them before
MOST_CHUNKS = 4096  # whatever sizes are: what chunks keep apart has sizes that 64 bits hold


def full_numbers(stage: Stage, name: str, numbers: Mapping[str, object]) -> dict[str, object]:
    """All numbers of a strategy, those not given as it comes with them."""
    renamed = {OLD_NAMES.get(each, each): value for each, value in numbers.items()}
    return {**strategies_of(stage)[name].numbers, **renamed}


def with_numbers(state: State, step: Step) -> Step:
    """A step with all that it leaves to what a strategy comes with: other steps are as they were."""
    if step.directive != "strategy" or PART in step.stage:
        return step
    given = dict(step.args)
    name = str(given.pop("name"))
    stage = state.stage(resolve(state.uses.stages, step.stage))
    numbers = {each: cast(Value, value) for each, value in full_numbers(stage, name, given).items()}
    args: Arguments = (("name", name), *numbers.items())
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
