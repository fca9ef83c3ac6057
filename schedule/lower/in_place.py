"""Which updates of a loop's state may change it where it is, instead of a copy.

An update of state arrays whose results are the state of the next round needs no copy if nobody else needs the old contents once it
runs: no other stage that comes later in the round, no other state of the next round, and not its own later steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from raido.algo.graph import index as ix
from raido.algo.graph.expr import Load, Parameter, Result
from raido.algo.graph.rewrite import loads_in
from raido.schedule.lower.jobs import Job
from raido.schedule.plan import Root
from raido.schedule.stages.stage import ControlStage, Stage


def updates_in_place(stage: ControlStage, jobs: Mapping[str, Job]) -> dict[int, tuple[Job, int]]:
    """For each state that is changed where it is: the job that does it, and which of its results the state becomes."""
    found: dict[int, tuple[Job, int]] = {}
    for inner in stage.body:
        job = jobs.get(inner.name) if isinstance(inner, Stage) else None
        states = _states_updated(stage, job) if job is not None and job.stage.update is not None else None
        if job is not None and states is not None and _nobody_looks_later(stage, job, states, jobs):
            found |= {m: (job, k) for k, m in enumerate(states)}
    return found


def _states_updated(stage: ControlStage, job: Job) -> list[int] | None:
    """The states that the job's results start as and become, each a different one; None unless all do."""
    fold = job.reduction
    assert fold is not None
    if not isinstance(job.plan.compute, Root) or job.plan.layout or job.plan.pad or job.plan.compute_with is not None:
        return None
    states: list[int] = []
    own = tuple(axis.var for axis in job.stage.axes)
    for k, start in enumerate(fold.neutral):
        plain = isinstance(start, Load) and start.indices == own and start.array in stage.state
        if not plain:
            return None
        m = stage.state.index(start.array)  # type: ignore[union-attr]
        if m in states or stage.results[m] is not Result(job.form, k):
            return None
        states.append(m)
    one = prod(ix.constant_value(axis.extent) or 0 for axis in job.stage.reduction_axes) == 1
    one = one and all(axis in job.stage.whole_axes for axis in job.stage.axes)
    changed = {stage.state[m] for m in states}
    looks = any(load.array in changed for load in loads_in(*fold.values, *fold.combine))
    return states if one or not looks else None


def _nobody_looks_later(stage: ControlStage, job: Job, states: list[int], jobs: Mapping[str, Job]) -> bool:
    changed: set[Parameter] = {stage.state[m] for m in states}
    if any(result in changed for result in stage.results):
        return False
    after = False
    for inner in stage.body:
        if isinstance(inner, ControlStage):
            return False
        other = jobs.get(inner.name)
        if other is job:
            after = True
        elif (
            other is not None
            and any(load.array in changed for load in loads_in(*other.bodies))
            and (after or not isinstance(other.plan.compute, Root) or other.plan.compute_with is not None)
        ):
            return False
    makes = [k for k, result in enumerate(stage.results) if isinstance(result, Result) and result.form is job.form]
    return sorted(makes) == sorted(states)
