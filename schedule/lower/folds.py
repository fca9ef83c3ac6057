"""Constraints on loops over the axes of a reduction: whether lanes may run over them, and whether their iterations stay in order."""

from __future__ import annotations

from raido.algo.graph.reduction import is_arithmetic
from raido.algo.graph.rewrite import free_variables
from raido.schedule.lower.jobs import Job
from raido.schedule.lower.steps import is_plain_operator


def folds_at(job: Job, position: int) -> bool:
    """Whether the loop at `position` runs over a reduction axis."""
    return job.reduction is not None and job.plan.loops[position].name in job.reduced


def folds_in_lanes(job: Job) -> bool:
    """Whether lanes may fold: with operators of arithmetic that are commutative, and the same for all elements."""
    reduction = job.reduction
    assert reduction is not None
    if job.stage.filter is not None:
        return True
    if job.stage.scan is not None or job.stage.update is not None:
        return is_arithmetic(*reduction.combine)
    own = set(job.variables.values())
    same = not any(own & free_variables(e) for e in (*reduction.combine, *reduction.neutral))
    return same and reduction.commutative and is_plain_operator(reduction)


def in_order(job: Job, position: int) -> bool:
    """Whether the iterations must stay in order: a reduction that is not commutative, with more of its loops inside."""
    if job.reduction is None or job.reduction.commutative or not folds_at(job, position):
        return False
    return any(loop.name in job.reduced for loop in job.plan.loops[position + 1 :])
