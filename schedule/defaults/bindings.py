"""Loops bound to blocks and threads of a GPU, several at a time; and who may have such loops."""

from __future__ import annotations

from collections.abc import Sequence

from raido.schedule.checks.levels import FEW_GROUPS
from raido.schedule.defaults.draft import Draft
from raido.schedule.defaults.facts import function_axes
from raido.schedule.stages.stage import Stage


def bind(draft: Draft, name: str, loops: Sequence[str], level: str) -> None:
    """Neighbouring loops, at most three, to the dimensions of a level, the innermost to x."""
    for loop, dimension in zip(loops, "zyx"[-len(loops) :], strict=True):
        draft.say(name, "bind", axis=loop, place=f"{level}.{dimension}")


def bind_fold(draft: Draft, name: str, loop: str) -> bool:
    """A loop of a reduction to threads along x, which hand each other their parts where the device lets them."""
    gpu = draft.machine.gpu
    assert gpu is not None
    subgroup = {"subgroup": gpu.exchange} if gpu.exchange else {}
    return draft.say(name, "bind", axis=loop, place="thread.x", **subgroup)


def bind_pieces(draft: Draft, name: str, loop: str) -> bool:
    """A loop over pieces of a scan to threads along x, which hand each other theirs where a block has few subgroups."""
    gpu = draft.machine.gpu
    assert gpu is not None
    if gpu.usual_threads <= FEW_GROUPS * gpu.exchange:
        return bind_fold(draft, name, loop)
    return draft.say(name, "bind", axis=loop, place="thread.x")


def bind_planes(draft: Draft, name: str, planes: Sequence[str]) -> None:
    """The outermost loops to blocks along z, as one loop where they are several."""
    if planes:
        draft.say(name, "bind", axis=draft.fuse(name, planes), place="block.z")


def fold_alone(draft: Draft, stage: Stage) -> bool:
    """Whether no other stage wants to share the loops of a reduction, and it is not made of arrays that are made for its elements."""
    return stage.name not in draft.demand.hosts.values() and not function_axes(draft, stage)
