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
    hosts = {name: plan.compute_with.stage for name, plan in state.plans.items() if plan.compute_with is not None}
    guests = list(hosts)
    if not guests:
        return
    for guest, host in hosts.items():
        members = [host, *(other for other in guests if hosts[other] == host)]
        for producer in members:
            if producer != guest:
                check_reads(state, guest, producer, host)
        check_shared_fold(state, guest)
        check_placed_guest(state, guest)
    check_order(state, guests)


def lender(state: State, name: str) -> str:
    """Returns the leader whose loops a stage shares, or the stage itself."""
    with_ = state.plans[name].compute_with
    return name if with_ is None else with_.stage


def check_shared_fold(state: State, guest: str) -> None:
    """Refuses shared loops that fold a fused stage's values in lanes or out of order when its operator is not commutative."""
    stage, plan = state.stage(guest), state.plans[guest]
    if stage.reduction is None or stage.reduction.commutative or plan.compute_with is None:
        return
    host = plan.compute_with.stage
    folding = [loop.name for loop in plan.loops if is_reduction(stage, plan, loop.name)]
    wanted = loops_after([axis.name for axis in stage.reduction_axes], plan.relations)
    if folding != wanted:
        raise Refusal(
            f'"{guest}" would fold its values in the order {listed(folding)}, and its operator is not commutative',
            "commutative=True on the reduction, if its operator is commutative",
        )
    for own, theirs in zip(plan.loops, state.plans[host].loops[: shared_count(state, guest)], strict=False):
        if theirs.kind == "vector" and own.name in folding:
            raise Refusal(
                f'each iteration of "{theirs.name}" of "{host}" folds a value into "{guest}", '
                "whose operator is not commutative",
                "commutative=True on the reduction, if its operator is commutative",
            )


def check_placed_guest(state: State, guest: str) -> None:
    """Refuses to fuse a stage into a leader that is computed at a loop of another stage, unless the fused stage could be computed there
    too.
    """
    host = lender(state, guest)
    at = state.plans[host].compute
    if not isinstance(at, At):
        return
    where = f'"{host}" is computed inside loop "{at.loop}" of "{at.stage}"'
    if guest in state.uses.outputs:
        raise Refusal(f'"{guest}" is an output, and {where}')
    refuse_control_readers(state, guest)
    check_encloses_readers(state, guest, at)
    stage, plan = state.stage(guest), state.plans[guest]
    shared = {axis for loop in plan.loops[: shared_count(state, guest)] for axis in axes_of(plan, loop.name)}
    for reader in state.uses.readers[guest]:
        for load in state.uses.loads.get(reader, {}).get(guest, ()):
            for k, axis in enumerate(stage.axes):
                if axis.name in shared and not is_bounded(load, k):
                    raise Refusal(
                        f'"{reader}" reads "{guest}" at computed indices along "{axis.name}", so the whole array is needed, '
                        f"and {where}",
                        f's["{host}"].root()',
                    )
    theirs = state.plans[host]
    for loop, leading in zip(plan.loops[: shared_count(state, guest)], theirs.loops, strict=False):
        if is_reduction(stage, plan, loop.name) and not is_reduction(state.stage(host), theirs, leading.name):
            raise Refusal(
                f'"{guest}" folds over loops that it shares with "{host}", and {where}, for part of them only'
            )


def check_reads(state: State, reader: str, producer: str, host: str) -> None:
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
    plan = state.plans[host]
    depth = position(plan, at.loop)
    theirs = state.plans[producer].compute_with
    if theirs is not None and position(plan, theirs.loop) < depth:
        raise Refusal(f'"{reader}" reads "{producer}", which shares only loops outside "{at.loop}"', f'"{theirs.loop}"')
    shared = [loop.name for loop in plan.loops[: depth + 1]]
    host_stage, producing = state.stage(host), state.stage(producer)
    if producing.reduction and not producing.scan and any(is_reduction(host_stage, plan, loop) for loop in shared):
        raise Refusal(f'"{reader}" reads "{producer}", which is complete only after its reduction loops')
    needed = {axis for loop in shared for axis in axes_of(plan, loop)}
    for load in loads:
        for k, axis in enumerate(host_stage.all_axes):
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
        name = lender(state, name)
        at = state.plans[name].compute
        if at == where:
            return name
        if not isinstance(at, At):
            return None
        name = at.stage
    return name if where == Root() else None


def check_order(state: State, guests: list[str]) -> None:
    """Refuses nests that depend on each other cyclically."""
    for home in dict.fromkeys(lender(state, guest) for guest in guests):
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
    group = {name for name in inside if name in state.plans and lender(state, name) == home}
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
