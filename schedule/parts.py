"""Parts of strategies, which are stages: `s["total"].part("combine")`.

A part has the axes of the stage's results and takes loop directives. It exists once the strategy is said; steps name it "total::combine".
Nothing else sees it: its plan is kept in the plan of the stage that it is a part of.
"""

from __future__ import annotations

from dataclasses import replace

from raido.schedule.directives.recorder import Rule
from raido.schedule.invariants import check_nesting
from raido.schedule.plan import StagePlan
from raido.schedule.refusal import Refusal, listed
from raido.schedule.stages.stage import Stage
from raido.schedule.state import State, plain_plan
from raido.schedule.steps import PART
from raido.schedule.strategies import part_name, part_stage, strategies_of

DIRECTIVES = ("split", "fuse", "reorder", "tile", "tail", "vectorize", "unroll", "parallel")


def owner_of(state: State, name: object) -> tuple[str, str] | None:
    """The stage and the part that a name like "total::combine" means; None where it is that of a stage, or of nothing."""
    if not isinstance(name, str) or name in state.uses.stages:
        return None
    owner, _, part = name.rpartition(PART)
    return (owner, part) if owner in state.uses.stages else None


def plan_of_part(state: State, owner: str, part: str) -> tuple[Stage, StagePlan]:
    """A part of the strategy of a stage, and what was said of it so far."""
    plan = state.plan(owner)
    chosen = plan.strategy[0] if plan.strategy else ""
    found = strategies_of(state.stage(owner))
    if not chosen:
        having = [name for name, strategy in found.items() if part in strategy.parts]
        remedy = f'strategy("{having[0]}") first' if having else None
        raise Refusal("parts are those of a strategy, and none has been said", remedy, parts="none")
    if part not in found[chosen].parts:
        raise Refusal(f'strategy "{chosen}" has no part "{part}"', parts=listed(found[chosen].parts) or "none")
    whole = part_stage(state.stage(owner), part)
    said = next((each for each in plan.parts if each.stage == whole.name), None)
    return whole, said or plain_plan(whole)


def apply_to_part(state: State, owner: str, part: str, entry: Rule, arguments: dict[str, object]) -> State:
    """The state after a loop directive for a part."""
    whole, own = plan_of_part(state, owner, part)
    if entry.name not in DIRECTIVES:
        raise Refusal("a part of a strategy takes loop directives alone", directives=listed(DIRECTIVES))
    uses = replace(state.uses, stages={**state.uses.stages, whole.name: whole})
    after = entry.apply(replace(state, uses=uses, plans={**state.plans, whole.name: own}), whole.name, **arguments)
    check_nesting(after, whole.name)
    plan = state.plan(owner)
    parts = (*(each for each in plan.parts if each.stage != part_name(owner, part)), after.plans[whole.name])
    return replace(state, plans={**state.plans, owner: replace(plan, parts=parts)}, asked=after.asked)
