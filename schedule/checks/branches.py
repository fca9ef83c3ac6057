"""Branches of a stage, and the stages in its loops, which must be copies of arrays.

A copy is made in every branch that has the loop at which it is placed and the loops of its layout; the other branches read the array
itself:

before   c.split("r", 8); c.when("r > 4096"): …; c.cache("b", "c", "ro")
after    if r > 4096: … b … else: for ro: b_copy = b[…]; … b_copy …
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from raido.algo.graph.expr import Load, Node, Result
from raido.schedule.checks.levels import check_levels
from raido.schedule.directives.placement import check_encloses_readers
from raido.schedule.plan import At, StagePlan
from raido.schedule.refusal import Refusal
from raido.schedule.stages.stage import Stage
from raido.schedule.state import State, compute_sites, readers_of


def check_branches(state: State, name: str) -> None:
    """Refuses branches of a stage placed in other loops, and stages placed in the loops of a stage with branches.

    Excepted are copies of arrays that no other stage reads; each branch that has the copy's loop must be able to make it.
    """
    plan = state.plans[name]
    at = next((at for at in compute_sites(plan) if plan.instead or state.plans[at.stage].instead), None)
    if at is None:
        return
    copied = at is plan.compute and is_copy(state.stage(name)) and readers_of(state, name) == (at.stage,)
    if plan.instead or plan.store is not None or not copied:
        whose = name if plan.instead else at.stage
        raise Refusal(
            f'"{whose}" has branches (`when`), so its loops differ from branch to branch', f's["{name}"].root()'
        )
    for branch in state.plans[at.stage].instead:
        if takes_copy(plan, state.plans[at.stage], branch.plan):
            inside = replace(state, plans={**state.plans, at.stage: branch.plan})
            check_encloses_readers(inside, name, at)
            check_levels(inside, name)


def has_loop(plan: StagePlan, name: str) -> bool:
    """Whether a plan has a loop of that name."""
    return any(loop.name == name for loop in plan.loops)


def takes_copy(copy: StagePlan, own: StagePlan, branch: StagePlan) -> bool:
    """Whether a branch makes and reads a copy placed in the stage's loops: it has the copy's loop, and all loops of its layout that the
    stage has.
    """
    assert isinstance(copy.compute, At)
    needed = (copy.compute.loop, *(each for each in copy.layout if has_loop(own, each)))
    return all(has_loop(branch, each) for each in needed)


def is_copy(stage: Stage) -> bool:
    """Whether a stage copies arrays, element by element."""
    own = tuple(axis.var for axis in stage.axes)
    plain = stage.reduction is None and stage.sort is None and stage.filter is None
    return plain and all(isinstance(e, Load) and e.indices == own and not e.checked for e in stage.bodies)


def arrays_not_copied(stages: Iterable[Stage], plans: Mapping[str, StagePlan], branch: StagePlan) -> dict[Node, Node]:
    """Maps copies placed in a stage's loops to the arrays that a branch reads instead."""
    homes = ((stage, plans[stage.name].compute) for stage in stages)
    inside = (stage for stage, home in homes if isinstance(home, At) and home.stage == branch.stage)
    copies = (stage for stage in inside if not takes_copy(plans[stage.name], plans[branch.stage], branch))
    loads = ((Result(copy.form, k), load) for copy in copies for k, load in enumerate(copy.bodies))
    return {copy: load.array for copy, load in loads if isinstance(load, Load)}
