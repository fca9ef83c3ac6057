"""The default strategies, on a GPU, of updates whose steps conflict and are not atomic: sorted by bins, or in chunks with private bins.

No thread has more than some thousand steps, unless most of them meet in few elements. Steps that change short rows are applied element by
element of the rows, with one pass over all steps for each.
"""

from __future__ import annotations

from collections.abc import Sequence

from raido.algo.graph.expr import Axis
from raido.schedule.defaults.draft import Draft
from raido.schedule.defaults.gpu.bindings import bind, bind_fold
from raido.schedule.machine import Gpu
from raido.schedule.stages.stage import Stage
from raido.schedule.state import axes_of
from raido.schedule.strategies.parts import part_name, part_stage
from raido.schedule.strategies.table import UPDATES_FOR_A_BIN, strategies_of

MANY_RANGES = 128  # ranges of `sorted`, at least: each is a thread


def decide_in_chunks(draft: Draft, stage: Stage, bins: Sequence[Axis], gpu: Gpu) -> None:
    """Schedules steps into many bins as sorted by ranges of bins, and steps that fold into few bins in chunks with private bins.

    Ranges are of a few bins, or of more where one thread would take long to sum the counts of so many ranges.
    """
    assert stage.update is not None
    name, task, count, updates = stage.name, draft.machine.task, product(bins), product(stage.reduction_axes)
    folds = stage.update.mode == "combine"
    far = (task, f"{count} > {MANY_RANGES * task}")
    for width, test in (far, (range_of_few(draft, stage), f"{count} > {task}")) if folds else (far,):
        branch = draft.branch()
        if decide_sorted(branch, stage, width, count):
            decide_start(branch, stage, bins, gpu)
            decide_gpu_parts(branch, name)
            draft.accept(branch.when(name, f"{test} and {updates} > {task}" if folds else test))
    if folds:
        decide_private(draft, stage, count, gpu)
    else:
        decide_sorted(draft, stage, range_of_few(draft, stage), count)


def decide_element_updates(draft: Draft, stage: Stage, rows: Sequence[Axis], bins: Sequence[Axis], gpu: Gpu) -> None:
    """Records branches for many more steps, or rows, than elements of a row: element by element of the rows, steps sorted or with private
    bins.
    """
    assert stage.update is not None
    name, task, count = stage.name, draft.machine.task, product(bins)
    most = f"max({product(stage.reduction_axes)}, {count})"
    test = f"{most} > {4 * task} and {most} > {gpu.subgroup} * {product(rows)}"
    inside = [axis.name for axis in stage.all_axes if axis not in rows]
    few = stage.update.mode == "combine"
    for private in (True, False) if few else (False,):
        branch = draft.branch()
        branch.decide(name, "reorder", axes=(*(axis.name for axis in rows), *inside))
        if (
            decide_private(branch, stage, count, gpu)
            if private
            else decide_sorted(branch, stage, range_of_few(draft, stage), count)
        ):
            decide_start(branch, stage, bins, gpu)
            decide_gpu_parts(branch, name)
            draft.accept(branch.when(name, f"{test} and {count} <= {task}" if private else test))


def decide_private(draft: Draft, stage: Stage, bins: str, gpu: Gpu) -> bool:
    """Chooses chunks of steps with private bins, each with more steps than bins, and enough of them for threads; returns whether that is
    legal.
    """
    updates = product(stage.reduction_axes)
    most = f"max({many_chunks(gpu)}, {updates} // {8 * draft.machine.task})"
    chunks = f"min({most}, {updates} // ({UPDATES_FOR_A_BIN} * {bins}))"
    return draft.decide(stage.name, "strategy", name="private", chunks=chunks)


def decide_sorted(draft: Draft, stage: Stage, width: int, bins: str) -> bool:
    """Chooses steps sorted by ranges of bins; returns whether that is legal.

    A thread has a range, or a chunk of the steps; counters, one for each range and chunk, are no more than steps.
    """
    task, updates = draft.machine.task, product(stage.reduction_axes)
    chunks = f"min({updates} // {task}, {updates} // ({bins} // {width} + 1))"
    return draft.decide(stage.name, "strategy", name="sorted", bins=width, chunks=chunks)


def range_of_few(draft: Draft, stage: Stage) -> int:
    """Returns the bins of a range where bins are not very many, so that there are many ranges even if steps meet in few of them."""
    assert stage.update is not None
    return max(2, draft.machine.task >> (4 if stage.update.mode == "combine" else 7))


def product(axes: Sequence[Axis]) -> str:
    """Returns the number of indices of some axes, as text."""
    return " * ".join(axis.name for axis in axes)


def many_chunks(gpu: Gpu) -> int:
    """Returns the number of threads that keeps all processors busy, if each waits for memory part of the time."""
    return gpu.processors * gpu.resident >> 4


def decide_start(draft: Draft, stage: Stage, axes: Sequence[Axis], gpu: Gpu) -> None:
    """Schedules the initialization of an update's result: a thread for each element, or for some of a column where steps change rows."""
    name, plan, (*planes, line) = stage.name, draft.state.plan(stage.name), axes
    bound = [loop.name for loop in plan.loops if loop.level]
    if any(line.name in axes_of(plan, loop) for loop in bound):
        return
    threads = gpu.usual_threads
    updates = {axis.name for axis in stage.reduction_axes}
    apart = all(updates & set(axes_of(plan, loop)) for loop in bound)
    if apart and draft.decide(name, "split", axis=line.name, factor=threads):
        bind(draft, name, [*(axis.name for axis in planes), line.name + "o"][-3:], "block")
        bind(draft, name, [line.name + "i"], "thread")


def decide_gpu_parts(draft: Draft, name: str) -> None:
    """Decides the loops of the parts of a stage's strategy that have no directives: the outermost is distributed over threads."""
    stage, plan = draft.state.stage(name), draft.state.plan(name)
    if plan.strategy is None or plan.compute_with is not None:
        return
    if (stage.scan is not None or stage.filter is not None) and any(loop.level for loop in plan.loops):
        return  # threads have parts of blocks in all passes
    for part in strategies_of(stage)[plan.strategy[0]].parts:
        axes = [axis.name for axis in part_stage(stage, plan, part).axes]
        whole = part_name(name, part)
        if (
            (whole, "loops") in draft.state.decided
            or not axes
            or (part == "fold" and decide_shared_segments(draft, whole, axes))
        ):
            continue
        draft.decide(whole, "parallel", axis=axes[0])


def decide_shared_segments(draft: Draft, part: str, axes: Sequence[str]) -> bool:
    """Distributes the fold of a block's segments over its threads; returns whether that is legal and gains."""
    gpu, trial = draft.machine.gpu, draft.trial()
    assert gpu is not None
    bound = len(axes) == 2 and not gpu.in_turn and trial.decide(part, "bind", axis=axes[0], place="block.x")
    if not bound or not trial.decide(part, "split", axis=axes[1], factor=gpu.usual_threads):
        return False
    if not bind_fold(trial, part, axes[1] + "i"):
        return False
    draft.adopt(trial)
    return True
