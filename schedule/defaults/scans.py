"""The default loops of scans, filters, segmented reductions and sorts.

One long scan is chained: cache-sized blocks for threads, lanes along the axis; so are a few side by side, of rows scanned as elements. Many
scans side by side are parallel over the outermost of the other axes; lanes run along the scanned axis where that is contiguous, else across
scans, in chunks of a few cache lines so that their running values stay close, narrower ones where there would be fewer chunks than cores,
with short axes that share those lines inside, or else some rows at a time. Columns too few for a vector, of a number unknown before the
call, have a branch in which lanes run along each.
"""

from __future__ import annotations

from math import prod

from raido.algo.graph import index
from raido.algo.graph.assumptions import greatest
from raido.algo.graph.expr import Axis, Expr, Op, SizeVar
from raido.algo.graph.reduction import is_exact
from raido.algo.graph.rewrite import scalar_nodes
from raido.schedule.defaults.demand import is_long_scan
from raido.schedule.defaults.draft import Draft, extent, known, known_extent
from raido.schedule.defaults.short_iterations import may_branch
from raido.schedule.machine import LINE
from raido.schedule.plan import At
from raido.schedule.stages.inline import SHORT, is_short
from raido.schedule.stages.runs import runs_of
from raido.schedule.stages.segments import segments_of
from raido.schedule.stages.stage import Stage
from raido.schedule.state import has_explicit_loops, loops_from
from raido.schedule.strategies.table import (
    BITS_OF_A_DIGIT,
    BY_COMPARISONS,
    block_of,
    results_of,
    strategies_of,
    strategy_name,
)

TILE_BYTES = 1 << 12
ROWS = 4  # rows of a tile whose running values stay in registers: four rows read and four written are eight streams
MANY_BLOCKS = 64
LONGEST = 8  # tasks of a block: with more, long arrays of narrow elements leave few blocks for many cores
SELECTED = 8  # elements for each place that is read, or more: parts between pivots are then mostly left as they are
SORTS_PER_SELECTION = 24  # times of a selection in that of a sort by digits, one thread (sort(x)[:100] of f32, Zen 3)
BY_DIGITS = 16  # bits of keys that are sorted in two passes; wider ones need more of them than parts need comparisons
PARTITIONED = (
    8  # keys of a vector from which on partitioning is faster than radix passes (AVX2 against SSE4, Emerald Rapids)
)


def decide_runs(draft: Draft) -> None:
    """Chooses "runs" for scans without directives where it is legal: marks are then neither computed nor read."""
    for name, stage in list(draft.state.uses.stages.items()):
        if not isinstance(stage, Stage) or stage.scan is None or runs_of(stage) is None:
            continue
        said = has_explicit_loops(draft.state, name) or {(name, "strategy"), (name, "placement")} & draft.state.decided
        if not said and draft.decide(name, "strategy", name="runs", block=chain_block(draft, stage)):
            draft.renew_demand()


def decide_scan_loops(draft: Draft, stage: Stage, vector: Axis | None) -> None:
    """Decides the strategy and the loops of a scan without directives."""
    assert stage.scan is not None
    name, axis = stage.name, stage.axes[stage.scan.along]
    others = [each for each in stage.axes if each is not axis]
    plan = draft.state.plan(name)
    long = is_long_scan(stage, lambda e: known(draft, e))
    if long and plan.strategy is None and not isinstance(plan.compute, At):
        count = known_extent(draft, axis.extent)
        block = chain_block(draft, stage)
        if count is None or count > block:
            draft.decide(name, "strategy", name="chain", block=block)
    in_tiles = vector is not None and vector is not axis and len(others) > 0
    if isinstance(draft.state.plan(name).compute, At):
        in_tiles = False
    elif others and all(loop.kind == "serial" for loop in draft.state.plan(name).loops):
        if in_tiles and vector is not None and others == [vector]:
            decide_few_columns(draft, stage, vector)
        decide_rows(draft, stage, others, vector if in_tiles else None)
        return
    if vector is axis and not others:
        decide_parts_of_blocks(draft, stage)
    if vector is not None:
        inner = loops_from(draft.state.plan(name), vector.name)[-1]
        by_runs = strategy_name(draft.state, name) == "runs"
        draft.decide(name, "vectorize", axis=inner, **(wide(draft, stage) if vector is axis and not by_runs else {}))


def decide_few_columns(draft: Draft, stage: Stage, column: Axis) -> None:
    """Adds a branch for side-by-side scans of columns that fill no vector, in which lanes run along each column.

    A masked store is not forwarded to the load of the next step, which waits for it.
    """
    name, along = stage.name, stage.reduction_axes[0]
    if column.name.isidentifier() and known_extent(draft, column.extent) is None and may_branch(draft, stage):
        few = draft.branch()
        few.decide(name, "reorder", axes=(column.name, along.name))
        few.decide(name, "parallel", axis=column.name)
        if few.decide(name, "vectorize", axis=along.name, **wide(draft, stage)):
            draft.accept(few.when(name, f"{column.name} <= {SHORT // 2}"))


def decide_parts_of_blocks(draft: Draft, stage: Stage) -> None:
    """Splits the blocks of a chain into parts for the one-thread case: a part stays in L1 between its fold, or its producers, and
    its scan.
    """
    assert stage.reduction is not None
    strategy, (along,) = draft.state.plan(stage.name).strategy, stage.reduction_axes
    made = any(array in draft.state.uses.stages for array in draft.demand.reads(stage.name))
    if strategy is None or strategy[0] != "chain" or not (made or needs_totals(stage)):
        return
    part = block_of(draft.machine.l1 // 4, sum(body.dtype.itemsize for body in results_of(stage)))
    if part < int(str(dict(strategy[1])["block"])):
        draft.decide(stage.name, "split", axis=along.name + "i", factor=part)


def needs_totals(stage: Stage) -> bool:
    """Whether blocks are folded first even on one thread: where the grouping changes bits."""
    return stage.scan is not None and stage.reduction is not None and not is_exact(*stage.reduction.combine)


def wide(draft: Draft, stage: Stage) -> dict[str, int]:
    """Returns the option that interleaves two gangs, where registers hold the values of both and their operands."""
    return {"interleave": 2} if 4 * len(stage.bodies) <= draft.machine.registers else {}


def decide_segment_loops(draft: Draft, stage: Stage) -> bool:
    """Chooses blocks of values for threads, so that long segments are shared; returns whether the strategy is `flat`.

    Few values, and rows of values, stay with loops over segments.
    """
    segments, plan = segments_of(stage), draft.state.plan(stage.name)
    if segments is None or len(stage.axes) != 1 or isinstance(plan.compute, At):
        return False
    block = block_of(draft.machine.l2 // 2, sum(value.dtype.itemsize for value in segments.fold.values))
    count = known_extent(draft, index.add(stage.axes[0].extent, segments.size))
    if plan.strategy is None and (count is None or count > block):
        draft.decide(stage.name, "strategy", name="flat", block=block)
    chosen = draft.state.plan(stage.name).strategy
    return chosen is not None and chosen[0] == "flat"


def decide_filter_loops(draft: Draft, stage: Stage) -> None:
    """Chains a filter as a long scan; kept rows move in lanes."""
    name, axis, last = stage.name, stage.axes[0], stage.axes[-1]
    if draft.state.plan(name).strategy is None:
        draft.decide(name, "strategy", name="chain", block=filter_block(draft, stage))
    if last is axis:
        decide_parts_of_blocks(draft, stage)
    draft.decide(
        name, "vectorize", axis=loops_from(draft.state.plan(name), (last if last is not axis else axis).name)[-1]
    )


def chain_block(draft: Draft, stage: Stage) -> int:
    """Returns the elements, or rows, of a block that is read twice: as many as half of L2 holds, at most `LONGEST` tasks."""
    along = stage.reduction_axes[0]
    row = prod(extent(draft, axis.extent) for axis in stage.axes if axis is not along)
    block = block_of(draft.machine.l2 // 2, row * sum(body.dtype.itemsize for body in results_of(stage)))
    return max(1, min(block, block_of(LONGEST * draft.machine.task, row)))


def filter_block(draft: Draft, stage: Stage) -> int:
    """Returns the elements of a filter's block: all of L2 where that leaves many blocks, since each waits for the one before; else half of
    it.
    """
    block = chain_block(draft, stage)
    count = known_extent(draft, stage.reduction_axes[0].extent)
    return 2 * block if count is not None and count >= MANY_BLOCKS * 2 * block else block


def decide_sort_loops(draft: Draft, stage: Stage) -> None:
    """Schedules sorts: threads take some of those side by side; one alone uses all threads, unless it is inside parallel loops."""
    first = stage.all_axes[0]
    placed = isinstance(draft.state.plan(stage.name).compute, At)
    name = "quicksort" if "quicksort" in strategies_of(stage) and is_sorted_by_comparisons(draft, stage) else "radix"
    if name == "radix" and not placed and is_counted_where_long(draft, stage):
        name = decide_counted_sort(draft, stage)
    if is_selection(draft, stage):
        draft.decide(stage.name, "strategy", name="quickselect")
    else:
        draft.decide(stage.name, "strategy", name=name, **({"chunks": 1} if placed else {}))
    if strategy_name(draft.state, stage.name) in BY_COMPARISONS:
        draft.decide(stage.name, "vectorize", axis=stage.reduction_axes[0].name)
    if first not in stage.reduction_axes and not placed:
        draft.decide(stage.name, "parallel", axis=first.name)


def is_counted_where_long(draft: Draft, stage: Stage) -> bool:
    """Whether the keys of a sort are so narrow that one pass of a `quicksort` counts all possible ones."""
    found = strategies_of(stage, draft.machine).get("quicksort")
    if found is None or "counted" not in found.numbers or is_selection(draft, stage):
        return False
    assert stage.reduction is not None
    return 1 << stage.reduction.left[0].dtype.bits <= int(found.numbers["counted"])


def decide_counted_sort(draft: Draft, stage: Stage) -> str:
    """Returns the strategy of a sort of narrow integers; counting is used where there is an element for each counter, tested at the call
    for unknown sizes.
    """
    assert stage.reduction is not None
    along, counters = stage.reduction_axes[0], 1 << stage.reduction.left[0].dtype.bits
    count = known_extent(draft, along.extent)
    if count is not None:
        return "quicksort" if count >= counters else "radix"
    if not along.name.isidentifier():
        return "radix"
    branch = draft.branch()
    if branch.decide(stage.name, "strategy", name="quicksort"):
        branch.decide(stage.name, "vectorize", axis=along.name)
        first = stage.all_axes[0]
        if first is not along:
            branch.decide(stage.name, "parallel", axis=first.name)
        draft.accept(branch.when(stage.name, f"{along.name} >= {counters}"))
    return "radix"


def is_selection(draft: Draft, stage: Stage) -> bool:
    """Whether readers want so few indices of a sort that leaving the other parts unsorted pays.

    Stretches of data-dependent length, or of a share of all elements, are taken to be long, those of a size of their own (k) to be short.
    """
    assert stage.sort is not None
    if stage.sort.positions is None or "quickselect" not in strategies_of(stage):
        return False
    if draft.machine.cores >= SORTS_PER_SELECTION and len(stage.all_axes) == 1:
        return False  # a selection is the work of one thread, a sort by digits of all
    count = known(draft, stage.reduction_axes[0].extent)
    lengths = [known(draft, index.add(index.sub(high, low), 1)) for low, high in stage.sort.positions]
    most, whole = [greatest(length) for length in lengths], index.constant_value(count)
    if whole is not None and None not in most:
        return SELECTED * sum(each for each in most if each) <= whole
    own = {node for node in scalar_nodes(count) if isinstance(node, SizeVar)}
    return all(each is not None or _is_short(length, own) for each, length in zip(most, lengths, strict=True))


def _is_short(length: Expr, own: set[SizeVar]) -> bool:
    """Whether a length is bounded by other sizes than the array's own."""
    if not any(node in own for node in scalar_nodes(length)):
        return True
    if isinstance(length, Op) and length.name in ("minimum", "maximum"):
        short = [_is_short(each, own) for each in length.args]
        return any(short) if length.name == "minimum" else all(short)
    terms = index.linear(length)[1]
    return length not in terms and all(c > 0 and _is_short(atom, own) for atom, c in terms.items())


def is_sorted_by_comparisons(draft: Draft, stage: Stage) -> bool:
    """Whether comparisons are faster than radix passes: for keys of many digits, where partitioning is cheap or the array is short.

    A vector of fewer than eight keys is partitioned as slowly as its keys pass through a radix pass, and keys of 32 bits need few of those;
    keys of 64 bits need eight. Rows sorted side by side are taken to be short: the counters of digits would cost as much as the keys.
    """
    assert stage.reduction is not None
    bits = stage.reduction.left[0].dtype.bits
    if bits <= BY_DIGITS or len(stage.axes) > 1 or bits == 64 or draft.machine.lanes(bits) >= PARTITIONED:
        return bits > BY_DIGITS
    count = known_extent(draft, stage.reduction_axes[0].extent)
    return count is not None and count <= (bits // BITS_OF_A_DIGIT) << BITS_OF_A_DIGIT


def decide_rows(draft: Draft, stage: Stage, others: list[Axis], across: Axis | None) -> None:
    """Schedules scans side by side: threads over the outermost axis that is not scanned, lanes along the scanned one or across."""
    name = stage.name
    assert stage.scan is not None
    axis = stage.axes[stage.scan.along]
    if across is None:
        draft.decide(name, "parallel", axis=others[0].name)
        draft.decide(name, "vectorize", axis=axis.name, **wide(draft, stage))
        return
    inside = [each for each in others[others.index(across) + 1 :] if is_short(each.extent)]
    size = sum(body.dtype.itemsize for body in stage.bodies) * prod(extent(draft, each.extent) for each in inside)
    tile = max(16, min(TILE_BYTES, draft.machine.l1 // 8) // size)
    outer, inner = across.name + "o", across.name + "i"
    before = [each.name for each in others if each is not across and each not in inside]
    width = known_extent(draft, across.extent)
    if width is not None and not before:
        line = max(16, 2 * LINE // size)
        tile = min(tile, max(line, width // draft.machine.cores // line * line))
    if draft.decide(name, "split", axis=across.name, factor=tile):
        rows = not inside and draft.decide(name, "split", axis=axis.name, factor=ROWS)
        along = (axis.name + "o", inner, axis.name + "i") if rows else (axis.name, inner)
        draft.decide(name, "reorder", axes=(*before, outer, *along, *(each.name for each in inside)))
        draft.decide(name, "parallel", axis=before[0] if before else outer)
        draft.decide(name, "vectorize", axis=inner, **(wide(draft, stage) if rows else {}))
        if rows or inside:
            draft.decide(name, "unroll", axis=inside[-1].name if inside else along[-1])
