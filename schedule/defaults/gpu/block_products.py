"""The default loops, on a GPU, of results that share inputs, as in a matrix product.

A block has a tile of the results, and each of its threads a square of them in registers: t × t sums take t / 2 multiply-adds for each
element read, with t as great as a thread's registers allow at the usual occupancy. A thread's rows and columns are as far apart as there
are threads along them, so that neighbours read and store neighbouring elements; where devices have real branches they are in groups that
one access of 16 bytes loads. Both factors go through shared memory, a few steps of the reduction at a time, copied by all threads together,
16 bytes at once where devices have real branches (`kernels/wide_moves.py`), and asynchronously, during the arithmetic of the steps before,
where devices can. A factor along whose rows the reduction runs is stored transposed there, so that a thread's rows are adjacent, in rows
that are longer by a group, so that threads that copy neighbours along the reduction write to different banks:

    block.y, block.x: for ro: copy a, copy b;  thread.y, thread.x: for ri: t × t multiply-adds

Of large results blocks are tiles of a group of rows, column by column, then those of the next group (block.z over groups, block.x over the
tiles of a group), so that resident blocks read what fits the second-level cache (`group_of_tiles`). Where a device ends the loops of a
thread, blocks have chunks of long sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TypeAlias

from raido.algo.graph import index
from raido.algo.graph.expr import Axis, Node, SizeVar, Var
from raido.algo.graph.rewrite import free_variables
from raido.schedule.defaults.draft import Draft, known_extent
from raido.schedule.defaults.gpu.bindings import bind, bind_planes, fold_alone
from raido.schedule.defaults.gpu.block_stages import decide_block_loops
from raido.schedule.defaults.queries import is_tiled_product, shared_axis
from raido.schedule.machine import WIDEST_ACCESS, Gpu
from raido.schedule.recorded import Value
from raido.schedule.stages.stage import Stage
from raido.schedule.state import is_inlined

PASSES = 4  # iterations of a thread's loops for each term of a sum, at most: copies of both factors, and the products
BUFFERS = 2  # of an asynchronous copy: threads compute on one, with one barrier for each iteration
THREADS = (
    64  # of a block, two subgroups of most devices: few where all wait at a barrier for what they copy in every step
)
LEAST_COPIED = 4  # bytes of an asynchronous copy


def is_in_tiles(draft: Draft, stage: Stage, axes: Sequence[Axis]) -> bool:
    """Whether the results of a stage share inputs, so that blocks compute tiles of them."""
    if len(stage.axes) < 2 or not is_tiled_product(draft, stage, stage.axes[-1]):
        return False
    i, j = stage.axes[-2:]
    return shared_axis(draft, stage) is i and {i, j} <= set(axes) and fold_alone(draft, stage)


def decide_tiles(draft: Draft, stage: Stage, gpu: Gpu) -> bool:
    """Schedules tiles of results for blocks, with cached factors; returns whether that is legal."""
    name, folds, tile = stage.name, [axis.name for axis in stage.reduction_axes], square_side(gpu.registers)
    loops = split_tiles(draft, stage, gpu, grouped=True)
    if loops is None:
        return False
    copied, chunks_of_fold = arrays_to_copy(draft, stage), list[str]()
    if copied and len(folds) == 1 and draft.decide(name, "split", axis=folds[0], factor=tile):
        chunks_of_fold, folds = [folds[0] + "o"], [folds[0] + "i"]
    order_tiles(draft, stage, loops, [], chunks_of_fold, folds)
    for array in copied if chunks_of_fold else ():
        decide_shared_copy(draft, name, array, chunks_of_fold[0], gpu, group_across_rows(draft, stage, array, gpu))
    return True


def decide_shared_copy(draft: Draft, name: str, array: str, loop: str, gpu: Gpu, group: int = 1, **said: Value) -> None:
    """Caches the region of an array that a block reads in a loop in shared memory, double-buffered where copies are asynchronous. `group`:
    elements that a thread loads at once across rows of the array, which are then stored transposed."""
    copy = draft.cache(name, array, loop, scope="shared")
    if copy is None:
        return
    axes = [axis.name for axis in copy.axes]
    if group > 1:
        said |= {"layout": (*axes[:-2], axes[-1], axes[-2]), "pad": group}
    decide_block_loops(draft, copy, 1 if group > 1 else lanes_of_copy(gpu, copy))
    if not (gpu.asynchronous and draft.decide(copy.name, "store", **said, buffers=BUFFERS)) and said:
        draft.decide(copy.name, "store", **said)


def most_of_sum(draft: Draft, stage: Stage, gpu: Gpu) -> int:
    """Returns the most terms of a sum that a thread may add where the device ends its loops; 0 where it does not, or sums are shorter."""
    if not gpu.iterations or len(stage.reduction_axes) != 1:
        return 0
    reduced, most = stage.reduction_axes[0], gpu.iterations // PASSES
    few = (known_extent(draft, reduced.extent) or most + 1) <= most
    return 0 if few or not reduced.name.isidentifier() else most


def decide_long_tiles(draft: Draft, stage: Stage, most: int, gpu: Gpu) -> None:
    """Records a branch for sums of more than `most` terms: blocks have chunks of a tile's sums. Its loop "ro" is that at which `decide_tiles`
    caches the factors.
    """
    name, r, long = stage.name, stage.reduction_axes[0].name, draft.branch()
    loops, chunk, part = split_tiles(long, stage, gpu), r + "c", r + "p"
    tile, length = square_side(gpu.registers), 1 << most.bit_length() - 1
    if loops is None or not long.decide(name, "split", axis=r, factor=length, names=(chunk, part)):
        return
    if long.decide(name, "split", axis=part, factor=tile, names=(r + "o", r + "i")):
        order_tiles(long, stage, loops, [chunk], [r + "o"], [r + "i"])
        draft.accept(long.when(name, f"{r} > {most}"))


def group_of_tiles(draft: Draft, stage: Stage, gpu: Gpu, threads: int, tile: tuple[int, int]) -> int:
    """Returns the number of rows of tiles in a group, whose tiles are numbered column by column, so that resident blocks share factors in
    the second-level cache.

    It is the side of a square of as many tiles as are resident at a time; 1 where the result is known to have fewer either way, where
    blocks have other axes, and on a CPU.
    """
    group = square_side(gpu.processors * gpu.resident // threads)
    counts = (known_extent(draft, axis.extent) for axis in stage.axes[-2:])
    few = any(n is not None and n <= group * length for n, length in zip(counts, tile, strict=True))
    return 1 if gpu.in_turn or few or len(stage.axes) > 2 else group


Tiles: TypeAlias = "tuple[tuple[str, ...], tuple[str, str], tuple[str, ...]]"
"""The loops of a tile along both axes: over tiles (and their groups), over the threads of a block, over the results of a thread."""


def threads_of_tile(draft: Draft, stage: Stage, gpu: Gpu) -> int:
    """Returns the threads of a block: the usual ones where copies run ahead of the arithmetic, since a tile of twice the side has half as many
    elements of its factors from the second-level cache for each product; few of them where the result is known to have fewer than two such
    tiles for each processor.
    """
    counts = [known_extent(draft, axis.extent) for axis in stage.axes]
    enough = None in counts or prod(n or 0 for n in counts) >= 2 * gpu.processors * gpu.usual_threads * gpu.registers
    return gpu.usual_threads if gpu.asynchronous and enough else min(THREADS, gpu.threads)


def tile_of_block(gpu: Gpu) -> int:
    """Returns the number of results of a block, for long axes."""
    return (square_side(min(THREADS, gpu.threads)) * square_side(gpu.registers)) ** 2


def split_tiles(draft: Draft, stage: Stage, gpu: Gpu, grouped: bool = False) -> Tiles | None:
    """Splits both axes into loops over tiles, threads and the results of a thread; returns them, None where a split is refused."""
    name, side, tile = stage.name, square_side(threads_of_tile(draft, stage, gpu)), square_side(gpu.registers)
    i, j = stage.axes[-2:]
    (rows, own_rows), (columns, own_columns) = (fitting_tile(draft, axis, side, tile) for axis in (i, j))
    lengths = (rows * own_rows, columns * own_columns)
    group = group_of_tiles(draft, stage, gpu, rows * columns, lengths) if grouped else 1
    y, x = i.name, j.name
    if group > 1:
        if not draft.decide(name, "split", axis=y, factor=group * lengths[0]):
            return None
        y += "i"
    bound, own = [], []
    for axis, threads, length in ((y, rows, lengths[0]), (x, columns, lengths[1])):
        if not draft.decide(name, "split", axis=axis, factor=length):
            return None
        together = min(length // threads, group_of_elements(draft, stage, gpu))
        draft.decide(name, "split", axis=axis + "i", factor=threads * together)
        own.append(axis + "io")
        if together > 1:
            draft.decide(name, "split", axis=axis + "ii", factor=together)
            own.append(axis + "iii")
        bound.append(axis + ("iio" if together > 1 else "ii"))
    outer = (i.name + "o", x + "o", y + "o") if group > 1 else (y + "o", x + "o")
    return outer, (bound[0], bound[1]), tuple(own)


def order_tiles(
    draft: Draft, stage: Stage, loops: Tiles, chunks: Sequence[str], chunks_of_fold: Sequence[str], folds: Sequence[str]
) -> None:
    """Orders and binds the loops: blocks over `chunks` of the reduction and tiles, `chunks_of_fold` in a block, threads, and in a thread
    `folds` around its results.
    """
    name, (outer, threads, own) = stage.name, loops
    planes = [*chunks, *(axis.name for axis in stage.axes[:-2])]
    draft.decide(name, "reorder", axes=(*planes, *outer, *chunks_of_fold, *threads, *folds, *own))
    bind_planes(draft, name, planes)
    bind(draft, name, outer, "block")
    bind(draft, name, threads, "thread")
    for loop in own:
        draft.decide(name, "unroll", axis=loop)


def group_of_elements(draft: Draft, stage: Stage, gpu: Gpu) -> int:
    """Returns how many adjacent elements of its factors a thread loads at once; 1 where a device runs both sides of branches."""
    loads = [load for found in draft.state.uses.loads[stage.name].values() for load in found]
    return WIDEST_ACCESS // max(load.dtype.itemsize for load in loads) if gpu.branches else 1


def group_across_rows(draft: Draft, stage: Stage, array: str, gpu: Gpu) -> int:
    """Returns how many elements a thread loads at once across the rows of a factor, along which the reduction runs; 1 where it loads along
    rows, and where elements are narrower than an asynchronous copy.
    """
    load = next(iter(draft.state.uses.loads[stage.name][array]))
    *_, across, along = (set[Node](), *(free_variables(i) for i in load.indices))
    reduced, tile = {axis.var for axis in stage.reduction_axes}, {axis.var for axis in stage.axes[-2:]}
    apart = bool(along & reduced) and bool(across & tile) and load.dtype.itemsize >= LEAST_COPIED
    return group_of_elements(draft, stage, gpu) if apart else 1


def lanes_of_copy(gpu: Gpu, copy: Stage) -> int:
    """Returns how many neighbours a thread copies at once: 1 where a device runs both sides of the test for unaligned rows."""
    return WIDEST_ACCESS // max(body.dtype.itemsize for body in copy.bodies) if gpu.branches else 1


def square_side(count: int) -> int:
    """Returns the side, a power of two, of the largest square with at most `count` elements."""
    return 1 << (max(1, count).bit_length() - 1) // 2


def fitting_tile(draft: Draft, axis: Axis, side: int, tile: int) -> tuple[int, int]:
    """Returns the threads along an axis and the results of each: fewer where the axis is known to be shorter."""
    count = known_extent(draft, axis.extent)
    most = side * tile if count is None else min(side * tile, 1 << max(0, count - 1).bit_length())
    return min(side, most), max(1, most // side)


def arrays_to_copy(draft: Draft, stage: Stage) -> list[str]:
    """Returns the arrays of which a tile of results reads boxes of constant size; [] where one of them is not stored, or read otherwise."""
    variables = {axis.var for axis in stage.all_axes}
    found = []
    for array, loads in draft.state.uses.loads[stage.name].items():
        indices = [index.canonical(i) for load in loads for i in load.indices]
        atoms = {atom for i in indices for atom in index.linear(i)[1]}
        plain = all(atom in variables if isinstance(atom, Var) else isinstance(atom, SizeVar) for atom in atoms)
        alike = all(
            index.constant_value(index.sub(i, first)) is not None
            for load in loads
            for i, first in zip(load.indices, next(iter(loads)).indices, strict=True)
        )
        if not (array and plain and alike) or (array in draft.state.plans and is_inlined(draft.state, array)):
            return []
        if variables & atoms:
            found.append(array)
    return found
