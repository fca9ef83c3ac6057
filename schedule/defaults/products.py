"""The default loops of stages whose results share inputs, as in a matrix product.

A register tile of sums runs along the reduction (Goto and van de Geijn: Anatomy of high-performance matrix multiplication, 2008; register
tiles: Wolf and Lam, 1991). The right factor is packed in panels as wide as a tile; half of L2 holds the panels of a block of columns, which
are packed when the block begins and serve all rows. Factors that are read across rows, as b of `a @ b.T` is, are transposed in registers
while they are packed. Left factors that are read down columns, as a of `a.T @ b` is, are packed in row tiles, once for many blocks. A
result of no more rows than one tile would use a panel once: it reads the right factor unpacked, in chunks of its rows, and so do few
results of long reductions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod

from raido.algo.graph import index
from raido.algo.graph.expr import Axis
from raido.schedule.defaults.chains import has_chain
from raido.schedule.defaults.demand import Point
from raido.schedule.defaults.draft import Draft, extent, known_extent
from raido.schedule.defaults.joins import moves
from raido.schedule.defaults.queries import (
    ENOUGH_TASKS,
    contiguity,
    is_product_of_rows,
    is_tiled_product,
    panels,
    plain_axes,
    rows_to_pack,
    shared_axis,
    shares_functions,
)
from raido.schedule.defaults.transposes import square_lanes
from raido.schedule.machine import Machine
from raido.schedule.plan import At
from raido.schedule.stages.stage import Stage

FEWEST_ITERATIONS = (
    64  # reduction steps of a chunk, at least: its partial results are stored, and loaded to be combined
)
FEWEST_CHUNKS = 8
BLOCKS = 16  # blocks of columns for which the rows of a left factor are packed once: some hundred uses of each element
LANES_FULL = 4  # steps of each lane of a vector of partial sums: about as many as combining the lanes takes
ROWS_AHEAD = 8  # rows of a right factor, each of which takes some ten nanoseconds: the latency of memory
FEW_ROWS = 4  # rows of two gangs each: eight accumulators, the latency of an FMA at two a cycle


def decide_product_loops(draft: Draft, stage: Stage, vector: Axis | None) -> bool:
    """Schedules a stage whose results share inputs; returns whether it is one."""
    if is_product_of_rows(draft, stage, vector):
        return decide_transposed_rows(draft, stage) or decide_tile_of_sums(draft, stage)
    if (
        vector in stage.axes[1:][-1:]
        and shares_functions(draft, stage, stage.axes[-2:])
        and not has_chain(draft, stage)
    ):
        return decide_rows_of_sums(draft, stage, stage.axes[-2], FEW_ROWS)
    if not is_tiled_product(draft, stage, vector):
        return False
    shared = shared_axis(draft, stage)
    if shared is stage.axes[-2]:
        return decide_register_tile(draft, stage)
    most = 2 * FEW_ROWS if draft.machine.registers >= 32 else FEW_ROWS
    return shared is not None and decide_rows_of_sums(draft, stage, shared, most)


def decide_tile_of_sums(draft: Draft, stage: Stage, few_rows: bool = False) -> bool:
    """Schedules a tile of dot products: each loaded row of a factor serves several sums, with lanes along the reduction; returns whether
    that is legal.

    few_rows: the result's columns are the tasks, also where the number of its rows is not known.
    """
    name, (reduced,) = stage.name, stage.reduction_axes
    i, j = stage.axes[-2].name, stage.axes[-1].name
    if not draft.decide(name, "tile", **{i: 4 if draft.machine.registers >= 32 else 2, j: 4}):
        return False
    few_rows = few_rows or extent(draft, stage.axes[-2].extent) < extent(draft, stage.axes[-1].extent)
    outer, inner = (j, i) if few_rows else (i, j)
    draft.decide(name, "reorder", axes=(outer + "o", inner + "o", reduced.name, i + "i", j + "i"))
    draft.decide(name, "unroll", axis=i + "i", edge=2)
    draft.decide(name, "unroll", axis=j + "i")
    draft.decide(name, "vectorize", axis=reduced.name)
    draft.decide(name, "parallel", axis=stage.axes[0].name if len(stage.axes) > 2 else outer + "o")
    return True


def decide_rows_of_sums(draft: Draft, stage: Stage, shared: Axis, most: int) -> bool:
    """Schedules `most` results along the shared axis together, with lanes along the last one, so that they share each iteration's values;
    returns whether that is legal.
    """
    name, i, j = stage.name, shared.name, stage.axes[-1].name
    rows = min(most, known_extent(draft, shared.extent) or most)
    if not draft.decide(name, "split", axis=i, factor=rows):
        return False
    around = [axis.name for axis in stage.axes[:-1] if axis is not shared]
    reductions = [axis.name for axis in stage.reduction_axes]
    draft.decide(name, "reorder", axes=(*around, i + "o", j, *reductions, i + "i"))
    draft.decide(name, "unroll", axis=i + "i")
    draft.decide(name, "vectorize", axis=j, interleave=2)
    draft.decide(name, "parallel", axis=draft.fuse(stage.name, around or [i + "o"]))
    return True


def decide_transposed_rows(draft: Draft, stage: Stage) -> bool:
    """Schedules a product of rows with rows as a matrix product, the right factor packed transposed; returns whether that is legal.

    No lanes are combined then. Products of a few rows are left out: the packed factor would be used too little.
    """
    lengths = [known_extent(draft, axis.extent) for axis in stage.axes[-2:]]
    least = 2 * rows_of_tile(draft.machine), draft.machine.lanes(stage.bodies[0].dtype.bits)
    packed = rows_to_pack(draft, stage)
    if not packed or any(n is not None and n < few for n, few in zip(lengths, least, strict=True)):
        return False
    if len(stage.axes) == 2 and count_of_rows(draft, stage) is None:
        few, reduced = draft.branch(), stage.reduction_axes[0].name
        many = LANES_FULL * draft.machine.lanes(stage.bodies[0].dtype.bits)
        if reduced.isidentifier() and decide_tile_of_sums(few, stage, few_rows=True):
            decide_branch_of_few_rows(draft, stage, few, f" and {reduced} > {many}")
    return decide_tiles_of_panels(draft, stage, packed)


def decide_register_tile(draft: Draft, stage: Stage) -> bool:
    """Schedules a register tile of sums, with the right factor packed in panels; returns whether that is legal.

    Where there are few tiles, threads take chunks of a long reduction instead, and the tiles of a chunk read factors that the cache holds.
    """
    chunk = chunk_of_product(draft, stage)
    packed = {} if chunk else panels(draft, stage)
    if packed and has_few_rows(draft, stage, packed):
        if count_of_rows(draft, stage) is not None:
            return decide_few_rows(draft, stage, packed)
        few = draft.branch()
        if decide_few_rows(few, stage, packed):
            decide_branch_of_few_rows(draft, stage, few, or_few_results(draft, stage))
    return bool(packed and decide_tiles_of_panels(draft, stage, packed)) or decide_tiles(draft, stage, chunk)


def decide_branch_of_few_rows(draft: Draft, stage: Stage, few: Draft, besides: str) -> None:
    """Records the branch of a product for results of no more rows than a register tile; besides: the rest of its test."""
    row = stage.axes[-2].name
    if row.isidentifier():
        draft.accept(few.when(stage.name, f"{row} <= {rows_of_tile(draft.machine)}{besides}"))


def or_few_results(draft: Draft, stage: Stage) -> str:
    """Returns the alternative test for long reductions to few results (`x.T @ x` of many samples), whose chunks are the only tasks.

    A chunk's partial results take at most an eighth of L2. For columns that fill one to four vectors the rows of a left factor are not worth
    packing.
    """
    names = [axis.name for axis in (*stage.axes, *stage.reduction_axes)]
    if not all(map(str.isidentifier, names)):
        return ""
    (i, j, reduced), results = names, draft.machine.l2 // 8 // stage.bodies[0].dtype.itemsize
    long = f"{reduced} > {FEWEST_CHUNKS * chunk_of_rows(draft.machine)}"
    if factors_by_columns(draft, stage):
        width = width_of_tile(stage, draft.machine)
        long = f"({long} or {j} > {width // 2} and {j} <= {2 * width})"
    return f" or {i} * {j} <= {results} and {long}"


def chunk_of_rows(machine: Machine) -> int:
    """Returns the reduction steps of a chunk where reductions are shared by threads and their number is not known."""
    return max(FEWEST_ITERATIONS, machine.task >> 7)


def count_of_rows(draft: Draft, stage: Stage) -> int | None:
    """Returns the number of rows of a product's result; None where it is not known."""
    return known_extent(draft, stage.axes[-2].extent)


def has_few_rows(draft: Draft, stage: Stage, packed: Mapping[str, Point]) -> bool:
    """Whether a product of two matrices may have no more rows than a register tile, and has a right factor with contiguous rows."""
    if len(stage.axes) != 2 or len(stage.reduction_axes) != 1:
        return False
    along = all(contiguity(stage.axes[-1].var, point) == 1 for point in packed.values())
    return along and (count_of_rows(draft, stage) or 0) <= rows_of_tile(draft.machine)


def decide_few_rows(draft: Draft, stage: Stage, factors: Iterable[str]) -> bool:
    """Schedules a product of few rows: threads take chunks of the right factor's rows, and read them from end to end; returns whether that
    is legal.

    A tile has up to `FEW_ROWS` rows and as many gangs as registers hold for them: each vector of the right factor is loaded once for all
    rows. Its rows are some lines each, too short for the hardware to prefetch. factors: the right ones.
    """
    name, (i, j) = stage.name, (axis.name for axis in stage.axes[-2:])
    (reduced,) = stage.reduction_axes
    gangs = FEW_ROWS if draft.machine.registers >= 32 else 2
    rows = min(FEW_ROWS, count_of_rows(draft, stage) or FEW_ROWS)
    if not draft.decide(name, "tile", **{i: rows, j: gangs * draft.machine.lanes(stage.bodies[0].dtype.bits)}):
        return False
    if not draft.decide(name, "split", axis=reduced.name, factor=chunk_of_rows(draft.machine)):
        return False
    over = reduced.name
    draft.decide(name, "reorder", axes=(over + "o", i + "o", j + "o", over + "i", i + "i", j + "i"))
    draft.decide(name, "unroll", axis=i + "i")
    draft.decide(name, "vectorize", axis=j + "i", interleave=gangs)
    draft.decide(name, "parallel", axis=over + "o")
    for array in factors:
        draft.decide(name, "prefetch", array=array, axis=over + "i", ahead=ROWS_AHEAD)
    return True


def decide_tiles(draft: Draft, stage: Stage, chunk: int) -> bool:
    """Schedules loops over register tiles, with chunks of `chunk` reduction steps outside (0: none); returns whether that is legal."""
    name, (i, j) = stage.name, (axis.name for axis in stage.axes[-2:])
    rows = even_part(draft, stage.axes[-2], rows_of_tile(draft.machine))
    if not draft.decide(name, "tile", **{i: rows, j: width_of_tile(stage, draft.machine)}):
        return False
    folds, chunks = [axis.name for axis in stage.reduction_axes], []
    if chunk and draft.decide(name, "split", axis=folds[0], factor=chunk):
        chunks, folds = [folds[0] + "o"], [folds[0] + "i"]
    draft.decide(name, "reorder", axes=(*chunks, i + "o", j + "o", *folds, i + "i", j + "i"))
    decide_sums(draft, stage, i + "i", j + "i")
    tasks = [*chunks, *(axis.name for axis in stage.axes[:-2]), i + "o"]
    draft.decide(name, "parallel", axis=tasks[0])
    return True


def decide_sums(draft: Draft, stage: Stage, row: str, column: str) -> None:
    """Makes a register tile: its rows unrolled, two interleaved gangs each."""
    draft.decide(stage.name, "unroll", axis=row)
    draft.decide(stage.name, "vectorize", axis=column, interleave=2)


def decide_tiles_of_panels(draft: Draft, stage: Stage, packed: Mapping[str, Point]) -> bool:
    """Schedules loops over tiles inside loops over blocks of columns, whose panels are packed first; returns whether that is legal.

    Of symmetric results one triangle is computed. Of many products side by side that have factors of their own, each is a task; else
    threads share the packing, and then the rows.
    """
    trial, name, (i, j) = draft.trial(), stage.name, (axis.name for axis in stage.axes[-2:])
    rows = even_part(draft, stage.axes[-2], rows_of_tile(draft.machine))
    if stage.symmetric and prod(extent(draft, axis.extent) for axis in stage.reduction_axes) >= FEWEST_ITERATIONS:
        # an element that is copied takes as long as some dozen steps of its sum
        trial.decide(name, "strategy", name="triangle")
    if not trial.decide(name, "split", axis=i, factor=rows):
        return False
    block, width = columns_of_block(draft, stage), width_of_tile(stage, draft.machine)
    outer, folds = ([axis.name for axis in axes] for axes in (stage.axes[:-2], stage.reduction_axes))
    by_columns = [] if outer else factors_by_columns(draft, stage)
    loops, column = [], j
    for factor in [block * BLOCKS] * bool(by_columns) + [block] * (block > width) + [width]:
        trial.decide(name, "split", axis=column, factor=factor)
        loops, column = [*loops, column + "o"], column + "i"
    blocks, tiles = (loops[:-1], loops[-1:]) if block > width else (loops, [])
    products = [known_extent(draft, axis.extent) for axis in stage.axes[:-2]]
    many = prod(ENOUGH_TASKS if n is None else n for n in products) >= ENOUGH_TASKS
    apart = many and any(axis.var in point for axis in stage.axes[:-2] for point in packed.values())
    around = [*outer, *blocks] if apart else [*blocks, *outer]
    trial.decide(name, "reorder", axes=(*around, i + "o", *tiles, *folds, i + "i", column))
    decide_sums(trial, stage, i + "i", column)
    trial.decide(name, "parallel", axis=outer[0] if apart else trial.fuse(stage.name, [*outer, i + "o"]))
    for array, point in packed.items():
        if not decide_panels(trial, stage, array, point, blocks, [*tiles, column], apart):
            return False
    for array in by_columns:
        decide_panels_of_rows(trial, stage, array, blocks[0])
    draft.adopt(trial)
    draft.renew_demand()
    return True


def decide_panels_of_rows(draft: Draft, stage: Stage, array: str, block: str) -> None:
    """Packs a left factor that is read down columns, as a of `a.T @ b` is: a row tile would read a few elements from each of many pages.

    block: the loop over blocks of columns that share the packed rows.
    """
    i, steps = stage.axes[-2].name, [axis.name for axis in stage.reduction_axes]
    made = draft.cache(stage.name, array, block, layout=(i + "o", *steps, i + "i"), name=f"{array}_rows")
    if made is not None:
        draft.decide(made.name, "reorder", axes=(*steps, i + "o"))
        draft.decide(made.name, "vectorize", axis=i + "i")
        draft.parallel(made.name, steps[0], extent(draft, stage.axes[-2].extent))
        draft.renew_demand()


def factors_by_columns(draft: Draft, stage: Stage) -> list[str]:
    """Returns the left factors of a product that are contiguous along its rows, where each of their elements serves several register tiles."""
    row, column = (axis.var for axis in stage.axes[-2:])
    steps = {axis.var for axis in stage.reduction_axes}
    width = known_extent(draft, stage.axes[-1].extent)
    if width is not None and width <= 2 * width_of_tile(stage, draft.machine):
        return []
    found = []
    for array, points in draft.demand.reads(stage.name).items():
        rows = [point for point in points if any(moves(e, row) for e in point)]
        plain = plain_axes(rows[0]) if len(rows) == 1 else None
        if plain is None or len(plain) < len(rows[0]):
            continue
        if plain[-1] is row and column not in plain and not steps.isdisjoint(plain):
            found.append(array)
    return found


def decide_panels(
    draft: Draft, stage: Stage, array: str, point: Point, blocks: Sequence[str], columns: Sequence[str], apart: bool
) -> bool:
    """Packs an array's columns of a block in the order in which tiles read them; returns whether that is legal.

    blocks: the loops over blocks; none: the whole array is packed at root. columns: those over tiles of a block, where there are several,
    and over the columns of a tile. apart: each task packs its own.
    """
    name, (*tiles, column) = stage.name, columns
    around = [axis.name for axis in stage.axes[:-2] if axis.var in point]
    fixed = [f"d{d}" for d, e in enumerate(point) if index.constant_value(e) is not None]  # type: ignore[arg-type]
    folds = [axis.name for axis in stage.reduction_axes]
    layout = (*around, *blocks, *tiles, *fixed, *folds, column)
    made = draft.cache(name, array, blocks[-1] if blocks else None, layout=layout)
    if made is None:
        return False
    copy, along, copied = made.name, folds[-1], columns_of_block(draft, stage)
    lanes = square_lanes(draft, made)
    if is_transposed(stage, point) and draft.decide(copy, "split", axis=along, factor=lanes):
        draft.decide(copy, "reorder", axes=(*tiles, *folds[:-1], along + "o", column, along + "i"))
        draft.decide(copy, "unroll", axis=along + "i")
        draft.decide(copy, "vectorize", axis=column, lanes=lanes)
        folds[-1], copied = along + "o", lanes * width_of_tile(stage, draft.machine)
    else:
        draft.decide(copy, "reorder", axes=(*folds, *tiles))
        draft.decide(copy, "vectorize", axis=column)
    if not apart:
        draft.parallel(copy, folds[0], copied * prod(extent(draft, axis.extent) for axis in stage.reduction_axes[1:]))
    draft.renew_demand()
    return True


def is_transposed(stage: Stage, point: Point) -> bool:
    """Whether the columns of a product's right factor are contiguous along the reduction, so that packing transposes blocks in
    registers.
    """
    return contiguity(stage.reduction_axes[-1].var, point) == 1 and contiguity(stage.axes[-1].var, point) < 0


def decide_packed_loops(draft: Draft, name: str) -> None:
    """Schedules a copy whose layout already fixes its loops: the first is parallel, the last vectorized."""
    loops = [loop.name for loop in draft.state.plan(name).loops]
    if not isinstance(draft.state.plan(name).compute, At) and len(loops) > 1:
        draft.decide(name, "parallel", axis=loops[0])
    draft.decide(name, "vectorize", axis=loops[-1])


def width_of_tile(stage: Stage, machine: Machine) -> int:
    """Returns the columns of a register tile: two vectors."""
    return 2 * machine.lanes(stage.bodies[0].dtype.bits)


def rows_of_tile(machine: Machine) -> int:
    """Returns the most rows of a register tile: of two vectors each, beside two of the right factor and one of the left."""
    return 12 if machine.registers >= 32 else 6


def columns_of_block(draft: Draft, stage: Stage) -> int:
    """Returns the columns of a block, whole tiles, whose packed panels fill half of L2."""
    column = stage.bodies[0].dtype.itemsize * prod(extent(draft, axis.extent) for axis in stage.reduction_axes)
    width = width_of_tile(stage, draft.machine)
    count = known_extent(draft, stage.axes[-1].extent)
    tiles = max(1, draft.machine.l2 // 2 // (column * width))
    return width * (tiles if count is None else min(tiles, max(1, -(-count // width))))


def even_part(draft: Draft, axis: Axis, most: int) -> int:
    """Returns the rows of a tile, at most `most`: of an axis of known length the fewest tiles, of about equal height."""
    count = known_extent(draft, axis.extent)
    return most if not count else -(-count // -(-count // most))


def chunk_of_product(draft: Draft, stage: Stage) -> int:
    """Returns the reduction steps of a chunk of a product; 0 where its tiles are tasks enough.

    A chunk is a power of two for which half of L2 holds both factors; a partial result is stored and loaded for each.
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
    bytes_of_iteration = (height + width) * stage.bodies[0].dtype.itemsize
    chunk = 1 << max(1, draft.machine.l2 // 2 // bytes_of_iteration).bit_length() - 1
    chunk = max(FEWEST_ITERATIONS, min(chunk, 1 << max(1, draft.machine.task // (height * width)).bit_length()))
    length = known_extent(draft, stage.reduction_axes[0].extent)
    few = -(-height // rows_of_tile(draft.machine)) < ENOUGH_TASKS
    return chunk if few and (length is None or length >= FEWEST_CHUNKS * chunk) else 0
