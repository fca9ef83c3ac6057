"""What `compute_with` must keep true: stages in one set of loops hand each other only what is there, and nests can be put in an order.

A *nest* is a stage computed whole, the stages that share its loops, and those placed inside them.
"""

from __future__ import annotations

from raido.algo import index
from raido.schedule.refusal import Refusal
from raido.schedule.state import (
    State,
    axes_of,
    enclosing,
    is_inlined,
    is_reduction,
    position,
    readers_of,
)


def check_groups(state: State) -> None:
    """Refuses reads of what another round produces, and nests that would have to run before each other."""
    guests = [name for name, plan in state.plans.items() if plan.compute_with is not None]
    if not guests:
        return
    for guest in guests:
        host = state.plans[guest].compute_with.stage  # type: ignore[union-attr]
        members = [host, *(other for other in guests if state.plans[other].compute_with.stage == host)]  # type: ignore[union-attr]
        for producer in members:
            if producer != guest:
                check_reads(state, guest, producer, host)
    check_order(state, guests)


def check_reads(state: State, reader: str, producer: str, host: str) -> None:
    """Refuses a reader in shared loops that needs from another member what that round has not produced."""
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
    if producing.reduction and any(is_reduction(host_stage, plan, loop) for loop in shared):
        raise Refusal(f'"{reader}" reads "{producer}", which is complete only after its reduction loops')
    needed = {axis for loop in shared for axis in axes_of(plan, loop)}
    for load in loads:
        for k, axis in enumerate(host_stage.all_axes):
            if axis.name not in needed:
                continue
            own = state.stage(reader).all_axes[k].var
            if k >= len(load.indices) or index.canonical(load.indices[k]) is not own:
                written = ", ".join(index.text(i) for i in load.indices)
                raise Refusal(f'"{reader}" reads {producer}[{written}], which another round of "{at.loop}" produces')


def nest_of(state: State, name: str) -> str:
    """The stage whose loops are outermost around a stage."""
    around = enclosing(state, name) if name in state.plans else ()
    return around[0][0] if around else name


def check_order(state: State, guests: list[str]) -> None:
    """Refuses nests that need each other."""
    members: dict[str, list[str]] = {}
    for name in state.uses.stages:
        members.setdefault(nest_of(state, name), []).append(name)
    for home in dict.fromkeys(nest_of(state, guest) for guest in guests):
        for producer in members[home]:
            for first in readers_of(state, producer):
                if nest_of(state, first) != home:
                    back = _way_back(state, members, first, home)
                    if back:
                        raise Refusal(f'"{back}" needs all of "{producer}" through "{first}"')


def _way_back(state: State, members: dict[str, list[str]], start: str, home: str) -> str | None:
    """The member of `home` that needs what the nest of `start` makes, if any."""
    seen, todo = {nest_of(state, start)}, [nest_of(state, start)]
    while todo:
        for name in members[todo.pop()]:
            for reader in readers_of(state, name):
                nest = nest_of(state, reader)
                if nest == home:
                    return reader
                if nest not in seen:
                    seen.add(nest)
                    todo.append(nest)
    return None
