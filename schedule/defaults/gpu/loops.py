"""The default loops of stages on a GPU; every decision is written out by `bind` or `parallel`.

Maps, stencils and reductions assign results to threads: neighbours along the axis with most contiguous accesses are neighbours along
thread.x, the axis before it is thread.y, the others are blocks. Axes of a few constant elements, and reduction axes, stay inside the
thread; of a streaming stage a thread takes as many neighbours as one access moves (`streams.py`). Where stages compute arrays for each
element of mapped functions, a thread has a whole element. The axes of stages that treat all elements of equal arrays alike are fused
(`flat.py`). Arrays that are read across their rows go through shared memory (`block_transposes.py`). A reduction to one value, or of few
results, folds chunks (`long_folds.py`). Stencils have boundary loops, on devices whose branches cost one side. Stages in blocks by their
strategy take `parallel`: their iterations are distributed over threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from math import prod

from raido.algo.graph import index
from raido.algo.graph.expr import Axis
from raido.schedule.defaults.demand import Point, is_long_scan, meets_boundary
from raido.schedule.defaults.draft import Draft, extent, known, known_extent
from raido.schedule.defaults.gpu.bindings import bind, bind_fold, bind_pieces, bind_planes, fold_alone
from raido.schedule.defaults.gpu.block_products import decide_long_tiles, decide_tiles, is_in_tiles, most_of_sum
from raido.schedule.defaults.gpu.block_stages import decide_block_loops
from raido.schedule.defaults.gpu.block_transposes import decide_transposed
from raido.schedule.defaults.gpu.flat import decide_flat, is_flat
from raido.schedule.defaults.gpu.long_folds import decide_long_columns, decide_long_rows, is_often_few
from raido.schedule.defaults.gpu.matrix_products import decide_matrix_products
from raido.schedule.defaults.gpu.streams import elements_of_fold, elements_of_scan, elements_of_thread
from raido.schedule.defaults.gpu.updates import (
    decide_element_updates,
    decide_in_chunks,
    decide_start,
    many_chunks,
    product,
)
from raido.schedule.defaults.queries import (
    axes_of_private_loops,
    contiguity,
    function_axes,
    vector_axis,
)
from raido.schedule.defaults.short import WRITTEN_OUT
from raido.schedule.machine import Gpu
from raido.schedule.plan import At
from raido.schedule.stages.inline import is_short
from raido.schedule.stages.segments import segments_of
from raido.schedule.stages.stage import Stage
from raido.schedule.state import is_inlined, placed_at
from raido.schedule.strategies.parts import part_name, totals_part
from raido.schedule.strategies.table import block_of, results_of, strategies_of

LINE = 128  # bytes of a memory transaction of neighbouring threads, on most devices
REGISTER = 4  # bytes of a register
LONGEST = 32  # tasks of 1,024 iterations of one thread: half of the 65,535 after which lavapipe ends its loops


def decide_gpu_loops(draft: Draft, name: str) -> None:
    """Decides the loops of a stage without loop directives."""
    stage, gpu = draft.state.stage(name), draft.machine.gpu
    assert gpu is not None
    if not stage.all_axes:
        return
    if isinstance(draft.state.plan(name).compute, At):
        decide_block_loops(draft, stage)
        return
    if stage.sort is not None:
        decide_sort(draft, stage)
    elif stage.filter is not None:
        decide_blocks(draft, stage, "count_write", gpu)
    elif stage.update is not None:
        decide_update(draft, stage, gpu)
    elif stage.scan is not None:
        decide_scan(draft, stage, gpu)
    elif is_in_segments(draft, stage):
        shared = gpu.usual_threads * piece_of_thread(draft)
        draft.decide(name, "strategy", name="flat", block=draft.machine.task if gpu.in_turn else shared)
    elif not stage.axes:
        decide_chunks(draft, stage, gpu)
    else:
        axes = bindable_axes(draft, stage)
        if decide_matrix_products(draft, stage, axes, gpu):
            return
        few, tiles = is_often_few(draft, stage, gpu), is_in_tiles(draft, stage, axes)
        most = most_of_sum(draft, stage, gpu) if tiles else 0
        if few or most:
            decide_few_results(draft, stage, axes, gpu, 0 if few else most)
        if most:
            decide_long_tiles(draft, stage, most, gpu)
        done = (
            (tiles and decide_tiles(draft, stage, gpu))
            or decide_flat(draft, stage, gpu)
            or decide_transposed(draft, stage, axes, gpu)
            or decide_rows(draft, stage, axes, gpu)
        )
        if not done:
            meets = meets_boundary(draft.state, draft.demand, name) and not draft.state.plan(name).partition
            if gpu.branches and meets:
                draft.decide(name, "partition_boundaries")
            if not few and not most:
                decide_few_results(draft, stage, axes, gpu)
            decide_threads(draft, stage, axes, gpu)


def decide_threads(draft: Draft, stage: Stage, axes: Sequence[Axis], gpu: Gpu) -> None:
    """Distributes some axes of a stage over blocks and threads; its other loops stay inside, unrolled where they are short."""
    name = stage.name
    hosts = [axis for axis in axes if placed_at(draft.state, name, axis.name)]
    if hosts:
        decide_around(draft, stage, axes, hosts, gpu)
    if not axes or hosts:
        return
    x = line_axis(draft, stage, axes)
    rows = [axis for axis in axes if axis is not x]
    threads = gpu.usual_threads
    width = fitting(draft, x, neighbours(stage, gpu) if rows else threads, gpu.along[0])
    tiles = {x.name: width}
    if rows:
        tiles = {rows[-1].name: fitting(draft, rows[-1], max(1, threads // width), gpu.along[1])} | tiles
    inside = [axis.name for axis in stage.all_axes if axis not in axes]
    planes = [axis.name for axis in rows[:-1]]
    outer, inner = [each + "o" for each in tiles], [each + "i" for each in tiles]
    lanes = elements_of_thread(draft, stage, x, gpu)
    for axis, factor in tiles.items():
        if not draft.decide(name, "split", axis=axis, factor=factor * lanes if axis == x.name else factor):
            return
    if lanes > 1 and draft.decide(name, "split", axis=inner[-1], factor=lanes):
        draft.decide(name, "vectorize", axis=inner[-1] + "i")
        inside.append(inner[-1] + "i")
        inner[-1] += "o"
    draft.decide(name, "reorder", axes=(*planes, *outer, *inner, *inside))
    bind_planes(draft, name, planes)
    bind(draft, name, outer, "block")
    bind(draft, name, inner, "thread")
    short = [axis for axis in stage.all_axes if axis.name in inside and is_short(axis.extent)]
    if stage.scan is None and prod(extent(draft, axis.extent) for axis in short) <= WRITTEN_OUT:
        for axis in short:
            draft.decide(name, "unroll", axis=axis.name)


def decide_around(draft: Draft, stage: Stage, axes: Sequence[Axis], hosts: Sequence[Axis], gpu: Gpu) -> None:
    """Decides blocks and threads of a stage in whose loops `hosts` the user has placed others, which can no longer be split.

    The axes outside those loops are distributed, if there are any; else the outermost such loop is blocks, and threads run along another
    axis.
    """
    name, first = stage.name, axes.index(hosts[0])
    after = [axis for axis in axes[first + 1 :] if axis not in hosts]
    if first:
        decide_threads(draft, stage, axes[:first], gpu)
    elif not after:
        draft.decide(name, "parallel", axis=hosts[0].name)
    else:
        line = line_axis(draft, stage, after)
        factor = fitting(draft, line, gpu.usual_threads, gpu.along[0])
        if draft.decide(name, "split", axis=line.name, factor=factor):
            inside = [axis.name for axis in stage.all_axes if axis not in axes]
            others = [axis.name for axis in axes[1:] if axis is not line]
            draft.decide(name, "reorder", axes=(hosts[0].name, *others, line.name + "o", line.name + "i", *inside))
            bind(draft, name, [hosts[0].name], "block")
            bind(draft, name, [line.name + "i"], "thread")


def bindable_axes(draft: Draft, stage: Stage) -> list[Axis]:
    """Returns the axes to distribute over threads: those of elements with arrays of their own, if any; else all that are not short."""
    made = function_axes(draft, stage) or axes_of_private_loops(stage)
    if made:
        return list(takewhile(lambda axis: axis.name in made, stage.axes))
    return [axis for axis in stage.axes if not is_short(axis.extent)] or list(stage.axes[:1])


def line_axis(draft: Draft, stage: Stage, axes: Sequence[Axis]) -> Axis:
    """Returns the axis along which most accesses are contiguous, the last of equals."""
    stored: Point = tuple(axis.var for axis in stage.axes)
    points = [stored, *draft.demand.points_read(stage.name)]
    scores = [sum(contiguity(axis.var, point) for point in points) for axis in axes]
    return next(axis for axis, score in zip(reversed(axes), reversed(scores), strict=True) if score == max(scores))


def neighbours(stage: Stage, gpu: Gpu) -> int:
    """Returns the number of threads in a row: the greater of a subgroup and the elements of a memory transaction."""
    return max(gpu.subgroup, LINE // stage.bodies[0].dtype.itemsize)


def fitting(draft: Draft, axis: Axis, threads: int, most: int) -> int:
    """Returns a power of two of threads for an axis: at most `threads` and `most`, and less than twice the axis' known length."""
    count = known_extent(draft, axis.extent)
    wanted = min(threads, most)
    return wanted if count is None else min(wanted, 1 << max(0, count - 1).bit_length())


def decide_chunks(draft: Draft, stage: Stage, gpu: Gpu) -> None:
    """Schedules a reduction to one value: a block folds a chunk, each thread a part of it; a further block folds the results of blocks."""
    assert stage.reduction is not None
    name, (first, *rest) = stage.name, stage.reduction_axes
    threads, commutative, line = gpu.usual_threads, stage.reduction.commutative, first.name
    flat = bool(rest) and commutative and is_flat(draft, stage)
    if flat:
        line, rest = draft.fuse(name, [axis.name for axis in stage.reduction_axes]), []
    row = prod(extent(draft, axis.extent) for axis in rest)
    each = max(2, draft.machine.task >> 5)
    outer, inner = line + "o", line + "i"
    if not commutative and rest:
        if draft.decide(name, "split", axis=line, factor=max(2, draft.machine.task // row)):
            draft.decide(name, "parallel", axis=outer)
        return
    if not draft.decide(name, "split", axis=line, factor=max(2, threads * each // row)):
        return
    if commutative and (lanes := elements_of_fold(draft, stage, flat, gpu)) > 1:
        decide_wide_chunks(draft, name, line, threads, lanes)
        return
    if rest and (known_extent(draft, rest[-1].extent) or gpu.subgroup) < gpu.subgroup:
        rest = []  # each thread folds whole rows
    line, factor = (rest[-1].name, threads) if rest else (inner, threads if commutative else each)
    if not draft.decide(name, "split", axis=line, factor=factor):
        return
    if commutative:
        between = [inner, *(axis.name for axis in rest[:-1])] if rest else []
        draft.decide(name, "reorder", axes=(outer, line + "i", *between, line + "o"))
    bind(draft, name, [outer], "block")
    bind_fold(draft, name, line + ("i" if commutative else "o"))


def decide_wide_chunks(draft: Draft, name: str, axis: str, threads: int, lanes: int) -> None:
    """Schedules the loops inside a chunk of which each thread takes `lanes` neighbouring elements at a time."""
    outer, middle, inner, line = axis + "o", axis + "io", axis + "iio", axis + "iii"
    draft.decide(name, "split", axis=axis + "i", factor=threads * lanes)
    draft.decide(name, "split", axis=axis + "ii", factor=lanes)
    draft.decide(name, "reorder", axes=(outer, inner, middle, line))
    bind(draft, name, [outer], "block")
    bind_fold(draft, name, inner)
    draft.decide(name, "vectorize", axis=line)


def decide_rows(draft: Draft, stage: Stage, axes: Sequence[Axis], gpu: Gpu) -> bool:
    """Schedules folds along rows: neighbouring threads fold neighbouring elements of a row; returns whether the stage is such a reduction.

    A subgroup has a row, or a whole block has one where rows are few.
    """
    fold, name = stage.reduction, stage.name
    if fold is None or not fold.commutative or len(fold.axes) != 1 or vector_axis(draft, stage) not in fold.axes:
        return False
    (reduced,), (*planes, rows) = fold.axes, axes
    line = neighbours(stage, gpu)
    if (known_extent(draft, reduced.extent) or 2 * line) < 2 * line or not fold_alone(draft, stage):
        return False
    threads = gpu.usual_threads
    count = prod(known_extent(draft, axis.extent) or 0 for axis in axes)
    width = threads if 0 < count * line < gpu.processors * gpu.resident else min(line, threads)
    height = fitting(draft, rows, threads // width, gpu.along[1])
    r, y = reduced.name, rows.name
    decide_long_rows(draft, stage, reduced, gpu)
    decide_short_rows(draft, stage, axes, reduced, 2 * line, gpu)
    if not (draft.decide(name, "split", axis=r, factor=width) and draft.decide(name, "split", axis=y, factor=height)):
        return False
    inside = [axis.name for axis in stage.axes if axis not in axes]
    draft.decide(name, "reorder", axes=(*(axis.name for axis in planes), y + "o", r + "i", y + "i", r + "o", *inside))
    bind_planes(draft, name, [axis.name for axis in planes])
    bind(draft, name, [y + "o"], "block")
    bind_fold(draft, name, r + "i")
    draft.decide(name, "bind", axis=y + "i", place="thread.y")
    return True


def decide_short_rows(draft: Draft, stage: Stage, axes: Sequence[Axis], reduced: Axis, length: int, gpu: Gpu) -> None:
    """Records a branch for rows that are too short for several threads: each thread folds whole rows."""
    if reduced.name.isidentifier() and known_extent(draft, reduced.extent) is None:
        short = draft.branch()
        decide_threads(short, stage, axes, gpu)
        draft.accept(short.when(stage.name, f"{reduced.name} < {length}"))


def decide_few_results(draft: Draft, stage: Stage, axes: Sequence[Axis], gpu: Gpu, most: int = 0) -> None:
    """Records a branch for few results of long reductions across the contiguous axis.

    most: if not 0, the branch is for fewer results than a tile, of more terms than `most`.
    """
    line = line_axis(draft, stage, axes)
    width = fitting(draft, line, min(neighbours(stage, gpu), gpu.usual_threads), gpu.along[0])
    decide_long_columns(draft, stage, axes, line, width, gpu, most)


def decide_scan(draft: Draft, stage: Stage, gpu: Gpu) -> None:
    """Schedules a scan: blocks for one long scan, or few side by side; else a thread for each of many, and a block for each long row."""
    assert stage.scan is not None
    axis = stage.axes[stage.scan.along]
    if is_long_scan(stage, lambda e: known(draft, e)):
        decide_blocks(draft, stage, "three_phase", gpu)
        return
    others = [each for each in stage.axes if each is not axis]
    decide_scans_of_rows(draft, stage, axis, others, gpu)
    decide_threads(draft, stage, others, gpu)


def decide_scans_of_rows(draft: Draft, stage: Stage, axis: Axis, others: Sequence[Axis], gpu: Gpu) -> None:
    """Records a branch for rows longer than a block's threads scan at a time: a block has a row, its threads contiguous parts.

    Columns, whose neighbours threads read coalesced otherwise, take the branch only where they are fewer than the device holds threads, or
    than a column has elements.
    """
    piece, name, x = piece_of_thread(draft), stage.name, axis.name
    block, length = gpu.usual_threads * piece, known_extent(draft, axis.extent)
    placed = any(placed_at(draft.state, name, each.name) for each in stage.axes)
    if placed or not others or not x.isidentifier() or function_axes(draft, stage) or (length or block + 1) <= block:
        return
    long = draft.branch()
    if long.decide(name, "split", axis=x, factor=block) and long.decide(name, "split", axis=x + "i", factor=piece):
        planes = [each.name for each in others]
        long.decide(name, "reorder", axes=(*planes, x + "o", x + "io", x + "ii"))
        bind(long, name, [long.fuse(name, planes)], "block")
        if bind_pieces(long, name, x + "io"):
            few = (
                f" and {product(others)} < {gpu.processors * gpu.resident} + {x}" if axis is not stage.axes[-1] else ""
            )
            draft.accept(long.when(name, f"{x} > {block}{few}"))


def decide_blocks(draft: Draft, stage: Stage, strategy: str, gpu: Gpu) -> None:
    """Schedules a scan or filter in blocks, whose threads have contiguous parts; of rows as elements a thread has whole blocks.

    Where blocks may wait for one another they are chained, unless that is refused: elements are then read once, not twice. Kept elements
    are staged in shared memory, as far as all resident threads have it, unless the threads of a block run one after the other.
    """
    along, task, chosen = stage.reduction_axes[0], draft.machine.task, draft.state.plan(stage.name).strategy
    if len(stage.axes) > 1:
        row = prod(extent(draft, axis.extent) for axis in stage.axes if axis is not along)
        draft.decide(stage.name, "strategy", name=strategy, block=max(1, task // row))
        return
    piece, staged = piece_of_thread(draft), {}
    fitting_piece = gpu.shared // (gpu.resident * sum(body.dtype.itemsize for body in results_of(stage)))
    if not gpu.in_turn and fitting_piece > 1 and "staged" in strategies_of(stage)[strategy].options:
        piece, staged = min(piece, block_of(fitting_piece, 1)), {"staged": True}
    block = gpu.usual_threads * piece
    chained = gpu.ordered and not (stage.filter is not None and stage.filter.partition)
    ways = ("chain", strategy) if chained else (strategy,)
    if chosen is not None and chosen[0] == "chain":
        piece = -(-int(str(dict(chosen[1])["block"])) // gpu.usual_threads)
    elif not any(draft.decide(stage.name, "strategy", name=way, block=block, **staged) for way in ways):
        return
    draft.decide(stage.name, "split", axis=along.name + "i", factor=piece)
    draft.decide(stage.name, "bind", axis=along.name + "o", place="block.x")
    bind_pieces(draft, stage.name, along.name + "io")
    lanes = elements_of_scan(draft, stage, along, gpu)
    if gpu.branches and lanes > 1 and piece % lanes == 0:  # full parts of threads move as vectors
        draft.decide(stage.name, "vectorize", axis=along.name + "ii")
        draft.decide(part_name(stage.name, totals_part(stage)), "vectorize", axis=along.name + "i")
        hold_pieces(draft, stage, along, piece, gpu)


def hold_pieces(draft: Draft, stage: Stage, along: Axis, piece: int, gpu: Gpu) -> None:
    """Caches the inputs of a chain in the registers of the thread that has them, from the fold to the scan, as far as half of the registers
    hold them.
    """
    name, plan, left = stage.name, draft.state.plan(stage.name), gpu.registers // 2 * REGISTER
    if plan.strategy is None or plan.strategy[0] != "chain":
        return
    for array, loads in list(draft.state.uses.loads[name].items()):
        nbytes = piece * next(iter(loads)).dtype.itemsize
        inlined = array in draft.state.plans and is_inlined(draft.state, array)
        if not array or inlined or nbytes > left or any(load.indices != (along.var,) for load in loads):
            continue
        if (copy := draft.cache(name, array, along.name + "o")) is not None:
            left -= nbytes
            (axis,) = copy.axes
            draft.decide(copy.name, "split", axis=axis.name, factor=piece)
            draft.decide(copy.name, "bind", axis=axis.name + "o", place="thread.x")
            draft.decide(copy.name, "vectorize", axis=axis.name + "i")


def piece_of_thread(draft: Draft) -> int:
    """Returns the number of neighbouring elements that a thread scans or filters one after the other."""
    return max(2, draft.machine.task >> 6)


def decide_sort(draft: Draft, stage: Stage) -> None:
    """Schedules sorts: one alone runs in blocks; of sorts side by side a block has one each, of few elements a thread one each.

    Few sorts of many elements run one after the other, each on the whole device. Devices whose blocks may wait for one another chain them.
    Where a block's threads run one after the other, each has a chunk.
    """
    first, along, gpu = stage.all_axes[0], stage.reduction_axes[0], draft.machine.gpu
    assert gpu is not None
    alone, name, chunks = first is along, stage.name, f"{along.name} // {draft.machine.task}"
    if alone:
        decide_long_sort(draft, name, chunks if along.name.isidentifier() else 1)
        return
    if along.name.isidentifier():
        length = known_extent(draft, along.extent)
        others = [axis for axis in stage.axes if axis is not along]
        most, few = most_of_thread(draft, stage), f"{product(others)} < {along.name}"
        if (
            not gpu.in_turn
        ):  # a device sorts rows of more blocks than there are rows, a block rows of an element a thread
            each = strategies_of(stage, draft.machine)["three_phase"].numbers
            most, few = int(str(each["threads"])), f"{each['block']} * {product(others)} < {along.name}"
        if length is None or length > most:
            long = draft.branch()
            if decide_long_sort(long, name, chunks):
                long.decide(name, "reorder", axes=tuple(axis.name for axis in stage.all_axes))  # keeps loops serial
                draft.accept(long.when(name, f"{along.name} > {most} and {few}"))
            rows = draft.branch()
            if not gpu.in_turn and rows.decide(name, "strategy", name="three_phase"):
                bind(rows, name, [axis.name for axis in others[-3:]], "block")
                draft.accept(rows.when(name, f"{along.name} > {most}"))
    draft.decide(name, "strategy", name="radix", chunks=1)
    draft.decide(name, "parallel", axis=first.name)


def decide_long_sort(draft: Draft, name: str, chunks: str | int) -> bool:
    """Chooses the strategy of a sort that uses all threads of the device; returns whether one is legal."""
    gpu = draft.machine.gpu
    assert gpu is not None
    blocks = () if gpu.in_turn else ("chain", "three_phase") if gpu.ordered else ("three_phase",)
    in_blocks = any(draft.decide(name, "strategy", name=way) for way in blocks)
    return in_blocks or draft.decide(name, "strategy", name="radix", chunks=chunks)


def most_of_thread(draft: Draft, stage: Stage) -> int:
    """Returns the most elements that one thread sorts: it reads, counts and moves them, twice for every digit of their keys."""
    assert stage.sort is not None and stage.reduction is not None
    digits = sum(key.dtype.bits + 7 >> 3 for key in stage.reduction.left[: stage.sort.keys])
    return (LONGEST * draft.machine.task) // (2 + 2 * digits)


def is_in_segments(draft: Draft, stage: Stage) -> bool:
    """Whether a stage folds segments of one array of values, not known to be few, so that threads share long segments."""
    segments = segments_of(stage)
    if segments is None or len(stage.axes) != 1:
        return False
    count = known_extent(draft, index.add(stage.axes[0].extent, segments.size))
    return count is None or count > draft.machine.task


def decide_update(draft: Draft, stage: Stage, gpu: Gpu) -> None:
    """Schedules an update: a thread for each of several side by side; of one alone a thread for each step, where steps are atomic or never
    meet.

    Other updates run in chunks with private bins, or sorted by destination.
    """
    assert stage.update is not None
    name, update_axes = stage.name, list(stage.reduction_axes)
    mapped = list(takewhile(lambda axis: axis not in update_axes, stage.all_axes))
    if mapped:
        decide_threads(draft, stage, mapped, gpu)
        return
    chosen, folds = draft.state.plan(name).strategy, stage.update.mode == "combine"
    if folds and chosen is None and decide_shared_bins(draft, stage, gpu):
        return
    atomic = chosen[0] == "atomic" if chosen else folds and draft.decide(name, "strategy", name="atomic")
    whole = [axis for axis in stage.axes if axis in stage.whole_axes]
    rows = [axis for axis in stage.axes if axis not in stage.whole_axes]
    if atomic or stage.update.mode == "unique":
        decide_threads(draft, stage, [*update_axes, *(axis for axis in rows if not is_short(axis.extent))], gpu)
    elif rows:
        decide_element_updates(draft, stage, rows, whole, gpu)
        decide_threads(draft, stage, rows, gpu)  # each thread runs all steps, in order
    else:
        decide_in_chunks(draft, stage, whole, gpu)
    decide_start(draft, stage, whole or rows, gpu)


def decide_shared_bins(draft: Draft, stage: Stage, gpu: Gpu) -> bool:
    """Schedules an update of few bins: blocks have private bins in shared memory; returns whether there are so few."""
    assert stage.reduction is not None
    update_axis, *others = stage.reduction_axes
    counts = [known_extent(draft, axis.extent) for axis in stage.axes]
    size = prod(count or 0 for count in counts) * sum(body.dtype.itemsize for body in stage.bodies)
    if not 0 < size <= gpu.shared // 2 or others or not update_axis.name.isidentifier():
        return False
    threads, r = gpu.usual_threads, update_axis.name
    try_out = Draft(draft.state, draft.machine, draft.sizes, draft.demand)
    if not try_out.decide(stage.name, "strategy", name="atomic"):  # shared bins need atomic steps
        return False
    each = threads * max(2, draft.machine.task >> 5)
    draft.decide(stage.name, "strategy", name="private", chunks=f"min({many_chunks(gpu)}, {r} // {each})")
    draft.decide(stage.name, "split", axis=r, factor=threads)
    draft.decide(stage.name, "reorder", axes=(r + "i", r + "o"))
    if not draft.decide(stage.name, "bind", axis=r + "i", place="thread.x"):
        return False
    decide_start(draft, stage, stage.axes, gpu)
    return True
