"""The choices that a space makes for each stage, in order, and the directives that their options stand for. A new directive is added here.

To add one: a function `choose_…(walk, stage)` that calls `walk.choose` with options (labels and directives), and a row. The first option of a
choice has no directive: picked everywhere, it gives the default schedule.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from raido.autotune.space import compute_sites, loops, memory, threads
from raido.autotune.space.walk import Walk
from raido.schedule.stages.stage import Stage


@dataclass(frozen=True, slots=True)
class Choice:
    """A choice made for every stage, and the directives of its options. of_parts: made for the parts of the stage's strategy, too."""

    directives: tuple[str, ...]
    choose: Callable[[Walk, str], None]
    of_parts: bool = False


PLACING = (
    Choice(("clone",), compute_sites.choose_clones),
    Choice(("inline", "root", "compute_at"), compute_sites.choose_compute_site),
    Choice(("store_at",), compute_sites.choose_window),
)
RUNNING = (
    Choice(("strategy",), compute_sites.choose_strategy),
    Choice(("split", "reorder", "unroll", "vectorize", "fuse", "parallel", "tail"), loops.choose_loops, of_parts=True),
    Choice(("bind",), threads.choose_threads),
    Choice(("compute_with",), compute_sites.choose_fused_stages),
)
KEEPING = (
    Choice(("cache",), memory.choose_caches),
    Choice(("partition_boundaries",), memory.choose_boundaries),
    Choice(("stream_stores",), memory.choose_streams),
    Choice(("store",), memory.choose_store),
    Choice(("prefetch",), memory.choose_prefetch),
)

OF_GPUS = ("bind",)
"""Directives chosen only for stages on GPUs, where the parts of strategies keep their default loops."""

LEFT_OUT = {
    "tensorize": "matrix units take one shape of loops, and the default schedule has it wherever it is legal",
    "tile": "tile is split and reorder, which are choices of their own",
    "time_tile": "iterations are written out, so each number of them is another program, which takes seconds to compile",
    "align": "align pays where quotients of an axis are read, by a divisor that the program decides",
}


def choose_everything(walk: Walk) -> None:
    """Makes every choice for every stage, consumers before producers; for fused stages once the leader's loops are decided."""
    done: set[str] = set()
    while True:
        name = next((each for each in reversed(list(walk.state.uses.stages)) if each not in done), None)
        if name is None:
            return
        done.add(name)
        if isinstance(walk.state.uses.stages[name], Stage):
            _choose_for_stage(walk, name)


def _choose_for_stage(walk: Walk, stage: str) -> None:
    for decision in PLACING:
        decision.choose(walk, stage)
    if compute_sites.waits_for_leader(walk, stage) or compute_sites.is_inlined(walk.state, stage):
        return
    fused_stages = list(walk.shares.get(stage, ()))
    for decision in RUNNING:
        decision.choose(walk, stage)
    for part in walk.parts(stage):
        for decision in RUNNING:
            if decision.of_parts:
                decision.choose(walk, part)
    for each in (stage, *fused_stages):
        for decision in KEEPING:
            decision.choose(walk, each)
        walk.close(each)
