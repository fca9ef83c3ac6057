"""The default loops of products of matrices that matrix units make (`checks/matrix_units.py`), on GPUs that have them.

A block has four subgroups, since a processor of such a GPU has four matrix units; each has a tile of the results, as many sums of a thread
as it has registers for while enough others are resident, and tiles stand one below the other. What a block reads of both factors goes
through shared memory, of the reduction as many steps as a line of memory has elements; where copies run ahead, half as many at a time, so
that two of each take no more memory, and as many blocks are resident. Rows of the copies are 16 bytes longer than what is read of them:
eight rows that are loaded together lie in different banks then; where 32 threads load words of eight neighbours in four rows, 32 bytes longer.

    block.y, block.x: for ro: copy a, copy b;  thread.z, thread.y, thread.x: for ri by matrix: rows × columns multiply-adds
"""

from __future__ import annotations

from collections.abc import Sequence

from raido.algo.graph.expr import Axis
from raido.algo.graph.rewrite import free_variables
from raido.schedule.checks.matrix_units import ALONG_X, ALONG_Y, COLUMNS, DEPTH, ROWS, factors_of, type_of_factors
from raido.schedule.defaults.draft import Draft, known_extent
from raido.schedule.defaults.gpu.bindings import bind, bind_planes, fold_alone
from raido.schedule.defaults.gpu.block_products import (
    BUFFERS,
    arrays_to_copy,
    decide_shared_copy,
    group_of_tiles,
    square_side,
)
from raido.schedule.machine import Gpu
from raido.schedule.stages.stage import Stage

SUBGROUPS = 4
LINE, PAD, WORD = 128, 16, 4  # bytes


def decide_matrix_products(draft: Draft, stage: Stage, axes: Sequence[Axis], gpu: Gpu) -> bool:
    """Schedules a product for matrix units; returns whether they can compute it."""
    factors = factors_of(draft.state, stage)
    if factors is None or type_of_factors(factors) not in gpu.products or not fold_alone(draft, stage):
        return False
    (i, j), (r,), name, size = stage.axes[-2:], stage.reduction_axes, stage.name, factors[0].dtype.itemsize
    lengths = [known_extent(draft, axis.extent) for axis in (i, j, r)]
    if not {i, j} <= set(axes) or any(
        n is not None and n < least for n, least in zip(lengths, (ROWS, COLUMNS, DEPTH), strict=True)
    ):
        return False
    at_once = LINE // size // (BUFFERS if gpu.asynchronous else 1)
    rows, columns, depth = tile_of_subgroup(gpu.registers, at_once, lengths)
    subgroups = max(1, min(SUBGROUPS, (lengths[0] or SUBGROUPS * rows) // rows))
    trial = draft.trial()
    y, x, ro, ri = i.name, j.name, r.name + "o", r.name + "i"
    group = group_of_tiles(draft, stage, gpu, subgroups * ALONG_Y * ALONG_X, (rows * subgroups, columns))
    if group > 1:
        trial.decide(name, "split", axis=y, factor=group * rows * subgroups)
        y += "i"
    own = [y + "i", y + "ii"][subgroups > 1]
    trial.decide(name, "split", axis=y, factor=rows * subgroups)
    if subgroups > 1:
        trial.decide(name, "split", axis=y + "i", factor=rows)
    trial.decide(name, "split", axis=own, factor=ALONG_Y)
    trial.decide(name, "split", axis=x, factor=columns)
    trial.decide(name, "split", axis=x + "i", factor=COLUMNS)
    trial.decide(name, "split", axis=x + "ii", factor=COLUMNS // ALONG_X)
    trial.decide(name, "split", axis=r.name, factor=depth)
    planes = [axis.name for axis in stage.axes[:-2]]
    threads = [*([y + "io"] if subgroups > 1 else []), own + "i", x + "iio"]
    inside = [own + "o", x + "io", x + "iii"]
    outer = (i.name + "o", x + "o", y + "o") if group > 1 else (y + "o", x + "o")
    trial.decide(name, "reorder", axes=(*planes, *outer, ro, *threads, ri, *inside))
    bind_planes(trial, name, planes)
    bind(trial, name, outer, "block")
    bind(trial, name, threads, "thread")
    for loop in inside:
        trial.decide(name, "unroll", axis=loop)
    if not trial.decide(name, "tensorize", axis=ri):
        return False
    draft.adopt(trial)
    for array in arrays_to_copy(draft, stage):
        pad = PAD if size < WORD or is_along(draft, name, array, r) else 2 * PAD
        decide_shared_copy(draft, name, array, ro, gpu, pad=pad // size)
    return True


def is_along(draft: Draft, name: str, array: str, reduced: Axis) -> bool:
    """Whether the reduction axis is contiguous in an array that a stage reads."""
    load = next(iter(draft.state.uses.loads[name][array]))
    return reduced.var in free_variables(load.indices[-1])


def tile_of_subgroup(registers: int, depth: int, lengths: Sequence[int | None]) -> tuple[int, int, int]:
    """Returns the rows, columns and steps of a subgroup's tile: as square as its threads' registers allow, and no longer than the product
    is.
    """
    side = square_side(registers * ALONG_X * ALONG_Y)
    wanted = (side, registers * ALONG_X * ALONG_Y // side, depth)
    fitting = (w if n is None else min(w, 1 << (n.bit_length() - 1)) for w, n in zip(wanted, lengths, strict=True))
    rows, columns, depth = fitting
    return max(ROWS, rows), max(COLUMNS, columns), max(DEPTH, depth)
