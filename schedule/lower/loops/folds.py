"""Loops over the axes of a reduction, and whether their iterations stay in order."""

from __future__ import annotations

from raido.schedule.lower.lowered_stage import LoweredStage


def folds_at(lowered: LoweredStage, position: int) -> bool:
    """Whether the loop at `position` runs over a reduction axis."""
    return lowered.reduction is not None and lowered.plan.loops[position].name in lowered.reduced


def in_order(lowered: LoweredStage, position: int) -> bool:
    """Whether the iterations must stay in order: those of a non-commutative reduction with more of its loops inside."""
    if lowered.reduction is None or lowered.reduction.commutative or not folds_at(lowered, position):
        return False
    return any(loop.name in lowered.reduced for loop in lowered.plan.loops[position + 1 :])
