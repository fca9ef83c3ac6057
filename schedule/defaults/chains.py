"""Stencil chains: stages computed in row tiles of the stage that needs them, and the height of these tiles.

A stage belongs to the chain of another one that alone needs it, or with stages fused into its loops, a few rows for each of its own
(`row_reads`), if row tiles recompute at most half as many rows as they need without overlap.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from fractions import Fraction
from heapq import heappop, heappush
from math import ceil, prod

from raido.algo.graph.expr import Axis
from raido.schedule.checks.lanes_along_folds import is_plain_fold
from raido.schedule.defaults.demand import Point
from raido.schedule.defaults.draft import Draft, extent
from raido.schedule.defaults.joins import fused_stages_of, moves
from raido.schedule.defaults.planes import is_in_planes, planes_of, row_tile_axis
from raido.schedule.defaults.queries import array_of, longest_chunk, plain_axes, whole_cost
from raido.schedule.defaults.row_reads import RowReads, row_reads
from raido.schedule.stages.inline import is_short
from raido.schedule.stages.stage import Stage
from raido.schedule.state import is_inlined

MOST_ROWS = 32  # of a row tile: of the rows that 3 × 3 taps read, neighbouring tiles share a sixteenth
FEWEST_ROWS = 8  # of a row tile: neighbours share a quarter


def rows_read(draft: Draft, reader: str, name: str) -> RowReads | None:
    """Returns the rows of a stage that each row of a reader needs; None where they are not a few neighbours of it."""
    key = draft.state.stage(reader), draft.state.stage(name)
    if key not in draft.reads:
        rows, own = (row_tile_axis(draft, each) for each in key)
        draft.reads[key] = _rows_read(rows, own, key[1], draft.demand.readers(name)[reader])
    return draft.reads[key]


def _rows_read(rows: Axis | None, own: Axis | None, stage: Stage, points: Iterable[Point]) -> RowReads | None:
    if rows is None or own is None or own not in stage.axes or own in stage.whole_axes:
        return None
    where = stage.axes.index(own)
    indices = []
    for point in points:
        if None in point or any(moves(e, rows.var) for k, e in enumerate(point) if k != where):
            return None
        indices.append(point[where])
    return row_reads(indices, rows.var)


def has_chain(draft: Draft, stage: Stage) -> bool:
    """Whether some stage will be computed in row tiles of this one."""
    return bool(chain(draft, stage))


def chain(draft: Draft, stage: Stage) -> tuple[str, ...]:
    """Returns the stages that will be computed in row tiles of this one, nearest first."""
    return tuple(
        chain_in_row_tiles(
            draft, stage, chain_rows(draft, stage) if len(stage.all_axes) > 1 else longest_chunk(draft) // 4
        )
    )


def chain_in_row_tiles(draft: Draft, stage: Stage, rows: int) -> Mapping[str, int | Fraction]:
    """Returns the stages that may be computed in row tiles of `rows` rows of this one, with the number of their rows for each of
    its rows.
    """
    key = stage.name, rows
    if key not in draft.chains:
        draft.chains[key] = _find_chain(draft, stage, rows)
    return draft.chains[key]


def _find_chain(draft: Draft, stage: Stage, rows: int) -> Mapping[str, int | Fraction]:
    state, demand = draft.state, draft.demand
    heads = heads_with(draft, stage.name)
    found = heads.copy()
    for name in _read_before(draft, stage, found):
        readers = demand.readers(name)
        if not readers.keys() <= found.keys():
            continue
        other = state.uses.stages[name]
        if not isinstance(other, Stage) or name in demand.inlined or is_inlined(state, name):
            continue
        if (
            name not in state.uses.outputs
            and (name, "placement") not in state.decided
            and is_in_planes(draft, other)
            and state.uses.scope[name] == state.uses.scope[stage.name]
            and state.uses.readers[name]
            and all(isinstance(state.uses.stages[r], Stage) for r in state.uses.readers[name])
            and (needed := rows_for_tile(draft, name, found)) is not None
            and overlaps_little(needed, rows)
        ):
            found[name] = needed
    return {name: needed.stride for name, needed in found.items() if name not in heads}


def heads_with(draft: Draft, leader: str) -> dict[str, RowReads]:
    """Returns the rows of a leader and of the stages that share its loops, or will by default, for each row of the leader: one."""
    plans = draft.state.plans.items()
    there = [name for name, plan in plans if plan.compute_with is not None and plan.compute_with.stage == leader]
    return dict.fromkeys((leader, *there, *fused_stages_of(draft.demand, leader)), RowReads(1, 0))


def rows_for_tile(draft: Draft, name: str, found: Mapping[str, RowReads]) -> RowReads | None:
    """Returns the rows of a stage that a row tile needs, from those of its readers in `found`; None where readers need them at different
    rates.
    """
    strides, around = set(), 0
    for reader in draft.demand.readers(name):
        read = rows_read(draft, reader, name)
        if read is None:
            return None
        of_reader = found[reader]
        strides.add(of_reader.stride * read.stride)
        around = max(around, ceil(of_reader.around * read.stride) + read.around)
    return RowReads(strides.pop(), around) if len(strides) == 1 else None


def rows_of_tile(draft: Draft, name: str, head: str) -> RowReads | None:
    """Returns the rows of a stage that a row tile of `head` needs, through all its readers; None where they need them at different
    rates.
    """
    found = heads_with(draft, head)
    todo = [name]
    while todo:
        unknown = [reader for reader in draft.demand.readers(todo[-1]) if reader not in found]
        if unknown:
            todo += unknown
            continue
        at = todo.pop()
        needed = rows_for_tile(draft, at, found)
        if needed is None:
            return None
        found[at] = needed
    return found[name]


def _read_before(draft: Draft, stage: Stage, found: Mapping[str, RowReads]) -> Iterator[str]:
    """Yields the stages read by those in `found`, the last of all stages first, so that all possible readers of a stage come before it.

    `found` holds the stage itself and those fused into its loops to begin with, and grows during the iteration.
    """
    arrays, positions = draft.demand.arrays, draft.state.uses.positions
    seen: set[str] = set()
    waiting: list[tuple[int, str]] = []
    readers = list(found)
    while True:
        for name in readers:
            new = [each for each in arrays.get(name, ()) if each not in seen and each in positions]
            seen.update(new)
            for each in new:
                if positions[each] < positions[stage.name]:
                    heappush(waiting, (-positions[each], each))
        if not waiting:
            return
        _, name = heappop(waiting)
        yield name
        readers = [name] if name in found else []


def overlaps_little(needed: RowReads, rows: int) -> bool:
    """Whether row tiles of `rows` rows recompute at most half as many rows again of a stage.

    A row tile that does not begin and end with a row of the stage shares one more row with its neighbours.
    """
    own = rows * needed.stride
    return 2 * (needed.around + (own.denominator > 1)) <= own


def chain_work(draft: Draft, stage: Stage) -> int:
    """Returns the operations for one row of a stage, with those for a row of each stage of its chain and of the functions mapped in
    them.
    """
    members = {stage.name, *chain(draft, stage)}
    total = 0
    for name in (*members, *functions_of(draft, members)):
        other = draft.state.stage(name)
        along = other.axes[0] if other.outer else row_tile_axis(draft, other)
        total += max(1, whole_cost(draft, other)) * prod(
            extent(draft, axis.extent) for axis in other.all_axes if axis is not along
        )
    return max(1, total)


def functions_of(draft: Draft, members: Collection[str]) -> list[str]:
    """Returns the stages inside the functions that some stages map, which these and one another alone read, readers first."""
    stages = draft.state.uses.stages
    read = (stages.get(array) for name in members for array in draft.demand.reads(name))
    if not any(isinstance(stage, Stage) and stage.outer for stage in read):
        return []
    around, found = set(members), []
    for name, stage in reversed(stages.items()):
        readers = draft.demand.readers(name).keys()
        if not isinstance(stage, Stage) or not stage.outer or name in draft.demand.inlined:
            continue
        if readers and readers <= around:
            around.add(name)
            found.append(name)
    return found


def row_bytes(draft: Draft, name: str) -> int:
    """Returns the bytes of one row of a stage's results."""
    stage = draft.state.stage(name)
    return sum(body.dtype.itemsize for body in stage.bodies) * _elements_of_row(draft, stage, stage.axes)


def chain_rows(draft: Draft, stage: Stage) -> int:
    """Returns the height of a row tile: a power of two whose rows, of the whole chain and of what it reads again, fit half of L2.

    Where row tiles recompute rows, they are at least twice as high: that costs less than recomputation, even if the next cache must hold
    the rows.
    """
    rows = MOST_ROWS
    fewest = 2 * FEWEST_ROWS if makes_rows_twice(draft, stage) else FEWEST_ROWS
    while rows > fewest and (rows + 2) * bytes_of_rows(draft, stage, rows) > draft.machine.l2 // 2:
        rows //= 2
    return rows


def bytes_of_rows(draft: Draft, stage: Stage, rows: int) -> int:
    """Returns the bytes for each row of row tiles of `rows` rows: what the stages of the chain store, and what a fold among them reads and
    another stage reads again, as a normalisation reads a row for its mean and for its result.
    """
    rates = chain_in_row_tiles(draft, stage, rows)
    members, stored = {stage.name, *rates}, sum(row_bytes(draft, name) * rate for name, rate in rates.items())
    again: dict[str, int | Fraction] = {}
    for name, rate in rates.items():
        fold = draft.state.stage(name)
        for array, points in draft.demand.arrays.get(name, {}).items() if fold.reduction is not None else ():
            once = any(len(plain_axes(point) or ()) == len(fold.all_axes) for point in points)
            if (
                once
                and array not in rates
                and any(array in draft.demand.arrays.get(each, ()) for each in members - {name})
            ):
                elements = _elements_of_row(draft, fold, fold.all_axes)  # it reads one in each iteration
                again[array] = array_of(draft, array).dtype.itemsize * elements * rate
    return ceil(stored + sum(again.values()))


def _elements_of_row(draft: Draft, stage: Stage, axes: Iterable[Axis]) -> int:
    """Returns the number of indices along some axes of a stage for one of its rows."""
    around = (row_tile_axis(draft, stage), *planes_of(draft, stage))
    return prod(extent(draft, axis.extent) for axis in axes if axis not in around)


def makes_rows_twice(draft: Draft, stage: Stage) -> bool:
    """Whether neighbouring row tiles of a chain compute the same rows of one of its stages."""
    return any(
        (read := rows_read(draft, reader, name)) is not None and read.around
        for name in chain_in_row_tiles(draft, stage, MOST_ROWS)
        for reader in draft.demand.readers(name)
    )


def fits_row_tiles(draft: Draft, stage: Stage) -> bool:
    """Whether the lowest row tiles of each stage of a chain fit half of L2; where they do not, rows slide."""
    most = draft.machine.l2 // 2 // (FEWEST_ROWS + 2)
    return all(row_bytes(draft, name) <= most for name in chain(draft, stage))


def is_line_of_folds(stage: Stage) -> bool:
    """Whether a stage is one-dimensional, of folds not known to be short.

    It is computed whole, in loops of its own: it reads far more than it writes, and tiles of it would leave few threads, or split columns.
    """
    return is_plain_fold(stage) and len(stage.axes) == 1 and not all(is_short(a.extent) for a in stage.reduction_axes)
