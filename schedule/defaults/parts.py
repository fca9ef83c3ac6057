"""The default loops of the parts of strategies (`strategies/parts`).

Threads take blocks, as in the stage's own loops. Blocks that are only folded or counted interleave at least four gangs, since each value
depends on the one before, and six where a count takes few operations (`FEW`): the counting pass loads the block from memory, and more gangs
mean more lines in flight. Pieces of segments are folded by one gang: most segments are short. Where lanes would gather the values, and the
machine has no mask registers, they are folded one by one: 1.6 times as fast for segments of 2 to 10 on a Zen 3, as fast for 100. Bins are
combined, and offsets checked, in chunks for threads, in lanes. Ranges of bins are distributed dynamically: the numbers of their steps
differ. Inside parallel loops, parts are serial.
"""

from __future__ import annotations

from itertools import takewhile

from raido.algo.graph.reduction import identities_of
from raido.schedule.cost.values_of_updates import is_faster_in_tiles
from raido.schedule.defaults.demand import cost
from raido.schedule.defaults.draft import Draft, known_extent
from raido.schedule.defaults.latency import gangs_of_iterations
from raido.schedule.stages.segments import ragged_folds, segments_of, takes_lanes
from raido.schedule.stages.stage import Stage
from raido.schedule.state import State, axes_of, enclosing_loops, is_inlined, is_reduction, loop_of
from raido.schedule.strategies.parts import part_name, part_stage
from raido.schedule.strategies.table import block_of, strategies_of

COUNTED, FEW = 6, 8
GANGS_OF_SEGMENTS = 2  # interleaved, where each segment is folded by one thread
GANGS_OF_VALUES = 2  # interleaved, for an update's values and indices; more where these have loops of their own
VALUE_AND_INDEX = 16  # bytes of each step of a tile
GANGS = 4  # interleaved, where blocks are only folded


def decide_parts(draft: Draft, name: str) -> None:
    """Decides the loops of the parts of a stage's strategy that have no directives."""
    stage, plan = draft.state.stage(name), draft.state.plan(name)
    if plan.strategy is None or plan.compute_with is not None:
        return
    for part in strategies_of(stage)[plan.strategy[0]].parts:
        whole = part_name(name, part)
        if (whole, "loops") in draft.state.decided:
            continue
        axes = [axis.name for axis in part_stage(stage, plan, part).axes]
        free = not has_threads_around(draft.state, stage)
        if part in ("combine", "check"):
            decide_part_tiles(draft, whole, axes, draft.machine.task // (8 if part == "combine" else 2), free)
        elif part in ("totals", "count"):
            decide_blocks(draft, whole, axes, stage, COUNTED if part == "count" and cost(stage) <= FEW else GANGS)
        elif part == "search" and free:
            draft.decide(whole, "parallel", axis=axes[0])
        elif part == "values":
            if are_values_sooner_in_lanes(draft, stage):
                gangs = max(GANGS_OF_VALUES, gangs_of_iterations(draft, stage, stage.reduction_axes[-1]))
                draft.decide(whole, "split", axis=axes[0], factor=tile_of_updates(draft))
                draft.decide(whole, "vectorize", axis=axes[0] + "i", interleave=gangs)
        elif part == "copy":
            if free:
                draft.decide(whole, "parallel", axis=axes[0])
            draft.decide(whole, "vectorize", axis=axes[1])
        elif part == "ranges" and free:
            draft.decide(whole, "parallel", axis=axes[0], dynamic=True)
        elif part == "fold" and len(axes) == 1:
            may = any(map(takes_lanes, ragged_folds(stage))) and not is_gathered_slowly(draft, stage)
            if may and not has_lanes_around(draft, stage):
                draft.decide(whole, "vectorize", axis=axes[0], interleave=GANGS_OF_SEGMENTS)
        elif part == "fold":
            segments = segments_of(stage)
            if free:
                draft.decide(whole, "parallel", axis=axes[0], dynamic=True)
            if segments is not None and identities_of(segments.fold) and not is_gathered_slowly(draft, stage):
                draft.decide(whole, "vectorize", axis=axes[1])


def is_gathered_slowly(draft: Draft, stage: Stage) -> bool:
    """Whether lanes would gather the values of segments on a machine without mask registers (AVX2)."""
    reads = draft.demand.reads(stage.name).values()
    return draft.machine.vector_bits < 512 and any(None in point for points in reads for point in points)


def has_threads_around(state: State, stage: Stage) -> bool:
    """Whether a loop outside those that a stage's strategy takes over is parallel."""
    plan, segments = state.plan(stage.name), segments_of(stage)
    taken = {axis.name for axis in (stage.reduction_axes if segments is None else (stage.axes[segments.axis],))}
    own = takewhile(lambda loop: not taken & {*axes_of(plan, loop.name)}, plan.loops)
    outer = (loop_of(state, owner, loop) for owner, loop in enclosing_loops(state, stage.name))
    return any(loop.kind == "parallel" for loop in (*outer, *own))


def has_lanes_around(draft: Draft, stage: Stage) -> bool:
    """Whether a stage is computed in a vectorized loop, its own included."""
    state, name = draft.state, stage.name
    computed = draft.demand.readers(name) if is_inlined(state, name) else (name,)
    for each in computed:
        outer = (loop_of(state, owner, loop) for owner, loop in enclosing_loops(state, each))
        if any(loop.kind == "vector" for loop in (*outer, *state.plan(each).loops)):
            return True
    return False


def tile_of_updates(draft: Draft) -> int:
    """Returns the number of an update's steps whose values and indices a quarter of L1 holds."""
    return block_of(draft.machine.l1 // 4, VALUE_AND_INDEX)


def are_values_sooner_in_lanes(draft: Draft, stage: Stage) -> bool:
    """Whether the values and indices of an update's many steps, inlined stages included, are computed faster in lanes."""
    last = stage.reduction_axes[-1]
    updates = known_extent(draft, last.extent)
    if updates is not None and updates < tile_of_updates(draft) // 2:
        return False
    inlined = [draft.state.stage(name) for name in draft.demand.reads(stage.name) if name in draft.demand.inlined]
    return is_faster_in_tiles(stage, last.var, inlined, draft.machine)


def decide_part_tiles(draft: Draft, part: str, axes: list[str], tile: int, threads: bool) -> None:
    """Schedules threads over the first axis, in chunks if it is the only one, and lanes along the last; lanes alone inside parallel
    loops.
    """
    first, *inner = axes
    if not threads:
        draft.decide(part, "vectorize", axis=axes[-1])
        return
    if not inner:
        draft.decide(part, "split", axis=first, factor=tile)
    draft.decide(part, "parallel", axis=first if inner else first + "o")
    draft.decide(part, "vectorize", axis=inner[-1] if inner else first + "i")


def decide_blocks(draft: Draft, part: str, axes: list[str], stage: Stage, gangs: int) -> None:
    """Schedules threads over blocks, and lanes inside as in the stage's own loop, with at least `gangs` interleaved."""
    plan = draft.state.plan(stage.name)
    if len(axes) > 1:
        draft.decide(part, "parallel", axis=axes[0])
    for loop in plan.loops:
        if loop.kind == "vector" and is_reduction(stage, plan, loop.name):
            lanes = {"lanes": loop.lanes} if loop.lanes else {}
            draft.decide(part, "vectorize", axis=axes[-1], **lanes, interleave=max(loop.interleave, gangs))
