"""The strategies of stages: ways to run one that differ in more than loops. What there is, with numbers, axes and parts, is said here.

A scan (`schedule/lower/scans.py`) runs one step after the other (`serial`), or in blocks of the scanned axis: `three_phase` and `chain`
split it, as `split` would, and hand the blocks to threads; `chain` reads memory once. To add a strategy: a row here, a rule in
`directives/strategy.py`, its lowering, and its name among the tests' programs (tests/schedule/test_scan_schedules.py).
"""

from __future__ import annotations

from dataclasses import dataclass

from raido.schedule.refusal import Refusal, listed
from raido.algo.rewrite import scalar_nodes
from raido.schedule.stages.stage import Stage
from raido.schedule.state import State, axes_of, is_reduction, position

CHAIN_BYTES = 1 << 19  # a block of `chain` is gone over twice: half of a usual second-level cache
PHASE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Strategy:
    """One way to run a stage: its numbers with their defaults, the loops it starts from, the stages it is made of."""

    numbers: dict[str, int]
    axes: tuple[str, ...]
    parts: tuple[str, ...] = ()


def strategies_of(stage: Stage) -> dict[str, Strategy]:
    """The strategies of a stage by name, the plainest first; maps, stencils and reductions have none."""
    if stage.scan is None:
        return {}
    axes = tuple(axis.name for axis in stage.axes)
    x = axes[stage.scan.along]
    blocks = tuple(name for axis in axes for name in ((axis + "o", axis + "i") if axis == x else (axis,)))
    size = sum(body.dtype.itemsize for body in stage.bodies)
    return {
        "serial": Strategy({}, axes),
        "three_phase": Strategy({"block": block_of(PHASE_BYTES, size)}, blocks),
        "chain": Strategy({"block": block_of(CHAIN_BYTES, size)}, blocks),
    }


def block_of(total: int, size: int) -> int:
    """Elements of a block: a power of two."""
    return 1 << max(0, (total // size).bit_length() - 1)


def strategy_name(state: State, name: str) -> str:
    """The strategy of a stage, "" where there is none to choose."""
    plan = state.plans[name]
    return "" if state.stage(name).scan is None else plan.strategy[0] if plan.strategy else "serial"


def check_scan(state: State, name: str) -> None:
    """Refuses what would break the order of a scan: threads, lanes or jumps along its axis, save as its strategy has them."""
    stage, plan = state.stage(name), state.plans[name]
    if stage.scan is None:
        return
    scanned = [loop for loop in plan.loops if is_reduction(stage, plan, loop.name)]
    blocks = scanned[0].name if strategy_name(state, name) != "serial" else None
    for k, loop in enumerate(scanned):
        if loop.kind == "parallel" and loop.name != blocks:
            raise Refusal(
                f'"{name}" is scanned along "{loop.name}": each round needs the one before it',
                'strategy("chain"), or strategy("three_phase")',
            )
        if loop.kind == "vector" and k + 1 < len(scanned):
            raise Refusal(
                f'lanes of "{loop.name}" would run side by side over "{scanned[k + 1].name}", which is scanned first',
                f'vectorize "{scanned[-1].name}"',
            )


def check_scan_placement(state: State, name: str, reader: str, loop: str) -> None:
    """Refuses to compute a scan in rounds that need different parts of its axis: each would scan from the start again."""
    stage, plan = state.stage(name), state.plans[reader]
    if stage.scan is None or not _moves_along(state, name, reader, loop):
        return
    outer = [f'"{reader}" {each.name}' for each in plan.loops if not _moves_along(state, name, reader, each.name)]
    axis = stage.axes[stage.scan.along].name
    raise Refusal(
        f'"{name}" is scanned along "{axis}", and every round of "{loop}" would scan it from its start again',
        f's["{name}"].root()',
        places=listed(["root", *outer]),
    )


def _moves_along(state: State, name: str, reader: str, loop: str) -> bool:
    """Whether the reader's loops down to that one move what it reads along the scanned axis."""
    stage, plan = state.stage(name), state.plans[reader]
    assert stage.scan is not None
    moving = {axis for each in plan.loops[: position(plan, loop) + 1] for axis in axes_of(plan, each.name)}
    variables = {axis.var for axis in state.stage(reader).all_axes if axis.name in moving}
    loads = state.uses.loads.get(reader, {}).get(name, ())
    return any(node in variables for load in loads for node in scalar_nodes(load.indices[stage.scan.along]))
