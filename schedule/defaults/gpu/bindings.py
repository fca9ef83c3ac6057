"""Binds loops to the blocks and threads of a GPU, several at a time."""

from __future__ import annotations

from collections.abc import Sequence

from raido.schedule.checks.levels import FEW_GROUPS
from raido.schedule.defaults.draft import Draft
from raido.schedule.defaults.queries import function_axes
from raido.schedule.stages.stage import Stage


def bind(draft: Draft, name: str, loops: Sequence[str], level: str) -> None:
    """Binds perfectly nested loops, at most three, to the dimensions of a level, the innermost to x."""
    for loop, dimension in zip(loops, "zyx"[-len(loops) :], strict=True):
        draft.decide(name, "bind", axis=loop, place=f"{level}.{dimension}")


def bind_fold(draft: Draft, name: str, loop: str) -> bool:
    """Binds a reduction loop to threads along x, which exchange partial results in registers where the device can; returns whether that is
    legal.
    """
    gpu = draft.machine.gpu
    assert gpu is not None
    subgroup = {"subgroup": gpu.exchange} if gpu.exchange else {}
    return draft.decide(name, "bind", axis=loop, place="thread.x", **subgroup)


def bind_pieces(draft: Draft, name: str, loop: str) -> bool:
    """Binds a loop over contiguous parts of a scan to threads along x, with register exchange where a block has few subgroups; returns
    whether that is legal.
    """
    gpu = draft.machine.gpu
    assert gpu is not None
    if gpu.usual_threads <= FEW_GROUPS * gpu.exchange:
        return bind_fold(draft, name, loop)
    return draft.decide(name, "bind", axis=loop, place="thread.x")


def bind_planes(draft: Draft, name: str, planes: Sequence[str]) -> None:
    """Binds the outermost loops, fused into one, to blocks along z."""
    if planes:
        draft.decide(name, "bind", axis=draft.fuse(name, planes), place="block.z")


def fold_alone(draft: Draft, stage: Stage) -> bool:
    """Whether no other stage is fused into the loops of a reduction, and none is computed for its elements."""
    return stage.name not in draft.demand.leaders.values() and not function_axes(draft, stage)
