"""`bind`: loops whose iterations are the blocks of a GPU launch, or the threads of a block."""

from __future__ import annotations

from dataclasses import replace

from raido.schedule.checks.levels import PLACES
from raido.schedule.directives.kinds import kindless
from raido.schedule.directives.recorder import Name, Number, Recorder, Self, one_of, positive, rule
from raido.schedule.plan import LoopPlan, StagePlan
from raido.schedule.recorded import PART
from raido.schedule.refusal import Refusal
from raido.schedule.stages.stage import Stage
from raido.schedule.state import State, is_reduction, loop_of, put, with_loop
from raido.schedule.strategies.parameters import grain_of_partials


class LevelDirectives(Recorder):
    """Directives that bind loops to a GPU's blocks and threads."""

    __slots__ = ()

    def bind(self: Self, axis: Name, place: Name, subgroup: Number = 0) -> Self:
        """Binds a loop to the blocks of a GPU launch, or to the threads of a block, along one dimension.

        axis: a loop. place: "block.x", "block.y", "block.z", "thread.x", "thread.y" or "thread.z"; neighbours along "thread.x" run in
        lockstep, so the axis along which memory is contiguous belongs there. A loop over threads has a trip count that the schedule knows
        (the inner half of a split), at most as many as a block has threads; the loop of a stage computed inside a block may have more,
        which the threads then take in turn. Blocks run in any order, threads concurrently; all iterations of a loop end before anything
        after it begins. Of a reduction's loop that no split has cut, a block folds 4096 iterations. subgroup: of a reduction's or scan's
        loop at "thread.x", a power of two: so many neighbouring threads combine their partial results by register exchange, without memory
        and barriers; 0: through shared memory. A reduction has the same bits either way; a scan combines its parts subgroup by subgroup.

        before   for xo in 0..w step 64: for xi in xo..min(xo + 64, w)
        after    block.x xo in 0..w step 64: thread.x xi in xo..min(xo + 64, w)

        >>> s = blur.schedule(target="vulkan")
        >>> view = s["cols"].split("x", 64).bind("y", "block.y").bind("xo", "block.x").bind("xi", "thread.x")
        >>> [(loop.name, loop.level) for loop in view.plan.loops]
        [('y', 'block.y'), ('xo', 'block.x'), ('xi', 'thread.x')]

        Refuses targets that are no GPUs, blocks inside threads, a place that a loop around or inside has already, other loops between
        blocks and blocks or threads and threads, more threads than a block may have, a loop that already has a kind, and subgroups of more
        threads than exchange values on the device, or of loops that fold nothing.
        """
        return self._record("bind", axis=axis, place=place, subgroup=subgroup)


@rule('bind axis "{axis}" of stage "{stage}" to "{place}"')
def apply_bind(state: State, stage: str, axis: str, place: str, subgroup: int = 0) -> State:
    if state.gpu is None:
        raise Refusal(
            "the schedule is for a CPU, which has no blocks", f'parallel("{axis}"), or schedule(target="vulkan")'
        )
    one_of(place, "`place`", PLACES)
    loop = loop_of(state, stage, axis)
    if loop.level or not is_loop_of_strategy(state.stage(stage), state.plan(stage), loop):
        loop = kindless(state, stage, axis)
    plan = state.plan(stage)
    check_subgroup(state, stage, loop, place, positive(subgroup, "`subgroup`", 0))
    grain = 0 if place.startswith("thread") else grain_of_partials(state.stage(stage), plan, axis)
    return put(
        state, with_loop(plan, replace(loop, kind="parallel", level=place, grain=grain, subgroup=subgroup)), "loops"
    )


def check_subgroup(state: State, name: str, loop: LoopPlan, place: str, subgroup: int) -> None:
    """Refuses subgroups whose threads cannot exchange partial results: of a wrong size, dimension or loop."""
    stage, gpu = state.stage(name), state.gpu
    assert gpu is not None
    if not subgroup:
        return
    if subgroup & (subgroup - 1) or subgroup == 1:
        raise Refusal(f"`subgroup` is a power of two, not {subgroup}")
    if subgroup > gpu.exchange:
        most = f"at most {gpu.exchange} threads" if gpu.exchange else "no threads"
        remedy = f"subgroup={gpu.exchange}" if gpu.exchange else "leave `subgroup` out"
        raise Refusal(f"on this device {most} can exchange values directly", remedy)
    special = (stage.update, stage.sort)
    folds = stage.reduction is not None and is_reduction(stage, state.plan(name), loop.name)
    if not (folds or name.endswith(f"{PART}fold")) or any(special):
        raise Refusal(
            f'"{loop.name}" is not a loop of a reduction, so its threads have no partial results to combine',
            "leave `subgroup` out",
        )
    if place != "thread.x":
        raise Refusal(
            f'threads of a subgroup are neighbours along "thread.x", not "{place}"', 'bind the loop to "thread.x"'
        )


def is_loop_of_strategy(stage: Stage, plan: StagePlan, loop: LoopPlan) -> bool:
    """Whether a loop is the parallel one over a strategy's blocks."""
    blocks = next((each for each in plan.loops if is_reduction(stage, plan, each.name)), None)
    in_blocks = plan.strategy is not None and (stage.scan is not None or stage.filter is not None)
    return in_blocks and loop is blocks and loop.kind == "parallel"
