"""Memory decisions by default: boundary loops for stencils, and non-temporal stores."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from raido.schedule.defaults.demand import meets_boundary
from raido.schedule.defaults.draft import Draft, extent, known_extent
from raido.schedule.defaults.joins import fused_stages_of
from raido.schedule.defaults.latency import sums_in_pairs
from raido.schedule.defaults.neighbours import is_sum_of_taps, read_by_planes, reads_rows
from raido.schedule.defaults.queries import array_of, is_last_use, output_bytes, whole_cost
from raido.schedule.defaults.transposes import transposed_axis
from raido.schedule.machine import LINE
from raido.schedule.plan import At
from raido.schedule.stages.stage import Stage
from raido.schedule.strategies.table import strategy_name

STREAMED_WORK = 128
STREAMED_ROW = 4096  # bytes
FEWEST_LINES = 4
PARTS = 16  # of the last-level cache


def decide_memory(draft: Draft, name: str) -> None:
    """Decides boundary loops for stencils (along rows only where bodies are long) and non-temporal stores for large outputs."""
    if meets_boundary(draft.state, draft.demand, name) and not draft.state.plan(name).partition:
        stage = draft.state.stage(name)
        ends = {"axes": (stage.axes[-1].name,)} if sums_in_pairs(draft, stage) else {}
        draft.decide(name, "partition_boundaries", **ends)
    if may_stream(draft, name):
        size = known_extent(draft, output_bytes(draft, name))
        if size is None:
            draft.decide(name, "stream_stores", above=most_kept(draft, name))
        elif size > most_kept(draft, name):
            draft.decide(name, "stream_stores")


def may_stream(draft: Draft, name: str) -> bool:
    """Whether results are stored past the caches where these would not keep them."""
    stage = draft.state.stage(name)
    taps = is_sum_of_taps(stage) and reads_rows(draft, stage)
    once = stage.reduction is None or stage.scan is not None or taps
    kept = once and transposed_axis(draft, stage) is None
    if (
        strategy_name(draft.state, draft.demand.leaders.get(name, name)) == "runs"
    ):  # of which each may be shorter than a line
        return False
    return (
        kept and is_last_use(draft, name) and has_long_rows(draft, stage) and whole_cost(draft, stage) <= STREAMED_WORK
    )


def is_streamed(draft: Draft, name: str) -> bool:
    """Whether results are known to be stored past the caches."""
    size = known_extent(draft, output_bytes(draft, name))
    return size is not None and size > most_kept(draft, name) and may_stream(draft, name)


def most_kept(draft: Draft, name: str) -> int:
    """Returns the bytes of the largest result of a stage and the stages fused with it that the last-level cache keeps beside their inputs.

    Of larger results the next call finds neither its inputs nor its result's lines in the cache, and these are fetched only to be
    overwritten. The limit is rounded to sixteenths of the cache: a row beside whole arrays makes no difference.
    """
    leader = draft.demand.leaders.get(name, name)
    members = [leader, *fused_stages_of(draft.demand, leader)]
    results = [
        body.dtype.itemsize * _elements(draft, each) for each in members for body in draft.state.stage(each).bodies
    ]
    moved = sum(results) + sum(_bytes_read(draft, members).values())
    return max(1, round(PARTS * max(results) / moved)) * (draft.machine.l3 // PARTS)


def _bytes_read(draft: Draft, members: Sequence[str]) -> dict[str, int]:
    """Returns the bytes of each array that the loops of stages read, through stages in their row tiles; at most the elements
    actually read.
    """
    found: dict[str, int] = {}
    todo = list(members)
    for reader in todo:
        for array, points in draft.demand.reads(reader).items():
            if isinstance(draft.state.uses.stages.get(array), Stage) and isinstance(
                draft.state.plan(array).compute, At
            ):
                todo += [array] * (array not in todo)
            elif array not in draft.demand.inlined:
                read = array_of(draft, array)
                whole = prod(extent(draft, n) for n in read.shape)
                found[array] = min(whole, _elements(draft, reader) * len(points)) * read.dtype.itemsize
    return found


def _elements(draft: Draft, name: str) -> int:
    return prod(extent(draft, axis.extent) for axis in draft.state.stage(name).axes)


def has_long_rows(draft: Draft, stage: Stage) -> bool:
    """Whether rows are long enough for the cost of their two ends; `FEWEST_LINES` lines suffice where rows are whole lines and vectors are
    lines.
    """
    if not stage.axes:
        return False
    size = extent(draft, stage.axes[-1].extent) * stage.bodies[0].dtype.itemsize
    one_by_one = not reads_rows(draft, stage) or bool(read_by_planes(draft, stage))
    whole = known_extent(draft, stage.axes[-1].extent) is not None and size % LINE == 0
    lines = whole and draft.machine.vector_bits >= 8 * LINE
    return size >= (FEWEST_LINES * LINE if one_by_one and lines else STREAMED_ROW)
