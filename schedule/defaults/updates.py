"""The default loops of updates on a CPU.

Many updates side by side are parallel over the outermost axis that steps share with the results. One update folds into private bins, chunk
by chunk: into four replicas in turn where the bins fit an eighth of L1. Where bins exceed half of the last-level cache, steps are sorted
instead, unless they are known to be in the order of their bins; for sizes unknown before the call that is a branch, taken where bins fill
some ranges of `sorted` and steps are many, but few for each bin. Atomic steps are for threads. Values that are set, and rows, are stored in
lanes; long rows in chunks for threads. Values and indices that take operations are computed in lanes before the steps, tile by tile, where
that is faster (`cost/values_of_updates`).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from raido.algo.graph import index
from raido.algo.graph.expr import Axis, Expr, Load
from raido.algo.graph.rewrite import free_variables, loads_in, scalar_nodes
from raido.schedule.defaults.demand import cost
from raido.schedule.defaults.draft import Draft, extent, known_extent
from raido.schedule.defaults.latency import MOST
from raido.schedule.defaults.parts import are_values_sooner_in_lanes, decide_parts
from raido.schedule.machine import LINE
from raido.schedule.plan import At
from raido.schedule.recorded import Directive
from raido.schedule.stages.runs import updates_are_in_order
from raido.schedule.stages.stage import Stage, initial_values
from raido.schedule.stages.updates.dependence import bare_index
from raido.schedule.stages.updates.siblings import has_structures
from raido.schedule.strategies.table import UPDATES_FOR_A_BIN, UPDATES_FOR_A_STRUCTURE, block_of

TURNS = 4
FAR_RANGES = 4  # ranges of `sorted`: in fewer, bins that follow each other are often in one cache
FEW_UPDATES = 2 * UPDATES_FOR_A_BIN  # for each bin: with more, `private` has two chunks (of structures, one is enough)
LONG_ROW = 1024  # elements: two strips, of which each still is some lines


def decide_update_loops(draft: Draft, stage: Stage) -> None:
    """Decides the strategy and the loops of an update without directives."""
    assert stage.update is not None
    name, first = stage.name, stage.all_axes[0]
    placed = isinstance(draft.state.plan(name).compute, At)
    if not placed and stage.update.mode == "unique" and _has_even_indices(stage):
        decide_unique_update_loops(draft, stage)
        return
    side_by_side = first not in stage.reduction_axes
    if side_by_side and not placed:
        draft.decide(name, "parallel", axis=first.name)
    if not side_by_side and not placed and draft.state.plan(name).strategy is None:
        if decide_row_tiles(draft, stage):
            return
        if stage.update.mode == "combine":
            decide_strategy(draft, stage)
    if draft.state.plan(name).strategy is None and are_values_sooner_in_lanes(draft, stage):
        draft.decide(name, "strategy", name="serial")  # whose part "values" has lanes
    chosen = draft.state.plan(name).strategy
    if not placed and not side_by_side and chosen is not None and chosen[0] == "atomic":
        draft.decide(name, "parallel", axis=first.name)
    decide_loops_of_result(draft, stage, first)


def decide_loops_of_result(draft: Draft, stage: Stage, first: Axis) -> None:
    """Schedules threads and lanes over the destination, which is initialized before the steps."""
    name, last = stage.name, stage.axes[-1]
    if last is first or last in stage.reduction_axes:
        return
    count = known_extent(draft, last.extent)
    alone = len(stage.axes) == 1 and not isinstance(draft.state.plan(name).compute, At)
    if alone and (count is None or count > draft.machine.task // 2):
        draft.decide(name, "split", axis=last.name, factor=draft.machine.task // 2)
        draft.decide(name, "parallel", axis=last.name + "o")
        draft.decide(name, "vectorize", axis=last.name + "i")
        return
    draft.decide(name, "vectorize", axis=last.name)


def decide_row_tiles(draft: Draft, stage: Stage) -> bool:
    """Splits long rows into chunks, each for a thread that runs all steps in order; returns whether it did. For unknown lengths in a
    branch.
    """
    last = stage.axes[-1]
    if last in stage.whole_axes or last in stage.reduction_axes or len(stage.axes) < 2:
        return False
    length = known_extent(draft, last.extent)
    if length is None:
        if not all(axis.name.isidentifier() for axis in stage.all_axes):
            return False
        branch = draft.branch()
        rows = " + ".join(" * ".join(a.name for a in axes) for axes in (stage.axes[:-1], stage.reduction_axes))
        test = f"{last.name} >= {LONG_ROW} and {last.name} * ({rows}) >= {draft.machine.task}"
        if decide_update_tiles(branch, stage, LONG_ROW // 2):
            draft.accept(branch.when(stage.name, test))
        return False
    rows = sum(prod(extent(draft, axis.extent) for axis in axes) for axes in (stage.axes[:-1], stage.reduction_axes))
    if length < LONG_ROW or length * rows < draft.machine.task:
        return False
    line = LINE // min(body.dtype.itemsize for body in stage.bodies)
    return decide_update_tiles(
        draft, stage, max(line, min(LONG_ROW // 2, length // draft.machine.cores // line * line))
    )


def decide_update_tiles(draft: Draft, stage: Stage, tile: int) -> bool:
    """Schedules threads over chunks of rows, with the steps inside; returns whether that is legal."""
    name, last = stage.name, stage.axes[-1].name
    outer, inner = last + "o", last + "i"
    if not draft.decide(name, "split", axis=last, factor=tile):
        return False
    draft.decide(name, "reorder", axes=(outer, *(axis.name for axis in stage.all_axes if axis.name != last), inner))
    draft.decide(name, "parallel", axis=outer)
    draft.decide(name, "vectorize", axis=inner)
    return True


def decide_strategy(draft: Draft, stage: Stage) -> None:
    """Chooses private bins for chunks of steps, or, for steps that are not known to be in order, steps sorted by their bins."""
    in_order = updates_are_in_order(stage)
    beyond = bins_of(draft, stage) * sum(body.dtype.itemsize for body in stage.bodies) > draft.machine.l3 // 2
    if beyond and not in_order and draft.decide(stage.name, "strategy", name="sorted", bins=range_of(draft, stage)):
        return
    far = None if in_order else sorted_where_far(draft, stage)
    if far is not None:
        draft.accept(far)
    draft.decide(stage.name, "strategy", name="private", replicas=turns(draft, stage))


def sorted_where_far(draft: Draft, stage: Stage) -> Directive | None:
    """Returns the branch with sorted steps, for sizes with distant bins and many steps; None where it is not needed or refused."""
    if bins_of(draft, stage) or not all(axis.name.isidentifier() for axis in stage.all_axes):
        return None
    branch = draft.branch()
    width = range_of(draft, stage)
    if not branch.decide(stage.name, "strategy", name="sorted", bins=width):
        return None
    decide_loops_of_result(branch, stage, stage.all_axes[0])
    decide_parts(branch, stage.name)
    bins, updates = (" * ".join(axis.name for axis in axes) for axes in (stage.axes, stage.reduction_axes))
    few = UPDATES_FOR_A_STRUCTURE if has_structures(stage) else FEW_UPDATES
    test = f"{bins} > {FAR_RANGES * width} and {2 * draft.machine.task} <= {updates} < {few} * {bins}"
    return branch.when(stage.name, test)


def range_of(draft: Draft, stage: Stage) -> int:
    """Returns the number of bins that half of L2 holds."""
    return block_of(draft.machine.l2 // 2, sum(body.dtype.itemsize for body in stage.bodies))


def decide_unique_update_loops(draft: Draft, stage: Stage) -> None:
    """Schedules steps with distinct, evenly spread destinations: lanes along contiguous ones, threads over the others."""
    name = stage.name
    update_axes = [axis for axis in _update_axes(stage) if known_extent(draft, axis.extent) != 1]
    if not update_axes:
        return
    lanes = _axis_of_lanes(stage, update_axes)
    first = next((axis for axis in update_axes if axis is not lanes), None)
    if first is None or (lanes is None and len(update_axes) == 1):
        count = known_extent(draft, update_axes[0].extent)
        chunk = draft.machine.task // (2 if lanes is not None else 32)
        inner = update_axes[0].name
        if (count is None or count > chunk) and draft.decide(name, "split", axis=inner, factor=chunk):
            draft.decide(name, "parallel", axis=inner + "o")
            inner += "i"
        if lanes is not None:
            draft.decide(name, "vectorize", axis=inner)
        return
    each = max(1, cost(stage)) * prod(extent(draft, axis.extent) for axis in update_axes if axis is not first)
    if each * extent(draft, first.extent) > draft.machine.task // 4:
        draft.parallel(name, first.name, each)
    if lanes is not None:
        draft.decide(
            name, "vectorize", axis=lanes.name, **({"interleave": MOST} if _reads_beside(stage, lanes) else {})
        )


def _reads_beside(stage: Stage, lanes: Axis) -> bool:
    """Whether steps read neighbours of the elements that they change in place, as one colour of a red-black sweep reads the other.

    A load then lies partly in the vector stored just before, and waits until it has left the store buffer (failed store forwarding), so
    several vectors are loaded before any is stored.
    """
    assert stage.reduction is not None
    changed = {load.array for load in loads_in(*initial_values(stage.reduction))}
    *rows, position = (index.canonical(e) for e in _indices(stage))
    return any(
        load.array in changed
        and lanes.var in free_variables(load.indices[-1])
        and all(index.canonical(e) is row for e, row in zip(load.indices, rows, strict=False))
        and index.canonical(load.indices[-1]) is not position
        for load in loads_in(*stage.reduction.values)
    )


def _update_axes(stage: Stage) -> list[Axis]:
    """Returns the axes that steps run over, in the order of the loops."""
    return [axis for axis in stage.all_axes if axis not in stage.whole_axes]


def _has_even_indices(stage: Stage) -> bool:
    """Whether no destination index is read from an array, unless all steps read the same element."""
    variables = {axis.var for axis in _update_axes(stage)}
    read = [node for e in _indices(stage) for node in scalar_nodes(e) if isinstance(node, Load)]
    return not any(node in variables for load in read for e in load.indices for node in scalar_nodes(e))


def _indices(stage: Stage) -> list[Expr]:
    assert stage.update is not None and stage.reduction is not None
    values = stage.reduction.values
    return [
        axis.var if number is None else bare_index(values[number])
        for axis, number in zip(stage.axes, stage.update.index_values, strict=True)
    ]


def _axis_of_lanes(stage: Stage, update_axes: Sequence[Axis]) -> Axis | None:
    """Returns the axis along which steps change contiguous elements; None without one."""
    *outer, last = _indices(stage)
    for axis in reversed(update_axes):
        if index.linear(last)[1].get(axis.var) == 1 and not any(axis.var in scalar_nodes(e) for e in outer):
            return axis
    return None


def turns(draft: Draft, stage: Stage) -> int:
    """Returns the number of replicas of the bins that steps use in turn: several where all of them fit the first-level cache."""
    return TURNS if 0 < bins_of(draft, stage) <= draft.machine.l1 // 8 else 1


def bins_of(draft: Draft, stage: Stage) -> int:
    """Returns the number of bins; 0 where it is not known."""
    counts = [known_extent(draft, axis.extent) for axis in stage.axes]
    return prod(count or 0 for count in counts)
