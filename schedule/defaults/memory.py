"""Defaults of memory: boundary loops for stencils, and stores past the caches."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from raido.schedule.defaults.demand import meets_boundary
from raido.schedule.defaults.draft import Draft, extent, known_extent
from raido.schedule.defaults.facts import array_of, is_last_use, output_bytes, whole_cost
from raido.schedule.defaults.joins import guests_of
from raido.schedule.defaults.latency import sums_in_pairs
from raido.schedule.defaults.neighbours import read_by_planes, reads_rows
from raido.schedule.defaults.transposes import turned_axis
from raido.schedule.machine import LINE
from raido.schedule.plan import At
from raido.schedule.stages.stage import Stage
from raido.schedule.strategies.table import strategy_name

STREAMED_WORK = 128
STREAMED_ROW = 4096  # bytes
FEWEST_LINES = 4
PARTS = 16  # of the last-level cache


def say_memory(draft: Draft, name: str) -> None:
    """Boundary loops for stencils, at the ends of rows only where bodies are long; streamed stores for large outputs."""
    if meets_boundary(draft.state, draft.demand, name) and not draft.state.plan(name).partition:
        stage = draft.state.stage(name)
        ends = {"axes": (stage.axes[-1].name,)} if sums_in_pairs(draft, stage) else {}
        draft.say(name, "partition_boundaries", **ends)
    if may_stream(draft, name):
        size = known_extent(draft, output_bytes(draft, name))
        if size is None:
            draft.say(name, "stream_stores", above=most_kept(draft, name))
        elif size > most_kept(draft, name):
            draft.say(name, "stream_stores")


def may_stream(draft: Draft, name: str) -> bool:
    """Whether results are stored past the caches where these do not keep them."""
    stage = draft.state.stage(name)
    kept = (stage.reduction is None or stage.scan is not None) and turned_axis(draft, stage) is None
    if (
        strategy_name(draft.state, draft.demand.hosts.get(name, name)) == "runs"
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
    """Bytes of the largest result of a stage, and of those that share its loops, that the last-level cache keeps beside all that these loops
    read and write.

    Where it keeps less, the next call finds neither what it reads nor the lines that it writes: these are fetched only to be written. In
    sixteenths of the cache: a row beside whole arrays makes no difference.
    """
    host = draft.demand.hosts.get(name, name)
    members = [host, *guests_of(draft.demand, host)]
    results = [
        body.dtype.itemsize * _elements(draft, each) for each in members for body in draft.state.stage(each).bodies
    ]
    moved = sum(results) + sum(_bytes_read(draft, members).values())
    return max(1, round(PARTS * max(results) / moved)) * (draft.machine.l3 // PARTS)


def _bytes_read(draft: Draft, members: Sequence[str]) -> dict[str, int]:
    """Bytes of the arrays that the loops of stages read, those of the stages in their strips included; of no array more than its elements
    that are read."""
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
    """Whether rows are long enough for what their two ends cost, as far as is known; some lines where they are whole lines, one by one,
    and vectors are lines: parts of lines would wait for their other parts at both ends."""
    if not stage.axes:
        return False
    size = extent(draft, stage.axes[-1].extent) * stage.bodies[0].dtype.itemsize
    one_by_one = not reads_rows(draft, stage) or bool(read_by_planes(draft, stage))
    whole = known_extent(draft, stage.axes[-1].extent) is not None and size % LINE == 0
    lines = whole and draft.machine.vector_bits >= 8 * LINE
    return size >= (FEWEST_LINES * LINE if one_by_one and lines else STREAMED_ROW)
