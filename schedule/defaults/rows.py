"""How many rows of a stencil's results are made at a time, side by side in registers: they share what they read.

Where rows are stored past the caches, what is left to save is what is read: two rows more than are made. So it pays to make many,
`MANY_ROWS` or `SOME_ROWS`, provided that

- a vector is a whole line of the cache (parts of many lines would wait for their other parts), and rows begin with one;
- no two of the rows lie within three lines of each other in their pages, as rows of 2^k bytes do: they compete for the same ways of L1,
  and are not streamed (`targets.llvm.memory_helpers`). Where all rows do, those that are read and those that are stored share the ways
  of eight: three rows of results, and the five that they are made of.
"""

from __future__ import annotations

from raido.algo.graph import index
from raido.algo.graph.expr import Axis
from raido.schedule.defaults.draft import Draft, known
from raido.schedule.defaults.facts import has_chain, whole_cost
from raido.schedule.defaults.latency import sums_in_pairs
from raido.schedule.defaults.memory import is_streamed
from raido.schedule.defaults.neighbours import read_by_planes, reads_rows
from raido.schedule.machine import LINE
from raido.schedule.stages.stage import Stage

FEW_VALUES, MOST_VALUES = 10, 32
MANY_ROWS, SOME_ROWS, CROWDED_ROWS = 12, 8, 3
MOST_JAMMED = 160  # operations
MOST_WORK = 128
PAGE = 4096  # bytes


def jammed_rows(draft: Draft, stage: Stage, vector: Axis | None) -> int:
    """Rows made at a time by a stencil: 4 when the values that it reads fit registers, 2 when not; 0 when rows share nothing.

    Stencils that also read neighbouring planes walk each plane from end to end instead: that is one stream a plane. What reads
    strips in the cache has less to save: it makes 4 rows where values are few, 2 where they fit, and 1 where they do not. What is
    known to be streamed has more to save (`streamed_rows`). Long weighted sums make 2 (`sums_in_pairs`).
    """
    if stage.reduction is not None or len(stage.axes) < 2 or vector is not stage.axes[-1]:
        return 0
    reads = draft.demand.reads(stage.name)
    if read_by_planes(draft, stage):
        return 0
    if sums_in_pairs(draft, stage):
        return 2
    values = sum(len(points) for array, points in reads.items() if array not in draft.demand.inlined)
    if not reads_rows(draft, stage) or values > MOST_VALUES or whole_cost(draft, stage) > MOST_WORK:
        return 0
    fits = values <= draft.machine.registers
    if has_chain(draft, stage):
        return 4 if values <= FEW_VALUES else 2 if fits else 0
    return streamed_rows(draft, stage) if fits else 2


def streamed_rows(draft: Draft, stage: Stage) -> int:
    """Rows made at a time by a stencil over arrays that are there: see the module's text; 4 where nothing is known."""
    width = index.constant_value(known(draft, stage.axes[-1].extent))
    if width is None or stage.bodies[1:] or not is_streamed(draft, stage.name):
        return 4
    pitch = width * stage.bodies[0].dtype.itemsize
    if _apart(pitch, 1) < 2 * LINE:
        return CROWDED_ROWS
    height = index.constant_value(known(draft, stage.axes[-2].extent)) or 0
    for rows in (MANY_ROWS, SOME_ROWS) if draft.machine.vector_bits >= 8 * LINE and pitch % LINE == 0 else ():
        lasts = 16 * (-height % rows) <= height  # rows made twice, where rows do not divide the height
        apart = all(_apart(pitch, k) >= 3 * LINE for k in range(1, rows))
        if lasts and apart and rows * whole_cost(draft, stage) <= MOST_JAMMED:
            return rows
    return 4


def _apart(pitch: int, rows: int) -> int:
    """How far from each other the places of two rows within their pages are, in bytes."""
    place = rows * pitch % PAGE
    return min(place, PAGE - place)
