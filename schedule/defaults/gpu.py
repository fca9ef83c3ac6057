"""The default loops of stages on a GPU: who is a block, who is a thread; every value is written out by `bind` or `parallel`.

Maps, stencils and reductions hand their results to threads: neighbours along the axis on which most accesses are contiguous are neighbours
along thread.x, the axis before it is thread.y, the others are blocks. Axes of a few constant elements, and those that are folded, stay
inside the thread. Where arrays are made for each element of mapped functions, a thread has the whole of such an element. A reduction to
one value folds chunks, a thread each. What runs in blocks by its strategy takes `parallel`: its iterations are dealt out to threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from math import prod

from raido.algo.graph import index
from raido.algo.graph.expr import Axis
from raido.schedule.defaults.demand import Point, is_long_scan
from raido.schedule.defaults.draft import Draft, extent, known
from raido.schedule.defaults.facts import contiguity, function_axes, is_small, row_axis
from raido.schedule.machine import Gpu
from raido.schedule.plan import At
from raido.schedule.stages.segments import segments_of
from raido.schedule.stages.stage import Stage
from raido.schedule.strategies import strategies_of
from raido.schedule.strategy_parts import part_name, part_stage

THREADS = 256  # of a block: a power of two that all devices hold some of at a time, and that few registers suffice for
LINE = 128  # bytes that neighbouring threads read at a time, of the memory of most devices
MOST_UNROLLED = 32


def say_gpu_loops(draft: Draft, name: str) -> None:
    """The loops of a stage of which nothing was said."""
    stage, gpu = draft.state.stage(name), draft.machine.gpu
    assert gpu is not None
    if not stage.all_axes or isinstance(draft.state.plan(name).compute, At):
        return
    if stage.sort is not None:
        say_sort(draft, stage)
    elif stage.filter is not None:
        draft.say(name, "strategy", name="count_write", block=block_of_scan(draft, stage))
    elif stage.update is not None:
        say_update(draft, stage, gpu)
    elif stage.scan is not None:
        say_scan(draft, stage, gpu)
    elif is_in_segments(draft, stage):
        draft.say(name, "strategy", name="flat", block=draft.machine.task)
    elif stage.axes:
        say_threads(draft, stage, bindable_axes(draft, stage), gpu)
    else:
        say_chunks(draft, stage)


def say_threads(draft: Draft, stage: Stage, axes: Sequence[Axis], gpu: Gpu) -> None:
    """Some axes of a stage to blocks and threads; its other loops stay inside, unrolled where they are short."""
    name = stage.name
    if not axes:
        return
    x = line_axis(draft, stage, axes)
    rows = [axis for axis in axes if axis is not x]
    threads = min(THREADS, gpu.threads)
    width = fitting(
        draft, x, max(gpu.subgroup, LINE // stage.bodies[0].dtype.itemsize) if rows else threads, gpu.along[0]
    )
    tiles = {x.name: width}
    if rows:
        tiles = {rows[-1].name: fitting(draft, rows[-1], max(1, threads // width), gpu.along[1])} | tiles
    inside = [axis.name for axis in stage.all_axes if axis not in axes]
    planes = [axis.name for axis in rows[:-1]]
    outer, inner = [each + "o" for each in tiles], [each + "i" for each in tiles]
    for axis, factor in tiles.items():
        if not draft.say(name, "split", axis=axis, factor=factor):
            return
    draft.say(name, "reorder", axes=(*planes, *outer, *inner, *inside))
    bind_planes(draft, name, planes)
    bind(draft, name, outer, "block")
    bind(draft, name, inner, "thread")
    short = [axis for axis in stage.all_axes if axis.name in inside and is_small(axis.extent)]
    if stage.scan is None and prod(extent(draft, axis.extent) for axis in short) <= MOST_UNROLLED:
        for axis in short:
            draft.say(name, "unroll", axis=axis.name)


def bind(draft: Draft, name: str, loops: Sequence[str], level: str) -> None:
    """Neighbouring loops, at most three, to the dimensions of a level, the innermost to x."""
    for loop, dimension in zip(loops, "zyx"[-len(loops) :], strict=True):
        draft.say(name, "bind", axis=loop, place=f"{level}.{dimension}")


def bind_planes(draft: Draft, name: str, planes: Sequence[str]) -> None:
    """The outermost loops to blocks along z, as one loop where they are several."""
    if not planes:
        return
    whole, *others = planes
    for each in others:
        draft.say(name, "fuse", a=whole, b=each)
        whole += each
    draft.say(name, "bind", axis=whole, place="block.z")


def bindable_axes(draft: Draft, stage: Stage) -> list[Axis]:
    """The axes whose indices are threads: of elements for which arrays are made, those axes alone; else all that are not short."""
    made = function_axes(draft, stage)
    if made:
        return list(takewhile(lambda axis: axis.name in made, stage.axes))
    return [axis for axis in stage.axes if not is_small(axis.extent)] or list(stage.axes[:1])


def line_axis(draft: Draft, stage: Stage, axes: Sequence[Axis]) -> Axis:
    """The axis along which most accesses are contiguous, the last of equals."""
    stored: Point = tuple(axis.var for axis in stage.axes)
    points = [stored, *(point for each in draft.demand.reads(stage.name).values() for point in each)]
    scores = [sum(contiguity(axis.var, point) for point in points) for axis in axes]
    return next(axis for axis, score in zip(reversed(axes), reversed(scores), strict=True) if score == max(scores))


def fitting(draft: Draft, axis: Axis, threads: int, most: int) -> int:
    """A power of two of threads for an axis: as many as wanted, and not twice as many as it is long."""
    count = index.constant_value(known(draft, axis.extent))
    wanted = min(threads, most)
    return wanted if count is None else min(wanted, 1 << max(0, count - 1).bit_length())


def say_chunks(draft: Draft, stage: Stage) -> None:
    """A reduction to one value: chunks of it to threads."""
    first = row_axis(draft, stage)
    assert first is not None
    row = prod(extent(draft, axis.extent) for axis in stage.all_axes if axis is not first)
    if draft.say(stage.name, "split", axis=first.name, factor=max(1, draft.machine.task // row)):
        draft.say(stage.name, "parallel", axis=first.name + "o")


def say_scan(draft: Draft, stage: Stage, gpu: Gpu) -> None:
    """Blocks of one long scan, or of a few side by side; else a thread for each of many."""
    assert stage.scan is not None
    axis = stage.axes[stage.scan.along]
    if is_long_scan(stage, lambda e: known(draft, e)):
        block, count = block_of_scan(draft, stage), index.constant_value(known(draft, axis.extent))
        if count is None or count > block:
            draft.say(stage.name, "strategy", name="three_phase", block=block)
        return
    say_threads(draft, stage, [each for each in stage.axes if each is not axis], gpu)


def block_of_scan(draft: Draft, stage: Stage) -> int:
    """Elements, or rows, of a block, which one thread goes through: about as many as there are blocks, whose totals are scanned by one."""
    along = stage.reduction_axes[0]
    row = prod(extent(draft, axis.extent) for axis in stage.axes if axis is not along)
    task = draft.machine.task
    count = index.constant_value(known(draft, along.extent)) or task * task
    balanced = 1 << (max(1, count).bit_length() // 2)
    return max(1, min(max(balanced, task // 4), 4 * task) // row)


def say_sort(draft: Draft, stage: Stage) -> None:
    """Sorts side by side, a thread each; one alone goes through chunks, a thread each."""
    first, along = stage.all_axes[0], stage.reduction_axes[0]
    alone = first is along and along.name.isidentifier()
    draft.say(stage.name, "strategy", name="radix", chunks=f"{along.name} // {draft.machine.task}" if alone else 1)
    if first is not along:
        draft.say(stage.name, "parallel", axis=first.name)


def is_in_segments(draft: Draft, stage: Stage) -> bool:
    """Whether a stage folds segments of one array of values, not known to be few, so that long segments are shared by threads."""
    segments = segments_of(stage)
    if segments is None or len(stage.axes) != 1:
        return False
    count = index.constant_value(known(draft, index.add(stage.axes[0].extent, segments.size)))
    return count is None or count > draft.machine.task


def say_update(draft: Draft, stage: Stage, gpu: Gpu) -> None:
    """Updates side by side, a thread each. Steps of one alone: a thread each, where they may meet by indivisible steps or never do;
    else in chunks with bins of their own, or sorted by place."""
    assert stage.update is not None
    name, steps = stage.name, list(stage.reduction_axes)
    mapped = list(takewhile(lambda axis: axis not in steps, stage.all_axes))
    if mapped:
        say_threads(draft, stage, mapped, gpu)
        return
    atomic = stage.update.mode == "combine" and draft.say(name, "strategy", name="atomic")
    if atomic or stage.update.mode == "unique":
        say_steps(draft, stage, steps, gpu)
    elif stage.update.mode == "combine":
        draft.say(name, "strategy", name="private")
    else:
        count = " * ".join(axis.name for axis in steps)
        draft.say(name, "strategy", name="sorted", chunks=f"{count} // {draft.machine.task}")
    result = [axis for axis in stage.axes if axis not in stage.reduction_axes]
    line = result[-1] if result and all(axis.name not in bound_axes(draft, name) for axis in result) else None
    if line is not None and draft.say(name, "split", axis=line.name, factor=min(THREADS, gpu.threads)):
        bind(draft, name, [line.name + "o"], "block")
        bind(draft, name, [line.name + "i"], "thread")


def bound_axes(draft: Draft, name: str) -> set[str]:
    """The names of the loops of a stage that are bound."""
    return {loop.name for loop in draft.state.plan(name).loops if loop.level}


def say_steps(draft: Draft, stage: Stage, steps: Sequence[Axis], gpu: Gpu) -> None:
    """The steps of an update to threads: those that follow each other to neighbours."""
    name, last = stage.name, steps[-1]
    if draft.say(name, "split", axis=last.name, factor=fitting(draft, last, min(THREADS, gpu.threads), gpu.along[0])):
        bind(draft, name, [*(axis.name for axis in steps[:-1]), last.name + "o"][-3:], "block")
        bind(draft, name, [last.name + "i"], "thread")


def say_gpu_parts(draft: Draft, name: str) -> None:
    """The loops of those parts of a stage's strategy of which nothing was said: iterations of the outermost are dealt out to threads."""
    stage, plan = draft.state.stage(name), draft.state.plan(name)
    if plan.strategy is None or plan.compute_with is not None:
        return
    for part in strategies_of(stage)[plan.strategy[0]].parts:
        axes = [axis.name for axis in part_stage(stage, plan, part).axes]
        whole = part_name(name, part)
        if (whole, "loops") not in draft.state.asked and axes:
            draft.say(whole, "parallel", axis=axes[0])
