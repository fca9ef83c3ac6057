"""The default loops of stages that read across rows what they store along them, as a transposition does.

Lanes run along the stored rows. As many rows are computed together as there are lanes, so that each column that is read is a row of a
square register block, which shuffles transpose (`gang.transposes`). Blocks form tasks for threads: `BLOCK_BYTES` of each of `BLOCK_ROWS`
rows that are read, long enough for hardware prefetching, and few enough to stay in L2 until the last of their columns is read. Rows of a
few elements, if their number is not known, are a branch with lanes along the columns.
"""

from __future__ import annotations

from raido.algo.graph.expr import Axis, Op
from raido.algo.graph.index import BOUNDARY_OPS
from raido.schedule.defaults.chains import has_chain
from raido.schedule.defaults.demand import Point, cost, is_divergent, meets_boundary
from raido.schedule.defaults.draft import Draft, extent, known_extent
from raido.schedule.defaults.queries import contiguity, is_little_work
from raido.schedule.stages.inline import SHORT
from raido.schedule.stages.reads import array_name, loads_of
from raido.schedule.stages.stage import Stage

BLOCK_BYTES, BLOCK_ROWS = 1024, 128
MOST_LANES = 16  # as many rows are in registers
MOST_SQUARES = 2


def transposed_axis(draft: Draft, stage: Stage) -> Axis | None:
    """Returns the axis along which reads across the result's rows are contiguous; None where there are none to transpose."""
    if stage.reduction is not None or len(stage.axes) < 2 or has_chain(draft, stage) or is_divergent(stage):
        return None
    *others, last = stage.axes
    points = set(draft.demand.points_read(stage.name))
    across = [point for point in points if contiguity(last.var, point) < 0]
    if not 1 <= len(across) <= MOST_SQUARES or not all(_is_plain(point) for point in across):
        return None
    along = [axis for axis in others if all(contiguity(axis.var, point) == 1 for point in across)]
    lanes = square_lanes(draft, stage)
    if not along or min(extent(draft, along[-1].extent), extent(draft, last.extent)) < lanes or lanes < 2:
        return None
    return None if meets_boundary(draft.state, draft.demand, stage.name) else along[-1]


def _is_plain(point: Point) -> bool:
    return not any(e is None or (isinstance(e, Op) and e.name in BOUNDARY_OPS) for e in point)


def square_lanes(draft: Draft, stage: Stage) -> int:
    """Returns the lanes of the widest type that a stage reads or stores, at most `MOST_LANES`."""
    made = [body.dtype.bits for body in stage.bodies]
    read = [load.dtype.bits for load in loads_of(stage) if array_name(load.array, draft.state.uses.names)]
    return min(MOST_LANES, draft.machine.lanes(max(made + read)))


def decide_transposed_loops(draft: Draft, stage: Stage) -> bool:
    """Schedules register-block transposition; returns whether the stage has such reads and the splits are legal."""
    transposed = transposed_axis(draft, stage)
    if transposed is None:
        return False
    name, i, j = stage.name, transposed.name, stage.axes[-1].name
    size = max(body.dtype.itemsize for body in stage.bodies)
    lanes = square_lanes(draft, stage)
    decide_few_columns(draft, stage, transposed)
    if not draft.decide(name, "split", axis=i, factor=BLOCK_BYTES // size):
        return False
    rows = max(lanes, min(BLOCK_ROWS, draft.machine.l2 // 2 // BLOCK_BYTES))
    draft.decide(name, "split", axis=j, factor=rows)
    draft.decide(name, "split", axis=i + "i", factor=lanes)
    around = [axis.name for axis in stage.axes[:-1] if axis is not transposed]
    draft.decide(name, "reorder", axes=(*around, i + "o", j + "o", i + "io", j + "i", i + "ii"))
    draft.decide(name, "unroll", axis=i + "ii")
    draft.decide(name, "vectorize", axis=j + "i", lanes=lanes)
    blocks = draft.fuse(name, (*around, i + "o", j + "o"))
    if not is_little_work(draft, stage):
        draft.parallel(name, blocks, max(1, cost(stage)) * (BLOCK_BYTES // size * rows))
    return True


def decide_few_columns(draft: Draft, stage: Stage, transposed: Axis) -> None:
    """Records the branch for rows of a few elements, whose number is not known, as of the colours of pixels: they fill no register block.

    Lanes run along the rows that are read, and their elements are stored apart, in lines that stay in a cache until all columns are stored.
    """
    name, i, last = stage.name, transposed.name, stage.axes[-1]
    if known_extent(draft, last.extent) is not None or name in draft.demand.leaders.values():
        return
    if not all(axis.name.isidentifier() for axis in stage.axes):
        return
    branch, around = draft.branch(), [axis.name for axis in stage.axes[:-1] if axis is not transposed]
    if not around and branch.decide(name, "split", axis=i, factor=BLOCK_BYTES):
        around, i = [i + "o"], i + "i"
    if (
        around
        and branch.decide(name, "reorder", axes=(*around, last.name, i))
        and branch.decide(name, "vectorize", axis=i)
    ):
        branch.parallel(name, branch.fuse(name, around), max(1, cost(stage)) * BLOCK_BYTES * SHORT)
        draft.accept(branch.when(name, f"{last.name} <= {SHORT}"))
