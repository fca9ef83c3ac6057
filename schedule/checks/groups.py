"""Invariants of `compute_with`: fused stages read only values that are already there, and nests have an order.

A *nest* here is a stage with the stages fused into its loops (its *leader* is the first) and the stages placed inside them.
"""

from __future__ import annotations

from raido.algo.graph import index
from raido.schedule.directives.placement import check_encloses_readers, is_bounded, refuse_control_readers
from raido.schedule.directives.sharing import loops_after
from raido.schedule.plan import At, Placement, Root
from raido.schedule.refusal import Refusal, listed
from raido.schedule.state import (
    State,
    axes_of,
    is_inlined,
    is_reduction,
    position,
    readers_of,
    shared_count,
)


def check_groups(state: State) -> None:
    """Refuses fused stages that read another iteration's values, folds in a wrong order, and nests that depend on each other cyclically."""
    leaders = {name: plan.compute_with.stage for name, plan in state.plans.items() if plan.compute_with is not None}
    fused_stages = list(leaders)
    if not fused_stages:
        return
    for fused_stage, leader in leaders.items():
        members = [leader, *(other for other in fused_stages if leaders[other] == leader)]
        for producer in members:
            if producer != fused_stage:
                check_reads(state, fused_stage, producer, leader)
        check_shared_fold(state, fused_stage)
        check_placed_fused_stage(state, fused_stage)
    check_order(state, fused_stages)


def leader_of(state: State, name: str) -> str:
    """Returns the leader whose loops a stage shares, or the stage itself."""
    with_ = state.plans[name].compute_with
    return name if with_ is None else with_.stage


def check_shared_fold(state: State, fused_stage: str) -> None:
    """Refuses shared loops that fold a fused stage's values in lanes or out of order when its operator is not commutative."""
    stage, plan = state.stage(fused_stage), state.plans[fused_stage]
    if stage.reduction is None or stage.reduction.commutative or plan.compute_with is None:
        return
    leader = plan.compute_with.stage
    folding = [loop.name for loop in plan.loops if is_reduction(stage, plan, loop.name)]
    wanted = loops_after([axis.name for axis in stage.reduction_axes], plan.relations)
    if folding != wanted:
        raise Refusal(
            f'"{fused_stage}" would fold its values in the order {listed(folding)}, and its operator is not commutative',
            "commutative=True on the reduction, if its operator is commutative",
        )
    for own, theirs in zip(plan.loops, state.plans[leader].loops[: shared_count(state, fused_stage)], strict=False):
        if theirs.kind == "vector" and own.name in folding:
            raise Refusal(
                f'each iteration of "{theirs.name}" of "{leader}" folds a value into "{fused_stage}", '
                "whose operator is not commutative",
                "commutative=True on the reduction, if its operator is commutative",
            )


def check_placed_fused_stage(state: State, fused_stage: str) -> None:
    """Refuses to fuse a stage into a leader that is computed at a loop of another stage, unless the fused stage could be computed there
    too.
    """
    leader = leader_of(state, fused_stage)
    at = state.plans[leader].compute
    if not isinstance(at, At):
        return
    where = f'"{leader}" is computed inside loop "{at.loop}" of "{at.stage}"'
    if fused_stage in state.uses.outputs:
        raise Refusal(f'"{fused_stage}" is an output, and {where}')
    refuse_control_readers(state, fused_stage)
    check_encloses_readers(state, fused_stage, at)
    stage, plan = state.stage(fused_stage), state.plans[fused_stage]
    shared = {axis for loop in plan.loops[: shared_count(state, fused_stage)] for axis in axes_of(plan, loop.name)}
    for reader in state.uses.readers[fused_stage]:
        for load in state.uses.loads.get(reader, {}).get(fused_stage, ()):
            for k, axis in enumerate(stage.axes):
                if axis.name in shared and not is_bounded(load, k):
                    raise Refusal(
                        f'"{reader}" reads "{fused_stage}" at computed indices along "{axis.name}", so the whole array is needed, '
                        f"and {where}",
                        f's["{leader}"].root()',
                    )
    theirs = state.plans[leader]
    for loop, leading in zip(plan.loops[: shared_count(state, fused_stage)], theirs.loops, strict=False):
        if is_reduction(stage, plan, loop.name) and not is_reduction(state.stage(leader), theirs, leading.name):
            raise Refusal(
                f'"{fused_stage}" folds over loops that it shares with "{leader}", and {where}, for part of them only'
            )


def check_reads(state: State, reader: str, producer: str, leader: str) -> None:
    """Refuses a fused stage that reads, of another stage in the same loops, an element that the current iteration has not produced."""
    for between in state.uses.readers[producer]:
        if (
            is_inlined(state, between)
            and reader in readers_of(state, producer)
            and reader in readers_of(state, between)
        ):
            raise Refusal(f'"{reader}" reads "{producer}" through "{between}", which is inlined')
    loads = state.uses.loads[reader].get(producer, ())
    if not loads:
        return
    at = state.plans[reader].compute_with
    assert at is not None
    plan = state.plans[leader]
    depth = position(plan, at.loop)
    theirs = state.plans[producer].compute_with
    if theirs is not None and position(plan, theirs.loop) < depth:
        raise Refusal(f'"{reader}" reads "{producer}", which shares only loops outside "{at.loop}"', f'"{theirs.loop}"')
    shared = [loop.name for loop in plan.loops[: depth + 1]]
    leader_stage, producing = state.stage(leader), state.stage(producer)
    if producing.reduction and not producing.scan and any(is_reduction(leader_stage, plan, loop) for loop in shared):
        raise Refusal(f'"{reader}" reads "{producer}", which is complete only after its reduction loops')
    needed = {axis for loop in shared for axis in axes_of(plan, loop)}
    for load in loads:
        for k, axis in enumerate(leader_stage.all_axes):
            if axis.name not in needed:
                continue
            own = state.stage(reader).all_axes[k].var
            if k >= len(load.indices) or index.canonical(load.indices[k]) is not own:
                written = ", ".join(index.text(i) for i in load.indices)
                raise Refusal(
                    f'"{reader}" reads {producer}[{written}], which another iteration of "{at.loop}" produces'
                )


def unit_of(state: State, name: str, where: Placement) -> str | None:
    """Returns the stage placed at `where` in whose nest a stage is computed; None when the stage is computed elsewhere."""
    while name in state.plans:
        name = leader_of(state, name)
        at = state.plans[name].compute
        if at == where:
            return name
        if not isinstance(at, At):
            return None
        name = at.stage
    return name if where == Root() else None


def check_order(state: State, fused_stages: list[str]) -> None:
    """Refuses nests that depend on each other cyclically."""
    for home in dict.fromkeys(leader_of(state, fused_stage) for fused_stage in fused_stages):
        where = state.plans[home].compute
        units = {name: unit_of(state, name, where) for name in state.uses.stages if not is_inlined(state, name)}
        members: dict[str | None, list[str]] = {}
        for name, unit in units.items():
            members.setdefault(unit, []).append(name)
        check_inner_reads(state, home, members[home])
        for producer in members[home]:
            for sized in sized_by(state, producer):
                if units[sized] == home:
                    raise Refusal(f'"{sized}" has a size that "{producer}" decides', f's["{producer}"].root()')
            for first in followers(state, producer):
                if units[first] not in (home, None):
                    back = _way_back(state, units, members, first, home)
                    if back:
                        raise Refusal(f'"{back}" needs all of "{producer}" through "{first}"')


def check_inner_reads(state: State, home: str, inside: list[str]) -> None:
    """Refuses stages inside shared loops that read a stage computed in them: an iteration computes placed producers first."""
    group = {name for name in inside if name in state.plans and leader_of(state, name) == home}
    for member in group:
        for reader in readers_of(state, member):
            if reader in inside and reader not in group:
                raise Refusal(f'"{reader}" is computed inside loops that "{member}" shares, and reads "{member}"')


def followers(state: State, name: str) -> tuple[str, ...]:
    """Returns the stages that read a stage, or have a size that it determines."""
    return tuple(dict.fromkeys((*readers_of(state, name), *sized_by(state, name))))


def sized_by(state: State, name: str) -> tuple[str, ...]:
    """Returns the stages that have a size that a stage determines, directly or through the stages inlined into them."""
    found: dict[str, None] = {}
    for sized in state.uses.sized.get(name, ()):
        found |= dict.fromkeys(readers_of(state, sized) if is_inlined(state, sized) else (sized,))
    return tuple(found)


def _way_back(
    state: State, units: dict[str, str | None], members: dict[str | None, list[str]], start: str, home: str
) -> str | None:
    """Returns a stage of the nest of `home` that depends on the nest of `start`; None where there is none."""
    seen, todo = {units[start], None}, [units[start]]
    while todo:
        for name in members[todo.pop()]:
            for reader in followers(state, name):
                unit = units[reader]
                if unit == home:
                    return reader
                if unit not in seen:
                    seen.add(unit)
                    todo.append(unit)
    return None
