"""Legality of asynchronous copies to shared memory, made ahead of the loop that reads them, for stages with several buffers."""

from __future__ import annotations

from raido.algo.graph.expr import Load
from raido.schedule.checks.levels import all_loops, level_of
from raido.schedule.plan import At
from raido.schedule.refusal import Refusal
from raido.schedule.state import State, enclosing_loops, is_inlined

MOST_BUFFERS = 8
"""Iterations whose copies exist at a time, at most: a load from memory takes several hundred cycles, an iteration a hundred at least."""


def check_copies_ahead(state: State, name: str) -> None:
    """Refuses several buffers for a stage that asynchronous copies cannot make."""
    plan = state.plans[name]
    if plan.buffers == 1:
        return
    gpu, at = state.gpu, plan.compute
    if gpu is None or not gpu.asynchronous:
        whose = "the schedule is for a CPU" if gpu is None else "the device has no asynchronous copies to shared memory"
        raise Refusal(
            f"{whose}: CUDA has asynchronous copies from sm_80 on",
            'schedule(target="cuda:sm_80"), or leave `buffers` out',
        )
    if plan.scope != "shared" or not isinstance(at, At) or plan.compute_with is not None:
        raise Refusal(f'"{name}" is not stored in the shared memory of a block', 'cache(…, scope="shared")')
    check_plain_copy(state, name)
    if plan.store is not None:
        raise Refusal(
            f'"{name}" is kept from iteration to iteration, so no iteration copies all that it reads',
            "leave `store_at` out",
        )
    loop = next(each for each in state.plans[at.stage].loops if each.name == at.loop)
    around = all_loops(state, name)[: len(enclosing_loops(state, name))]
    if loop.kind != "serial" or any(level_of(each) == "thread" for _, each in around):
        kind = f"bound to {loop.level}" if loop.level else "inside of threads" if loop.kind == "serial" else loop.kind
        raise Refusal(
            f'"{at.loop}" of "{at.stage}" is {kind}: an asynchronous copy needs a serial loop that all threads of the block run '
            "together",
            f'split an axis of "{at.stage}" in the block, outside of its threads, and cache at the outer half',
        )


def check_plain_copy(state: State, name: str) -> None:
    """Refuses a stage that is not an unchecked copy of an array that is complete before the launch."""
    stage, home = state.stage(name), {owner for owner, _ in enclosing_loops(state, name)}
    if stage.reduction is not None or len(stage.bodies) != 1 or not isinstance(stage.bodies[0], Load):
        raise Refusal(
            f'"{name}" computes its elements, and only plain copies can be asynchronous',
            f'compute "{name}" at root, and cache the result',
        )
    load = stage.bodies[0]
    for source in state.uses.loads[name]:
        if source in state.plans and (
            is_inlined(state, source) or home & {owner for owner, _ in enclosing_loops(state, source)}
        ):
            raise Refusal(f'"{source}", which "{name}" copies, is computed in the same launch', f's["{source}"].root()')
    if load.checked:
        raise Refusal(f'"{name}" copies from indices that are checked at run time')
