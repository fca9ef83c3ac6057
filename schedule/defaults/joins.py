"""Which stages run in the loops of another one: pointwise stages of one shape, where one reads the other, or both read a third.

`Demand.hosts[guest]` is the stage whose loops a guest shares. What only the stages of one set of loops read, at their own index, is
then computed once in those loops, so it is inlined. A guest reads nothing that is made later than its host.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from raido.algo.graph import index
from raido.schedule.plan import Root
from raido.schedule.stages.stage import Stage
from raido.schedule.state import State, has_loops_said

if TYPE_CHECKING:
    from raido.schedule.defaults.demand import Demand


def join_readers(state: State, demand: Demand, stage: Stage, inlinable: bool) -> bool:
    """Lets the readers of a stage share loops where they may; whether all of them then do, so that it may be inlined into those."""
    readers = demand.readers(stage.name)
    alike = [name for name in readers if reads_own_index(state, demand, name, stage)]
    if inlinable and len(alike) == len(readers) > 1:
        first = min(alike, key=_order(state).__getitem__)
        host = demand.hosts.get(first, first)
        others = [name for name in alike if demand.hosts.get(name, name) != host]
        if all(may_join(state, demand, name, host) for name in others):
            demand.hosts.update(dict.fromkeys(others, host))
            return True
        return False
    if is_joinable(state, stage.name):
        guests = [name for name in alike if may_join(state, demand, name, stage.name)]
        demand.hosts.update(dict.fromkeys(guests, stage.name))
    return False


def reads_own_index(state: State, demand: Demand, reader: str, stage: Stage) -> bool:
    """Whether a reader has the shape of what it reads, and reads it at its own index only."""
    other = state.uses.stages[reader]
    if not isinstance(other, Stage) or not is_joinable(state, reader) or len(other.axes) != len(stage.axes):
        return False
    same = all(
        index.canonical(a.extent) is index.canonical(b.extent) for a, b in zip(stage.axes, other.axes, strict=True)
    )
    own = tuple(axis.var for axis in other.axes)
    return (
        same
        and demand.readers(stage.name)[reader] == {own}
        and state.uses.scope[reader] == state.uses.scope[stage.name]
    )


def may_join(state: State, demand: Demand, guest: str, host: str) -> bool:
    """Whether a stage that shares no loops yet may share those of a host: all that it reads is there before the host runs, or is the host."""
    if guest in demand.hosts or guest in demand.hosts.values() or not is_joinable(state, host):
        return False
    order = _order(state)
    made = [name for name in demand.reads(guest) if name in order and name not in demand.inlined]
    return order[host] < order[guest] and all(name == host or order[name] < order[host] for name in made)


def is_joinable(state: State, name: str) -> bool:
    """Whether a stage is pointwise, outside of mapped functions, and nothing was said of its loops and its place."""
    from raido.schedule.defaults.demand import is_divergent, is_pointwise

    stage = state.uses.stages[name]
    if not isinstance(stage, Stage) or stage.reduction is not None or stage.outer or not stage.axes:
        return False
    plan = state.plan(name)
    untouched = plan.compute_with is None and isinstance(plan.compute, Root) and (name, "placement") not in state.asked
    return untouched and not has_loops_said(state, name) and is_pointwise(stage) and not is_divergent(stage)


def _order(state: State) -> dict[str, int]:
    return {name: position for position, name in enumerate(state.uses.stages)}


def guests_of(demand: Demand, host: str) -> Iterable[str]:
    """The stages that share a host's loops."""
    return (guest for guest, each in demand.hosts.items() if each == host)
