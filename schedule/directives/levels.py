"""`bind`: loops whose iterations are the blocks of a GPU's launch, and the threads of a block."""

from __future__ import annotations

from dataclasses import replace

from raido.schedule.directives.kinds import kindless
from raido.schedule.directives.recorder import Name, Recorder, Self, one_of, rule
from raido.schedule.levels import PLACES
from raido.schedule.plan import LoopPlan, StagePlan
from raido.schedule.refusal import Refusal
from raido.schedule.stages.stage import Stage
from raido.schedule.state import State, is_reduction, loop_of, put, with_loop
from raido.schedule.strategy_numbers import grain_of_partials


class LevelDirectives(Recorder):
    """Directives for GPUs."""

    __slots__ = ()

    def bind(self: Self, axis: Name, place: Name) -> Self:
        """Makes the iterations of a loop the blocks of a GPU's launch, or the threads of a block, along one dimension.

        axis: a loop. place: "block.x", "block.y", "block.z", "thread.x", "thread.y" or "thread.z"; neighbours along "thread.x" run in
        lockstep, so the axis along which memory is contiguous belongs there. A loop over threads makes a number of iterations that the
        schedule knows (the inner half of a split), at most as many as a block has threads; one of a stage that is computed inside a
        block may make more, which the threads then take in turn. Blocks run in any order, threads beside one another; all of a loop's
        iterations end before anything after it begins. Of a reduction's loop that no split has cut, a block folds 4096 iterations.

        before   for xo in 0..w step 64: for xi in xo..min(xo + 64, w)
        after    block.x xo in 0..w step 64: thread.x xi in xo..min(xo + 64, w)

        >>> s = blur.schedule(target="vulkan")
        >>> view = s["cols"].split("x", 64).bind("y", "block.y").bind("xo", "block.x").bind("xi", "thread.x")
        >>> [(loop.name, loop.level) for loop in view.plan.loops]
        [('y', 'block.y'), ('xo', 'block.x'), ('xi', 'thread.x')]

        Refuses targets that are no GPUs, blocks inside threads, a place that a loop around or inside has already, other loops between
        blocks and blocks or threads and threads, more threads than a block may have, and a loop that already has a kind.
        """
        return self._record("bind", axis=axis, place=place)


@rule('bind axis "{axis}" of stage "{stage}" to "{place}"')
def apply_bind(state: State, stage: str, axis: str, place: str) -> State:
    if state.gpu is None:
        raise Refusal(
            "the schedule is for a CPU, which has no blocks", f'parallel("{axis}"), or schedule(target="vulkan")'
        )
    one_of(place, "a place", PLACES)
    loop = loop_of(state, stage, axis)
    if loop.level or not is_loop_of_strategy(state.stage(stage), state.plan(stage), loop):
        loop = kindless(state, stage, axis)
    plan = state.plan(stage)
    grain = 0 if place.startswith("thread") else grain_of_partials(state.stage(stage), plan, axis)
    return put(state, with_loop(plan, replace(loop, kind="parallel", level=place, grain=grain)), "loops")


def is_loop_of_strategy(stage: Stage, plan: StagePlan, loop: LoopPlan) -> bool:
    """Whether a strategy has made the loop parallel: that over its blocks."""
    blocks = next((each for each in plan.loops if is_reduction(stage, plan, each.name)), None)
    in_blocks = plan.strategy is not None and (stage.scan is not None or stage.filter is not None)
    return in_blocks and loop is blocks and loop.kind == "parallel"
