"""The default loops of stages whose results share what they read, as in a product of matrices.

A tile of sums stays in registers while the reduction runs (Goto and van de Geijn: Anatomy of high-performance matrix multiplication,
2008). What is read along its rows is packed before, in panels as wide as a tile; half of L2 holds the panels of a block of columns, which
are packed when the block begins and serve all rows. Factors that are read across rows, as b of `a @ b.T` is, are transposed on the way,
in registers. No more rows than one tile has would use a panel once: they go along the right factor where it is, some of its rows at a time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from raido.algo.graph import index
from raido.algo.graph.expr import Axis
from raido.schedule.defaults.chains import has_chain
from raido.schedule.defaults.demand import Point
from raido.schedule.defaults.draft import Draft, extent, known_extent
from raido.schedule.defaults.facts import (
    ENOUGH_TASKS,
    contiguity,
    is_product_of_rows,
    is_tiled_product,
    panels,
    rows_to_pack,
    shared_axis,
    shares_functions,
)
from raido.schedule.defaults.transposes import square_lanes
from raido.schedule.machine import Machine
from raido.schedule.plan import At
from raido.schedule.stages.stage import Stage

FEWEST_STEPS = 64  # of a chunk of a reduction: its partial results are stored, and read again to be combined
FEWEST_CHUNKS = 8
LANES_FULL = 4  # of a vector of partial sums, each: combining them in the end takes as many steps
FEW_ROWS = 4  # of two gangs each: eight sums side by side


def say_product_loops(draft: Draft, stage: Stage, vector: Axis | None) -> bool:
    """The loops of stages whose results share what they read; whether it is one."""
    if is_product_of_rows(draft, stage, vector):
        return say_turned_rows(draft, stage) or say_tile_of_sums(draft, stage)
    if (
        vector in stage.axes[1:][-1:]
        and shares_functions(draft, stage, stage.axes[-2:])
        and not has_chain(draft, stage)
    ):
        return say_rows_of_sums(draft, stage, stage.axes[-2], FEW_ROWS)
    if not is_tiled_product(draft, stage, vector):
        return False
    shared = shared_axis(draft, stage)
    if shared is stage.axes[-2]:
        return say_register_tile(draft, stage)
    most = 2 * FEW_ROWS if draft.machine.registers >= 32 else FEW_ROWS
    return shared is not None and say_rows_of_sums(draft, stage, shared, most)


def say_tile_of_sums(draft: Draft, stage: Stage, few_rows: bool = False) -> bool:
    """Some rows of both factors at a time: each that is loaded serves several sums, which have a vector of partial ones each.

    few_rows: the result's columns are tasks, also where the number of its rows is not known.
    """
    name, (reduced,) = stage.name, stage.reduction_axes
    i, j = stage.axes[-2].name, stage.axes[-1].name
    if not draft.say(name, "tile", **{i: 4 if draft.machine.registers >= 32 else 2, j: 4}):
        return False
    few_rows = few_rows or extent(draft, stage.axes[-2].extent) < extent(draft, stage.axes[-1].extent)
    outer, inner = (j, i) if few_rows else (i, j)
    draft.say(name, "reorder", axes=(outer + "o", inner + "o", reduced.name, i + "i", j + "i"))
    draft.say(name, "unroll", axis=i + "i", edge=2)
    draft.say(name, "unroll", axis=j + "i")
    draft.say(name, "vectorize", axis=reduced.name)
    draft.say(name, "parallel", axis=stage.axes[0].name if len(stage.axes) > 2 else outer + "o")
    return True


def say_rows_of_sums(draft: Draft, stage: Stage, shared: Axis, most: int) -> bool:
    """Several results along the shared axis at a time, in lanes along the last one: what each iteration has in common serves all of them."""
    name, i, j = stage.name, shared.name, stage.axes[-1].name
    rows = min(most, known_extent(draft, shared.extent) or most)
    if not draft.say(name, "split", axis=i, factor=rows):
        return False
    around = [axis.name for axis in stage.axes[:-1] if axis is not shared]
    reductions = [axis.name for axis in stage.reduction_axes]
    draft.say(name, "reorder", axes=(*around, i + "o", j, *reductions, i + "i"))
    draft.say(name, "unroll", axis=i + "i")
    draft.say(name, "vectorize", axis=j, interleave=2)
    draft.say(name, "parallel", axis=draft.fuse(stage.name, around or [i + "o"]))
    return True


def say_turned_rows(draft: Draft, stage: Stage) -> bool:
    """Products of rows with rows as those of matrices, the right factor's columns in panels: no lanes are combined for each result.

    Not of a few rows, for which the right factor would be copied for little.
    """
    lengths = [known_extent(draft, axis.extent) for axis in stage.axes[-2:]]
    least = 2 * rows_of_tile(draft.machine), draft.machine.lanes(stage.bodies[0].dtype.bits)
    packed = rows_to_pack(draft, stage)
    if not packed or any(n is not None and n < few for n, few in zip(lengths, least, strict=True)):
        return False
    if len(stage.axes) == 2 and count_of_rows(draft, stage) is None:
        few, reduced = draft.branch(), stage.reduction_axes[0].name
        many = LANES_FULL * draft.machine.lanes(stage.bodies[0].dtype.bits)
        if reduced.isidentifier() and say_tile_of_sums(few, stage, few_rows=True):
            say_branch_of_few_rows(draft, stage, few, f" and {reduced} > {many}")
    return say_tiles_of_panels(draft, stage, packed)


def say_register_tile(draft: Draft, stage: Stage) -> bool:
    """A tile of the result stays in registers while the reduction runs; what it reads along its rows is packed in panels before.

    Where there are few tiles, chunks of a long reduction are threads' work instead, and the tiles of a chunk read what the cache holds.
    """
    chunk = chunk_of_product(draft, stage)
    packed = {} if chunk else panels(draft, stage)
    if packed and has_few_rows(draft, stage, packed):
        if count_of_rows(draft, stage) is not None:
            return say_few_rows(draft, stage)
        few = draft.branch()
        if say_few_rows(few, stage):
            say_branch_of_few_rows(draft, stage, few)
    return bool(packed and say_tiles_of_panels(draft, stage, packed)) or say_tiles(draft, stage, chunk)


def say_branch_of_few_rows(draft: Draft, stage: Stage, few: Draft, besides: str = "") -> None:
    """The branch of a product for no more rows than a tile of sums has."""
    row = stage.axes[-2].name
    if row.isidentifier():
        draft.accept(few.when(stage.name, f"{row} <= {rows_of_tile(draft.machine)}{besides}"))


def count_of_rows(draft: Draft, stage: Stage) -> int | None:
    """The rows of a product's result, if their number is known."""
    return known_extent(draft, stage.axes[-2].extent)


def has_few_rows(draft: Draft, stage: Stage, packed: Mapping[str, Point]) -> bool:
    """Whether a product of two matrices may have no more rows than a tile of sums, and a right factor whose rows are contiguous."""
    if len(stage.axes) != 2 or len(stage.reduction_axes) != 1:
        return False
    along = all(contiguity(stage.axes[-1].var, point) == 1 for point in packed.values())
    return along and (count_of_rows(draft, stage) or 0) <= rows_of_tile(draft.machine)


def say_few_rows(draft: Draft, stage: Stage) -> bool:
    """The loops of a product of few rows: chunks of the right factor's rows, from end to end, for threads.

    Half as many rows of a tile are made at a time, in as many gangs as registers hold of them: each vector of the right factor is loaded
    once for all of them.
    """
    name, (i, j) = stage.name, (axis.name for axis in stage.axes[-2:])
    (reduced,) = stage.reduction_axes
    gangs = FEW_ROWS if draft.machine.registers >= 32 else 2
    rows = min(FEW_ROWS, count_of_rows(draft, stage) or FEW_ROWS)
    if not draft.say(name, "tile", **{i: rows, j: gangs * draft.machine.lanes(stage.bodies[0].dtype.bits)}):
        return False
    if not draft.say(name, "split", axis=reduced.name, factor=max(FEWEST_STEPS, draft.machine.task >> 7)):
        return False
    over = reduced.name
    draft.say(name, "reorder", axes=(over + "o", i + "o", j + "o", over + "i", i + "i", j + "i"))
    draft.say(name, "unroll", axis=i + "i")
    draft.say(name, "vectorize", axis=j + "i", interleave=gangs)
    draft.say(name, "parallel", axis=over + "o")
    return True


def say_tiles(draft: Draft, stage: Stage, chunk: int) -> bool:
    """Loops over tiles of sums in registers, with chunks of so many steps of the reduction outside where there are any."""
    name, (i, j) = stage.name, (axis.name for axis in stage.axes[-2:])
    rows = even_part(draft, stage.axes[-2], rows_of_tile(draft.machine))
    if not draft.say(name, "tile", **{i: rows, j: width_of_tile(stage, draft.machine)}):
        return False
    steps, chunks = [axis.name for axis in stage.reduction_axes], []
    if chunk and draft.say(name, "split", axis=steps[0], factor=chunk):
        chunks, steps = [steps[0] + "o"], [steps[0] + "i"]
    draft.say(name, "reorder", axes=(*chunks, i + "o", j + "o", *steps, i + "i", j + "i"))
    say_sums(draft, stage, i + "i", j + "i")
    tasks = [*chunks, *(axis.name for axis in stage.axes[:-2]), i + "o"]
    draft.say(name, "parallel", axis=tasks[0])
    return True


def say_sums(draft: Draft, stage: Stage, row: str, column: str) -> None:
    """A tile of sums in registers: its rows side by side, of two gangs each."""
    draft.say(stage.name, "unroll", axis=row)
    draft.say(stage.name, "vectorize", axis=column, interleave=2)


def say_tiles_of_panels(draft: Draft, stage: Stage, packed: Mapping[str, Point]) -> bool:
    """Loops over tiles inside those over blocks of columns, whose panels are packed first; whether all is legal.

    Of symmetric results a triangle is made. Of many products side by side that have factors of their own, each is a task; else threads
    share what is packed, and then the rows.
    """
    trial, name, (i, j) = draft.trial(), stage.name, (axis.name for axis in stage.axes[-2:])
    rows = even_part(draft, stage.axes[-2], rows_of_tile(draft.machine))
    if stage.symmetric and prod(extent(draft, axis.extent) for axis in stage.reduction_axes) >= FEWEST_STEPS:
        # an element that is copied takes as long as some dozen steps of its sum
        trial.say(name, "strategy", name="triangle")
    if not trial.say(name, "split", axis=i, factor=rows):
        return False
    block, width = columns_of_block(draft, stage), width_of_tile(stage, draft.machine)
    inside, column = [j + "o"], j
    if block > width:
        trial.say(name, "split", axis=j, factor=block)
        inside, column = [j + "o", j + "io"], j + "i"
    trial.say(name, "split", axis=column, factor=width)
    products = [known_extent(draft, axis.extent) for axis in stage.axes[:-2]]
    many = prod(ENOUGH_TASKS if n is None else n for n in products) >= ENOUGH_TASKS
    apart = many and any(axis.var in point for axis in stage.axes[:-2] for point in packed.values())
    outer = [axis.name for axis in stage.axes[:-2]]
    blocks = [*outer, j + "o"] if apart else [j + "o", *outer]
    steps = [axis.name for axis in stage.reduction_axes]
    trial.say(name, "reorder", axes=(*blocks, i + "o", *inside[1:], *steps, i + "i", column + "i"))
    say_sums(trial, stage, i + "i", column + "i")
    trial.say(name, "parallel", axis=outer[0] if apart else trial.fuse(stage.name, [*outer, i + "o"]))
    for array, point in packed.items():
        if not say_panels(trial, stage, array, point, [*inside, column + "i"], apart):
            return False
    draft.adopt(trial)
    draft.renew_demand()
    return True


def say_panels(draft: Draft, stage: Stage, array: str, point: Point, columns: Sequence[str], apart: bool) -> bool:
    """The copy of an array's columns of a block in the order in which tiles read them; whether it is legal.

    columns: the loops over blocks, over tiles of a block where there are several, and over the columns of a tile. apart: each task
    makes its own.
    """
    name, (block, *tiles, column) = stage.name, columns
    around = [axis.name for axis in stage.axes[:-2] if axis.var in point]
    fixed = [f"d{d}" for d, e in enumerate(point) if index.constant_value(e) is not None]  # type: ignore[arg-type]
    steps = [axis.name for axis in stage.reduction_axes]
    layout = (*around, block, *tiles, *fixed, *steps, column)
    made = draft.cache(name, array, block, layout=layout)
    if made is None:
        return False
    copy, along, copied = made.name, steps[-1], columns_of_block(draft, stage)
    lanes = square_lanes(draft, made)
    if is_transposed(stage, point) and draft.say(copy, "split", axis=along, factor=lanes):
        draft.say(copy, "reorder", axes=(*tiles, *steps[:-1], along + "o", column, along + "i"))
        draft.say(copy, "unroll", axis=along + "i")
        draft.say(copy, "vectorize", axis=column, lanes=lanes)
        steps[-1], copied = along + "o", lanes * width_of_tile(stage, draft.machine)
    else:
        draft.say(copy, "reorder", axes=(*steps, *tiles))
        draft.say(copy, "vectorize", axis=column)
    if not apart:
        draft.parallel(copy, steps[0], copied * prod(extent(draft, axis.extent) for axis in stage.reduction_axes[1:]))
    draft.renew_demand()
    return True


def is_transposed(stage: Stage, point: Point) -> bool:
    """Whether the columns of a product's right factor lie along the rows of what is read: squares of it are transposed in registers."""
    return contiguity(stage.reduction_axes[-1].var, point) == 1 and contiguity(stage.axes[-1].var, point) < 0


def say_packed_loops(draft: Draft, name: str) -> None:
    """A copy with a layout already has its loops: the first is parallel, the last vectorized."""
    loops = [loop.name for loop in draft.state.plan(name).loops]
    if not isinstance(draft.state.plan(name).compute, At) and len(loops) > 1:
        draft.say(name, "parallel", axis=loops[0])
    draft.say(name, "vectorize", axis=loops[-1])


def width_of_tile(stage: Stage, machine: Machine) -> int:
    """The columns of a register tile: two gangs."""
    return 2 * machine.lanes(stage.bodies[0].dtype.bits)


def rows_of_tile(machine: Machine) -> int:
    """The most rows of a register tile: of two gangs each, beside two of the right factor and one of the left."""
    return 12 if machine.registers >= 32 else 6


def columns_of_block(draft: Draft, stage: Stage) -> int:
    """The columns of a block, whole tiles: half of L2 holds what is packed of them."""
    column = stage.bodies[0].dtype.itemsize * prod(extent(draft, axis.extent) for axis in stage.reduction_axes)
    width = width_of_tile(stage, draft.machine)
    count = known_extent(draft, stage.axes[-1].extent)
    tiles = max(1, draft.machine.l2 // 2 // (column * width))
    return width * (tiles if count is None else min(tiles, max(1, -(-count // width))))


def even_part(draft: Draft, axis: Axis, most: int) -> int:
    """The rows of a tile, at most so many: of an axis whose length is known as few tiles as can be, of about one height."""
    count = known_extent(draft, axis.extent)
    return most if not count else -(-count // -(-count // most))


def chunk_of_product(draft: Draft, stage: Stage) -> int:
    """The steps of a chunk of the reduction of a product, 0 where its tiles are work enough.

    A chunk is a power of two, of which half of L2 holds both factors; a partial result is stored for each, and read again.
    """
    *outer, i, j = stage.axes
    lengths = [known_extent(draft, axis.extent) for axis in (i, j)]
    if (
        outer
        or len(stage.reduction_axes) != 1
        or None in lengths
        or isinstance(draft.state.plan(stage.name).compute, At)
    ):
        return 0
    height, width = (n or 1 for n in lengths)
    step = (height + width) * stage.bodies[0].dtype.itemsize
    chunk = 1 << max(1, draft.machine.l2 // 2 // step).bit_length() - 1
    chunk = max(FEWEST_STEPS, min(chunk, 1 << max(1, draft.machine.task // (height * width)).bit_length()))
    steps = known_extent(draft, stage.reduction_axes[0].extent)
    few = -(-height // rows_of_tile(draft.machine)) < ENOUGH_TASKS
    return chunk if few and (steps is None or steps >= FEWEST_CHUNKS * chunk) else 0
