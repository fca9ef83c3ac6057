"""The default loops and stores of stages on a CPU; see `complete` for the rules."""

from __future__ import annotations

from math import prod

from raido.algo.graph.expr import Axis
from raido.schedule.cost.private_loops import gangs_of_private_loops
from raido.schedule.cost.streams import PAGE
from raido.schedule.defaults.chains import chain_rows, chain_work, fits_row_tiles, has_chain
from raido.schedule.defaults.demand import decides_lengths, is_divergent, with_inlined
from raido.schedule.defaults.draft import Draft, extent, known_extent
from raido.schedule.defaults.few_folds import are_few_folds, decide_few_folds
from raido.schedule.defaults.flat import axes_to_fuse, length_of
from raido.schedule.defaults.function_folds import are_folds_faster_along
from raido.schedule.defaults.function_products import decide_product_of_function, decide_rows_of_products
from raido.schedule.defaults.joins import fused_stages_of
from raido.schedule.defaults.latency import (
    are_elements_faster_alone,
    gangs_of_elements,
    gangs_of_iterations,
    gangs_of_sums,
    sums_in_pairs,
)
from raido.schedule.defaults.memory import is_streamed
from raido.schedule.defaults.neighbours import read_by_planes
from raido.schedule.defaults.phases import phases_of
from raido.schedule.defaults.pixels import joins_colours
from raido.schedule.defaults.planes import planes_of, row_tile_axis
from raido.schedule.defaults.products import FEWEST_CHUNKS, FEWEST_ITERATIONS, decide_packed_loops, decide_product_loops
from raido.schedule.defaults.queries import (
    ENOUGH_TASKS,
    array_of,
    contiguity,
    is_little_work,
    longest_chunk,
    row_axis,
    vector_axis,
    whole_cost,
)
from raido.schedule.defaults.recurrences import gangs_of_states, is_recurrent
from raido.schedule.defaults.rows import rows_of_register_tile
from raido.schedule.defaults.scans import (
    decide_filter_loops,
    decide_scan_loops,
    decide_segment_loops,
    decide_sort_loops,
)
from raido.schedule.defaults.short import WRITTEN_OUT, is_stacked, shared_axes
from raido.schedule.defaults.short_iterations import decide_short_iterations
from raido.schedule.defaults.short_rows import writes_out_steps
from raido.schedule.defaults.short_stages import decide_short_loops
from raido.schedule.defaults.transposes import decide_transposed_loops
from raido.schedule.defaults.updates import decide_update_loops
from raido.schedule.machine import UNKNOWN_GRAIN
from raido.schedule.plan import At, Split
from raido.schedule.stages.inline import SHORT, is_short
from raido.schedule.stages.stage import Stage

FEWEST_ELEMENTS = 16
COLUMN_GANGS = 2  # side by side, so that each store of sums does not wait for the one before
COLUMN_JAM = 8  # rows added to a row of sums at a time: one load and one store of each sum serve them all
AHEAD = 4  # rows


def decide_loops(draft: Draft, name: str) -> None:
    """Decides the loops of a stage without loop directives."""
    stage = draft.state.stage(name)
    plan = draft.state.plan(name)
    if not stage.all_axes:
        return
    if stage.scan is not None:
        decide_scan_loops(draft, stage, vector_axis(draft, stage))
        return
    if stage.sort is not None:
        decide_sort_loops(draft, stage)
        return
    if stage.filter is not None:
        decide_filter_loops(draft, stage)
        return
    if stage.update is not None:
        if draft.machine.gpu is None:
            decide_short_iterations(draft, stage, None, 0)
        decide_update_loops(draft, stage)
        return
    if [loop.name for loop in plan.loops] != [axis.name for axis in stage.all_axes]:
        decide_packed_loops(draft, name)
        return
    if not isinstance(plan.compute, At) and draft.machine.gpu is None and decide_short_loops(draft, stage):
        return
    vector = vector_axis(draft, stage)
    if decide_segment_loops(draft, stage):
        return
    if vector is not None and (decides_lengths(stage, vector) or are_folds_faster_along(draft, stage, vector)):
        vector = None  # lanes run along each fold
    if vector is not None and gangs_of_private_loops(stage, vector.var, draft.machine) == 0:
        vector = None
    alone = vector is not None and are_elements_faster_alone(draft, stage, vector)
    if alone:
        vector = None
    if draft.machine.gpu is None and not isinstance(plan.compute, At):
        chunk = column_chunk(draft, stage) if folds_columns(draft, stage, vector) else 0
        decide_short_iterations(draft, stage, vector, chunk)
    if decide_flat_loops(draft, stage, vector):
        return
    if isinstance(plan.compute, At):
        matrices = 0 < stage.outer <= len(stage.axes) - 2
        if decide_product_of_function(draft, stage, vector) or (
            matrices and decide_product_loops(draft, stage, vector)
        ):
            return
        slides = draft.state.plan(name).store is not None
        unroll_and_jam = 0 if stage.outer or slides else rows_of_register_tile(draft, stage, vector)
        if unroll_and_jam:
            decide_rows_side_by_side(draft, stage, stage.axes[-2].name, unroll_and_jam)
        if vector is not None:
            decide_lanes(draft, stage, vector, decide_colours(draft, stage, vector))
            decide_written_out(draft, stage, vector)
    elif not stage.axes:
        decide_fold_loops(draft, stage, vector, alone)
    elif decide_transposed_loops(draft, stage) or decide_product_loops(draft, stage, vector):
        return
    elif vector is not None and are_few_folds(stage, vector):
        decide_few_folds(draft, stage, vector)
    elif not folds_columns(draft, stage, vector) or not decide_column_folds(draft, stage):
        decide_map_loops(draft, stage, vector)


def decide_flat_loops(draft: Draft, stage: Stage, vector: Axis | None) -> bool:
    """Schedules a stage whose short rows lie one behind another in memory with one loop over all of them; returns whether it is one."""
    axes = axes_to_fuse(draft, stage, vector)
    trial = draft.trial()
    flat = trial.fuse(stage.name, [axis.name for axis in axes]) if axes else ""
    if vector is None or not flat or flat != "".join(axis.name for axis in axes):
        return False
    outer = stage.all_axes[: -len(axes)]
    if outer and stage.axes:
        decide_parallel(trial, stage, outer[0].name, 1, vector)
    else:
        chunk = line_chunk(draft, stage) if stage.axes else 2 * draft.machine.task
        whole = (length_of(draft, axes) or chunk + 1) <= chunk
        if not whole and trial.decide(stage.name, "split", axis=flat, factor=chunk):
            trial.decide(stage.name, "parallel", axis=flat + "o")
            flat += "i"
    gangs = {name: number for name, number in wide(draft, stage, vector).items() if name != "lanes"}
    if not trial.decide(stage.name, "vectorize", axis=flat, **gangs):
        return False
    draft.adopt(trial)
    return True


def decide_fold_loops(draft: Draft, stage: Stage, vector: Axis | None, alone: bool) -> None:
    """Schedules a whole reduction: fixed chunks for threads, lanes inside (with blocks of their own for an operator that is not
    commutative).

    alone: whether elements are computed faster one by one than in lanes.
    """
    first, last = row_axis(stage), stage.all_axes[-1]
    assert first is not None
    rows = chain_rows(draft, stage) if len(stage.all_axes) > 1 else 2 * draft.machine.task
    if vector is not None and vector is not last:
        draft.decide(stage.name, "vectorize", axis=vector.name, **wide(draft, stage, vector))
        return
    whole = not has_chain(draft, stage) and (known_extent(draft, first.extent) or rows + 1) <= rows
    split = not whole and draft.decide(stage.name, "split", axis=first.name, factor=rows)
    if split:
        draft.decide(stage.name, "parallel", axis=first.name + "o")
    inner = last.name if first is not last or not split else first.name + "i"
    if vector is not None:
        draft.decide(stage.name, "vectorize", axis=inner, **wide(draft, stage, vector))
    elif first is last and not alone:
        draft.decide(stage.name, "vectorize", axis=inner)


def folds_columns(draft: Draft, stage: Stage, vector: Axis | None) -> bool:
    """Whether a reduction runs down the columns of its inputs: contiguous along the last pure axis, strided along its own.

    Beside them it may read one element for each row.
    """
    if stage.reduction is None or len(stage.reduction_axes) != 1 or not stage.axes:
        return False
    if vector is None or vector is not stage.axes[-1]:
        return False
    (reduced,) = stage.reduction_axes
    if extent(draft, reduced.extent) < 2 * SHORT or has_chain(draft, stage):
        return False
    points = draft.demand.points_read(stage.name)
    down = [point for point in points if contiguity(reduced.var, point) < 0]
    strides = {contiguity(vector.var, point) if None not in point else -1 for point in down}
    return 1 in strides and strides <= {0, 1}


def decide_column_folds(draft: Draft, stage: Stage) -> bool:
    """Schedules sums of columns: rows are read from end to end and added to a row of sums; returns whether that is legal.

    One-dimensional results take chunks of rows. Each chunk stores a row of sums, which is read again for the combination: chunks are long
    where that leaves enough of them for threads. Eight rows are added together: one load and one store of each sum serve all, and no row
    waits for the sums of the one before. Rows of a page or more whose sums L1 holds are added one by one: memory is then read in order, not
    in eight pages at once, and hardware prefetching follows.
    """
    name, last = stage.name, stage.axes[-1]
    held = draft.machine.l1 // 4 // sum(body.dtype.itemsize for body in stage.bodies)  # beside as much of what is read
    page = PAGE // max(array_of(draft, array).dtype.itemsize for array in draft.demand.reads(name))
    length = known_extent(draft, last.extent)
    if length is not None and page <= length <= held:
        return decide_rows_of_columns(draft, stage, 1)
    shared = name in draft.demand.leaders.values()  # fused stages follow one set of loops, at all sizes
    if length is None and page < held and not shared and all(axis.name.isidentifier() for axis in stage.all_axes):
        in_order = draft.branch()
        if decide_rows_of_columns(in_order, stage, 1):
            draft.accept(in_order.when(name, f"{last.name} >= {page} and {last.name} <= {held}"))
    return decide_rows_of_columns(draft, stage, COLUMN_JAM)


def column_chunk(draft: Draft, stage: Stage) -> int:
    """Returns the number of rows that one thread adds to a row of sums of its own."""
    chunk = max(FEWEST_ITERATIONS, draft.machine.task >> 7)
    return chunk if extent(draft, stage.reduction_axes[0].extent) >= FEWEST_CHUNKS * chunk else chunk // 2


def decide_rows_of_columns(draft: Draft, stage: Stage, rows: int) -> bool:
    """Schedules sums of columns with `rows` rows added together; returns whether that is legal."""
    name, (*outer, last), (reduced,) = stage.name, stage.axes, stage.reduction_axes
    row = reduced.name
    chunk = column_chunk(draft, stage)
    chunks = not outer and (known_extent(draft, reduced.extent) or chunk + 1) > chunk
    if chunks:
        if not draft.decide(name, "split", axis=row, factor=chunk):
            return False
        row += "i"
    if rows > 1 and not draft.decide(name, "split", axis=row, factor=rows):
        return False
    around = [axis.name for axis in outer] + [reduced.name + "o"] * chunks
    inner = (row + "o", last.name, row + "i") if rows > 1 else (row, last.name)
    draft.decide(name, "reorder", axes=(*around, *inner))
    if rows > 1:
        draft.decide(name, "unroll", axis=row + "i")
    if outer:
        decide_parallel(draft, stage, outer[0].name, 1, last)
    elif chunks:
        draft.decide(name, "parallel", axis=reduced.name + "o")
    draft.decide(name, "vectorize", axis=last.name, interleave=COLUMN_GANGS)
    return True


def decide_map_loops(draft: Draft, stage: Stage, vector: Axis | None) -> None:
    """Schedules a stage with pure axes: rows are parallel and outermost, in row tiles where the stage has a chain, in register tiles where
    these pay.
    """
    name = stage.name
    chained = has_chain(draft, stage)
    apart = [axis.name for axis in planes_of(draft, stage)] if chained else []
    rows = row_tile_axis(draft, stage) if chained else row_axis(stage)
    assert rows is not None
    planes = [] if apart else [axis.name for axis in stage.axes[: stage.axes.index(rows)]]
    vector_name = decide_colours(draft, stage, vector)
    unroll_and_jam = rows_of_register_tile(draft, stage, vector)
    row_tiles = decide_rows_of_products(draft, stage, vector)
    if row_tiles is not None:
        decide_parallel(draft, stage, *row_tiles, vector)
    elif vector is rows:
        vector_name = decide_line_chunks(draft, stage, rows, vector_name, planes, chained)
    elif unroll_and_jam and not chained:
        decide_jam(draft, stage, rows, planes, unroll_and_jam)
    elif chained and draft.decide(name, "split", axis=rows.name, factor=chain_rows(draft, stage)):
        if planes:
            draft.decide(name, "reorder", axes=(rows.name + "o", *planes, rows.name + "i"))
        if unroll_and_jam and rows is stage.axes[-2] and fits_row_tiles(draft, stage):
            decide_rows_side_by_side(draft, stage, rows.name + "i", unroll_and_jam)
        row_tiles = draft.fuse(name, [*apart, rows.name + "o"])
        decide_parallel(draft, stage, row_tiles, chain_rows(draft, stage), vector)
    else:
        if planes:
            draft.decide(name, "reorder", axes=(rows.name, *planes))
        decide_parallel(draft, stage, rows.name, 1, vector)
    if vector is not None:
        decide_lanes(draft, stage, vector, vector_name)
    if stage.reduction is None and vector is stage.axes[-1] and not is_streamed(draft, name):
        for array in read_by_planes(draft, stage):
            draft.decide(name, "prefetch", array=array, axis=stage.axes[-2].name, ahead=AHEAD)
    decide_written_out(draft, stage, vector, rows)
    if vector and writes_out_steps(draft, stage, vector) and not is_short(stage.reduction_axes[0].extent):
        draft.decide(name, "unroll", axis=stage.reduction_axes[0].name)


def decide_written_out(draft: Draft, stage: Stage, vector: Axis | None, rows: Axis | None = None) -> None:
    """Unrolls short axes, but those of lanes and rows, where that makes few instances; stores along them are interleaved.

    So are axes along which each index selects an expression of its own (`rd.stack`): each instance then has its own without a test.
    """
    loops = {loop.name for loop in draft.state.plan(stage.name).loops}
    inside = [axis for axis in stage.all_axes if axis is not vector]
    short = [axis for axis in inside if is_short(axis.extent) or is_stacked(stage, axis)]
    if prod(extent(draft, axis.extent) for axis in short) <= WRITTEN_OUT:
        for axis in short:
            if axis is not rows and axis.name in loops:
                draft.decide(stage.name, "unroll", axis=axis.name)


def decide_colours(draft: Draft, stage: Stage, vector: Axis | None) -> str:
    """Returns the loop over the vectorized axis, fused with the short last one where both are contiguous in memory."""
    if vector is None:
        return ""
    last = stage.axes[-1].name if stage.axes else ""
    stays = is_recurrent(draft.state.graph, stage)  # each lane keeps all numbers of a row in registers
    joined = (
        not stays and joins_colours(draft, stage, vector) and draft.decide(stage.name, "fuse", a=vector.name, b=last)
    )
    return vector.name + last if joined else vector.name


def decide_line_chunks(draft: Draft, stage: Stage, line: Axis, loop: str, planes: list[str], chained: bool) -> str:
    """Splits the line of a one-dimensional stage into chunks for threads; returns the name of the loop inside a chunk."""
    count = known_extent(draft, line.extent)
    if not chained and count is not None and count <= longest_chunk(draft) // 2:
        return loop
    chunk = chain_chunk(draft, stage) if chained else line_chunk(draft, stage)
    if not draft.decide(stage.name, "split", axis=loop, factor=chunk):
        return loop
    if planes:
        draft.decide(stage.name, "reorder", axes=(loop + "o", *planes, loop + "i"))
    draft.decide(stage.name, "parallel", axis=loop + "o", **dynamic(draft, stage))
    return loop + "i"


def decide_rows_side_by_side(draft: Draft, stage: Stage, row: str, unroll_and_jam: int) -> None:
    """Makes register tiles of `unroll_and_jam` rows inside a row tile (unroll-and-jam)."""
    if draft.decide(stage.name, "split", axis=row, factor=unroll_and_jam):
        draft.decide(stage.name, "reorder", axes=(row + "o", stage.axes[-1].name, row + "i"))
        draft.decide(stage.name, "unroll", axis=row + "i")


def decide_jam(draft: Draft, stage: Stage, rows: Axis, planes: list[str], unroll_and_jam: int) -> None:
    """Makes register tiles of `unroll_and_jam` rows (unroll-and-jam), and threads over them."""
    name, row, last = stage.name, stage.axes[-2], stage.axes[-1].name
    outer, inner = row.name + "o", row.name + "i"
    if not draft.decide(name, "split", axis=row.name, factor=unroll_and_jam):
        return
    first = outer if rows is row else rows.name
    between = [axis.name for axis in stage.axes[len(planes) + 1 : -2]]
    order = (first, *planes, *between, *(() if rows is row else (outer,)), last, inner)
    draft.decide(name, "reorder", axes=order if planes else (outer, last, inner))
    draft.decide(name, "unroll", axis=inner)
    decide_parallel(draft, stage, first, unroll_and_jam if rows is row else 1, stage.axes[-1])


def decide_parallel(draft: Draft, stage: Stage, loop: str, rows: int, vector: Axis | None) -> None:
    """Makes a loop over rows parallel; a chunk has about `Machine.task` operations, and small stages stay on one thread."""
    if is_little_work(draft, stage):
        return
    each = chain_work(draft, stage)
    if (inner := rows_of_few_planes(draft, stage, loop, vector)) is not None:
        axis, name, rows = inner
        each //= extent(draft, axis.extent)
        loop = draft.fuse(stage.name, (loop, name))
    unknown = any(
        known_extent(draft, axis.extent) is None for axis in stage.reduction_axes
    )  # a few elements may be long sums
    draft.parallel(stage.name, loop, each * rows, UNKNOWN_GRAIN if unknown else None, **dynamic(draft, stage))


def rows_of_few_planes(draft: Draft, stage: Stage, loop: str, vector: Axis | None) -> tuple[Axis, str, int] | None:
    """Returns the loop over rows inside an outermost loop with few iterations, such as colours of an image or a batch, to be fused with it.

    The result holds the axis, its loop, and the rows of an iteration of the loop; None where the outermost loop has iterations enough for
    threads, where other stages share the loops, and where inputs may be computed in the outermost one (for each plane, say).
    """
    plan, axes = draft.state.plan(stage.name), {axis.name: axis for axis in stage.axes}
    if len(plan.loops) < 3 or plan.loops[0].name != loop or loop not in axes or draft.machine.gpu is not None:
        return None
    count, name = known_extent(draft, axes[loop].extent), plan.loops[1].name
    if (count is not None and count >= ENOUGH_TASKS) or is_short(axes[loop].extent):
        return None
    made = draft.demand.reads(stage.name).keys() & draft.state.uses.stages.keys() - draft.demand.inlined
    if made or stage.name in draft.demand.leaders.values() or read_by_planes(draft, stage):
        return None
    split = next((r for r in plan.relations if isinstance(r, Split) and r.outer == name), None)
    axis = axes.get(split.parent if split is not None else name)
    if axis is None or axis is vector or is_short(axis.extent):
        return None
    return axis, name, split.factor if split is not None else 1


def dynamic(draft: Draft, stage: Stage) -> dict[str, bool]:
    """Returns the option that distributes iterations of uneven length dynamically; loops of stages inlined into this one count."""
    return {"dynamic": True} if any(map(is_divergent, with_inlined(draft.state, draft.demand, stage.name))) else {}


def chain_chunk(draft: Draft, stage: Stage) -> int:
    """Returns the elements of a chunk of the last stage of a one-dimensional chain: a power of two, smaller for a costly chain."""
    most = longest_chunk(draft)
    fitting = 1 << (32 * most // chain_work(draft, stage)).bit_length()
    return min(most // 4, max(FEWEST_ELEMENTS, fitting))


def line_chunk(draft: Draft, stage: Stage) -> int:
    """Returns the elements of a chunk of a one-dimensional stage: a power of two, smaller for costly elements."""
    each = max(1, whole_cost(draft, stage)) * prod(extent(draft, axis.extent) for axis in stage.reduction_axes)
    most = longest_chunk(draft)
    return min(most, max(most >> 6, 1 << (32 * most // each).bit_length()))


def decide_lanes(draft: Draft, stage: Stage, vector: Axis, loop: str) -> None:
    """Vectorizes a loop; where elements are read at quotients of its axis, tiles of the quotients' period are unrolled inside the lanes."""
    name, phases = stage.name, phases_of(draft, stage, vector)
    if phases > 1:
        if isinstance(draft.state.plan(name).compute, At):
            draft.decide(name, "align", axis=vector.name, multiple=phases)
        if draft.decide(name, "split", axis=loop, factor=phases):
            draft.decide(name, "unroll", axis=loop + "i")
            draft.decide(name, "vectorize", axis=loop + "o")
            return
    draft.decide(name, "vectorize", axis=loop, **wide(draft, stage, vector))


def wide(draft: Draft, stage: Stage, vector: Axis) -> dict[str, int]:
    """Returns the options that interleave gangs, to hide the latency of accumulation and of loop-carried dependences."""
    written_out = writes_out_steps(draft, stage, vector) or all(is_short(axis.extent) for axis in stage.reduction_axes)
    few = prod(extent(draft, axis.extent) for axis in stage.reduction_axes) if written_out else WRITTEN_OUT + 1
    gangs = max(gangs_of_elements(stage), gangs_of_iterations(draft, stage, vector))
    gangs = max(gangs, gangs_of_states(draft.state.graph, stage, draft.machine))
    if stage.reduction is not None and few > WRITTEN_OUT and gangs == 1:
        beside = sum(len(draft.state.stage(name).bodies) for name in fused_stages_of(draft.demand, stage.name))
        instances = prod(extent(draft, axis.extent) for axis in shared_axes(stage) if axis is not vector)
        gangs = gangs_of_sums(stage, vector, draft.machine, beside, instances)
    gangs = min(gangs, gangs_of_private_loops(stage, vector.var, draft.machine) or gangs)
    if vector in stage.axes[-1:] and sums_in_pairs(draft, stage):
        return {"lanes": 2 * draft.machine.lanes(stage.bodies[0].dtype.bits), "interleave": gangs}
    lanes = draft.machine.lanes(max(body.dtype.bits for body in stage.bodies))
    count = known_extent(draft, vector.extent) or lanes
    few = {"lanes": 1 << (count - 1).bit_length()} if 1 < count <= lanes // 2 and vector in stage.axes else {}
    return few | ({"interleave": gangs} if gangs > 1 else {})
