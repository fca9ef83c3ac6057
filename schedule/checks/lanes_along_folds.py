"""Legality of lanes along the axis of a fold.

The lanes of a commutative fold take its values in turn, and their partial results are combined in a tree. The lanes of another fold have a
block of consecutive iterations each, combined in order (`lower/loops/lane_blocks.py`); no other stage may run in such a loop.
"""

from __future__ import annotations

from raido.algo.graph.reduction import is_arithmetic
from raido.algo.graph.rewrite import free_variables
from raido.schedule.plan import StagePlan
from raido.schedule.refusal import Refusal, listed
from raido.schedule.stages.stage import Stage
from raido.schedule.state import State, axes_of, is_reduction, placed_at, shared_count

LANES_OF_BLOCKS = 8


def lanes_of_blocks(stage: Stage, plan: StagePlan, loop: str) -> int:
    """Returns the default number of lanes along a fold that is not commutative; 0 for other loops."""
    return LANES_OF_BLOCKS if is_ordered_fold(stage) and is_reduction(stage, plan, loop) else 0


def is_ordered_fold(stage: Stage) -> bool:
    """Whether a stage is a plain reduction whose operator is not commutative."""
    return is_plain_fold(stage) and stage.reduction is not None and not stage.reduction.commutative


def is_plain_fold(stage: Stage) -> bool:
    """Whether a stage is a reduction, and no scan, update, filter or sort."""
    stepwise = (stage.scan, stage.filter, stage.update, stage.sort) != (None,) * 4
    return stage.reduction is not None and not stepwise


def check_lanes(state: State, name: str) -> None:
    """Refuses lanes along a fold that its operator or its loops do not allow; filters and sorts have no operator."""
    stage, plan = state.stage(name), state.plans[name]
    if stage.reduction is None or stage.filter is not None or stage.sort is not None:
        return
    leader = plan.compute_with and state.plans[plan.compute_with.stage]
    shared = leader.loops[: shared_count(state, name)] if leader else ()
    running = (*shared, *plan.loops[len(shared) :])
    lanes = (k for k, loop in enumerate(running) if loop.kind == "vector")
    position = next((k for k in lanes if is_reduction(stage, plan, plan.loops[k].name)), None)
    if position is None:
        return
    check_lanes_of_operator(stage)
    if is_plain_fold(stage):
        check_one_operator(stage)
    if is_ordered_fold(stage) and leader is None:
        check_blocks(state, name, position)


def check_lanes_of_operator(stage: Stage) -> None:
    """Refuses lanes along a fold whose operator is not plain arithmetic."""
    fold = stage.reduction
    assert fold is not None
    if not is_arithmetic(*fold.combine):
        why = f'the operator of "{stage.name}" branches, loops, reads arrays or may fault, so vector lanes cannot apply it'
        verb = "scanned" if stage.scan else "folded"
        raise Refusal(why, f"leave the loop serial, or vectorize a loop that is not {verb}")


def check_one_operator(stage: Stage) -> None:
    """Refuses lanes along a reduction whose operator or neutral element differs from element to element, or is read from memory."""
    fold = stage.reduction
    assert fold is not None
    used = {variable for e in (*fold.combine, *fold.neutral) for variable in free_variables(e)}
    differs = [axis.name for axis in stage.axes if axis.var in used]
    if differs:
        raise Refusal(
            f'the operator of "{stage.name}" or its initial value differs along {listed(differs)}',
            f'vectorize "{differs[-1]}"',
        )
    if not is_arithmetic(*fold.neutral):
        raise Refusal(
            f'the initial value of "{stage.name}" is read from memory, and every lane would begin with it',
            "leave the loop serial, or vectorize a loop that is not folded",
        )


def check_blocks(state: State, name: str, position: int) -> None:
    """Refuses lanes with blocks of their own where other stages run in their loop, or loops around them are unrolled."""
    plan = state.plans[name]
    loop = plan.loops[position].name
    why = f'lanes of "{loop}" have a block of iterations each, as the operator of "{name}" is not commutative'
    remedy = "commutative=True on the reduction, if its operator is commutative"
    others = [each for inner in plan.loops[position:] for each in placed_at(state, name, inner.name)]
    if others:
        names = listed(f'"{each}"' for each in dict.fromkeys(others))
        raise Refusal(f"{why}, and {names} would run inside", remedy)
    unrolled = next((outer.name for outer in plan.loops[:position] if outer.kind == "unroll"), None)
    if unrolled is not None:
        raise Refusal(f'{why}, and "{unrolled}" around it is unrolled', f'reorder "{unrolled}" inside "{loop}"')
    outside = next(k for k, each in enumerate(plan.loops) if is_reduction(state.stage(name), plan, each.name))
    between = {axis for each in plan.loops[outside:position] for axis in axes_of(plan, each.name)}
    inside = {axis for each in plan.loops[position + 1 :] for axis in axes_of(plan, each.name)}
    reduced = {axis.name for axis in state.stage(name).reduction_axes}
    if apart := between & inside - reduced:
        raise Refusal(f"{why}, and loops along {listed(sorted(apart))} stand around it and inside", remedy)
