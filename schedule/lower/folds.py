"""Loops over the axes of a reduction, and whether their iterations stay in order."""

from __future__ import annotations

from raido.schedule.lower.jobs import Job


def folds_at(job: Job, position: int) -> bool:
    """Whether the loop at `position` runs over a reduction axis."""
    return job.reduction is not None and job.plan.loops[position].name in job.reduced


def in_order(job: Job, position: int) -> bool:
    """Whether the iterations must stay in order: those of a non-commutative reduction with more of its loops inside."""
    if job.reduction is None or job.reduction.commutative or not folds_at(job, position):
        return False
    return any(loop.name in job.reduced for loop in job.plan.loops[position + 1 :])
