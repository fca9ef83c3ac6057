"""Legality of binding loops to the blocks and threads of a GPU.

A launch has blocks along x, y and z, and every block the same threads. So the loops are, outside in: loops over blocks, nested perfectly;
any other loops; loops over threads, nested perfectly. A stage placed in such a nest is computed for a whole block or for one thread: at or
inside the innermost loop over blocks, and outside all loops over threads or at the innermost.
"""

from __future__ import annotations

from itertools import pairwise, takewhile
from math import prod
from typing import Any

from raido.algo.graph import index
from raido.schedule.machine import Gpu
from raido.schedule.plan import At, LoopPlan, Split, StagePlan
from raido.schedule.refusal import Refusal
from raido.schedule.stages.stage import Stage
from raido.schedule.state import (
    State,
    axes_of,
    compute_sites,
    enclosing_loops,
    is_reduction,
    position,
    shared_count,
    trip_count,
)

PLACES = tuple(f"{level}.{dimension}" for level in ("block", "thread") for dimension in "xyz")

FEW_GROUPS = 8
"""The most subgroups of a scanning block whose totals each thread folds serially: more go in a tree, with a barrier for each level."""

Owned = tuple[str, LoopPlan]
"""A loop, with the name of the stage that owns it: (stage, loop)."""


def all_loops(state: State, name: str) -> list[Owned]:
    """Returns the loops around a stage's computation and its own, outermost first."""
    around = [
        (stage, state.plans[stage].loops[position(state.plans[stage], loop)])
        for stage, loop in enclosing_loops(state, name)
    ]
    return around + [(name, loop) for loop in state.plans[name].loops[shared_count(state, name) :]]


def level_of(loop: LoopPlan) -> str:
    """Returns "block" or "thread" for a bound loop, "" for one that is not bound."""
    return loop.level.partition(".")[0]


def threads_of(stage: Stage, plan: StagePlan, loop: LoopPlan) -> int:
    """Returns the most iterations of a loop over threads; 0 where it is not known.

    A placed stage's loops run over the region needed there, whatever its axes' extents, so only the inner half of a split is known.
    """
    placed = isinstance(plan.compute, At) or plan.compute_with is not None
    if placed and not any(isinstance(each, Split) and each.inner == loop.name for each in plan.relations):
        return 0
    return index.constant_value(trip_count(stage, plan, loop.name)) or 0


def bound(stage: Stage, plan: StagePlan, loop: LoopPlan) -> dict[str, Any]:
    """Returns the level of a loop and its number of threads, as fields of a `For`; {} for a loop that is not bound."""
    threads = threads_of(stage, plan, loop) if level_of(loop) == "thread" else 0
    return {"level": loop.level, "threads": threads} if loop.level else {}


def check_levels(state: State, name: str) -> None:
    """Refuses bindings that no launch can run."""
    if state.gpu is None:
        return
    loops = all_loops(state, name)
    if not any(loop.level for _, loop in loops):
        return
    check_home(state, name)
    for group in paths(state, name, loops):
        check_bindings(group)
        check_order(name, group)
    check_folds(state, name, loops)
    check_pieces(state.stage(name), state.plans[name])
    check_threads(state, name, state.gpu)


def paths(state: State, name: str, loops: list[Owned]) -> list[list[Owned]]:
    """Returns the nests that a stage's loops form: one, but two of an update, which runs over its destination's whole axes and its iterations
    separately.
    """
    stage, plan = state.stage(name), state.plans[name]
    if stage.update is None:
        return [loops]
    whole = {axis.name for axis in stage.whole_axes}
    reduction_variables = {axis.name for axis in stage.reduction_axes}

    def without(axes: set[str]) -> list[Owned]:
        return [each for each in loops if each[0] != name or not axes & set(axes_of(plan, each[1].name))]

    return [without(reduction_variables), without(whole)]


def check_bindings(loops: list[Owned]) -> None:
    """Refuses two nested loops bound to one GPU axis."""
    above: dict[str, Owned] = {}
    for owner, loop in loops:
        if loop.level in above:
            other, outer = above[loop.level]
            remedy = f'fuse "{outer.name}" and "{loop.name}" first' if other == owner else None
            raise Refusal(
                f'"{loop.name}" of "{owner}" would run inside "{outer.name}" of "{other}", which is bound to "{loop.level}"',
                remedy,
            )
        if loop.level:
            above[loop.level] = owner, loop


def check_order(name: str, loops: list[Owned]) -> None:
    """Refuses blocks inside threads, and other loops between two loops over blocks or two over threads."""
    for level in ("block", "thread"):
        where = [k for k, (_, loop) in enumerate(loops) if level_of(loop) == level]
        for a, b in pairwise(where):
            if b != a + 1:
                (owner, outer), (_, between), (_, inner) = loops[a], loops[a + 1], loops[b]
                raise Refusal(
                    f'"{between.name}" would run between "{outer.name}" and "{inner.name}", which are both bound to {level}s',
                    f'bind "{between.name}" first, or reorder the loops' if owner == name else None,
                )
    levels = [level_of(loop) for _, loop in loops]
    if "thread" in levels and "block" in levels[levels.index("thread") :]:
        (_, outer), (owner, inner) = loops[levels.index("thread")], loops[len(levels) - 1 - levels[::-1].index("block")]
        raise Refusal(
            f'blocks of "{inner.name}" of "{owner}" would run inside "{outer.name}", which is bound to threads',
            f'reorder "{inner.name}" outside "{outer.name}"',
        )


def check_home(state: State, name: str) -> None:
    """Refuses a stage at a loop that has inner loops of the same level, and blocks of a stage that is computed inside bound loops."""
    for at in compute_sites(state.plans[name]):
        leader = state.plans[at.stage]
        where = position(leader, at.loop)
        level = level_of(leader.loops[where])
        inner = [loop for loop in leader.loops[where + 1 :] if level and level_of(loop) == level]
        if inner:
            raise Refusal(
                f'"{inner[-1].name}" of "{at.stage}", inside of "{at.loop}", is bound to {level}s too: '
                f'"{name}" would belong to no single {level}',
                f'compute_at("{at.stage}", "{inner[-1].name}")',
            )
    around = enclosing_loops(state, name)
    own = next((loop for owner, loop in all_loops(state, name) if owner == name and level_of(loop) == "block"), None)
    bound = [
        (stage, loop) for stage, loop in around if state.plans[stage].loops[position(state.plans[stage], loop)].level
    ]
    if own is not None and bound:
        stage, loop = bound[0]
        raise Refusal(
            f'"{name}" is computed inside loop "{loop}" of "{stage}", whose iterations run inside blocks already',
            f'bind "{own.name}" to threads',
        )


def check_folds(state: State, name: str, loops: list[Owned]) -> None:
    """Refuses threads that fold one value together but are not the outermost loop over threads: all threads of the block must take part."""
    stage, plan = state.stage(name), state.plans[name]
    if stage.reduction is None or stage.scan is not None or stage.update is not None:
        return
    if plan.compute_with is not None:
        for own, (owner, loop) in zip(plan.loops, loops, strict=False):
            if level_of(loop) == "thread" and is_reduction(stage, plan, own.name):
                raise Refusal(
                    f'"{name}" would be folded in "{loop.name}" of "{owner}", whose threads have no partial results of "{name}" to combine',
                    f's["{name}"].root()',
                )
    threads = [(owner, loop) for owner, loop in loops if level_of(loop) == "thread"]
    folding = [loop for loop in plan.loops if level_of(loop) == "thread" and is_reduction(stage, plan, loop.name)]
    if not folding:
        return
    if len(folding) > 1:
        raise Refusal(
            f'"{folding[0].name}" and "{folding[1].name}", of the same reduction, are both bound to threads',
            f'fuse "{folding[0].name}" and "{folding[1].name}" first',
        )
    owner, outer = threads[0]
    if outer is not folding[0]:
        raise Refusal(
            f'the threads of "{folding[0].name}" combine partial results, and "{outer.name}" of "{owner}" around it is bound to threads too',
            f'reorder "{folding[0].name}" outside "{outer.name}"' if owner == name else None,
        )
    sharing = next(
        (fused_stage for fused_stage, at in state.plans.items() if at.compute_with and at.compute_with.stage == name),
        None,
    )
    if sharing is not None:
        raise Refusal(
            f'the threads of "{folding[0].name}" combine partial results, and "{sharing}" shares loops with "{name}"'
        )


def check_pieces(stage: Stage, plan: StagePlan) -> None:
    """Refuses threads along the axis of a scan or filter of rows: threads hand on single values."""
    if stage.scan is None and stage.filter is None:
        return
    scanned = [is_reduction(stage, plan, loop.name) for loop in plan.loops]
    for k, loop in enumerate(plan.loops):
        if scanned[k] and level_of(loop) == "thread" and not all(scanned[k:]):
            row = plan.loops[k + scanned[k:].index(False)].name
            raise Refusal(
                f'the elements inside "{loop.name}" are rows along "{row}", and threads pass only single values to each other',
                f'reorder "{row}" outside "{plan.loops[scanned.index(True)].name}"' if stage.scan else None,
            )


def has_block_alone(stage: Stage, plan: StagePlan) -> bool:
    """Whether each scan of a stage has a block of a GPU to itself, whose threads have no other loop."""
    outside = takewhile(lambda loop: not is_reduction(stage, plan, loop.name), plan.loops)
    levels = {level_of(loop) for loop in outside}
    return stage.scan is not None and "block" in levels and "thread" not in levels


def is_scanned_in_pieces(stage: Stage, plan: StagePlan) -> bool:
    """Whether threads scan contiguous chunks each, without a strategy of blocks: each chunk is then read twice."""
    serial = plan.strategy is None or plan.strategy[0] == "serial"
    pieces = any(level_of(loop) == "thread" and is_reduction(stage, plan, loop.name) for loop in plan.loops)
    return stage.scan is not None and serial and pieces


def check_threads(state: State, name: str, gpu: Gpu) -> None:
    """Refuses loops over threads whose trip count is not known, and more threads than a block may have."""
    counts: dict[str, dict[int, Owned]] = {}
    open_: dict[str, Owned] = {}
    home = launch_of(state, name)
    for other in state.plans:
        if launch_of(state, other) != home:
            continue
        for loop in state.plans[other].loops[shared_count(state, other) :]:
            if level_of(loop) != "thread":
                continue
            count = threads_of(state.stage(other), state.plans[other], loop)
            if count:
                counts.setdefault(loop.level, {})[count] = other, loop
            elif enclosing_loops(state, other):
                open_[loop.level] = other, loop
            else:
                raise Refusal(
                    f'the trip count of "{loop.name}" is not known, and the number of threads must be a constant',
                    f'split("{loop.name}", {2 * gpu.subgroup}), and bind "{loop.name}i"',
                )
    for place, (other, loop) in open_.items():
        if place not in counts:
            raise Refusal(
                f'no loop around "{loop.name}" of "{other}" or beside it decides the number of threads along "{place}"',
                f'split("{loop.name}", {gpu.subgroup}), and bind "{loop.name}i"',
            )
    for place, found in counts.items():
        most, (_, loop) = gpu.along["xyz".index(place[-1])], found[max(found)]
        if max(found) > most:
            raise Refusal(
                f'"{loop.name}" makes {max(found)} iterations, and a block has at most {most} threads along "{place}"',
                f'split("{loop.name}", {min(most, 256)})',
            )
    total = prod(max(found) for found in counts.values())
    if total > gpu.threads:
        each = ", ".join(f"{max(found)} along {place}" for place, found in sorted(counts.items()))
        raise Refusal(
            f"a block would have {total} threads ({each}), and the device allows {gpu.threads}", "smaller tiles"
        )


def launch_of(state: State, name: str) -> str:
    """Returns the stage whose outermost loops a stage is computed in: the stage itself where it is computed whole."""
    around = enclosing_loops(state, name)
    return around[0][0] if around else name
