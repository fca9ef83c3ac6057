"""The default loops of stages computed inside the loops of a GPU block: all its threads share the elements.

The pure loops are fused, so that a tile and its halo keep all threads busy, whatever the shape of either; each thread takes every T-th
element (or vector), and neighbouring threads neighbouring ones:

    for y: for x: rows[y, x] = …
    thread.y a in 0..T / X: thread.x b in 0..X: for k in a * X + b.. step T: rows[k // width, k % width] = …
"""

from __future__ import annotations

from math import prod

from raido.schedule.checks.levels import all_loops, launch_of, level_of, threads_of
from raido.schedule.defaults.draft import Draft
from raido.schedule.stages.stage import Stage
from raido.schedule.state import enclosing_loops, is_reduction, shared_count


def decide_block_loops(draft: Draft, stage: Stage, lanes: int = 1) -> None:
    """Schedules a stage that is computed for a block, not for a thread. `lanes`: neighbours along the last axis that a thread moves at
    once.
    """
    name, state = stage.name, draft.state
    around = all_loops(state, name)[: len(enclosing_loops(state, name))]
    special = (stage.scan, stage.update, stage.filter, stage.sort)
    if any(special) or any(level_of(loop) == "thread" for _, loop in around):
        return
    threads = threads_of_launch(draft, name)
    pure = [loop.name for loop in state.plan(name).loops if not is_reduction(stage, state.plan(name), loop.name)]
    if not threads or not pure:
        return
    vector = pure[-1] + "i"
    if lanes > 1 and draft.decide(name, "split", axis=pure[-1], factor=lanes):
        pure[-1] += "o"
    else:
        lanes = 1
    loops: list[tuple[str, str]] = []
    rest, left = draft.fuse(name, pure), prod(threads.values())
    draft.decide(name, "split", axis=rest, factor=left)
    outermost, rest = rest + "o", rest + "i"
    for place in sorted(threads, reverse=True):  # thread.z first, so that thread.x is innermost
        left //= threads[place]
        if left == 1:
            loops.append((rest, place))
            break
        draft.decide(name, "split", axis=rest, factor=left)
        loops.append((rest + "o", place))
        rest += "i"
    folding = [
        each.name for each in draft.state.plan(name).loops if is_reduction(stage, draft.state.plan(name), each.name)
    ]
    draft.decide(name, "reorder", axes=(*(each for each, _ in loops), outermost, *folding))
    for each, place in loops:
        draft.decide(name, "bind", axis=each, place=place)
    if lanes > 1:
        draft.decide(name, "vectorize", axis=vector)


def threads_of_launch(draft: Draft, name: str) -> dict[str, int]:
    """Returns the number of threads of a launch's blocks along each dimension, from the loops of its stages; dimensions with one thread are
    left out.
    """
    state, found = draft.state, dict[str, int]()
    home = launch_of(state, name)
    for other in state.plans:
        if launch_of(state, other) != home:
            continue
        for loop in state.plans[other].loops[shared_count(state, other) :]:
            if level_of(loop) == "thread":
                count = threads_of(state.stage(other), state.plans[other], loop)
                found[loop.level] = max(found.get(loop.level, 1), count)
    return {place: count for place, count in found.items() if count > 1}
