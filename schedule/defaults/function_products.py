"""Products inside mapped functions, such as the distances from a point to all centres, computed for row tiles of the stage that maps them.

    for yo:                                   a row tile of 24 points
      d[24·yo … 24·yo + 23, 0 … m − 1] = …    a matrix product, in register tiles
      for yi: c[y] = argmin(d[y, 0 … m − 1])

Point by point it would be the product of a vector and a matrix: each element of the right factor is loaded for one result, and gathered
where it is contiguous along the reduction. The right factor is packed once for all row tiles; a thread holds the products of one.
"""

from __future__ import annotations

from raido.algo.graph.expr import Axis
from raido.schedule.defaults.chains import MOST_ROWS, functions_of
from raido.schedule.defaults.draft import Draft, extent, known_extent
from raido.schedule.defaults.products import decide_panels, decide_sums, rows_of_tile, width_of_tile
from raido.schedule.defaults.queries import (
    is_product_of_rows,
    is_tiled_product,
    outer_axes,
    panels,
    rows_to_pack,
    shared_axis,
    vector_axis,
)
from raido.schedule.plan import At, Split
from raido.schedule.stages.stage import Stage
from raido.schedule.state import head_of, loops_from


def products_of_functions(draft: Draft, head: Stage) -> tuple[Stage, ...]:
    """Returns the stages inside the functions mapped by a stage that are rows of products, for which row tiles are split; () without any."""
    functions = [] if draft.machine.gpu is not None else functions_of(draft, {head.name})
    along, found, mapped = {head.name}, [], mapped_axes(draft, head)
    for name in functions:
        stage = draft.state.stage(name)
        if not all(reader in along and _follows(draft, stage, reader, mapped) for reader in draft.demand.readers(name)):
            continue
        along.add(name)
        if len(stage.axes) == mapped + 1 and is_row_of_product(draft, stage):
            found.append(stage)
    return tuple(found)


def mapped_axes(draft: Draft, head: Stage) -> int:
    """Returns the number of a stage's axes over which all the functions that it reads are mapped."""
    read = (draft.state.uses.stages.get(array) for array in draft.demand.reads(head.name))
    return min([len(head.axes), *(stage.outer for stage in read if isinstance(stage, Stage) and stage.outer)])


def _follows(draft: Draft, stage: Stage, reader: str, mapped: int) -> bool:
    """Whether the first `mapped` axes of a stage inside a function are those of its reader, in the same order."""
    axes = tuple(axis.name for axis in draft.state.stage(reader).axes[:mapped])
    return stage.outer >= mapped and outer_axes(draft, stage, reader)[:mapped] == axes


def is_row_of_product(draft: Draft, stage: Stage) -> bool:
    """Whether a stage inside a mapped function is a row of a product whose right factor is the same for all rows.

    It has at least a vector of columns, and there are at least the rows of a register tile, as far as is known.
    """
    if stage.outer < len(stage.axes) - 1 or (stage.name, "placement") in draft.state.decided:
        return False
    vector = vector_axis(draft, stage)
    if not is_tiled_product(draft, stage, vector) and not is_product_of_rows(draft, stage, vector):
        return False
    fewest = rows_of_tile(draft.machine), draft.machine.lanes(stage.bodies[0].dtype.bits)
    counts = [known_extent(draft, axis.extent) for axis in stage.axes[-2:]]
    many = all(count is None or count >= few for count, few in zip(counts, fewest, strict=True))
    return many and shared_axis(draft, stage) is stage.axes[-2]


def decide_rows_of_products(draft: Draft, head: Stage, vector: Axis | None) -> tuple[str, int] | None:
    """Splits the rows of a stage whose functions hold products into row tiles; returns the loop over these and their height, None for
    other stages.

    A row tile is as many register tiles as half of L2 holds the results of, at least one.
    """
    products, (*around, row) = products_of_functions(draft, head), head.axes[: mapped_axes(draft, head)]
    if not products or vector is row:
        return None
    rows, each = rows_of_tile(draft.machine), 0
    for stage in products:
        each += stage.bodies[0].dtype.itemsize * extent(draft, stage.axes[-1].extent)
    height = rows * max(1, min(draft.machine.l2 // 2 // (rows * each), MOST_ROWS // rows))
    if not draft.decide(head.name, "split", axis=row.name, factor=height):
        return None
    return draft.fuse(head.name, [*(axis.name for axis in around), row.name + "o"]), height


def product_site(draft: Draft, name: str) -> At | None:
    """Returns the loop over row tiles in which a product of a function is computed; None for other stages."""
    stage, readers = draft.state.stage(name), draft.demand.readers(name)
    if not stage.outer or not readers:
        return None
    head = head_of(draft.state, next(iter(readers)))
    row_tiles = loop_over_row_tiles(draft, head)
    return At(head, row_tiles) if row_tiles and stage in products_of_functions(draft, draft.state.stage(head)) else None


def loop_over_row_tiles(draft: Draft, head: str) -> str | None:
    """Returns the loop over tiles, at least as high as a register tile, of the last axis of a stage's functions; None without one."""
    plan, stage = draft.state.plan(head), draft.state.stage(head)
    rows = {axis.name for axis in stage.axes[: mapped_axes(draft, stage)][-1:]}
    splits = [r for r in plan.relations if isinstance(r, Split) and r.parent in rows]
    loops = loops_from(plan, splits[0].outer) if splits and splits[0].factor >= rows_of_tile(draft.machine) else ()
    return loops[0] if len(loops) == 1 else None


def decide_product_of_function(draft: Draft, stage: Stage, vector: Axis | None) -> bool:
    """Schedules a product computed for row tiles, its right factor packed for all of them; returns whether it is one and that is legal."""
    at = draft.state.plan(stage.name).compute
    if not stage.outer or not isinstance(at, At) or at.loop != loop_over_row_tiles(draft, at.stage):
        return False
    if is_product_of_rows(draft, stage, vector):
        packed = rows_to_pack(draft, stage)
    elif is_tiled_product(draft, stage, vector):
        packed = panels(draft, stage)
    else:
        return False
    trial, name, (i, j) = draft.trial(), stage.name, (axis.name for axis in stage.axes[-2:])
    trial.decide(name, "tile", **{i: rows_of_tile(draft.machine), j: width_of_tile(stage, draft.machine)})
    folds = [axis.name for axis in stage.reduction_axes]
    trial.decide(name, "reorder", axes=(j + "o", i + "o", *folds, i + "i", j + "i"))
    decide_sums(trial, stage, i + "i", j + "i")
    if not all(decide_panels(trial, stage, *each, [], [j + "o", j + "i"], apart=False) for each in packed.items()):
        return False
    draft.adopt(trial)
    draft.renew_demand()
    return True
