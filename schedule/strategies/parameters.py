"""Default parameters of directives: those of strategies, with the meaning of texts over sizes, the iterations of a parallel loop that share
a partial result, and lanes of ordered folds.
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
from raido.schedule.recorded import PART, Arguments, Directive, Value
from raido.schedule.stages.stage import Stage, is_array_loop
from raido.schedule.state import State, is_reduction, resolve, stride_of
from raido.schedule.strategies.table import strategies_of
from raido.schedule.text.sizes import parse_number, sizes_of

Parameters: TypeAlias = "tuple[tuple[str, int | Expr], ...]"
OLD_NAMES = {"copies": "replicas"}  # parameters that older schedules name otherwise
MOST_CHUNKS = 4096  # for any sizes: so that sizes of the chunks' buffers fit 64 bits
FOLDED = 8  # operations of a folding iteration, at least: loads, their use, the operator and the loop's overhead


def full_parameters(
    stage: Stage, name: str, parameters: Mapping[str, object], machine: Machine = USUAL
) -> dict[str, object]:
    """Returns all parameters of a strategy, defaults included; only the given ones where the stage has no strategy of that name."""
    renamed = {OLD_NAMES.get(each, each): value for each, value in parameters.items()}
    found = strategies_of(stage, machine)
    return {**found[name].numbers, **renamed} if name in found else renamed


def grain_of_partials(stage: Stage, plan: StagePlan, loop: str) -> int:
    """Returns the default number of iterations of a parallel reduction loop that share one partial result; 0 for other loops.

    They are a task's worth of work. An iteration of a loop over chunks, the outer half of a split, has a partial result of its own.
    """
    if not is_plain_fold(stage) or not is_reduction(stage, plan, loop) or stride_of(plan, loop) > 1:
        return 0
    return USUAL.task // FOLDED


_PARAMETERS_OF_LOOPS = {"parallel": ("grain", grain_of_partials), "vectorize": ("lanes", lanes_of_blocks)}


def with_parameters(state: State, directive: Directive, machine: Machine = USUAL) -> Directive:
    """Returns a directive with its default parameters: those of a strategy, the grain of a parallel reduction, the lanes of an ordered fold."""
    if directive.name not in ("strategy", "parallel", "vectorize") or PART in directive.stage:
        return directive
    given = dict(directive.args)
    name = resolve(state.uses.stages, directive.stage)
    if is_array_loop(state.uses.stages[name]):
        rows = directive.name == "strategy" and given.get("name") == "rows"
        return replace(directive, args=tuple({"name": "rows", "depth": 1, **given}.items())) if rows else directive
    stage = state.stage(name)
    if directive.name in _PARAMETERS_OF_LOOPS:
        number, found = _PARAMETERS_OF_LOOPS[directive.name]
        axis = given.pop("axis")
        value = 0 if number in given else found(stage, state.plan(name), str(axis))
        return replace(directive, args=(("axis", axis), (number, value), *given.items())) if value else directive
    strategy = str(given.pop("name"))
    parameters = {each: cast(Value, value) for each, value in full_parameters(stage, strategy, given, machine).items()}
    args: Arguments = (("name", strategy), *parameters.items())
    return replace(directive, args=args)


def parameters_over_sizes(state: State, name: str, parameters: Mapping[str, object]) -> Parameters:
    """Returns a strategy's parameters, with texts over sizes as expressions; refuses texts that are not arithmetic on sizes."""
    names = sizes_and_axes(state, name) | {n: ix.as_index(v) for n, v in parameters.items() if type(v) is int}
    found: list[tuple[str, int | Expr]] = []
    for number, value in parameters.items():
        if not isinstance(value, str):
            found.append((number, cast(int, value)))
            continue
        made = ix.minimum(parse_number(value, names, f'{number}="min(64, n // 2048)"'), MOST_CHUNKS)
        constant = ix.constant_value(made)
        found.append((number, made if constant is None else constant))
    return tuple(found)


def sizes_and_axes(state: State, name: str) -> dict[str, Expr]:
    """Returns the names that a stage's parameters and tests may mention: the program's sizes, and the stage's axes as their extents."""
    return sizes_of(state.graph.program) | {axis.name: axis.extent for axis in state.stage(name).all_axes}
