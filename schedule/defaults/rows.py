"""The height of a stencil's register tile: rows computed together, which share loaded values (unroll-and-jam; Wolf & Lam, 1991).

The cost model chooses (`schedule.cost`): of `LINES`, `KEPT` or `STREAMED`, the height with the fewest cycles; of equals the greatest whose
values registers hold, since it has fewer loop overheads, which the model does not count. Higher tiles load less, until rows no longer lie
apart within their pages, or more of them fall on one set of the cache than it has ways.

Unknown sizes are assumed where time matters: rows of half of L1, and as many as twice the last-level cache holds. Rows of unknown length in
row tiles count as `draft.UNKNOWN` elements, a power of two, so that conflict misses count.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

from raido.algo.graph.expr import Axis
from raido.schedule.cost.rows import Rows, Work, description, fits_registers, values_of
from raido.schedule.cost.streams import PAGE, may_be_streamed, shifts_into_lines
from raido.schedule.defaults.chains import chain_rows, has_chain
from raido.schedule.defaults.demand import cost
from raido.schedule.defaults.draft import Draft, extent, known_extent
from raido.schedule.defaults.joins import fused_stages_of
from raido.schedule.defaults.latency import gangs_of_elements, sums_in_pairs
from raido.schedule.defaults.memory import is_streamed, may_stream
from raido.schedule.defaults.neighbours import is_sum_of_taps, read_by_planes, reads_of_taps, reads_rows, steps_of_taps
from raido.schedule.defaults.queries import array_of
from raido.schedule.machine import LINE
from raido.schedule.plan import At
from raido.schedule.stages.stage import Stage

LINES = (1, 2)  # heights for rows of more values than registers hold: they share cache lines, and few values
KEPT = (*LINES, 3, 4)  # heights for rows that stay in a cache, where loading again costs little
STREAMED = (*KEPT, 6, 8, 12)
EQUAL = 1.01  # times the fewest cycles: differences below the model's precision


def rows_of_register_tile(draft: Draft, stage: Stage, vector: Axis | None) -> int:
    """Returns the height of a stencil's register tile; 0 where rows are computed one by one.

    Stencils that also read neighbouring planes run along each plane from end to end instead: one stream a plane. Folds of taps do not: their
    planes are mostly rows of an image, and their rows the channels of a pixel. Long weighted sums have tiles of 2 rows (`sums_in_pairs`);
    other long dependence chains interleave gangs, not rows.
    """
    taps = is_sum_of_taps(stage)
    if len(stage.axes) < 2 or vector is not stage.axes[-1] or (stage.reduction is not None and not taps):
        return 0
    if read_by_planes(draft, stage) and not taps:
        return 0
    if sums_in_pairs(draft, stage):
        return 2
    if gangs_of_elements(stage) > 1:
        return 0
    work = work_of(draft, stage) if reads_rows(draft, stage) else None
    if work is None:
        return 0
    height, width = known_size(draft, stage)
    share = streamed_share(draft, stage, work)
    fits = fits_registers((*work.reads.values(), *work.inlined.values()), draft.machine)
    whole = row_tiles_of(draft, stage) is None
    most = LINES if not fits else STREAMED if whole and share(1) and width is not None else KEPT
    even = height is None  # heights are more often even than not
    candidates = [rows for rows in most if not even or rows & (rows - 1) == 0]
    described = description(work)
    trees = Rows(work, draft.machine)
    cycles = [_cycles(draft, trees, described, rows, share(rows)) for rows in candidates]
    equals = [rows for rows, each in zip(candidates, cycles, strict=True) if each <= EQUAL * min(cycles)]
    held = [rows for rows in equals if values_of(work, rows) <= draft.machine.registers]
    best = max(held, default=equals[0])
    return best if best > 1 else 0


def _cycles(draft: Draft, trees: Rows, described: Hashable, rows: int, share: float) -> float:
    """Returns the cycles where `share` of the calls uses non-temporal stores; memoised by the description of the work."""
    total = 0.0
    for streamed, part in ((True, share), (False, 1.0 - share)):
        if part:
            key = described, rows, streamed
            if key not in draft.cycles:
                draft.cycles[key] = trees.cycles(rows, streamed)
            total += draft.cycles[key] * part
    return total


def streamed_share(draft: Draft, stage: Stage, work: Work) -> Callable[[int], float]:
    """Returns a function from a tile's height to the likelihood of non-temporal stores: 0 or 1 for known sizes, else the mean over all
    pitches in a page.
    """
    size = max(work.stored)
    height, width = known_size(draft, stage)
    if not (may_stream(draft, stage.name) if width is None or height is None else is_streamed(draft, stage.name)):
        return lambda rows: 0.0
    pitches = range(0, PAGE, LINE) if width is None else (width * size,)
    machine, lanes = draft.machine, work.lanes(draft.machine)
    shifted = shifts_into_lines(machine.vector_bits, (lanes * each for each in work.stored))
    return lambda rows: sum(may_be_streamed(pitch, rows, machine, shifted) for pitch in pitches) / len(pitches)


def work_of(draft: Draft, stage: Stage) -> Work | None:
    """Returns the work of a stage and the stages fused into it, for the row tile that it is computed in; None where indices are not
    affine.
    """
    *_, rows, last = stage.axes
    axes = {axis.var: extent(draft, axis.extent) for axis in stage.axes}
    tiled_chain = row_tiles_of(draft, stage)
    if tiled_chain is not None:
        axes[rows.var] = min(chain_rows(draft, tiled_chain), axes[rows.var])
    else:
        size = stage.bodies[0].dtype.itemsize
        height, width = known_size(draft, stage)
        if width is None:
            lines = draft.machine.l1 // (4 * LINE) * 2 + 1  # odd, so that rows do not conflict in L1
            axes[last.var] = lines * LINE // size
        if height is None:
            axes[rows.var] = 2 * draft.machine.l3 // (size * axes[last.var])
    work = Work(tuple(axes.items()), apart=tiled_chain is None, far=tiled_chain is None)
    for name in (stage.name, *fused_stages_of(draft.demand, stage.name)):
        member = draft.state.stage(name)
        own = {axis.var: shared.var for axis, shared in zip(member.axes or member.all_axes, stage.axes, strict=True)}
        if member.axes:
            work.stored += tuple(body.dtype.itemsize for body in member.bodies)
        taps = steps_of_taps(member)
        work.operations += cost(member) * len(taps)
        for array, points in reads_of_taps(draft, member).items():
            if array in draft.demand.inlined:
                each = cost(draft.state.stage(array))
                if not work.add_inlined(array, points, own, each):
                    work.operations += each * len(points)
            elif not work.add_reads(array, points, own, array_of(draft, array).dtype.itemsize):
                return None
            else:
                work.far |= array not in draft.state.uses.stages
    return work


def known_size(draft: Draft, stage: Stage) -> tuple[int | None, int | None]:
    """Returns the number of rows of a stage and their length, each None where it is not known."""
    *_, height, width = (known_extent(draft, axis.extent) for axis in stage.axes)
    return height, width


def row_tiles_of(draft: Draft, stage: Stage) -> Stage | None:
    """Returns the stage in whose row tiles a stage is computed, the stage itself at the end of a chain; None where it is computed whole."""
    at = draft.state.plan(stage.name).compute
    if isinstance(at, At):
        return draft.state.stage(at.stage)
    return stage if has_chain(draft, stage) else None
