"""Parts of strategies, which are stages: `s["total"].part("combine")`.

A part (`parts`) takes loop directives. It exists once the strategy is said; directives name it "total::combine". Nothing else sees
it: its plan is kept in the plan of the stage that it is a part of.
"""

from __future__ import annotations

from dataclasses import replace

from raido.schedule.checks.invariants import check_nesting
from raido.schedule.checks.levels import check_levels
from raido.schedule.directives.recorder import Rule
from raido.schedule.plan import StagePlan
from raido.schedule.recorded import PART
from raido.schedule.refusal import Refusal, listed
from raido.schedule.stages.stage import Stage
from raido.schedule.state import State
from raido.schedule.strategies.parts import check_part_of_blocks, check_parts, part_name, part_plan, part_stage
from raido.schedule.strategies.table import strategies_of

DIRECTIVES = ("split", "fuse", "reorder", "tile", "tail", "vectorize", "unroll", "parallel", "bind")


def owner_of(state: State, name: object) -> tuple[str, str] | None:
    """Splits a name such as "total::combine" into stage and part; None for the name of a stage, or of nothing."""
    if not isinstance(name, str) or name in state.uses.stages:
        return None
    owner, _, part = name.rpartition(PART)
    return (owner, part) if owner in state.uses.stages else None


def plan_of_part(state: State, owner: str, part: str) -> tuple[Stage, StagePlan]:
    """Returns a part of a stage's strategy as a stage, and its plan so far. Refuses parts before a strategy is chosen, and unknown ones."""
    plan = state.plan(owner)
    chosen = plan.strategy[0] if plan.strategy else ""
    found = strategies_of(state.stage(owner))
    if not chosen:
        having = [name for name, strategy in found.items() if part in strategy.parts]
        remedy = f'strategy("{having[0]}") first' if having else None
        raise Refusal(
            "only a strategy has parts, and the schedule names no strategy for this stage", remedy, parts="none"
        )
    if part not in found[chosen].parts:
        raise Refusal(f'strategy "{chosen}" has no part "{part}"', parts=listed(found[chosen].parts) or "none")
    stage = state.stage(owner)
    return part_stage(stage, plan, part), part_plan(stage, plan, part)


def apply_to_part(state: State, owner: str, part: str, entry: Rule, arguments: dict[str, object]) -> State:
    """Returns the state after a loop directive for a part."""
    whole, own = plan_of_part(state, owner, part)
    if entry.name not in DIRECTIVES:
        raise Refusal("a part of a strategy accepts loop directives only", directives=listed(DIRECTIVES))
    check_part_of_blocks(whole, part, entry.name, arguments, state.gpu is not None)
    uses = replace(state.uses, stages={**state.uses.stages, whole.name: whole})
    after = entry.apply(replace(state, uses=uses, plans={**state.plans, whole.name: own}), whole.name, **arguments)
    check_nesting(after, whole.name)
    check_levels(after, whole.name)
    plan = state.plan(owner)
    parts = (*(each for each in plan.parts if each.stage != part_name(owner, part)), after.plans[whole.name])
    state = replace(state, plans={**state.plans, owner: replace(plan, parts=parts)}, decided=after.decided)
    check_parts(state, owner)
    return state
