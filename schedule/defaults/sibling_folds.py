"""Loop fusion of folds by default: folds of one shape over the same elements, such as a sum and the sum of squares, and folds of all
elements of a map, in the loops that compute them, such as the test for convergence of an iteration.

Each element is then read once, or not at all, and an expression that several folds share, as the weight of a mean, is computed once for all.
`Demand.leaders` maps fused folds to their leaders, as for other stages (`joins`). Left out are folds whose loops suit one of them alone:
products, with register tiles, folds of short rows, and operators of several values.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from raido.algo.graph import index
from raido.algo.graph.rewrite import scalar_nodes
from raido.schedule.defaults.joins import extents, fused_stages_of, is_open, moved, moves, shares_reads
from raido.schedule.stages.stage import Stage
from raido.schedule.state import State

if TYPE_CHECKING:
    from raido.schedule.defaults.demand import Demand

MOST_FOLDS = 4  # folds in one set of loops: two gangs of each, and their shared operands, in 16 registers


def join_folds_of(state: State, demand: Demand, stage: Stage) -> bool:
    """Fuses the folds that read a stage where all of its readers are folds at the same elements; returns whether they are.

    Each element of the stage is then computed once in those loops.
    """
    readers = demand.readers(stage.name)
    if len(readers) < 2 or not all(is_free_fold(state, demand, name) for name in readers):
        return False
    first, *others = sorted(readers, key=state.uses.positions.__getitem__)
    leader = state.stage(first)
    (point, *more) = readers[first]
    if more or set(point) != {axis.var for axis in leader.all_axes}:
        return False
    if not may_share(state, demand, others, first):
        return False
    if not all(moved(readers[name], state.stage(name).all_axes, leader.all_axes) == {point} for name in others):
        return False
    demand.leaders.update(dict.fromkeys(others, first))
    return True


def join_folds_of_maps(state: State, demand: Demand) -> None:
    """Fuses folds of all elements into the loops of a map whose elements they read, each where the map computes it."""
    for name in state.uses.stages:
        if not is_free_fold(state, demand, name) or state.stage(name).axes or name in demand.leaders:
            continue
        fold = state.stage(name)
        own = {tuple(axis.var for axis in fold.reduction_axes)}
        maps = [
            array for array, points in demand.reads(name).items() if points == own and is_open_map(state, demand, array)
        ]
        leader = max(maps, key=state.uses.positions.__getitem__, default=None)
        if leader is not None and may_follow(state, demand, fold, state.stage(leader)):
            demand.leaders[name] = leader


def is_open_map(state: State, demand: Demand, name: str) -> bool:
    """Whether an array is a computed map whose loops are open, and its own.

    In an array loop, a map of one axis may have few elements, and a branch for those, which no other stage can share (`short_iterations`).
    """
    stage = state.uses.stages.get(name)
    if not isinstance(stage, Stage) or name in demand.inlined or name in demand.leaders:
        return False
    return is_open(state, stage) and (len(stage.axes) > 1 or not state.uses.scope[name])


def may_follow(state: State, demand: Demand, fold: Stage, leader: Stage) -> bool:
    """Whether a fold of a map's shape may be fused into its loops: all else that it reads is complete before the map runs."""
    order = state.uses.positions
    made = [name for name in demand.reads(fold.name) if name in order and name not in demand.inlined]
    return (
        extents(fold.reduction_axes) == extents(leader.axes)
        and state.uses.scope[fold.name] == state.uses.scope[leader.name]
        and len([*fused_stages_of(demand, leader.name)]) < MOST_FOLDS
        and all(name == leader.name or order[name] < order[leader.name] for name in made)
    )


def join_sibling_folds(state: State, demand: Demand) -> None:
    """Fuses folds that read mostly the same elements into the loops of the first of them."""
    free = [name for name in state.uses.stages if is_free_fold(state, demand, name)]
    reading: dict[str, list[str]] = {}  # the folds that read an array, in order
    for name in free:
        for array in demand.arrays.get(name, ()):
            reading.setdefault(array, []).append(name)
    leading = set(demand.leaders.values())
    for leader in free:
        others = {name for array in demand.arrays.get(leader, ()) for name in reading[array]}
        for fused_stage in sorted(others, key=state.uses.positions.__getitem__):
            if leader in demand.leaders or fused_stage in demand.leaders or fused_stage in leading:
                continue
            later = state.uses.positions[fused_stage] > state.uses.positions[leader]
            if (
                later
                and folds_the_same(state, demand, fused_stage, leader)
                and may_share(state, demand, [fused_stage], leader)
            ):
                demand.leaders[fused_stage] = leader
                leading.add(leader)


def is_free_fold(state: State, demand: Demand, name: str) -> bool:
    """Whether a computed stage folds one value by a known monoid, along contiguous elements or down columns, without loop directives or
    placement.
    """
    from raido.schedule.defaults.joins import is_untouched
    from raido.schedule.defaults.short_rows import LONGEST

    stage = state.uses.stages[name]
    if name in demand.inlined or not isinstance(stage, Stage) or stage.reduction is None or stage.outer:
        return False
    if (
        len(stage.bodies) > 1
        or not stage.reduction.monoid
        or not stage.reduction_axes
        or not is_untouched(state, stage)
    ):
        return False
    length = index.constant_value(stage.reduction_axes[-1].extent)
    return (length is None or length > LONGEST) and (goes_along(demand, stage) or goes_down(demand, stage))


def goes_along(demand: Demand, stage: Stage) -> bool:
    """Whether a fold reads contiguously along its last axis, and is no product, whose results share inputs."""
    last = stage.reduction_axes[-1].var
    points = demand.points_read(stage.name)
    if any(None in point for point in points):
        return False
    moving = [point for point in points if any(moves(e, last) for e in point)]
    along = [point for point in moving if index.linear(point[-1])[1].get(last) in (1, -1)]  # type: ignore[arg-type]
    own = {axis.var for axis in stage.axes}
    alone = any(own <= {node for e in point for node in scalar_nodes(e)} for point in along)  # type: ignore[arg-type]
    return bool(moving) and len(along) == len(moving) and (len(own) < 2 or alone)


def goes_down(demand: Demand, stage: Stage) -> bool:
    """Whether a fold reads columns, contiguous across results, and beside them only one element for each row."""
    from raido.schedule.defaults.queries import contiguity

    if len(stage.reduction_axes) != 1 or not stage.axes:
        return False
    last, row = stage.axes[-1].var, stage.reduction_axes[0].var
    own = {axis.var for axis in stage.axes}
    points = demand.points_read(stage.name)
    if any(None in point for point in points):
        return False
    moving = [(point, own & {node for e in point for node in scalar_nodes(e)}) for point in points]  # type: ignore[arg-type]
    moving = [(point, mine) for point, mine in moving if any(moves(e, row) for e in point)]
    down = [mine for point, mine in moving if contiguity(row, point) < 0 and contiguity(last, point) == 1]
    return own in down and all(mine == own or not mine for _, mine in moving)


def folds_the_same(state: State, demand: Demand, fused_stage: str, leader: str) -> bool:
    """Whether at least half of the elements that a fold reads in each iteration are read by another of its shape and type."""
    one, other = state.stage(fused_stage), state.stage(leader)
    if not has_folds_of(one, other):
        return False
    changing = {axis.var for axis in one.reduction_axes}
    moving = {
        array: {point for point in points if any(moves(e, var) for e in point for var in changing)}
        for array, points in demand.reads(fused_stage).items()
    }
    return any(moving.values()) and shares_reads(demand, one, other, moving)


def has_folds_of(one: Stage, other: Stage) -> bool:
    """Whether two folds have axes of the same extents, and values of the same width and kind."""
    return (
        extents(one.axes) == extents(other.axes)
        and extents(one.reduction_axes) == extents(other.reduction_axes)
        and one.bodies[0].dtype.bits == other.bodies[0].dtype.bits
        and one.bodies[0].dtype.is_float == other.bodies[0].dtype.is_float
    )


def may_share(state: State, demand: Demand, fused_stages: Iterable[str], leader: str) -> bool:
    """Whether folds may be fused into a leader: none is in shared loops yet, and all that they read is complete before the leader runs."""
    fused_stages, order = list(fused_stages), state.uses.positions
    if leader in demand.leaders or len(fused_stages) + list(demand.leaders.values()).count(leader) >= MOST_FOLDS:
        return False
    for fused_stage in fused_stages:
        if fused_stage in demand.leaders or fused_stage in demand.leaders.values():
            return False
        if state.uses.scope[fused_stage] != state.uses.scope[leader] or not has_folds_of(
            state.stage(fused_stage), state.stage(leader)
        ):
            return False
        made = [name for name in demand.reads(fused_stage) if name in order and name not in demand.inlined]
        if not all(order[name] < order[leader] for name in made):
            return False
    return True
