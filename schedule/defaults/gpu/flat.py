"""The default loops, on a GPU, of stages that treat all elements of equal arrays alike: one loop over all of them.

Neighbouring elements in memory are then neighbours of a thread or of neighbouring threads wherever rows begin and however short they are,
and whole vectors move whatever their length. Indices are never divided (`flat_offset`).

    for y: for x: out[y, x] = a[y, x] * 2       becomes       for yx by blocks and threads: out[yx] = a[yx] * 2
"""

from __future__ import annotations

from raido.algo.graph.rewrite import free_variables
from raido.schedule.defaults.draft import Draft
from raido.schedule.defaults.gpu.bindings import bind, fold_alone
from raido.schedule.defaults.gpu.streams import elements_of_flat
from raido.schedule.defaults.pixels import shapes_read_alike
from raido.schedule.machine import Gpu
from raido.schedule.stages.stage import Stage
from raido.schedule.state import placed_at


def decide_flat(draft: Draft, stage: Stage, gpu: Gpu) -> bool:
    """Schedules a stage over the elements of equal arrays; returns whether it is one, and the schedule is legal."""
    name, axes = stage.name, [axis.name for axis in stage.axes]
    if len(axes) < 2 or not is_flat(draft, stage) or any(placed_at(draft.state, name, axis) for axis in axes):
        return False
    trial, threads, lanes = draft.trial(), gpu.usual_threads, elements_of_flat(draft, stage, gpu)
    flat = trial.fuse(name, axes)
    if flat != "".join(axes) or not trial.decide(name, "split", axis=flat, factor=threads * lanes):
        return False
    block, thread = flat + "o", flat + "i"
    if lanes > 1 and trial.decide(name, "split", axis=thread, factor=lanes):
        trial.decide(name, "vectorize", axis=thread + "i")
        thread += "o"
    bind(trial, name, [block], "block")
    bind(trial, name, [thread], "thread")
    draft.adopt(trial)
    return True


def is_flat(draft: Draft, stage: Stage) -> bool:
    """Whether the elements of a stage, or those that it folds to one value, are computed of those at the same index of arrays of its shape,
    and of constants."""
    axes = stage.axes or stage.reduction_axes
    if axes != stage.all_axes or stage.whole_axes or stage.update or not fold_alone(draft, stage):
        return False
    shapes, stages = shapes_read_alike(draft, stage), draft.state.uses.stages
    if shapes is None:
        return False
    own, shape = tuple(axis.var for axis in axes), tuple(axis.extent for axis in axes)
    for array, points in draft.demand.reads(stage.name).items():
        read = stages.get(array)
        if isinstance(read, Stage) and read.outer and array not in draft.demand.inlined:
            return False  # computed in the loops of its readers
        moving = [
            point for point in points if not all(e is not None and free_variables(e).isdisjoint(own) for e in point)
        ]
        if array not in draft.demand.inlined and any(point != own or shapes.get(array) != shape for point in moving):
            return False
    return True
