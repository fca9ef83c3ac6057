"""Loop fusion by default: pointwise stages of one shape, and sibling stencils.

Pointwise stages share loops where one reads the other, both read a third, or they read a scan of their shape; two stencils where they read
the same elements and have the same access maps of their readers, such as both derivatives of an image. `Demand.leaders[fused]` is the leader
of a fused stage. A producer that only the stages of one set of loops read, at their own index, is then inlined into those loops. A fused
stage reads nothing that is computed later than its leader.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from raido.algo.graph import index
from raido.algo.graph.expr import Axis, Expr, Load, Var
from raido.algo.graph.rewrite import free_variables, scalar_nodes, substitute
from raido.schedule.plan import Root
from raido.schedule.stages.reads import loads_of
from raido.schedule.stages.stage import Stage
from raido.schedule.state import State, has_explicit_loops

if TYPE_CHECKING:
    from raido.schedule.defaults.demand import Demand, Point

TWIN = 16  # operations: two such bodies, of some rows each, stay in registers


def join_readers(state: State, demand: Demand, stage: Stage, inlinable: bool) -> bool:
    """Fuses the readers of a stage where that is legal; returns whether all are then in one set of loops, so that the stage may be
    inlined.
    """
    readers = demand.readers(stage.name)
    alike = [name for name in readers if reads_own_index(state, demand, name, stage)]
    if inlinable and len(alike) == len(readers) > 1:
        return join_all(state, demand, alike)
    if is_leader(state, stage.name):
        fused_stages = [name for name in alike if may_join(state, demand, name, stage.name)]
        demand.leaders.update(dict.fromkeys(fused_stages, stage.name))
    return False


def join_all_readers(state: State, demand: Demand, stage: Stage) -> bool:
    """Fuses the readers of a stage if they are several and all may be; returns whether they are."""
    readers = demand.readers(stage.name)
    return (
        len(readers) > 1
        and all(reads_own_index(state, demand, name, stage) for name in readers)
        and join_all(state, demand, readers)
    )


def join_all(state: State, demand: Demand, names: Iterable[str]) -> bool:
    """Fuses stages into the loops of the first of them, unless one may not be; returns whether they are."""
    first = min(names, key=state.uses.positions.__getitem__)
    leader = demand.leaders.get(first, first)
    others = [name for name in names if demand.leaders.get(name, name) != leader]
    if not all(may_join(state, demand, name, leader) for name in others):
        return False
    demand.leaders.update(dict.fromkeys(others, leader))
    return True


def join_siblings(state: State, demand: Demand) -> None:
    """Fuses pairs of sibling stencils, which read the same elements and are read alike, into one pass."""
    free = [name for name in state.uses.stages if is_free_stencil(state, demand, name)]
    taken = {*demand.leaders, *demand.leaders.values()}
    alike: dict[frozenset[str], list[str]] = {}  # by the arrays that they read
    for fused_stage in free:
        leaders = alike.setdefault(frozenset(demand.arrays.get(fused_stage, ())), [])
        for leader in leaders:
            if not {fused_stage, leader} & taken and are_siblings(state, demand, fused_stage, leader):
                demand.leaders[fused_stage] = leader
                taken |= {fused_stage, leader}
        leaders.append(fused_stage)


def is_free_stencil(state: State, demand: Demand, name: str) -> bool:
    """Whether a stage is a computed stencil with one cheap value, outside of mapped functions and without loop directives or placement."""
    from raido.schedule.defaults.demand import cost, is_pointwise

    stage = state.uses.stages[name]
    if name in demand.inlined or not isinstance(stage, Stage) or not is_open(state, stage):
        return False
    return len(stage.axes) > 1 and len(stage.bodies) == 1 and not is_pointwise(stage) and cost(stage) <= TWIN


def are_siblings(state: State, demand: Demand, fused_stage: str, leader: str) -> bool:
    """Whether two stencils are siblings: of one shape and type, with mostly the same reads, and read at the same indices."""
    one, other = state.stage(fused_stage), state.stage(leader)
    return (
        one.bodies[0].dtype is other.bodies[0].dtype
        and has_shape_of(one, other)
        and demand.reads(fused_stage).keys() == demand.reads(leader).keys()
        and shares_reads(demand, one, other, demand.reads(fused_stage))
        and bool(demand.readers(fused_stage))
        and demand.readers(fused_stage) == demand.readers(leader)
        and not {fused_stage, leader} & set(state.uses.outputs)
        and state.uses.scope[fused_stage] == state.uses.scope[leader]
    )


def shares_reads(demand: Demand, fused_stage: Stage, leader: Stage, reads: Mapping[str, set[Point]]) -> bool:
    """Whether the leader, of the shape of a stage, reads at least half of some elements that the stage reads."""
    there = demand.reads(leader.name)
    common = sum(
        len(moved(points, fused_stage.all_axes, leader.all_axes) & there.get(array, set()))
        for array, points in reads.items()
    )
    return 2 * common >= sum(map(len, reads.values()))


def moves(e: Expr | None, var: Var) -> bool:
    """Whether an index depends on a variable."""
    return e is not None and var in free_variables(e)


def moved(points: Iterable[Point], axes: Iterable[Axis], others: Iterable[Axis]) -> set[Point]:
    """Returns access maps with one stage's axes replaced by those of another of its shape."""
    names = {own.var: other.var for own, other in zip(axes, others, strict=True)}
    return {tuple(None if e is None else index.canonical(substitute(e, names)) for e in point) for point in points}


def reads_own_index(state: State, demand: Demand, reader: str, stage: Stage) -> bool:
    """Whether a reader has the shape of a stage, and reads it at its own index only."""
    other = state.uses.stages[reader]
    gathers = stage.scan is not None and is_gather(state, reader)
    if not isinstance(other, Stage) or not (is_joinable(state, reader) or gathers):
        return False
    own = tuple(axis.var for axis in other.axes)
    return (
        has_shape_of(other, stage)
        and demand.readers(stage.name)[reader] == {own}
        and state.uses.scope[reader] == state.uses.scope[stage.name]
    )


def has_shape_of(stage: Stage, other: Stage) -> bool:
    """Whether two stages have axes of the same extents."""
    return extents(stage.axes) == extents(other.axes)


def extents(axes: Iterable[Axis]) -> list[Expr]:
    """Returns the canonical extents of axes, for comparison."""
    return [index.canonical(axis.extent) for axis in axes]


def may_join(state: State, demand: Demand, fused_stage: str, leader: str) -> bool:
    """Whether a stage may be fused into a leader: all that it reads is complete before the leader runs, or is the leader's result."""
    if fused_stage in demand.leaders or fused_stage in demand.leaders.values() or not is_leader(state, leader):
        return False
    order = state.uses.positions
    made = [name for name in demand.reads(fused_stage) if name in order and name not in demand.inlined]
    return order[leader] < order[fused_stage] and all(name == leader or order[name] < order[leader] for name in made)


def is_joinable(state: State, name: str) -> bool:
    """Whether a stage is pointwise, outside of mapped functions, and without loop directives or placement."""
    from raido.schedule.defaults.demand import is_pointwise

    stage = state.uses.stages[name]
    return isinstance(stage, Stage) and is_open(state, stage) and is_pointwise(stage)


def is_gather(state: State, name: str) -> bool:
    """Whether a stage without directives reads only at its own index, at loaded indices, and at indices that are the same for all elements.

    Such a stage may be fused into the scan that computes its indices (a forward fill, `rd.repeat`).
    """
    stage = state.uses.stages[name]
    if not isinstance(stage, Stage) or not is_open(state, stage):
        return False
    variables = {axis.var for axis in stage.axes}
    return all(
        i in variables
        or variables.isdisjoint(scalar_nodes(i))
        or any(isinstance(node, Load) for node in scalar_nodes(i))
        for load in loads_of(stage)
        for i in load.indices
    )


def is_leader(state: State, name: str) -> bool:
    """Whether pointwise stages may be fused into a stage's loops: it is pointwise, or a scan whose results they take as they are
    computed.
    """
    stage = state.uses.stages[name]
    scanned = isinstance(stage, Stage) and stage.scan is not None and not stage.outer and state.gpu is None
    return is_joinable(state, name) or (scanned and is_untouched(state, state.stage(name)))


def is_open(state: State, stage: Stage) -> bool:
    """Whether a stage is a map of elements of equal cost, outside of mapped functions, and without loop directives or placement."""
    from raido.schedule.defaults.demand import is_divergent

    if stage.reduction is not None or stage.outer or not stage.axes:
        return False
    return is_untouched(state, stage) and not is_divergent(stage)


def is_untouched(state: State, stage: Stage) -> bool:
    """Whether a stage has neither loop directives nor a placement."""
    plan = state.plan(stage.name)
    placed = plan.compute_with is not None or not isinstance(plan.compute, Root)
    return not placed and (stage.name, "placement") not in state.decided and not has_explicit_loops(state, stage.name)


def fused_stages_of(demand: Demand, leader: str) -> Iterable[str]:
    """Returns the stages fused into a leader's loops."""
    return (fused_stage for fused_stage, each in demand.leaders.items() if each == leader)
