"""Defaults of memory: boundary loops for stencils, and stores past the caches."""

from __future__ import annotations

from raido.algo.graph import index
from raido.schedule.defaults.demand import meets_boundary
from raido.schedule.defaults.draft import Draft, extent, known
from raido.schedule.defaults.facts import is_last_use, output_bytes, whole_cost
from raido.schedule.defaults.latency import sums_in_pairs
from raido.schedule.defaults.neighbours import read_by_planes, reads_rows
from raido.schedule.defaults.transposes import turned_axis
from raido.schedule.machine import LINE
from raido.schedule.stages.stage import Stage

STREAMED_WORK = 128
STREAMED_ROW = 4096  # bytes
FEWEST_LINES = 4


def say_memory(draft: Draft, name: str) -> None:
    """Boundary loops for stencils, at the ends of rows only where bodies are long; streamed stores for large outputs."""
    if meets_boundary(draft.state, draft.demand, name) and not draft.state.plan(name).partition:
        stage = draft.state.stage(name)
        ends = {"axes": (stage.axes[-1].name,)} if sums_in_pairs(draft, stage) else {}
        draft.say(name, "partition_boundaries", **ends)
    if may_stream(draft, name):
        size = index.constant_value(known(draft, output_bytes(draft, name)))
        if size is None:
            draft.say(name, "stream_stores", above=draft.machine.l3)
        elif size > draft.machine.l3:
            draft.say(name, "stream_stores")


def may_stream(draft: Draft, name: str) -> bool:
    """Whether results are stored past the caches where they are larger than those."""
    stage = draft.state.stage(name)
    kept = (stage.reduction is None or stage.scan is not None) and turned_axis(draft, stage) is None
    return (
        kept and is_last_use(draft, name) and has_long_rows(draft, stage) and whole_cost(draft, stage) <= STREAMED_WORK
    )


def is_streamed(draft: Draft, name: str) -> bool:
    """Whether results are known to be stored past the caches."""
    size = index.constant_value(known(draft, output_bytes(draft, name)))
    return size is not None and size > draft.machine.l3 and may_stream(draft, name)


def has_long_rows(draft: Draft, stage: Stage) -> bool:
    """Whether rows are long enough for what their two ends cost, as far as is known; some lines where they are whole lines, one by one,
    and vectors are lines: parts of lines would wait for their other parts at both ends."""
    if not stage.axes:
        return False
    size = extent(draft, stage.axes[-1].extent) * stage.bodies[0].dtype.itemsize
    one_by_one = not reads_rows(draft, stage) or bool(read_by_planes(draft, stage))
    whole = index.constant_value(known(draft, stage.axes[-1].extent)) is not None and size % LINE == 0
    lines = whole and draft.machine.vector_bits >= 8 * LINE
    return size >= (FEWEST_LINES * LINE if one_by_one and lines else STREAMED_ROW)
