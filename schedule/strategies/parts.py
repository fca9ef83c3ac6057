"""The parts of strategies: stages with axes and loops of their own, whose plans are kept in the plan of the strategy's stage.

    strategy     part       computes                                                          axes
    private      bins       folds chunks of the iterations into private bins                  the stage itself
    private      combine    folds each result's private bins into it                          the results' axes
    three_phase  totals     folds each block (first pass)                                     blocks, elements of a block
    chain        totals     folds a block before it is scanned                                elements of a block
    count_write  count      counts the elements that a block keeps (first pass)               blocks, elements of a block
    chain        count      counts the elements that a block keeps before it is written       elements of a block (of a partition: both)
    private      values     the values and indices of a tile of iterations; of serial, too    iterations, split
    sorted       ranges     applies the iterations of each range of bins                      ranges
    rows         fold       folds the values of a segment                                     values of a segment
    triangle     copy       copies the elements above the diagonal                            blocks of rows, and columns
    flat         check      checks that offsets are non-decreasing                            segments
    flat         search     finds the segment in which each block begins                      blocks, and the end
    flat         fold       folds the pieces of segments in each block                        blocks, and values of a piece
    flat         join       combines the pieces of segments that lie in several blocks        blocks

The stage's own loops are the last pass. A part without directives has serial loops.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from raido.algo.graph import index as ix
from raido.algo.graph.expr import Axis, fresh
from raido.schedule.checks.lanes_along_folds import check_lanes_of_operator
from raido.schedule.plan import LoopPlan, StagePlan
from raido.schedule.recorded import PART
from raido.schedule.refusal import Refusal
from raido.schedule.stages.segments import ragged_folds, segments_of, takes_lanes
from raido.schedule.stages.stage import Stage
from raido.schedule.state import State, axes_of, is_reduction, placed_at, plain_plan, position

# Parts whose loops are over blocks or ranges, and inside a block: they take threads and lanes alone.
OF_BLOCKS = ("totals", "count", "fold", "join", "ranges", "copy")


def is_of_blocks(name: str) -> bool:
    """Whether a name is that of a part over blocks, whose loops take threads and lanes alone."""
    return PART in name and name.rpartition(PART)[2] in OF_BLOCKS


def is_own_pass(plan: StagePlan, part: str) -> bool:
    """Whether a part of the chosen strategy is the pass that the stage's own loops run."""
    return part == "bins" and plan.strategy is not None and plan.strategy[0] == "private"


def part_name(stage: str, part: str) -> str:
    """Returns the name that directives have for a part, such as "total::combine"."""
    return f"{stage}{PART}{part}"


def totals_part(stage: Stage) -> str:
    """Returns the name of the part that folds the blocks of a scan ("totals"), or counts those of a filter ("count")."""
    return "count" if stage.filter is not None else "totals"


def part_stage(stage: Stage, plan: StagePlan, part: str) -> Stage:
    """Returns a part of the chosen strategy as a stage, with axes and without bodies."""
    name = part_name(stage.name, part)
    made = replace(stage, name=name, names=(name,), axes=_axes(stage, plan, part), reduction=None, bodies=())
    return replace(made, scan=None, update=None, filter=None, sort=None)


def part_plan(stage: Stage, plan: StagePlan, part: str) -> StagePlan:
    """Returns the plan of a part; a plain one where it has no directives."""
    name = part_name(stage.name, part)
    said = next((each for each in plan.parts if each.stage == name), None)
    return said or plain_plan(part_stage(stage, plan, part))


def has_values_in_lanes(stage: Stage, plan: StagePlan) -> bool:
    """Whether the values and indices of an update's iterations are computed in lanes before the iterations run."""
    name = part_name(stage.name, "values")
    return any(part.stage == name and part.loops[-1].kind == "vector" for part in plan.parts)


def part_loop(stage: Stage, plan: StagePlan, part: str, axis: int) -> LoopPlan:
    """Returns a loop of a part over blocks: `axis` 0 is the loop over blocks, −1 the loop inside one."""
    return part_plan(stage, plan, part).loops[axis]


def rows_copied_together(plan: StagePlan) -> int:
    """Returns the parameter `rows` of a stage's `triangle`."""
    assert plan.strategy is not None
    return int(str(dict(plan.strategy[1])["rows"]))


def without_threads(plan: StagePlan, threaded: bool) -> StagePlan:
    """Returns the plan with its parallel loops made serial where `threaded`: inside another parallel loop."""
    loops = (replace(loop, kind="serial", level="") if loop.kind == "parallel" else loop for loop in plan.loops)
    return replace(plan, loops=tuple(loops)) if threaded else plan


def _axes(stage: Stage, plan: StagePlan, part: str) -> tuple[Axis, ...]:
    if part == "combine":
        return stage.axes
    assert plan.strategy is not None
    if part == "values":
        return (Axis(fresh("step"), stage.reduction_axes[-1].extent),)
    if part == "copy":
        rows, columns = stage.axes[-2:]
        side_by_side = rows_copied_together(plan)
        return Axis(fresh(rows.name + "o"), ix.ceildiv(rows.extent, side_by_side)), Axis(
            fresh(columns.name), columns.extent
        )
    if part == "ranges":
        outer = stage.all_axes.index(stage.reduction_axes[0])
        bins = ix.as_index(1)
        for axis in stage.axes:
            bins = bins if axis in stage.all_axes[:outer] else ix.mul(bins, axis.extent)
        return (Axis(fresh("range"), ix.ceildiv(bins, int(str(dict(plan.strategy[1])["bins"])))),)
    if plan.strategy[0] == "rows":
        return (Axis(fresh("value"), ragged_folds(stage)[0].axes[0].extent),)
    name, block = plan.strategy[0], int(str(dict(plan.strategy[1])["block"]))
    if part in ("totals", "count"):
        axis = stage.reduction_axes[0]
        inner = Axis(fresh(axis.name + "i"), ix.as_index(block))
        two_phases = name != "chain" or (stage.filter is not None and stage.filter.partition)
        return (Axis(fresh(axis.name + "o"), ix.ceildiv(axis.extent, block)), inner) if two_phases else (inner,)
    segments = segments_of(stage)
    assert segments is not None
    along = stage.axes[segments.axis]
    if part == "check":
        return (along,)
    blocks = ix.ceildiv(ix.add(along.extent, segments.size), block)
    if part == "search":
        return (Axis(fresh("block"), ix.add(blocks, 1)),)
    if part == "join":
        return (Axis(fresh("block"), blocks),)
    return Axis(fresh("block"), blocks), Axis(fresh("value"), ix.as_index(block))


def check_part_of_blocks(whole: Stage, part: str, directive: str, arguments: Mapping[str, object], gpu: bool) -> None:
    """Refuses a directive that the loops of a part of a strategy cannot take."""
    if part == "values":
        _check_update_tiles(whole, directive, arguments, gpu)
    if part not in OF_BLOCKS:
        return
    *outer, inner = (each.name for each in whole.axes)
    axis = arguments.get("axis")
    if part in ("ranges", "join"):
        if directive != "parallel":
            goes = "each range applies its updates" if part == "ranges" else "each block joins its parts of segments"
            raise Refusal(f"{goes} in order", directives="parallel")
        return
    if not outer and part == "fold" and directive != "vectorize":
        raise Refusal(
            "one iteration folds all values of a segment, in order or in vector lanes", directives="vectorize"
        )
    shared = gpu and part == "fold"  # the threads of a block share a segment's fold
    if shared and directive == "split" and axis == inner:
        return
    if shared and directive == "bind":
        level = str(arguments.get("place")).partition(".")[0]
        if (axis in outer) != (level == "block") or axis not in (*outer, inner, inner + "i"):
            raise Refusal(
                f'"{outer[0]}" can be bound to blocks of the GPU only, and the inner half of a split of "{inner}" to threads only',
                f'split("{inner}", 64), bind("{outer[0]}", "block.x") and bind("{inner}i", "thread.x")',
            )
        return
    if directive not in ("parallel", "vectorize"):
        raise Refusal(
            "the strategy fixes the loops of this part, which run over its blocks", directives="parallel, vectorize"
        )
    if directive == "parallel" and axis == inner:
        raise Refusal(
            f'"{inner}" runs inside a block, and one thread runs each block',
            f'parallel("{outer[0]}")' if outer else None,
        )
    if directive == "vectorize" and axis in outer:
        raise Refusal(
            f'"{axis}" runs over whole blocks, and vector lanes cannot run a block each', f'vectorize("{inner}")'
        )


def _check_update_tiles(whole: Stage, directive: str, arguments: Mapping[str, object], gpu: bool) -> None:
    """Refuses directives other than `split` and `vectorize` for the part "values" of an update."""
    if gpu:
        raise Refusal("each thread of a GPU computes the values of its updates one by one", directives="none")
    axis_name, axis = whole.axes[0].name, arguments.get("axis")
    if directive not in ("split", "vectorize"):
        raise Refusal(
            "the values of the updates are computed in order or in vector lanes", directives="split, vectorize"
        )
    if axis != (axis_name if directive == "split" else axis_name + "i"):
        raise Refusal(
            "vector lanes compute the values of one block of updates at a time, so the loop must be split first",
            f'split("{axis_name}", 512), vectorize("{axis_name}i")',
        )


def check_parts(state: State, name: str) -> None:
    """Refuses lanes inside lanes, of a part and of the stage's own loops, and lanes of operators that they cannot fold."""
    stage, plan = state.stage(name), state.plans[name]
    if stage.update is not None and has_values_in_lanes(stage, plan):
        _check_values(state, stage, plan)
    if stage.scan is None and not ragged_folds(stage):
        return
    across = [loop for loop in plan.loops if loop.kind == "vector" and not is_reduction(stage, plan, loop.name)]
    for part in plan.parts:
        lanes = next((loop.name for loop in part.loops if loop.kind == "vector"), None)
        _, _, short = part.stage.rpartition(PART)
        if lanes is not None and stage.scan is not None:
            check_lanes_of_operator(stage)
        elif lanes is not None and short == "fold" and not any(map(takes_lanes, ragged_folds(stage))):
            raise Refusal(
                f'the operator of "{name}" has no known neutral element, which each lane needs as its initial value',
                "leave the loop over the values serial",
            )
        if across and lanes is not None and short in OF_BLOCKS:
            raise Refusal(
                f'vectorized loop "{lanes}" of part "{short}" would run inside vectorized loop "{across[0].name}" of "{name}"'
            )


def _check_values(state: State, stage: Stage, plan: StagePlan) -> None:
    """Refuses the part "values" in lanes where the iterations are rows, have lanes themselves, or have other stages in their loop."""
    whole = {axis.name for axis in stage.whole_axes}
    loop = [each for each in plan.loops if is_reduction(stage, plan, each.name)][-1]
    after = plan.loops[position(plan, loop.name) + 1 :]
    inner = [each.name for each in after if not whole.issuperset(axes_of(plan, each.name))]
    remedy = 'leave the loop of part "values" serial'
    if inner:
        raise Refusal(
            f'each update of "{stage.name}" writes a row along "{inner[0]}", and lanes compute single values', remedy
        )
    if loop.kind != "serial":
        raise Refusal(
            f'the lanes of part "values" would run inside loop "{loop.name}", whose kind is {loop.kind}', remedy
        )
    if placed := placed_at(state, stage.name, loop.name):
        raise Refusal(f'"{placed[0]}" is computed inside loop "{loop.name}", whose updates run one by one', remedy)
