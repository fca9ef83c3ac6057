"""The default loops, on a GPU, of long reductions with few results: branches, on sizes, in which blocks share the fold of a result.

A thread for each result leaves most of a device idle where results are fewer than resident threads. So a block folds a chunk, its threads
parts of the chunk, which are combined in a tree, and one more launch folds the chunks:

    for ro by blocks: for results by threads and blocks: for rii by threads: for rio: …
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from raido.algo.graph import index
from raido.algo.graph.expr import Axis
from raido.algo.graph.rewrite import free_variables
from raido.schedule.defaults.draft import Draft, known, known_extent
from raido.schedule.defaults.gpu.bindings import bind, bind_fold, bind_planes, fold_alone
from raido.schedule.defaults.gpu.block_products import tile_of_block
from raido.schedule.defaults.queries import is_tiled_product
from raido.schedule.machine import Gpu
from raido.schedule.stages.stage import Stage
from raido.schedule.state import placed_at


def elements_of_part(draft: Draft) -> int:
    """Returns the elements of a chunk that one thread folds: enough that its share of the tree costs little."""
    return max(2, draft.machine.task >> 5)


def is_often_few(draft: Draft, stage: Stage, gpu: Gpu) -> bool:
    """Whether a product's results are known to be fewer than the device's threads, or likely are.

    Likely are those of tall matrices, summed along their rows (aᵀ b), and squares whose reduction has another length (a aᵀ).
    """
    fold = stage.reduction
    if fold is None or len(stage.axes) < 2 or not is_tiled_product(draft, stage, stage.axes[-1]):
        return False
    extents = [known(draft, axis.extent) for axis in stage.axes]
    counts = [index.constant_value(n) for n in extents]
    few = None not in counts and prod(c or 0 for c in counts) < gpu.processors * gpu.resident
    lengths = [known(draft, axis.extent) for axis in stage.reduction_axes]
    if few or None not in counts:
        return few
    reduced = {axis.var for axis in stage.reduction_axes}
    lines = [point[-1] for point in draft.demand.points_read(stage.name) if point]
    across = not any(reduced & free_variables(line) for line in lines if line is not None)
    return across or (extents[-1] is extents[-2] and extents[-1] not in lengths)


def decide_long_rows(draft: Draft, stage: Stage, reduced: Axis, gpu: Gpu) -> None:
    """Records a branch for rows long enough for all processors, and fewer than these: one after the other, each folded as a reduction to
    one value.
    """
    chunk = gpu.usual_threads * elements_of_part(draft)
    test = _long_and_few(draft, reduced, gpu.processors * chunk, stage.axes, gpu.processors)
    if not test:
        return
    long, name, r = draft.branch(), stage.name, reduced.name
    if long.decide(name, "split", axis=r, factor=chunk) and long.decide(
        name, "split", axis=r + "i", factor=gpu.usual_threads
    ):
        long.decide(name, "reorder", axes=(*(axis.name for axis in stage.axes), r + "o", r + "ii", r + "io"))
        bind(long, name, [r + "o"], "block")
        bind_fold(long, name, r + "ii")
        draft.accept(long.when(name, test))


def decide_long_columns(
    draft: Draft, stage: Stage, axes: Sequence[Axis], line: Axis, width: int, gpu: Gpu, most: int = 0
) -> None:
    """Records a branch for reductions longer than a chunk with fewer results than resident threads, or than elements of the reduction.

    If `most` is not 0, the branch is for reductions longer than `most`, of fewer results than a block's tile. Neighbouring threads have
    neighbouring results along `line`, `width` of them; threads along y fold every so many-th element of the chunk.
    """
    fold, name = stage.reduction, stage.name
    if fold is None or not fold.commutative or not fold_alone(draft, stage):
        return
    if any(placed_at(draft.state, name, axis.name) for axis in stage.all_axes):
        return
    reduced, *folded = stage.reduction_axes
    parts = max(1, min(gpu.usual_threads // width, gpu.along[1]))
    r, x, others = reduced.name, line.name, [axis.name for axis in axes if axis is not line]
    inside = [axis.name for axis in stage.axes if axis not in axes]
    chunk = parts * elements_of_part(draft)
    few = tile_of_block(gpu) if most else f"{gpu.processors * gpu.resident} + {r}"
    test = _long_and_few(draft, reduced, most or chunk, stage.axes, few)
    long = draft.branch()
    splits, chunks = (
        ((r + "i", parts), (x, width)),
        r + "c",
    )  # not "ro", at which tiles cache their factors
    if not test or not long.decide(name, "split", axis=r, factor=chunk, names=(chunks, r + "i")):
        return
    if not all(long.decide(name, "split", axis=axis, factor=factor) for axis, factor in splits):
        return
    inner = [r + "ii", x + "i", r + "io", *(axis.name for axis in folded), *inside]
    if long.decide(name, "reorder", axes=(chunks, *others, x + "o", *inner)):
        bind_planes(long, name, [chunks])
        bind(long, name, [long.fuse(name, others), x + "o"] if others else [x + "o"], "block")
        long.decide(name, "bind", axis=r + "ii", place="thread.y")
        long.decide(name, "bind", axis=x + "i", place="thread.x")
        draft.accept(long.when(name, test))


def _long_and_few(draft: Draft, reduced: Axis, length: int, results: Sequence[Axis], most: int | str) -> str:
    """Returns the test of a branch for a reduction longer than `length` with fewer results than `most`; "" where known sizes
    contradict it.
    """
    names = [axis.name for axis in (reduced, *results)]
    elements = known_extent(draft, reduced.extent)
    counts = [known_extent(draft, axis.extent) for axis in results]
    if not all(name.isidentifier() for name in names) or (elements is not None and elements <= length):
        return ""
    few = f"{' * '.join(names[1:])} < {most}"
    if None not in counts and isinstance(most, int):
        return f"{names[0]} > {length}" if prod(c or 0 for c in counts) < most else ""
    return f"{names[0]} > {length} and {few}"
